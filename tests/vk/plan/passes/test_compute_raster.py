"""Draws by dispatches: the winners and the sums of the draw and of the oracle, whatever the triangles are."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, IVEC3, VEC4, F, PlanOptions, Variable
from dressi.ad.graph import AccumulateFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.config import shader_text
from dressi.vk.plan import compiler
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.accumulators import accumulators_of
from dressi.vk.plan.core.substage import ComputeRaster, ComputeSum, Visit
from dressi.vk.plan.model.records import DATA_CENTRE
from dressi.vk.run.execution.executor import VulkanExecutor


@pytest.fixture(autouse=True, scope="module")
def rasters_are_dispatches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "JUDGED", frozenset())
        yield


def soup(count: int, spread: float, batch: int = 1, seed: int = 0) -> np.ndarray:
    """Triangles with corners at all depths from before the near plane to behind the far one: (batch, 1, 3 count, 4)."""
    random = np.random.default_rng(seed)
    w = random.uniform(0.5, 2, (batch, count, 3, 1))
    xy = random.uniform(-1, 1, (batch, count, 1, 2)) + random.normal(size=(batch, count, 3, 2)) * spread
    z = random.uniform(-0.1, 1.1, (batch, count, 3, 1))
    return (np.concatenate([xy, z, np.ones_like(z)], axis=-1) * w).reshape(batch, 1, -1, 4)


def around_the_eye(count: int, seed: int = 1) -> np.ndarray:
    """Triangles in front of, behind and through the eye of a perspective camera."""
    x, y, z = np.moveaxis(np.random.default_rng(seed).normal(0, 2, (1, 1, 3 * count, 3)), -1, 0)
    near, far = 0.1, 10.0
    return np.stack([x, y, far * (z - near) / (far - near), z], axis=-1)


def grid(cells: int) -> np.ndarray:
    """A sheet of squares of two triangles each, turned and tilted: all inner edges are shared."""
    u, v = np.meshgrid(np.linspace(-0.8, 0.8, cells + 1), np.linspace(-0.8, 0.8, cells + 1))
    points = np.stack([u * 0.8 - v * 0.6, u * 0.6 + v * 0.8, 0.5 + 0.3 * u], axis=-1)
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, :-1], points[1:, 1:]
    corners = np.stack([a, b, c, b, d, c], axis=2).reshape(1, 1, -1, 3)
    return np.concatenate([corners, np.ones((*corners.shape[:3], 1))], axis=-1)


SCENES = {
    "one": (soup(1, 1.0), (16, 12)),
    "soup of two images": (soup(60, 0.3, 2), (40, 29)),
    "small": (soup(900, 0.02), (130, 70)),
    "needles": (soup(80, 0.5) * [1, 0.01, 1, 1] + [0, 0.3, 0, 0], (64, 64)),
    "around the eye": (around_the_eye(80), (64, 48)),
    "sheet": (grid(23), (96, 96)),
    "large": (soup(2, 3.0), (300, 280)),
}


def winners(
    program: Program, device, kind: type[Visit] = ComputeRaster, *without: str
) -> list[list[np.ndarray]]:
    """Outputs by a dispatch and by a draw."""
    made = []
    for left_out in ((), ("rasterize_in_compute",)):
        options = PlanOptions(without=(*left_out, *without))
        with VulkanExecutor(program, device, options=options, cost=DATA_CENTRE) as run:
            kinds = [isinstance(s.work, kind) for s in run.plan.sub_stages]
            assert any(kinds) == (not left_out)
            run.run(2)
            made.append([run.recv(v) for v in program.outputs.values()])
    return made


@pytest.mark.parametrize("scene", SCENES)
def test_winners_are_those_of_the_oracle(device, scene):
    corners, size = SCENES[scene]
    ids = F.rasterize(Variable(VEC4, (corners.shape[2], 1), len(corners), data=corners), size=size)
    (dispatched,), (drawn,) = winners(Program({"ids": ids}), device)
    (expected,) = evaluate([ids])
    assert (dispatched >= 0).any()
    # Devices round corners to 1/256 of a pixel: a few centres beside an edge change sides, in a draw as in a dispatch.
    assert (dispatched != expected).mean() <= max((drawn != expected).mean() + 0.002, 0.002)
    if scene == "sheet":
        inside = expected >= 0
        hole = inside & (dispatched < 0)
        edge = (
            ~inside
            | ~np.roll(inside, 1, 1)
            | ~np.roll(inside, -1, 1)
            | ~np.roll(inside, 1, 2)
            | ~np.roll(inside, -1, 2)
        )
        assert not (hole & ~edge).any(), "neighbours leave no pixel out"


def test_of_equal_depths_the_lower_number_wins(device):
    corners = np.repeat(soup(1, 1.0) * [1, 1, 0, 1] + [0, 0, 0.5, 0], 70, axis=1).reshape(1, 1, -1, 4)
    ids = F.rasterize(Variable(VEC4, (corners.shape[2], 1), data=corners), size=(20, 20))
    for made in winners(Program({"ids": ids}), device):
        assert set(np.unique(made[0])) == {-1, 0}


def test_masks_fragments_and_what_follows_from_the_winner(device):
    """A mask of faces as a list, faces of two triangles by corners, a depth and a discard of their own, and values of the winner."""
    corners = grid(9)[0, 0]
    points, faces = np.unique(corners.round(9), axis=0, return_inverse=True)
    count = len(faces) // 6
    live = Variable(FLOAT, (count, 1), 2, data=np.random.default_rng(3).integers(0, 2, (2, 1, count)))
    shade = Variable(FLOAT, (count, 1), data=np.arange(count)[None, None] * 0.01 + 0.1)
    position = Variable(VEC4, (len(points), 1), data=points[None, None])
    indices = Variable(IVEC3, (len(faces) // 3, 1), data=faces.reshape(1, 1, -1, 3))

    def fragment(face):
        own = F.lookup(shade, F.ivec2(face, 0))
        return own, F.select(F.less(own, 0.15), 0.0, 1.0)

    ids = F.rasterize(
        position, indices, size=(48, 40), triangles_per_face=2, live=live * 1.0, fragment=fragment
    )
    color = F.select(F.less(ids, 0), -1.0, F.lookup(shade, F.ivec2(ids, 0)) * 2.0)
    program = Program({"ids": ids, "color": color})
    dispatched, drawn = winners(program, device)
    expected = evaluate([ids, color])
    assert (expected[0] >= 0).mean() > 0.1
    for a, b, c in zip(dispatched, drawn, expected, strict=True):
        far = ~np.isclose(b, c, atol=1e-5)
        assert (~np.isclose(a, c, atol=1e-5)).mean() <= far.mean() + 0.002


def test_devices_without_long_atomics_visit_faces_twice(device):
    corners, size = SCENES["soup of two images"]
    ids = F.rasterize(Variable(VEC4, (corners.shape[2], 1), len(corners), data=corners), size=size)
    made = []
    for limits in (device.limits, replace(device.limits, int64_atomics=False)):
        with VulkanExecutor(Program({"ids": ids}), device, cost=DATA_CENTRE, limits=limits) as run:
            run.run(2)
            made.append(run.recv(ids))
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    "scene, channels", (("soup of two images", 4), ("small", 1), ("needles", 3), ("around the eye", 4))
)
def test_sums_over_fragments_are_those_of_the_oracle(device, scene, channels):
    """Fragments that read a list and an image at their pixel, by a mask that a list is made of, of all magnitudes."""
    corners, size = SCENES[scene]
    count, batch = corners.shape[2] // 3, len(corners)
    random = np.random.default_rng(4)
    live = Variable(FLOAT, (count, 1), batch, data=random.integers(0, 4, (batch, 1, count)) > 0)
    scale = Variable(FLOAT, (count, 1), data=10.0 ** random.uniform(-3, 9, (1, 1, count)))
    limit = Variable(FLOAT, size, batch, data=random.uniform(0, 1, (batch, *size[::-1])))

    def value(face, depth):
        own = F.lookup(scale, F.ivec2(face, 0))
        at = F.to_float(F.pixel_coordinates(size))
        parts = [own, own * at.x, own - at.y, own * depth][:channels]
        made = parts[0] if channels == 1 else (F.vec3 if channels == 3 else F.vec4)(*parts)
        return made, F.less(depth, limit)

    position = Variable(VEC4, (corners.shape[2], 1), batch, data=corners)
    total = F.accumulate(position, size=size, value=value, live=live * 1.0)
    (expected,) = evaluate([total])
    (dispatched,), (drawn,) = winners(Program({"sum": total}), device, ComputeSum)
    assert np.abs(expected).max() > 1e3

    def far(made):  # depths follow from rounded corners
        return (~np.isclose(made, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).mean())).mean()

    assert far(dispatched) <= far(drawn) + 0.002
    little = PlanOptions(memory=1 << 22)
    plan = build_plan(Program({"sum": total}), device.limits, shader_text, little, DATA_CENTRE)
    assert isinstance(total.creator, AccumulateFunction)
    held = 4 * accumulators_of(total.creator).words
    assert any(isinstance(s.work, ComputeSum) for s in plan.sub_stages) == (4 * held <= little.memory)
    small = replace(device.limits, max_storage_buffer_bytes=1 << 17, int64_atomics=False)
    with VulkanExecutor(Program({"sum": total}), device, cost=DATA_CENTRE, limits=small) as run:
        assert any(len(made.bands) > 1 for made in run.plan.shaders.values())
        run.run(2)
        np.testing.assert_array_equal(run.recv(total), dispatched)


def test_sums_at_other_texels_are_those_of_the_oracle(device):
    """Fragments that add to a table, and the work that follows from it."""
    corners, size = SCENES["small"]
    count = corners.shape[2] // 3
    position = Variable(VEC4, (corners.shape[2], 1), data=corners)
    weight = Variable(FLOAT, size, data=np.random.default_rng(5).uniform(-1, 1, (1, *size[::-1])))
    colour = Variable(FLOAT, (count, 1), data=np.random.default_rng(6).uniform(0, 1, (1, 1, count)))
    total = F.accumulate(position, size=size, value=lambda face, _: F.lookup(colour, F.ivec2(face, 0)))
    slope = gradient(F.sum(F.square(total * weight)), [colour])[0] * 2.0
    (expected,) = evaluate([slope])
    made = winners(Program({"slope": slope}), device, ComputeSum, "sum_by_faces", "gather_at_lists")
    dispatched, drawn = ((~np.isclose(values, expected, rtol=1e-3, atol=0.01)).mean() for (values,) in made)
    assert dispatched <= max(drawn, 0.002)  # faces that have a pixel's centre on an edge
