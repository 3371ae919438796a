"""Work on active blocks: the images of the dense plan, to the bit."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from graphs import masked_program, weighing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dressi import FLOAT, IVEC3, VEC2, VEC3, VEC4, F, PlanOptions, Variable, gradient
from dressi.ad.graph import PixelFunction
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import Access
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import Environment, hard_soft_ras, render, ring
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.mesh import primitives
from dressi.render.mesh.primitives import cube
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core import substage
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.plan.core.substage import SubStage
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.passes import active_blocks
from dressi.vk.run.execution.executor import VulkanExecutor

STORED = {"cache_static": False, "rematerialize": False}
DENSE = PlanOptions(without=("run_on_active_blocks",))


FREE = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)
"""Whatever can be done on blocks is done there, as if lists, dispatches and filling cost nothing."""


WIDE = weighing(CPU, lanes=1024, fetch=0.0, store=0.0, stage=0.0)
"""The same, with lists that workgroups make together."""


def results(program, device, cost=FREE, **options):
    with VulkanExecutor(program, device, cost=cost, **options) as run:
        values = []
        run.run(2)
        for moved in [None, *(v for v in program.leaves if v.vtype is VEC4)]:
            if (
                moved is not None
            ):  # corners: other blocks are active, what follows from the rest is not run again
                run.send(moved, moved.data * (0.6, -0.8, 1.0, 1.0))
                run.run(1)
            run.wait()
            values += [run.recv(v) for v in (*program.outputs.values(), *program.leaves)]
        return run.plan, values


def sparse_of(s: SubStage) -> substage.Sparse | None:
    return s.work.sparse if isinstance(s.work, (substage.Compute, substage.ScatterDispatch)) else None


def check(program, device, limits=None, cost=FREE) -> int:
    """Compares plans on lists of blocks and of pixels with the dense one; how many SubStages ran on lists."""
    _, dense = results(program, device, limits=limits, options=DENSE)
    found = []
    for pixels in (False, True):
        with patch.object(active_blocks, "by_pixels", lambda *_, pixels=pixels: pixels):
            plan, sparse = results(program, device, cost, limits=limits)
        lists = [made.blocks for s in plan.sub_stages if (made := sparse_of(s)) is not None]
        assert all((b.shared, b.pixels) == (cost.wide, pixels) for b in lists)
        for a, b in zip(sparse, dense, strict=True):
            assert (a == b).all()
        found.append(len(lists))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.one_driver
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    batch=st.integers(1, 3),
    columns=st.booleans(),
    count=st.sampled_from([3, 65535]),
)
def test_sparse_equals_dense(device, seed, size, batch, columns, count):
    height = max(size[1], 8) if columns else 4096
    limits = DeviceLimits(max_framebuffer_height=height, max_workgroup_count=count)
    check(masked_program(seed, size, batch), device, limits)


def test_frames_of_a_leaf_that_is_sent_run_on_blocks(device):
    """As in a viewer: what follows from the leaf runs in every frame, what does not runs once."""
    size = (40, 24)
    hit = F.greater_equal(triangle(0.3), 0)
    x = Variable(FLOAT, name="x", data=np.full((1, 1, 1), 0.3))
    image = F.select(hit, F.exp(F.sin(F.to_float(F.linear_index(size)) * x)), 0.25)
    program = Program({"image": image})
    plans = {
        changing: build_plan(program, DeviceLimits(), shader_text, cost=FREE, changing=changing)
        for changing in (frozenset(), frozenset((x,)))
    }
    found = [[sparse_of(s) is not None for s in plan.sub_stages] for plan in plans.values()]
    assert not any(found[0]) and any(found[1])
    frames = []
    for options in (PlanOptions(), DENSE):
        with VulkanExecutor(program, device, cost=FREE, options=options) as run:
            for k in range(6):
                run.send(x, np.full((1, 1, 1), 0.1 * k))
                run.run(1)
                run.wait()
                frames.append(run.recv(image))
            assert run.plan.changing == frozenset((x,))
    assert all((a == b).all() for a, b in zip(frames[:6], frames[6:], strict=True))


def plan_of(program, **options):
    return build_plan(program, DeviceLimits(), shader_text, PlanOptions(**options), FREE).sub_stages


def triangle(scale: float, size=(40, 24), depth: float = 0.5) -> Variable:
    corners = np.array([[-1, -1], [0.5, -1], [-1, 0.2]]) * scale
    position = np.concatenate([corners, np.full((3, 1), depth), np.ones((3, 1))], axis=1)
    return F.rasterize(Variable(VEC4, (3, 1), data=position[None, None].astype(np.float32)), size=size)


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 9.0], ids=["nothing", "little", "some", "everything"])
@pytest.mark.one_driver
def test_any_share_of_the_blocks(device, scale):
    face = triangle(scale)
    hit = F.greater_equal(face, 0)
    x = Variable(FLOAT, name="x", data=np.full((1, 1, 1), 0.3))
    wave = F.sin(F.to_float(F.linear_index((40, 24))) * x)
    image = F.select(hit, F.exp(wave) * wave, 0.25)
    program = Program({"image": image, "window": F.shift(image, 3, -2)}, ((x, x + F.mean(image)),))
    assert check(program, device) == check(program, device, cost=WIDE) == 1


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("border", ["clamp", "zero"])
@pytest.mark.one_driver
def test_what_is_read_around_pixels_runs_on_blocks_around_those_hit(device, border, batch):
    """Neighbours of neighbours, across borders of blocks and tiles, both ways; a wide shift stays dense."""
    size = (40, 22)
    moved = np.array([(0.02, 0.03, 0, 0), (0.42, 0.1, 0, 0), (-0.3, 0.7, 0, 0)])[:batch, None, None]
    corners = np.array([[-0.35, -0.3, 0.5, 1], [0.1, -0.3, 0.5, 1], [-0.35, 0.12, 0.5, 1]])
    position = Variable(VEC4, (3, 1), batch, data=corners + moved)
    face = F.rasterize(position, size=size)
    x = Variable(FLOAT, (3, 1), name="x", data=np.array([[[0.3, 0.2, 0.1]]]))
    inside = F.select(face < 0, 0.0, F.lookup(x, F.pixel_coordinates(size).x % 3) + 0.5)

    def program(step: int) -> Program:
        near = F.shift(inside, step, 0, border) * F.shift(inside, 0, -step, border)
        image = F.select(F.greater(near, 0.0), F.exp(F.sin(near)), 0.0) + F.shift(near, step, step, border)
        (g,) = gradient(F.sum(F.square(image)), [x])
        return Program({"image": image}, ((x, x - 0.001 * g), (position, position * 1.25)))

    assert check(program(1), device) == check(program(1), device, cost=WIDE) > 0
    lists = {
        step: [found.blocks for s in plan_of(program(step)) if (found := sparse_of(s))] for step in (1, 9)
    }
    assert any(b.halo for b in lists[1]) and not any(b.halo for b in lists[9])


class Visited(PixelFunction):
    """1 where it is evaluated, whatever the image is. It says to be 0 where the image is known around a pixel."""

    access, zero_derivative, operations = (Access.FETCH,), True, 1e4
    fields, glsl = ("footprint",), "$y = 1.0 + 0.0 * $0(pixel, tile);"

    def __init__(self, image: Variable, footprint: int):
        self.footprint = footprint
        super().__init__(image)

    def infer(self):
        return FLOAT, self.inputs[0].domain

    def known_value(self, known):
        return np.zeros(()) if 0 in known else None

    def evaluate(self, at, image):
        return np.ones(at.shape)


@pytest.mark.parametrize("halo", [0, 1, 2])
@pytest.mark.parametrize("cost", [FREE, WIDE], ids=["one lane", "many lanes"])
def test_lists_hold_what_is_active_and_no_more(device, halo, cost):
    """Pixels within the halo of either of two triangles, or the blocks with such a pixel, on an image that ends
    within a block."""
    size, x = (45, 29), Variable(FLOAT, name="x", data=np.ones((1, 1, 1)))
    faces = triangle(0.4, size), triangle(-0.7, size, 0.2)
    either = F.select(F.logical_or(*(F.greater_equal(f, 0) for f in faces)), x, 0.0)
    image = F.apply(Visited, either, footprint=halo)
    program = Program({"image": image, **{f"face {k}": f for k, f in enumerate(faces)}}, ((x, x + 1.0),))
    for pixels in (True, False):
        with patch.object(active_blocks, "by_pixels", lambda *_, pixels=pixels: pixels):
            _, (found, *drawn, _) = results(program, device, cost, options=PlanOptions(**STORED))
        hit = np.pad((drawn[0][0] >= 0) | (drawn[1][0] >= 0), halo)
        windows = np.lib.stride_tricks.sliding_window_view(hit, (2 * halo + 1, 2 * halo + 1))
        active = windows.any((-1, -2))
        if not pixels:
            blocks = np.pad(active, ((0, 3), (0, 3))).reshape(4, 8, 6, 8).any((1, 3))
            active = np.kron(blocks, np.ones((8, 8), bool))[:29, :45]
        assert 0 < active.sum() < active.size
        assert ((found[0] > 0) == active).all()


def test_silhouettes_have_the_bits_of_the_baseline_on_lists_of_pixels(device):
    """With edges inside, and the gradient: two views of a torus."""
    mesh, size = primitives.torus(), (40, 32)
    position = Variable.of(mesh.positions)
    cameras = ring((0, 0, 0), 2.5, 2, size)
    mask = render(mesh, cameras, positions=position, form="edges").mask
    (g,) = gradient(F.sum(F.square(mask - 0.3)), [position])
    program = simplify(Program({"mask": mask, "gradient": g}, ((position, position * 1.01),)))
    with patch.object(active_blocks, "by_pixels", lambda *_: True):
        plan, found = results(program, device)
    assert any(sparse_of(s) for s in plan.sub_stages)
    for a, b in zip(found, results(program, device, options=BASELINE)[1], strict=True):
        assert (a == b).all()


def test_lists_of_pixels_fit_storage_buffers():
    """One has a word for each pixel of all views; where that is too long for the device it holds blocks."""
    x = Variable(FLOAT, name="x", data=np.ones((1, 1, 1)))
    program = Program({"a": F.select(triangle(0.5) < 0, 0.0, F.exp(x))}, ((x, x + 1.0),))
    with patch.object(active_blocks, "by_pixels", lambda *_: True):
        for most, pixels in ((4 * (4 + 64 * 15), True), (4 * (4 + 64 * 15) - 1, False)):
            limits = DeviceLimits(max_storage_buffer_bytes=most)
            plan = build_plan(program, limits, shader_text, cost=FREE)
            (found,) = filter(None, map(sparse_of, plan.sub_stages))
            assert found.blocks.pixels == pixels


def test_every_image_is_looked_at_once():
    """Three lists of two rasters, with halos and without."""
    faces = triangle(0.5), triangle(1.0, depth=0.2)
    x = Variable(FLOAT, name="x", data=np.ones((1, 1, 1)))
    first, second = (F.select(face < 0, 0.0, F.sin(F.to_float(face) * x)) for face in faces)
    outputs = {
        "a": F.exp(first) * first,
        "b": F.shift(second, 1, 0),
        "c": F.shift(first * second + first, 0, 1),
    }
    sub_stages = plan_of(Program(outputs, ((x, x + 1.0),)), **STORED)
    lists = [s.work for s in sub_stages if isinstance(s.work, substage.ListBlocks)]
    looked = [s.work.hits.image for s in sub_stages if isinstance(s.work, substage.FindHits)]
    assert len(lists) > len(faces) and any(made.blocks.halo for made in lists)
    assert sorted(looked, key=id) == sorted(faces, key=id)


def test_what_is_not_settled_is_made_apart(device):
    """The residual is wanted everywhere, what it is made of and the gradient are not."""
    size = (40, 24)
    face = triangle(1.0)
    target = Variable(FLOAT, size, name="target", data=np.random.default_rng(0).random((1, 24, 40)))
    x = Variable(FLOAT, (3, 1), name="x", data=np.array([[[0.3, 0.2, 0.1]]]))
    wave = F.sin(F.lookup(x, F.clamp(face, -1, 2)) * F.to_float(F.linear_index(size)))
    image = F.select(F.greater_equal(face, 0), F.exp(wave) * wave, 0.5)
    loss = F.sum(F.square(image - target))
    (g,) = gradient(loss, [x])
    program = Program({"loss": loss, "residual": image - target}, ((x, x - 0.001 * g),))
    assert check(program, device) == 1
    (found,) = (s for s in plan_of(program) if sparse_of(s) and isinstance(s.work, substage.Scatter))
    assert image in {*found.outputs} and (sparse_of(found).fill[image] == 0.5).all()


@pytest.mark.parametrize(
    ("scales", "stage", "looked_at"),
    [((1.0,), 2e4, [1, 1]), ((0.5, 1.0), 8e3, [2, 1])],
    ids=["under one raster", "under either of two"],
)
def test_a_scatter_keeps_its_list_when_it_makes_what_another_reads(device, scales, stage, looked_at):
    """Both need a value that is not settled outside; the other may work under the first raster alone."""
    faces = [triangle(scale, depth=depth) for scale, depth in zip(scales, (0.5, 0.2), strict=False)]
    hits = [F.greater_equal(face, 0) for face in faces]
    x = Variable(FLOAT, (3, 1), name="x", data=np.array([[[0.3, 0.2, 0.1]]]))
    y = Variable(FLOAT, (4, 1), name="y", data=np.array([[[0.5, 0.4, 0.7, 0.6]]]))
    wave = F.exp(F.sin(F.to_float(F.linear_index((40, 24)))))
    wide = F.lookup(x, F.clamp(faces[-1], 0, 2)) * wave
    narrow = F.lookup(y, F.clamp(faces[0], 0, 2) + 1) * wave * wave
    either = F.logical_or(*hits) if len(hits) > 1 else hits[0]
    loss = F.sum(F.select(either, F.exp(wide), 0.0)) + F.sum(F.select(hits[0], F.exp(narrow), 0.0))
    g, h = gradient(loss, [x, y])
    program = Program({}, ((x, x - 0.001 * g), (y, y - 0.001 * h)))
    options = PlanOptions(rematerialize=False, cache_static=False)
    cost = weighing(CPU, lanes=1, fetch=8.0, store=8.0, stage=stage)
    plan = build_plan(program, DeviceLimits(), shader_text, options, cost)
    first, second = (s for s in plan.sub_stages if isinstance(s.work, substage.Scatter))
    assert wave in {*first.outputs} and wave in {r.variable for r in second.reads}
    assert not sparse_of(first).fill
    assert [len(sparse_of(s).blocks.quiet) for s in (first, second)] == looked_at
    assert (sparse_of(first).blocks is sparse_of(second).blocks) == (len(faces) == 1)
    found = []
    for some in (options, replace(options, without=DENSE.without)):
        with VulkanExecutor(program, device, cost=cost, options=some) as run:
            run.run(3)
            run.wait()
            found.append([run.recv(leaf) for leaf, _ in program.updates])
    for a, b in zip(*found, strict=True):
        assert (a == b).all()


def test_a_list_of_several_rasters_leaves_out_those_that_do_not_matter(device):
    """Work under either of two small rasters does not run wherever a large one hits."""
    size = (40, 24)
    large, *small = (triangle(s, depth=d) for s, d in ((9.0, 0.5), (0.3, 0.4), (0.5, 0.2)))
    x = Variable(FLOAT, name="x", data=np.full((1, 1, 1), 0.3))
    wave = F.exp(F.sin(F.to_float(F.linear_index(size)) * x))
    edge = F.select(F.logical_or(*(F.greater_equal(face, 0) for face in small)), wave * wave, 0.25)
    program = Program({"edge": edge, "large": large}, ((x, x * 1.01),))
    plan, sparse = results(program, device, options=PlanOptions(**STORED))
    _, dense = results(program, device, options=replace(DENSE, **STORED))
    (made,) = (s for s in plan.sub_stages if edge in {*s.outputs})
    assert set(sparse_of(made).blocks.decided_by) == set(small)
    for a, b in zip(sparse, dense, strict=True):
        assert (a == b).all()


def test_what_is_only_read_on_blocks_does_not_keep_a_shader_dense():
    """Most values of a lit material are not known outside; the residual alone is made everywhere."""
    size, texels = (256, 256), (32, 32)
    albedo = Variable(VEC3, texels, name="albedo")
    both = Variable(VEC2, texels, name="metallic and roughness")
    matrices = matrices_leaf(ring(np.zeros(3), 1.0, 2, size).matrices)
    given = {"texture": albedo, "material": {"metallic_roughness": both}}
    light = Environment(np.ones((8, 16, 3)))
    shown = render(cube(), matrices, size=size, light=light, form="hard", filter="trilinear", **given).colour
    target = Variable(VEC3, size, 2, name="target")
    found = gradient(F.sum(F.sum_components(F.square(shown - target))), [albedo, both])
    program = simplify(
        Program(
            {"residual": shown - target},
            tuple((v, v - g) for v, g in zip((albedo, both), found, strict=True)),
        )
    )
    step = build_plan(program, DeviceLimits(), shader_text).step.sub_stages
    work = [
        s
        for s in step
        if s.domain.size == size and not isinstance(s.work, (substage.Raster, substage.ListBlocks))
    ]
    dense = [s for s in work if not sparse_of(s)]
    assert len(work) > 2 and max(len(s.functions) for s in dense) <= 2


def test_layers_of_one_mesh_share_a_list():
    """What a later layer keeps, the first keeps too; a layer that keeps more is looked at itself."""
    position = Variable(VEC4, (9, 1), data=np.zeros((1, 1, 9, 4)))
    depth = Variable(FLOAT, (3, 1), data=np.zeros((1, 1, 3)))

    def layer(keep):
        return F.rasterize(position, size=(16, 16), fragment=lambda face: (F.lookup(depth, face), keep(face)))

    def image(face):
        return F.select(face < 0, 0.0, F.sin(F.to_float(face)))

    first = layer(lambda face: face < 2)
    peeled = layer(lambda face: F.logical_and(face > first, face < 2))
    wider = layer(lambda face: face < 3)
    x = Variable(FLOAT, name="x", data=np.ones((1, 1, 1)))
    for other, masks in ((peeled, [first]), (wider, [first, wider])):
        # Read at other pixels: both images are made by one SubStage and do not join their readers.
        outputs = {"a": F.shift(image(first) * x, 1, 0), "b": F.shift(image(other) * x, 1, 0)}
        sub_stages = plan_of(Program(outputs, ((x, x + 1.0),)), **STORED)
        (blocks,) = {found.blocks for s in sub_stages if (found := sparse_of(s))}
        assert [v for v, _ in blocks.quiet] == masks


def test_the_face_form_works_where_its_faces_are():
    """Also the rows of windows in which it looks for hard pixels, around the active pixels."""
    position, faces = (Variable(t, (40, 1), name=name) for t, name in ((VEC4, "position"), (IVEC3, "faces")))
    size = (512, 512)
    drawn = hard_soft_ras(position, faces, size=size, radius=0.01, face_count=40)
    target = Variable(FLOAT, size, name="target")
    (slope,) = gradient(F.sum(F.square(drawn.silhouette - target)), [position])
    program = simplify(Program({}, ((position, position - slope),)))
    sub_stages = build_plan(program, DeviceLimits(), shader_text).sub_stages
    work = [
        s
        for s in sub_stages
        if s.domain.size == size and not isinstance(s.work, (substage.Raster, substage.ListBlocks))
    ]
    assert len(work) > 2 and all(sparse_of(s) for s in work)


def test_only_where_it_pays():
    face = triangle(1.0)
    x = Variable(FLOAT, name="x", data=np.ones((1, 1, 1)))
    program = Program({"image": F.select(face < 0, 0.0, x)}, ((x, x + 1.0),))
    for options in (PlanOptions(), DENSE):
        stages = build_plan(program, DeviceLimits(), shader_text, options).sub_stages
        assert not any(sparse_of(s) for s in stages)
    assert any(sparse_of(s) for s in plan_of(program))
    assert not any(sparse_of(s) for s in plan_of(program, without=DENSE.without))
