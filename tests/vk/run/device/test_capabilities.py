"""Devices that lack something, as plain data: one sentence names what, and planning goes around what it can."""

from dataclasses import replace

import pytest

from dressi import INT, F, Variable
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.errors import DeviceError, PlanError
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.images import Usage
from dressi.vk.plan.limits import PROFILES, DeviceLimits
from dressi.vk.plan.options import DEFAULT
from dressi.vk.run.device.capabilities import (
    FORMATS,
    LEAST,
    Capabilities,
    QueueFamily,
    check,
    missing,
)
from dressi.vk.run.device.features import REQUIRED

FEATURES = frozenset(feature.name for feature in REQUIRED)

MINIMUM = Capabilities(
    version=(1, 1),
    queue_families=(QueueFamily(False, True, 0), QueueFamily(True, True, 36)),
    extensions=frozenset(),
    features=FEATURES,
    formats=FORMATS,
    limits=PROFILES["minimum"],
    max_memory_allocations=4096,
)
"""What Vulkan guarantees, and the one optional feature."""


def lacking(**changes: object) -> Capabilities:
    return replace(MINIMUM, **changes)


def without(name: str, usage: Usage) -> Capabilities:
    return lacking(formats={**FORMATS, name: FORMATS[name] & ~usage})


CASES = {
    "version": (lacking(version=(1, 0)), "Vulkan 1.1 (it has 1.0)"),
    "no queue": (lacking(queue_families=()), "a queue for both graphics and compute"),
    "separate queues": (
        lacking(queue_families=(QueueFamily(True, False, 0), QueueFamily(False, True, 0))),
        "a queue for both graphics and compute",
    ),
    **{name: (lacking(features=FEATURES - {name}), name) for name in FEATURES},
    **{
        f"{name} {one.name}": (without(name, one), f"images of the format {name} as {one.words}")
        for name, usage in FORMATS.items()
        for one in usage
    },
    "format": (lacking(formats={k: v for k, v in FORMATS.items() if k != "D32_SFLOAT"}), "D32_SFLOAT as depth"),
    **{
        name: (lacking(limits=replace(PROFILES["minimum"], **{name: least - 1})), f"{name} of at least {least}")
        for name, least in LEAST.items()
    },
}  # fmt: skip


def test_the_minimum_of_vulkan_is_enough(device):
    assert missing(MINIMUM) == [] == missing(device.capabilities)
    assert MINIMUM.family == 1
    check("Radeon", MINIMUM)


@pytest.mark.parametrize(("capabilities", "words"), CASES.values(), ids=CASES)
def test_a_device_that_lacks_something_is_told_in_one_sentence(capabilities, words):
    assert len(missing(capabilities)) == 1
    with pytest.raises(DeviceError, match=r"^Radeon lacks [^;]+; choose another device .*driver$") as caught:
        check("Radeon", capabilities)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_all_that_is_missing_is_named():
    with pytest.raises(
        DeviceError, match=r"lacks Vulkan 1\.1.*; a queue .*; images of the format R32_SINT as storage"
    ):
        check("Radeon", replace(without("R32_SINT", Usage.STORAGE), version=(1, 0), queue_families=()))  # fmt: skip


def test_a_device_is_refused_before_it_is_opened(device, monkeypatch):
    from dressi import Device
    from dressi.vk.run.device import device as module
    from dressi.vk.run.device import logical

    def read(*_: object) -> Capabilities:
        return without("R32G32_SFLOAT", Usage.STORAGE)

    opened = list(module._open)
    monkeypatch.setattr(logical, "read_capabilities", read)
    with pytest.raises(DeviceError, match="lacks images of the format R32G32_SFLOAT as storage image"):
        Device(device.physical)
    assert module._open == opened


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_storage_buffers": 1}, "2 storage buffers, the device allows 1; choose another device"),
        ({"max_workgroup_invocations": 32}, "64 workgroup invocations, the device allows 32; choose another"),
        ({"max_per_stage_resources": 2}, "per stage resources, the device allows 2"),
    ],
)  # fmt: skip
def test_limits_of_a_dispatch_bind(limit, words):
    x = Variable(size=(4, 1), name="x")
    index = Variable(INT, (4, 1), name="index")
    table = F.scatter_add(x, index, (4, 1))
    with pytest.raises(PlanError, match=words):
        build_plan(Program({"table": table}), DeviceLimits(**limit), shader_text, DEFAULT)


def test_the_outputs_of_a_fragment_shader_together_bind():
    """Eight attachments are allowed, three outputs of a fragment shader are not exceeded all the same."""
    x = Variable(size=(8, 8), name="x")
    outputs = {str(k): F.sin(x * float(k)) for k in range(7)}
    limits, subpasses = (
        DeviceLimits(max_fragment_combined_output_resources=3),
        replace(DEFAULT, choose_lowering=False),
    )
    plan = build_plan(Program(outputs), limits, shader_text, subpasses)
    assert max(len(s.colors) for s in plan.sub_stages) == 3
    plan = build_plan(Program(outputs), DeviceLimits(), shader_text, subpasses)
    assert max(len(s.colors) for s in plan.sub_stages) == 7
