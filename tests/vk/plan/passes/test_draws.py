"""Draws: what they update, what is fused into them, what covers a texel, and the depth of fragments."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, INT, IVEC2, IVEC3, MAT3, VEC2, VEC3, VEC4, F, PixelFunction, PlanError, Variable
from dressi.ad.graph import RasterFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT
from dressi.vk.plan.core.substage import Raster
from dressi.vk.plan.lowering.fragment_value import FragmentValue
from dressi.vk.plan.model.records import CPU, DATA_CENTRE
from dressi.vk.run.execution.executor import VulkanExecutor

SIZE, TILES = (9, 7), 3
RANDOM = np.random.default_rng(4)


def leaf(vtype, name, size=SIZE, batch=TILES):
    shape = (batch, size[1], size[0], *vtype.shape)
    values = RANDOM.integers(0, 6, shape) if vtype.is_int else RANDOM.normal(size=shape)
    return Variable(vtype, size, batch, name=name, data=values)


def program():
    """A texture and its moment, moved by a scatter; a matrix and an image that move; a counter."""
    texture, moment = leaf(VEC3, "texture"), leaf(VEC3, "moment")
    index, weight = leaf(IVEC2, "index", (16, 8)), leaf(FLOAT, "weight", (16, 8))
    matrix, image = leaf(MAT3, "matrix", (10, 6)), leaf(VEC2, "image", (10, 6))
    count = Variable(INT, name="count", data=np.ones((1, 1, 1), int))
    error = F.lookup(texture, index) * weight
    bound = F.max(F.max_component(F.abs(error)))
    gradient = F.scatter_add(error, index, SIZE, batch=TILES, bound=bound)
    new = moment * 0.9 + gradient / F.to_float(count)
    turned = F.matmul(matrix, matrix) * 0.1
    updates = (
        (texture, texture - 0.1 * new),
        (moment, new),
        (matrix, turned),
        (image, image * 0.5 + 1.0),
        (count, count + 1),
    )
    return Program({}, updates)


def run(device, program, limits, **cost):
    with VulkanExecutor(program, device, limits=limits, cost=replace(CPU, **cost)) as executor:
        for _ in range(2):
            executor.run(2)
            executor.wait()
        drawn = [bool(s.colors) for s in executor.plan.step.sub_stages if s.replaces]
        return [executor.recv(v) for v in program.leaves], drawn


@pytest.mark.parametrize("grid", [False, True])
def test_draws_give_the_bits_of_dispatches(device, grid):
    limits = replace(device.limits, max_framebuffer_height=2 * SIZE[1]) if grid else device.limits
    work = program()
    expected, none = run(device, work, limits, prefers_attachments=False)
    found, all_of_them = run(device, work, limits)
    assert not any(none) and all(all_of_them) and len(all_of_them) > 1
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("limit", [{"max_color_attachments": 1}, {"fragment_atomics": False}])
def test_what_a_draw_may_not_do_stays_a_dispatch(device, limit):
    work = program()
    expected, _ = run(device, work, device.limits)
    found, drawn = run(device, work, replace(device.limits, **limit))
    assert not all(drawn)
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


def test_lists_are_dispatched(device):
    vertices = leaf(VEC3, "vertices", (40, 1), 1)
    _, drawn = run(device, Program({}, ((vertices, vertices * 0.5),)), profile("desktop"))
    assert drawn == [False]


FUSED_SIZE, FUSED_TILES, FACES = (24, 16), 3, 6
WILLING = replace(CPU, fill_rate=2e9, store_rate=2e9)
"""A device that is quick at clearing and writing attachments."""
FUSED_RANDOM = np.random.default_rng(7)


def fused_leaf(vtype, size, name, batch=1, low=-1.0, high=1.0):
    shape = (batch, size[1], size[0], *vtype.shape)
    values = FUSED_RANDOM.integers(0, 5, shape) if vtype.is_int else FUSED_RANDOM.uniform(low, high, shape)
    return Variable(vtype, size, batch, name=name, data=values)


def quads():
    """Corners in clip space of overlapping quads, on corners of pixels, others in each tile."""
    corners = np.zeros((FUSED_TILES, 1, 6 * FACES, 4), np.float32)
    for tile in range(FUSED_TILES):
        for face in range(FACES):
            low = FUSED_RANDOM.integers(0, (FUSED_SIZE[0] - 8, FUSED_SIZE[1] - 6))
            x, y = (
                np.stack([low, low + FUSED_RANDOM.integers(3, 7, 2)]).T / np.array(FUSED_SIZE)[:, None] * 2
                - 1
            )
            place = [(x[i], y[j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 0), (1, 1), (0, 1))]
            corners[tile, 0, 6 * face : 6 * face + 6, :2] = place
    corners[..., 2:] = 0.5, 1.0
    return Variable(VEC4, (6 * FACES, 1), FUSED_TILES, name="corners", data=corners)


def fused_program(moving=True):
    """Quads of which the farther ones come last as well as first. Values with constants of several types
    around them: a colour, a texel, a mask that is an output; what a scatter adds; a counter, on which the
    depth depends, or only the colour."""
    count = Variable(FLOAT, name="count", data=np.ones((1, 1, 1)))
    depths, table = (
        fused_leaf(FLOAT, (FACES, 1), "depths", 1, 0.1, 0.3),
        fused_leaf(VEC3, (FACES, 1), "table"),
    )
    image, holes = fused_leaf(FLOAT, FUSED_SIZE, "image", FUSED_TILES), fused_leaf(INT, FUSED_SIZE, "holes")
    texels = fused_leaf(IVEC2, (FACES, 1), "texels")
    live = Variable(INT, (FACES, 1), name="live", data=np.array([1, 1, 0, 1, 1, 1]).reshape(1, 1, FACES))
    slope = 0.0001 * count if moving else F.constant(0.0001)

    def fragment(face):
        x = F.to_float(F.linear_index(FUSED_SIZE))
        return F.lookup(depths, face) + slope * x, F.greater(F.add(holes, face), 1)

    face = F.rasterize(quads(), size=FUSED_SIZE, triangles_per_face=2, live=live, fragment=fragment)
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


def fused_run(device, work, options=DEFAULT, limits=None, model=WILLING):
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
    limits = replace(device.limits, max_framebuffer_height=2 * FUSED_SIZE[1]) if grid else device.limits
    work = fused_program()
    found, plan = fused_run(device, work, limits=limits)
    values = fused(plan)
    assert {v.output.vtype for v in values} == {VEC3, IVEC2, FLOAT}
    assert sorted({x for v in values for x in v.background}) == [0.0, 0.25, 7.0]
    for options in (replace(DEFAULT, without=("fuse_into_draws",)), BASELINE):
        expected, other = fused_run(device, work, options, limits)
        assert not fused(other)
        assert all(np.array_equal(expected[name], found[name]) for name in found)


def test_the_meaning_is_that_of_the_functions_fused():
    work = fused_program()
    values = fused(planned(work))
    drawn = evaluate([v.output for v in values])
    for a, b in zip(drawn, evaluate([v.everywhere for v in values]), strict=True):
        assert np.array_equal(a, b)


def test_what_exceeds_a_limit_is_not_fused(device):
    """One attachment; and images of depth and values that fit a shader each, but not together."""
    work = fused_program()
    expected, plan = fused_run(device, work)
    (raster,) = (s for s in plan.step.sub_stages if isinstance(s.work, Raster))
    most = raster.descriptors["sampled_images"]
    for limit in ({"max_color_attachments": 1}, {"max_sampled_images": most - 1}):
        found, plan = fused_run(device, work, limits=replace(device.limits, **limit))
        assert not fused(plan)
        assert all(np.array_equal(expected[name], found[name]) for name in found)


def test_what_moves_while_the_raster_rests_is_not_fused():
    """The step would have to draw what a cached schedule draws once."""
    assert len(fused(planned(fused_program()))) == 3
    plan = planned(fused_program(moving=False))
    assert [v.output.vtype for v in fused(plan)] == [IVEC2]
    assert any(isinstance(f, FragmentValue) for s in plan.static.sub_stages for f in s.functions)
    always = planned(fused_program(moving=False), options=replace(DEFAULT, cache_static=False))
    assert len(fused(always)) == 3


def test_devices_with_slow_fragments_fuse_nothing():
    assert fused(planned(fused_program(), "turing", replace(DATA_CENTRE, longest_walk=1 << 20))) == []


def test_a_function_too_large_for_any_shader_still_raises():
    with pytest.raises(PlanError):
        planned(fused_program(), replace(profile("lavapipe"), max_sampled_images=1))


COVERING_SIZE = (40, 24)


def drawn() -> Variable:
    """Random triangles, some cut by the near or the far plane; at the right two in the far plane."""
    rng = np.random.default_rng(5)
    clip = np.ones((12, 3, 4), np.float32)
    clip[:, :, :2] = rng.uniform(-1, 0.4, (12, 3, 2))
    clip[:, :, 2] = rng.uniform(-0.4, 1.4, (12, 3))
    clip[-2:, :, :2] = [[(0.5, -0.9), (0.9, -0.9), (0.5, -0.1)], [(0.5, 0.1), (0.9, 0.1), (0.5, 0.9)]]
    clip[-2:, :, 2] = [[1.0], [np.nextafter(np.float32(1), np.float32(0))]]
    position = Variable(VEC4, (36, 1), data=clip.reshape(1, 1, 36, 4))
    faces = Variable(IVEC3, (12, 1), data=np.arange(36).reshape(1, 1, 12, 3))
    return F.rasterize(position, faces, size=COVERING_SIZE)


def covering(program: Program) -> list[bool]:
    return [f.covering for f in program.functions if isinstance(f, RasterFunction)]


def test_rasters_of_which_only_the_cover_counts_are_found():
    face = drawn()
    cover = F.greater_equal(face, 0)

    def fragment(number):
        away = F.select(F.greater_equal(face, 0), 2.0, F.to_float(number) * 0.1)
        return away * 0.5, F.less(away, 0.2)

    near = F.rasterize(
        Variable(VEC4, (3, 1), data=np.ones((1, 1, 3, 4))), size=COVERING_SIZE, triangles=1, fragment=fragment
    )
    both = simplify(Program({"cover": cover, "missed": F.less(face, 0), "near": near}))
    assert covering(both) == [True, False]
    for more in (face, F.to_float(face) * 2.0, F.greater(face, 0), F.less(face, 1)):
        assert covering(simplify(Program({"cover": cover, "more": more}))) == [False]


def test_what_is_covered_is_the_same():
    face = drawn()
    program = simplify(Program({"cover": F.greater_equal(face, 0)}))
    found, truth = evaluate([program.outputs["cover"], face])
    assert covering(program) == [True] and np.array_equal(found, truth >= 0)


def test_what_is_covered_is_the_same_without_depths(device):
    face = drawn()
    images = {}
    for name, more in (("covering", {}), ("nearest", {"face": face})):
        program = simplify(Program({"cover": F.greater_equal(face, 0), **more}))
        with VulkanExecutor(program, device) as executor:
            executor.run()
            images[name] = executor.recv(program.outputs["cover"])
            depths = executor.plan.images.depths
        assert len(depths) == (name == "nearest")
    assert np.array_equal(images["covering"], images["nearest"])
    # The one in the far plane is the background's.
    assert not images["covering"][0, :11, 30:].any() and images["covering"][0, 14:16, 31:33].all()


FRAGMENT_SIZE = (12, 8)
CORNERS = np.array([(-1, -1, 0.5, 1), (3, -1, 0.5, 1), (-1, 3, 0.5, 1)] * 2, float)


class Hidden(PixelFunction):
    """Its snippet has variables of its own with the names that draws use."""

    zero_derivative = True
    glsl = "int face = -5, triangle = -5, number = -5; $y = float($0 + face + triangle + number == -15);"

    def infer(self):
        return FLOAT, self.inputs[0].domain

    def evaluate(self, at, x):
        return np.where(x == 0, 1.0, 0.0)


def fragment_drawn(fragment) -> Variable:
    position = Variable(VEC4, (6, 1), data=CORNERS[None, None])
    return F.rasterize(position, size=FRAGMENT_SIZE, fragment=fragment)


def image(seed: int) -> Variable:
    values = np.random.default_rng(seed).integers(0, 5, (1, FRAGMENT_SIZE[1], FRAGMENT_SIZE[0])) / 4
    return Variable(FLOAT, FRAGMENT_SIZE, data=values)


ROOTS = {
    "a leaf keeps": lambda: fragment_drawn(lambda face: (F.to_float(face) * 0.25, image(1))),
    "a leaf is the depth": lambda: fragment_drawn(lambda face: (image(2), Hidden(face).output)),
    "values are both": lambda: fragment_drawn(lambda face: (F.sqrt(image(2)) * 0.5, F.shift(image(1), 1, 2))),
    "own names": lambda: fragment_drawn(lambda face: (0.5 - 0.25 * F.to_float(face), Hidden(face).output)),
}


@pytest.mark.parametrize("name", ROOTS)
def test_devices_draw_what_the_fragment_means(device, name):
    face = ROOTS[name]()
    (wanted,) = evaluate([face])
    assert len(np.unique(wanted)) > 1 or name == "own names"
    with VulkanExecutor(Program({"face": face}), device) as run:
        run.run()
        np.testing.assert_array_equal(run.recv(face), wanted)
