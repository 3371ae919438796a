"""What images are made for, and what is said and kept when device memory ends."""

import numpy as np
import pytest

from dressi import VEC4, Device, DressiAD, F, Variable, adam
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.errors import OutOfMemoryError
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.images import ANY, ImageSlot, Usage
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.options import BASELINE
from dressi.vk.run.workspace import Workspace

MIB = 1 << 20


@pytest.fixture
def own(device):
    """A second device of the same driver, closed at the end."""
    with Device(device.physical, validation=device.instance.validation) as own:
        yield own


def fitted(own: Device) -> tuple[DressiAD, Variable]:
    """An engine at work, with 2 parameters of 64 KiB."""
    x = Variable(size=(128, 128), data=np.ones((1, 128, 128)), name="small")
    ad = DressiAD(own)
    ad.set_loss(F.mean(F.square(x)))
    ad.set_optimizer(adam(0.1), [x])
    ad.step(2)
    return ad, x


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_made(own):
    ad, x = fitted(own)
    before, kept, objects = ad.recv(x), ad.state(), own.live_objects()
    own.memory.budget.imposed = own.memory.held + 4 * MIB
    photo = Variable(VEC4, size=(1024, 1024), name="photo")
    ad.set_output("blurred", F.shift(F.square(photo), 1, 0) * F.mean(x))
    with pytest.raises(
        OutOfMemoryError, match=r"new images need \d+\.\d MiB, most of it by .*16\.0 MiB.*only"
    ) as caught:
        ad.recv("blurred")  # fmt: skip
    said = str(caught.value)
    assert "VEC4 photo (1024x1024) (16.0 MiB)" in said
    assert (
        "FLOAT small (128x128)" in said
        and "KiB" in said.partition("are held")[2]
        and said.endswith("programs")
    )
    assert own.live_objects() == objects
    # Nothing is lost: the values stay, steps go on.
    ad.remove_output("blurred")
    assert (ad.recv(x) == before).all() and ad.state().keys() == kept.keys()
    ad.step(2)
    assert (ad.recv(x) < before).all() and len(ad.losses()) == 4
    own.memory.budget.imposed = None
    ad.set_output("blurred", F.square(photo))
    ad.send(photo, np.full((1, 1024, 1024, 4), 2, np.float32))
    assert ad.recv("blurred")[0, 0, 0, 0] == 4
    ad.close()
    assert own.live_objects() == []


def test_a_leaf_that_does_not_fit_is_named(own):
    own.memory.budget.imposed = 4 * MIB
    photo = Variable(VEC4, size=(1024, 1024), name="photo")
    with DressiAD(own) as ad:
        with pytest.raises(
            OutOfMemoryError, match=r"VEC4 photo \(1024x1024\) needs 16\.\d MiB, and only \d.* left"
        ):
            ad.send(photo, np.zeros((1, 1024, 1024, 4), np.float32))  # fmt: skip
        x = Variable.of(3.0)
        assert ad.evaluate(F.square(x)).item() == 9
    assert own.live_objects() == []


def test_a_change_of_plan_without_memory_keeps_the_plan(own, monkeypatch):
    """A leaf that is sent in every step asks for a specialised plan; without memory for it, steps go on as before."""
    refused = []

    def refuse(wanted: dict[str, int]) -> None:
        refused.append(wanted)
        raise OutOfMemoryError("nothing is left")

    x, y = (Variable(size=(256, 256), data=np.ones((1, 256, 256)), name=name) for name in "xy")
    with DressiAD(own) as ad:
        ad.set_loss(F.mean(F.square(x - F.shift(F.exp(y), 1, 0))))
        ad.set_optimizer(adam(0.1), [x])
        for k in range(16):
            ad.send(y, np.ones((1, 256, 256), np.float32))
            ad.step()
            if k == 2:
                monkeypatch.setattr(own.memory, "expect", refuse)
        assert len(refused) == 1 and ad.plan.changing == frozenset()
        assert len(ad.losses()) == 16 and ad.losses()[-1] < ad.losses()[0]


def test_images_share_few_allocations(own):
    with DressiAD(own) as ad:
        leaves = [Variable.of(np.full(5, float(k)), name=f"x{k}") for k in range(60)]
        ad.set_output("y", sum(leaves[1:], leaves[0]))
        assert ad.recv("y")[0] == sum(range(60))
        assert own.live_objects().count("Memory") == own.memory.allocations <= 4
        assert own.live_objects().count("Image") >= 60


def test_images_are_made_for_what_their_plan_does():
    x = Variable(size=(8, 8), name="x")
    squared = F.square(x)
    loss = F.mean(F.shift(squared, 1, 0) * squared)
    position = Variable(VEC4, size=(6, 1), name="position")
    face = F.rasterize(position, size=(8, 8))
    plan = build_plan(
        Program({"loss": loss, "face": face, "back": F.to_float(face) * squared}),
        DeviceLimits(),
        shader_text,
        BASELINE,
    )
    slots = plan.images.slots
    shared = {*plan.program.leaves, *plan.program.outputs.values()}
    assert all(slots[k].usage == ANY for v in shared for k in plan.images.of[v])
    depths = {slots[k] for k in plan.images.depths.values()}
    assert {(slot.usage, slot.format) for slot in depths} == {(Usage.DEPTH, "D32_SFLOAT")}
    inner = [slots[k] for v, numbers in plan.images.of.items() if v not in shared for k in numbers]
    assert inner and all(slot.usage not in (Usage(0), ANY) for slot in inner)
    assert all(Usage.STORAGE in slot.usage or Usage.COLOR in slot.usage for slot in inner)  # fmt: skip


def test_plans_share_images_that_may_be_used_for_as_much(own):
    """An image of another plan with all usages that are needed is used again; another one is made where some lack."""
    workspace = Workspace(own, own.limits)
    drawn = ImageSlot(1, False, 8, 8, Usage.COLOR | Usage.SAMPLED)
    (first,) = workspace.transients({0: drawn}, ["a"]).values()
    read = ImageSlot(1, False, 8, 8, Usage.COLOR)
    stored = ImageSlot(1, False, 8, 8, Usage.STORAGE)
    assert workspace.transients({0: read}, ["a"])[0] is first
    assert workspace.lacking({0: read, 1: drawn, 2: stored}) == [1, 2]
    assert (
        len({id(image) for image in workspace.transients({0: read, 1: drawn, 2: stored}, "abc").values()})
        == 3
    )
    workspace.close()
