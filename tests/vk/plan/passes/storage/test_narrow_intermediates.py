"""16-bit intermediates: which values they are, how far results are off, and devices without them."""

from dataclasses import replace

import keys
import numpy as np
import pytest

from dressi import FLOAT, F, PlanError, Variable
from dressi.ad.program import Program
from dressi.cli.bench.meshes import load
from dressi.cli.bench.work import Trial, Work, drawn_on, silhouette, texture
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED, profile
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.substage import Scatter
from dressi.vk.run.executor import VulkanExecutor

NARROW = replace(DEFAULT, narrow_intermediates=True)
SIZE = (64, 64)


def two_passes(image: Variable | None = None) -> Program:
    """A gradient image from an image that is read at other pixels, so that it has to be stored."""
    if image is None:
        image = Variable(FLOAT, SIZE, name="image", data=np.zeros((1, *SIZE)))
    between = F.exp(F.sin(image) * 3.0) * F.cos(image * 5.0) + F.sqrt(F.abs(image))
    for _ in range(3):
        between = F.exp(F.sin(between)) + F.cos(between * 2.0) * F.exp(F.cos(between))
    around = [F.shift(between, dx, dy) for dx in range(-2, 3) for dy in range(-2, 3)]
    return Program({"y": sum(around[1:], around[0])}, ((image, image + 1.0),))


def test_only_what_passes_hand_to_each_other_is_narrow():
    program = two_passes()
    wide, narrow = (build_plan(program, UNBOUNDED, shader_text, options) for options in (DEFAULT, NARROW))
    halves = {v for s in narrow.sub_stages for v in s.narrow}
    assert halves and halves.isdisjoint((*program.leaves, *program.outputs.values()))
    assert narrow.images.bytes == wide.images.bytes - 2 * len(halves) * SIZE[0] * SIZE[1]
    formats = {narrow.images.slots[k].format for v in halves for k in narrow.images.of[v]}
    assert formats == {"R16_SFLOAT"}


def test_a_device_without_half_images_says_so():
    with pytest.raises(PlanError, match="no images of 16-bit floats"):
        build_plan(two_passes(), profile("minimum"), shader_text, NARROW)


def works(device) -> dict[str, Work]:
    asked = keys.request(1, "face", 3, "soft")
    model = load("small")
    return {
        "outer": silhouette(model, SIZE, replace(asked, form="outer"), drawn_on(device)),
        "face": silhouette(model, SIZE, asked, drawn_on(device)),
        "texture": texture(model, SIZE, 64, asked, drawn_on(device)),
    }


def test_an_image_that_passes_hand_on_is_off_by_half_a_unit_of_eleven_bits(device):
    program = two_passes()
    (y,) = program.outputs.values()
    found = {}
    for title, options in (("wide", DEFAULT), ("narrow", NARROW)):
        with VulkanExecutor(program, device, options=options) as run:
            run.run(4)
            found[title] = run.recv(y)
    off = np.abs(found["narrow"] - found["wide"]).max() / np.abs(found["wide"]).max()
    assert 0 < off <= 2**-11


@pytest.mark.release
@pytest.mark.one_driver
def test_forms_and_textures_hand_on_what_half_floats_hold(device):
    """Masks, faces and counts are exact; positions stay wide."""
    for name, work in works(device).items():
        wide = Trial(work).first_values(device)
        narrow = Trial(work, options=NARROW).first_values(device)
        off = {k: np.abs(narrow[k] - wide[k]).max() / np.abs(wide[k]).max() for k in wide}
        assert off["image"] < 1e-6 and off["gradient"] < 1e-6, f"{name}: {off}"
        with Trial(work, options=NARROW).engine(device) as engine:
            engine.step(3)
            plan = engine.plan
            narrow_values = {v for s in plan.sub_stages for v in s.narrow}
            added = {r.variable for s in plan.sub_stages if isinstance(s.work, Scatter) for r in s.reads}
            assert narrow_values.isdisjoint(added), name
            assert np.isfinite(engine.recv(work.parameter)).all()


@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_what_is_added_up_may_be_of_any_size(device, scale):
    """Gradients of means lie below the smallest half float, those of sums above the largest one."""
    image = Variable(FLOAT, SIZE, name="image", data=np.random.default_rng(5).uniform(0, 1, (1, *SIZE)))
    handed = two_passes(image).outputs["y"] * scale
    around = F.shift(handed, 1, 0) + F.shift(handed, 0, 1) + F.shift(handed, -1, 0) * F.shift(handed, 0, -1)
    index = F.clamp(F.to_int(image * 16.0), 0, 15)
    work = Program(
        {"table": F.scatter_add(around, index, (4, 4)), "sum": F.sum(around)}, ((image, image * 0.9),)
    )
    found = []
    for options in (DEFAULT, NARROW):
        with VulkanExecutor(work, device, options=options) as run:
            run.run(1)
            found.append({name: run.recv(v) for name, v in work.outputs.items()})
    for name, wide in found[0].items():
        assert np.abs(wide).min() > 0
        np.testing.assert_allclose(found[1][name], wide, rtol=2**-10, err_msg=name)
