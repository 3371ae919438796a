"""Devices: how they are chosen, what they can do, and how they present."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from dressi import INT, Device, DressiAD, F, PixelFunction, Variable, adam, evaluate, list_devices
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.errors import (
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    DressiError,
    InputError,
    NoDriverError,
    OutOfMemoryError,
    PlanError,
)
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import LIMITS, PROFILES, DeviceLimits
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.execution.images import Usage
from dressi.vk.run.default import shared_device, shared_devices
from dressi.vk.run.device import device as module
from dressi.vk.run.device.capabilities import FORMATS, REQUIRED, Capabilities, QueueFamily, check, missing
from dressi.vk.run.device.instance import Instance, PhysicalDevice, choose, load_vulkan
from dressi.vk.run.present import surface
from dressi.vk.run.present.surface import choose_count, choose_format, choose_mode, choose_size, clip


@pytest.mark.parametrize(
    "wanted", [3.0, True, float("nan"), [], {}, b"llvm", object(), Device, print, np.float32(0), (0,), 1j]
)
def test_other_types_than_names_and_indices_are_refused(device, wanted):
    for attempt in (Device, Device.open, DressiAD):
        with pytest.raises(InputError, match="opened by an index, a part of its name or nothing"):
            attempt(wanted)


@pytest.mark.parametrize("wanted", [-1, 99, 10**30, "-1", "²", "3.5", "99", "no such device", "\0", "%s"])
def test_devices_that_are_not_there_are_named_beside_those_that_are(device, monkeypatch, wanted):
    with pytest.raises(DeviceNotFoundError, match=r"there is no Vulkan device .*; there are 0: ") as caught:
        Device(wanted)
    assert "DRESSI_DEVICE" not in str(caught.value)
    if "\0" not in str(wanted):
        monkeypatch.setenv("DRESSI_DEVICE", str(wanted))
        with pytest.raises(DeviceNotFoundError, match=r"DRESSI_DEVICE.*; there are 0: "):
            Device()


@pytest.mark.parametrize("wrong", [3.5, True, [1]])
def test_a_wrong_setting_is_named(device, wrong):
    with config(device=wrong), pytest.raises(InputError, match=r"DRESSI_DEVICE or config\.device"):
        Device()


def test_every_right_way_opens_the_same_device(device):
    physical = device.physical
    ways = [
        physical.index,
        np.int64(physical.index),
        str(physical.index),
        physical.name,
        f" {physical.name.upper()} ",
    ]
    for way in [*ways, next(d for d in list_devices() if d.index == physical.index)]:
        with Device(way) as own, DressiAD(own) as ad:
            assert (own.name, ad.device) == (physical.name, own)
    with config(device=physical.name), Device() as own, Device.open() as other:
        assert own.name == other.name == physical.name
    with config(device=None), Device() as own, Device("") as other, Device("  ") as third:
        assert own.name == other.name == third.name == choose(list_devices()).name


def test_a_repr_tells_the_state(device):
    own = Device(device.physical)
    assert repr(own) == f"Device({own.name!r}, cpu, 0 objects)" or own.physical.type != "cpu"
    with DressiAD(own) as ad:
        ad.set_output("y", Variable(data=np.ones((1, 1, 1))) * 2)
        ad.step()
        assert f"{len(own.live_objects())} objects" in repr(own)
    own.close()
    assert repr(own).endswith("closed)")
    for use in (own.wait, lambda: DressiAD(own).step()):
        with pytest.raises(DeviceError, match="is closed; open another one"):
            use()


def test_another_thread_is_told(device):
    said: list[BaseException] = []

    def work() -> None:
        try:
            device.wait()
        except DressiError as error:
            said.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "belongs to the process and thread" in str(said[0])


class Broken(PixelFunction):
    glsl = "$0 * nothing_of_this_name"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x


def fit(own: Device | str, *, broken: bool = False) -> None:
    x = Variable(size=(16, 16), data=np.ones((1, 16, 16)))
    with DressiAD(own) as ad:
        ad.set_loss(F.sum(F.square(Broken(x).output if broken else x)))
        ad.set_optimizer(adam(0.1), [x])
        ad.step(2)
        ad.recv("loss")


FIFTY = """
import gc, resource, sys
import numpy as np
from dressi import Device, DressiAD, F, Variable, adam

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

for k in range(50):
    with Device(sys.argv[1]) as own:
        x = Variable(size=(16, 16), data=np.ones((1, 16, 16)))
        with DressiAD(own) as ad:
            ad.set_loss(F.sum(F.square(x)))
            ad.set_optimizer(adam(0.1), [x])
            ad.step(2)
            ad.recv("loss")
        assert own.live_objects() == []
    if k == 9:
        gc.collect()
        start = resident()
gc.collect()
print(resident() - start)
"""


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fifty_devices_leave_nothing(device):
    """In a process of its own: in one that has run a thousand tests the heap moves by more than that.

    One arena for all threads: glibc gives a driver's new thread an arena of 6 MiB by chance, at any of the devices.
    """
    command = [sys.executable, "-c", FIFTY, device.name]
    one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=one_arena)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 5  # MiB; 1 to 3 were measured on both software drivers


def engine(own: Device | int) -> DressiAD:
    """One at work, which nobody closes."""
    x = Variable(size=(16, 16), data=np.ones((1, 16, 16)))
    ad = DressiAD(own)
    ad.set_loss(F.sum(F.square(x)))
    ad.set_optimizer(adam(0.1), [x])
    ad.step(2)
    ad.recv("loss")
    return ad


@pytest.mark.release
@pytest.mark.one_driver
def test_engines_that_are_dropped_end_with_the_next_one(device):
    """A cell of a notebook that is run again and again."""
    before = len(module._open)
    for _ in range(5):
        engine(device.physical.index)
        gc.collect()
        assert len(module._open) <= before + 1
    shared_device(device.physical).close()
    with Device(device.physical, validation=device.instance.validation) as own:
        assert len(module._open) == before + 1
        engine(own)
        gc.collect()
        objects = len(own.live_objects())
        assert objects > 0
        for _ in range(5):
            last = engine(own).recv_async("loss")
            gc.collect()
        assert len(own.live_objects()) <= objects + 5
        with DressiAD(own):
            assert np.isfinite(last.result()).all()
        assert own.live_objects() == []


def test_an_engine_that_cannot_start_leaves_nothing_on_its_device(device, monkeypatch):
    import vulkan

    def fail(*_: object) -> None:
        raise vulkan.VkErrorOutOfDeviceMemory

    shared = shared_device(device.physical)
    before = shared.live_objects()
    with monkeypatch.context() as planted, pytest.raises(DressiError, match="out of memory"):
        planted.setattr(vulkan, "vkCreateCommandPool", fail)
        DressiAD(device.physical.index)
    assert shared.live_objects() == before and shared.usable
    shared.close()


def test_what_another_thread_dropped_is_left_to_it(device):
    kept: list[Device] = []

    def work() -> None:
        kept.append(engine(device.physical.index).device)
        gc.collect()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with Device(device.physical):
        assert kept[0].live_objects()
    kept[0].close()
    assert kept[0].live_objects() == []


@pytest.mark.one_driver
def test_failing_builds_leave_nothing(device, monkeypatch):
    """GLSL that does not compile, and every Vulkan call of a build failing in turn."""
    import vulkan

    with Device(device.physical, validation=device.instance.validation) as own:
        for _ in range(20):
            with pytest.raises(DressiError, match="Broken"):
                fit(own, broken=True)
            assert own.live_objects() == []
        failed = 0

        def failing(name: str, at: int):
            real = getattr(vulkan, name)
            count = 0

            def call(*arguments):
                nonlocal count, failed
                count += 1
                if count == at:
                    failed += 1
                    raise vulkan.VkErrorOutOfDeviceMemory
                return real(*arguments)

            return call

        names = "CreateImage AllocateMemory CreateImageView CreateBuffer CreateShaderModule CreateRenderPass"
        names += " CreateFramebuffer CreateGraphicsPipelines CreateDescriptorPool AllocateCommandBuffers"
        for name in f"{names} EndCommandBuffer CreateCommandPool CreateFence".split():
            for at in (1, 2, 5):
                with monkeypatch.context() as planted:
                    planted.setattr(vulkan, f"vk{name}", failing(f"vk{name}", at))
                    try:
                        fit(own)
                    except DressiError as error:
                        assert "out of memory" in str(error)
                assert own.live_objects() == [], (name, at)
        assert failed > 20
        fit(own)


def test_exceptions_of_the_user_in_the_middle_leave_nothing(device):
    with Device(device.physical, validation=device.instance.validation) as own:
        x = Variable(size=(16, 16), data=np.ones((1, 16, 16)))
        for error in (ValueError, KeyboardInterrupt, SystemExit):
            with pytest.raises(error), DressiAD(own) as ad:
                ad.set_output("y", x * 2)
                ad.step(3)
                ad.recv_async("y")
                raise error
            assert own.live_objects() == []


def test_the_kind_that_is_fastest_and_right_is_chosen():
    def physical(index: int, kind: str, name: str = "x", driver_id: int = 0) -> PhysicalDevice:
        return PhysicalDevice(index, name, kind, name, "1", "1.3", 0, 0, driver_id, None)

    dozen = physical(0, "discrete", "Microsoft Direct3D12 (GPU)", 23)
    swiftshader, lavapipe = physical(1, "cpu", "SwiftShader"), physical(2, "cpu", "llvmpipe")
    integrated, discrete = physical(3, "integrated"), physical(4, "discrete")
    with config(device=None):
        assert choose([dozen, swiftshader, lavapipe, integrated, discrete]) is discrete
        assert choose([dozen, swiftshader, lavapipe, integrated]) is integrated
        # Dozen does not conform to Vulkan: only who names it gets it.
        assert choose([dozen, swiftshader, lavapipe]) is lavapipe
        assert choose([dozen, swiftshader, lavapipe], "direct3d") is dozen and choose([dozen]) is dozen


@pytest.mark.one_driver
@pytest.mark.parametrize("function", ["vkCreateInstance", "vkEnumeratePhysicalDevices"])
@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (-9, NoDriverError, "no Vulkan driver answers"),
        (-3, NoDriverError, "no Vulkan driver answers"),
        (-6, DeviceError, "a Vulkan layer is missing"),
        (-7, DeviceError, "lacks an extension"),
        (-1, OutOfMemoryError, "out of memory"),
    ],
)
def test_only_drivers_that_do_not_answer_are_missing(device, monkeypatch, function, code, kind, words):
    module = load_vulkan()

    def fail(*_: object) -> None:
        raise module.exception_codes[code]

    monkeypatch.setattr(module, function, fail)
    with pytest.raises(DeviceError, match=words) as caught:
        Instance().physical_devices()
    assert type(caught.value) is kind


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
        name: (lacking(limits=replace(PROFILES["minimum"], **{name: row.needed - 1})), f"{name} of at least {row.needed}")
        for name, row in LIMITS.items()
        if row.needed
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
    lacks = r"lacks Vulkan 1\.1.*; a queue .*; images of the format R32_SINT as storage"
    with pytest.raises(DeviceError, match=lacks):
        check("Radeon", replace(without("R32_SINT", Usage.STORAGE), version=(1, 0), queue_families=()))


def test_a_device_is_refused_before_it_is_opened(device, monkeypatch):
    def read(*_: object) -> Capabilities:
        return without("R32G32_SFLOAT", Usage.STORAGE)

    opened = list(module._open)
    monkeypatch.setattr(module, "read_capabilities", read)
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
    subpasses = replace(DEFAULT, without=("choose_lowering",))
    for limits, most in ((DeviceLimits(max_fragment_combined_output_resources=3), 3), (DeviceLimits(), 7)):
        plan = build_plan(Program(outputs), limits, shader_text, subpasses)
        assert max(len(s.colors) for s in plan.sub_stages) == most


BGRA, RGBA, BGRA_SRGB, HALF = 44, 37, 50, 97


def test_codes_are_kept_by_a_unorm_format():
    assert choose_format([(BGRA_SRGB, 0), (RGBA, 0), (BGRA, 0)]) == BGRA
    assert choose_format([(BGRA_SRGB, 0), (RGBA, 0)]) == RGBA
    assert choose_format([(0, 0)]) == BGRA  # any format
    # sRGB formats would encode once more; other colour spaces show other colours.
    assert choose_format([(BGRA_SRGB, 0), (HALF, 1000104002), (BGRA, 1000104001)]) is None


@pytest.mark.parametrize(
    ("offered", "wait", "chosen"), [((0, 1, 2, 3), True, 1), ((0, 1, 2), False, 0), ((1, 2), False, 1), ((2, 3, 0), True, 2)]
)  # fmt: skip
def test_frames_are_whole_unless_speed_is_asked_for(offered, wait, chosen):
    """Of immediate 0, mailbox 1, FIFO 2 and relaxed FIFO 3."""
    assert choose_mode(offered, wait=wait) == chosen


def test_there_is_an_image_to_draw_into_while_others_are_shown():
    assert [choose_count(*ends) for ends in ((1, 0), (3, 8), (2, 2), (1, 2))] == [3, 4, 2, 2]


def test_the_size_is_the_surfaces_or_the_windows():
    least, most = (1, 1), (4096, 2048)
    assert choose_size((640, 480), (9, 9), least, most) == (640, 480)
    unknown = (0xFFFFFFFF, 0xFFFFFFFF)
    assert choose_size(unknown, (800, 600), least, most) == (800, 600)
    assert choose_size(unknown, (8000, 6000), least, most) == (4096, 2048)
    assert choose_size(unknown, (0, 600), least, most) == (0, 0)
    assert choose_size((0, 480), (800, 600), (0, 0), (0, 0)) == (0, 0)


def test_what_lies_outside_of_the_window_is_cut_off():
    assert clip((8, 4), (0, 0, 16, 8), (16, 8)) == ((0, 0, 8, 4), (0, 0, 16, 8))
    assert clip((8, 4), (-8, 4, 16, 8), (16, 8)) == ((4, 0, 4, 2), (0, 4, 8, 4))
    for place in ((16, 0, 4, 4), (-4, 0, 4, 4), (0, 8, 4, 4), (0, -9, 4, 9), (0, 0, 0, 4), (0, 0, -4, 4)):
        assert clip((8, 4), place, (16, 8)) is None


def test_parts_are_never_empty_and_never_outside():
    rng = np.random.default_rng(3)
    for _ in range(2000):
        source = tuple(int(n) for n in rng.integers(1, 40, 2))
        size = tuple(int(n) for n in rng.integers(1, 40, 2))
        place = (*(int(n) for n in rng.integers(-50, 50, 2)), *(int(n) for n in rng.integers(1, 90, 2)))
        parts = clip(source, place, size)
        seen = surface.overlap(place, (0, 0, *size))
        assert (parts is not None) == seen
        if parts is not None:
            for (x, y, width, height), (w, h) in zip(parts, (source, size), strict=True):
                assert width > 0 and height > 0 and x >= 0 and y >= 0 and x + width <= w and y + height <= h


@pytest.mark.parametrize(
    ("place", "whole"),
    [((0, 0, 8, 8), True), ((-1, 0, 9, 9), True), ((1, 0, 8, 8), False), ((0, 0, 8, 7), False)],
)
def test_a_layer_that_covers_the_window_spares_the_black(place, whole):
    assert surface.covered([place], (8, 8)) == whole


@pytest.fixture
def names(device):
    """Ways to name a device that engines have not shared yet, and none that they share afterwards."""
    with config(device=device.name):
        yield device.physical.index, device.name
        for shared in shared_devices():
            shared.close()


def squared(ad: DressiAD) -> float:
    with ad:
        return ad.evaluate(F.square(3.0)).item()


def test_engines_of_a_thread_share_a_device_until_it_is_closed_or_lost(names):
    first, second = DressiAD(), DressiAD()
    device = first.device
    assert second.device is device and evaluate(F.square(2.0)).item() == 4.0
    assert DressiAD(device.physical).device is DressiAD(names[0]).device
    first.close()
    assert squared(second) == 9.0 and device.usable and DressiAD().device is device
    device.close()
    later = DressiAD()
    assert later.device is not device and later.device.usable and squared(later) == 9.0
    later.device.work.lost = "as a driver that was reset"
    with pytest.raises(DeviceLostError):
        later.device.wait()
    newest = DressiAD()
    assert newest.device is not later.device and later.device.handle is None and squared(newest) == 9.0


def test_threads_have_devices_of_their_own_which_are_closed_when_they_have_ended(names):
    def work() -> Device:
        ad = DressiAD()
        squared(ad)
        return ad.device

    with ThreadPoolExecutor(2) as pool:
        both = threading.Barrier(2)
        one, other = pool.map(lambda _: (work(), both.wait())[0], range(2))
        assert one is not other and one.usable and other.usable
    assert work() not in (one, other)
    assert one.handle is None and other.handle is None
