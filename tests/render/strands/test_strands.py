"""Strands and points: areas against supersampling, derivatives against differences of the picture, devices against NumPy."""

import numpy as np
import pytest

from dressi import DressiAD, adam
from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.ops.sums.accumulate import FragmentScatter
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, VEC3
from dressi.config import shader_text
from dressi.errors import InputError
from dressi.render.mesh import primitives
from dressi.render.strands.area import half_plane, ribbon_area
from dressi.render.strands.curves import curves, wireframe
from dressi.render.strands.draw import draw_strands
from dressi.render.strands.geometry import PointGeometry, StrandGeometry
from dressi.render.strands.point import KajiyaKay
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.lowering.face_sum import FaceSum
from dressi.vk.plan.model.records import CPU, SWIFTSHADER
from dressi.vk.planning import PlanningEngine

SIZE = (20, 16)
PIXELS = np.array([[2 / 20, 0, 0, -1], [0, 2 / 16, 0, -1], [0, 0, 1e-3, 0.5], [0, 0, 0, 1.0]])
"""World coordinates are pixels."""
LINE = np.array([[3.2, 4.1, 0], [8.3, 6.2, 0], [16.1, 11.4, 0]])


def supersampled(points: np.ndarray, radius: float, samples: int, size: tuple[int, int]) -> np.ndarray:
    x, y = ((np.arange(n * samples) + 0.5) / samples for n in size)
    places = np.stack(np.meshgrid(x, y), -1)
    inside = np.zeros(places.shape[:2], bool)
    for a, b in zip(points[:-1, :2], points[1:, :2], strict=True):
        u = b - a
        along = np.clip((places - a) @ u / (u @ u), 0, 1)
        inside |= ((places - a - along[..., None] * u) ** 2).sum(-1) < radius**2
    return inside.reshape(size[1], samples, size[0], samples).mean((1, 3))


@pytest.mark.parametrize("width, scale, samples", [(0.05, 0.3, 256), (0.7, 1.0, 64), (3.0, 1.0, 32)])
def test_a_strand_covers_its_area(width, scale, samples):
    points, seen = LINE * scale, (int(20 * scale), int(16 * scale))
    strand = StrandGeometry(points, radius=0.5 * width, unit="pixels")
    (found,) = evaluate([draw_strands(strand, PIXELS, size=SIZE).mask])
    truth = supersampled(points, 0.5 * width, samples, seen)
    error = np.abs(found[0, : seen[1], : seen[0]] - truth).sum() / truth.sum()
    assert error < 0.006


def test_two_points_of_a_variable_are_a_strand():
    points = Variable.of(LINE[:2], VEC3)
    own, other = (
        evaluate([draw_strands(StrandGeometry(p), PIXELS, size=SIZE).mask])[0] for p in (points, LINE[:2])
    )
    np.testing.assert_allclose(own, other, atol=1e-6)


def test_the_area_of_a_half_plane_is_that_of_a_ribbon_that_ends_there():
    rng = np.random.default_rng(3)
    place, angle = rng.uniform(-0.5, 0.5, (9, 2)), rng.uniform(0, 2 * np.pi, 9)
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    left = np.stack([along[:, 1], -along[:, 0]], axis=1)
    start = Variable.of(np.column_stack([place, 9 * along]))
    end = Variable.of(np.column_stack([place + 9 * left, 9 * along]))
    (half,) = evaluate([half_plane(Variable.of(place), Variable.of(along))])
    (area,) = evaluate([ribbon_area(start, end)])
    np.testing.assert_allclose(half, np.abs(area), atol=2e-4)


def scene(**options) -> tuple[StrandGeometry, list[Variable]]:
    deep = LINE + np.arange(3)[:, None] * (0, 0, 1)
    points = Variable.of(np.concatenate([deep, deep[:, [1, 0, 2]] + (2, 0, 4)]))
    radius = Variable.of(np.linspace(0.2, 1.3, 6))
    rng = np.random.default_rng(4)
    strands = StrandGeometry(
        points, [0, 3, 6], radius, rng.uniform(size=(6, 3)), 0.9, unit="pixels", **options
    )
    return strands, [points, radius]


@pytest.mark.parametrize("layers", [None, 4])
def test_derivatives_are_those_of_the_picture(layers):
    strands, leaves = scene(caps="round" if layers is None else "flat")
    picture = draw_strands(strands, PIXELS, size=SIZE, layers=layers)
    weight = Variable.of(np.random.default_rng(1).uniform(size=(SIZE[1], SIZE[0], 3)))
    loss = F.sum(F.dot(picture.over((0.1, 0.2, 0.3)), weight))
    slopes = evaluate(gradient(loss, leaves))
    for leaf, slope in zip(leaves, slopes, strict=True):
        step = np.random.default_rng(2).normal(size=leaf.shape) * 1e-4
        high, low = (evaluate([loss], {leaf: leaf.data + k * step})[0].item() for k in (1, -1))
        np.testing.assert_allclose((slope * step).sum() * 2, high - low, rtol=0.01)


def test_devices_compute_what_numpy_does(device):
    strands, leaves = scene()
    picture = draw_strands(strands, PIXELS, size=SIZE, shader=KajiyaKay((0.0, 0.3, 1.0)))
    loss = F.mean(F.square(F.length(picture.over(0.5))))
    images = [picture.mask, picture.colour, picture.depth, *gradient(loss, leaves)]
    with DressiAD(device) as ad:
        for k, image in enumerate(images):
            ad.set_output(str(k), image)
        ad.step()
        for k, truth in enumerate(evaluate(images)):
            found = ad.recv(str(k)).reshape(truth.shape)
            np.testing.assert_allclose(found, truth, atol=2e-4 * max(1e-3, np.abs(truth).max()) + 2e-6)


def test_points_are_discs(device):
    cloud = PointGeometry(
        [[6.3, 7.1, 0], [13.2, 8.4, 0]], [1.7, 0.3], [[1.0, 0, 0], [0, 1, 0]], unit="pixels"
    )
    with DressiAD(device) as ad:
        ad.set_output("colour", draw_strands(cloud, PIXELS, size=SIZE).colour)
        ad.step()
        found = ad.recv("colour").sum((0, 1, 2))
    np.testing.assert_allclose(found, [np.pi * 1.7**2, np.pi * 0.3**2, 0], rtol=2e-3, atol=1e-6)


def test_what_stands_in_front_hides_strands():
    strand = StrandGeometry(LINE, radius=0.5, unit="pixels")
    limit = Variable.of(np.where(np.arange(SIZE[0]) < 9, 0.0, 1.0) * np.ones((SIZE[1], 1)))
    mask = evaluate([draw_strands(strand, PIXELS, size=SIZE, limit=limit).mask])[0][0]
    assert mask[:, :9].max() == 0 and mask[:, 9:].max() > 0.4


@pytest.mark.release
@pytest.mark.one_driver
def test_layers_hold_what_sums_do(device):
    strands, _ = scene()
    with DressiAD(device) as ad:
        for name, layers in (("sums", None), ("layers", 8)):
            ad.set_output(name, draw_strands(strands, PIXELS, size=SIZE, layers=layers).mask)
        ad.step()
        np.testing.assert_allclose(ad.recv("layers"), ad.recv("sums"), atol=1e-3)


def test_edges_and_curves():
    cube = primitives.cube()
    assert wireframe(cube).strands == 18
    smooth = curves(StrandGeometry(LINE, radius=[0.1, 0.2, 0.1]), pieces=4)
    np.testing.assert_allclose(smooth.points[::4], LINE)
    assert smooth.radius.max() == 0.2
    handles = np.concatenate([LINE, LINE[::-1] + 3.0, LINE[:1]])
    bent = curves(StrandGeometry(handles, radius=np.arange(7.0)), pieces=4, kind="bezier")
    np.testing.assert_allclose(bent.points[::4], handles[::3])
    np.testing.assert_allclose(bent.points[2], [1, 3, 3, 1] @ handles[:4] / 8)
    assert bent.radius[2] == 1.5
    moving = curves(StrandGeometry(Variable.of(LINE, VEC3)), pieces=4)
    np.testing.assert_allclose(evaluate([moving.points])[0].reshape(-1, 3), smooth.points, atol=1e-6)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: StrandGeometry(np.zeros((3, 3)), [0, 2, 3], name="fur"), "strand 1 of 'fur' has 1 point"),
        (lambda: StrandGeometry(np.zeros((3, 3)), [0, 2]), "run from 0 to 3"),
        (lambda: StrandGeometry(np.full((2, 3), np.nan)), "points 0 of 'strands' is NaN"),
        (lambda: StrandGeometry(np.zeros((2, 3)), radius=-1), "radius 0 of 'strands' is -1"),
        (lambda: PointGeometry(np.zeros((2, 3)), opacity=[0.5, 2]), "opacity 1 of 'points' is 2"),
        (lambda: draw_strands(PointGeometry(np.zeros((2, 3))), PIXELS), "need a size"),
        (lambda: curves(StrandGeometry(LINE), kind="spline"), "one of catmull_rom"),
        (lambda: curves(StrandGeometry(LINE), kind="bezier"), "strand 0 of 'strands' has 3 points; cubic"),
    ],
)
def test_bad_input_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make()


def test_depths_do_not_jump_where_a_strand_begins():
    """They begin at 0 as the mask does, and the derivative of a loss is that of its difference."""
    radius = Variable(FLOAT, (1, 1), name="radius")
    picture = draw_strands(StrandGeometry(LINE + (0, 0, 200), radius=radius), PIXELS, size=SIZE)
    loss = F.sum(F.square(picture.depth - 0.3))
    images = [loss, *gradient(loss, [radius]), picture.mask, picture.depth, picture.distance]
    _, slope, mask, depth, distance = evaluate(images, {radius: np.full((1, 1, 1), 0.8)})
    begins = (mask > 0) & (mask < 0.02)
    assert begins.any() and depth[begins].max() < 0.02 and distance[begins].max() > 0.6
    ends = [evaluate([loss], {radius: np.full((1, 1, 1), 0.8 + h)})[0].item() for h in (1e-5, -1e-5)]
    assert slope.item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3)


def test_a_radius_that_reached_zero_comes_back():
    """Of strands and of points: nothing is seen, also below 0, and the derivative is not 0."""
    radius = Variable(FLOAT, (1, 1), name="radius")
    for shape in (StrandGeometry(LINE * 0.2, radius=radius), PointGeometry(LINE * 0.2, radius=radius)):
        mask = draw_strands(shape, size=(24, 24)).mask
        for value in (0.0, -0.01):
            at, slope = evaluate(
                [mask, *gradient(F.mean(mask), [radius])], {radius: np.full((1, 1, 1), value)}
            )
            assert not at.any() and slope.item() > 0


@pytest.mark.parametrize("model", [CPU, SWIFTSHADER])
def test_gradients_of_many_strands_are_sums_over_their_segments(model):
    """Twelve scatters share most of what they compute: counted once each, they seemed dearer than draws that add one by one.
    SwiftShader took minutes to compile all of them in one loop."""
    places = np.random.default_rng(1).uniform(0, 60, (2000, 16, 2)).cumsum(1) % 512
    points = Variable.of(
        np.concatenate([places, np.zeros((2000, 16, 1))], 2).reshape(-1, 3), VEC3, name="points"
    )
    strands = StrandGeometry(points, range(0, 32001, 16), radius=0.01)
    matrix = np.diag([2 / 512, 2 / 512, 1e-3, 1.0])
    matrix[:, 3] = -1, -1, 0.5, 1
    picture = draw_strands(strands, matrix, size=(512, 512), shader=KajiyaKay((0.3, 1, 1))).over(
        (1.0, 1.0, 1.0)
    )
    engine = PlanningEngine(PROFILES["lavapipe"], model, shader_text)
    engine.set_loss(F.mean(F.square(F.length(picture))))
    engine.set_optimizer(adam(1e-3), [points])
    functions = engine.plan.program.functions
    assert not any(isinstance(f, FragmentScatter) for f in functions)
    visits = [f.fragment for f in functions if isinstance(f, FaceSum)]
    assert visits and all(len(v.functions) <= model.loop_body for v in visits)
