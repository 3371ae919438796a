"""Values that follow from a raster, computed by its fragments: the bits of a pass over all pixels, and only where they pay."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, INT, IVEC2, VEC3, VEC4, F, PlanError, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import profile
from dressi.vk.plan.lowering.fragment_value import FragmentValue
from dressi.vk.plan.model.records import CPU, DATA_CENTRE
from dressi.vk.plan.options import BASELINE, DEFAULT
from dressi.vk.plan.substage import Raster
from dressi.vk.run.executor import VulkanExecutor

SIZE, TILES, FACES = (24, 16), 3, 6
WILLING = replace(CPU, fill_rate=2e9, store_rate=2e9)
"""A device that is quick at clearing and writing attachments."""
RANDOM = np.random.default_rng(7)


def leaf(vtype, size, name, batch=1, low=-1.0, high=1.0):
    shape = (batch, size[1], size[0], *vtype.shape)
    values = RANDOM.integers(0, 5, shape) if vtype.is_int else RANDOM.uniform(low, high, shape)
    return Variable(vtype, size, batch, name=name, data=values)


def quads():
    """Corners of overlapping quads in clip space, two triangles each, on corners of pixels, other ones in each tile."""
    corners = np.zeros((TILES, 1, 6 * FACES, 4), np.float32)
    for tile in range(TILES):
        for face in range(FACES):
            low = RANDOM.integers(0, (SIZE[0] - 8, SIZE[1] - 6))
            x, y = np.stack([low, low + RANDOM.integers(3, 7, 2)]).T / np.array(SIZE)[:, None] * 2 - 1
            place = [(x[i], y[j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 0), (1, 1), (0, 1))]
            corners[tile, 0, 6 * face : 6 * face + 6, :2] = place
    corners[..., 2:] = 0.5, 1.0
    return Variable(VEC4, (6 * FACES, 1), TILES, name="corners", data=corners)


def program(moving=True):
    """Quads of which the farther ones come last as well as first. Values with constants of several types around them: a
    colour, a texel, a mask that is an output; what a scatter adds; a counter, on which the depth depends, or only the colour."""
    count = Variable(FLOAT, name="count", data=np.ones((1, 1, 1)))
    depths, table = leaf(FLOAT, (FACES, 1), "depths", 1, 0.1, 0.3), leaf(VEC3, (FACES, 1), "table")
    image, holes = leaf(FLOAT, SIZE, "image", TILES), leaf(INT, SIZE, "holes")
    texels = leaf(IVEC2, (FACES, 1), "texels")
    live = Variable(INT, (FACES, 1), name="live", data=np.array([1, 1, 0, 1, 1, 1]).reshape(1, 1, FACES))
    slope = 0.0001 * count if moving else F.constant(0.0001)

    def fragment(face):
        x = F.to_float(F.linear_index(SIZE))
        return F.lookup(depths, face) + slope * x, F.greater(F.add(holes, face), 1)

    face = F.rasterize(quads(), size=SIZE, triangles_per_face=2, live=live, fragment=fragment, disjoint=True)
    found = F.greater_equal(face, 0)
    lit = F.lookup(table, face) * F.sin(image * count)
    colour = F.select(found, lit + image * 0.5, 0.25)
    texel = F.select(found, F.lookup(texels, face), 7)
    error = F.select(found, F.cos(lit.x) * image, 0.0)
    outputs = {
        "colour": colour * 2.0 + image,
        "texel": F.sum(texel),
        "own": error,
        "around": F.shift(colour, 1, 0),
        "table": F.scatter_add(error, face, (FACES, 1)),
    }
    return Program(outputs, ((count, count + 1.0),))


def run(device, work, options=DEFAULT, limits=None, model=WILLING):
    with VulkanExecutor(
        work, device, options=options, limits=limits or device.limits, cost=model
    ) as executor:
        executor.run(2)
        executor.wait()
        return {name: executor.recv(v) for name, v in work.outputs.items()}, executor.plan


def fused(plan):
    return [f for s in plan.sub_stages for f in s.functions if isinstance(f, FragmentValue)]


def planned(work, limits="lavapipe", model=WILLING, options=DEFAULT):
    return build_plan(
        work, profile(limits) if isinstance(limits, str) else limits, shader_text, options, model
    )


@pytest.mark.parametrize("grid", [False, True])
def test_the_bits_are_those_of_a_pass_over_all_pixels(device, grid):
    limits = replace(device.limits, max_framebuffer_height=2 * SIZE[1]) if grid else device.limits
    work = program()
    found, plan = run(device, work, limits=limits)
    values = fused(plan)
    assert {v.output.vtype for v in values} == {VEC3, IVEC2, FLOAT}
    assert sorted({x for v in values for x in v.background}) == [0.0, 0.25, 7.0]
    for options in (replace(DEFAULT, fuse_into_draws=False), BASELINE):
        expected, other = run(device, work, options, limits)
        assert not fused(other)
        assert all(np.array_equal(expected[name], found[name]) for name in found)


def test_the_meaning_is_that_of_the_functions_fused():
    work = program()
    values = fused(planned(work))
    drawn = evaluate([v.output for v in values])
    for a, b in zip(drawn, evaluate([v.everywhere for v in values]), strict=True):
        assert np.array_equal(a, b)


def test_what_exceeds_a_limit_is_not_fused(device):
    """One attachment; and images of the depth and of the values that fit a shader each, but not one together."""
    work = program()
    expected, plan = run(device, work)
    (raster,) = (s for s in plan.step.sub_stages if isinstance(s.work, Raster))
    most = raster.descriptors["sampled_images"]
    for limit in ({"max_color_attachments": 1}, {"max_sampled_images": most - 1}):
        found, plan = run(device, work, limits=replace(device.limits, **limit))
        assert not fused(plan)
        assert all(np.array_equal(expected[name], found[name]) for name in found)


def test_what_moves_while_the_raster_rests_is_not_fused():
    """The step would have to draw what a cached schedule draws once."""
    assert len(fused(planned(program()))) == 3
    plan = planned(program(moving=False))
    assert [v.output.vtype for v in fused(plan)] == [IVEC2]
    assert any(isinstance(f, FragmentValue) for s in plan.static.sub_stages for f in s.functions)
    always = planned(program(moving=False), options=replace(DEFAULT, cache_static=False))
    assert len(fused(always)) == 3


def test_devices_with_slow_fragments_fuse_nothing():
    assert fused(planned(program(), "turing", replace(DATA_CENTRE, longest_walk=1 << 20))) == []


def test_a_function_too_large_for_any_shader_still_raises():
    with pytest.raises(PlanError):
        planned(program(), replace(profile("lavapipe"), max_sampled_images=1))
