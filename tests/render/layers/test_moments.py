"""Moments of absorbance: the transmittance that they give, by the definition, and pictures against sorted ones."""

import glass_cases as gc
import numpy as np
import pytest

from dressi import adam
from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient, total
from dressi.ad.types import FLOAT, VEC3, VEC4, list_image
from dressi.config import shader_text
from dressi.render.forms.hard import HARD
from dressi.render.layers.absorbance import BIAS, OWN, SPREAD, share_before
from dressi.render.layers.moments import summed_layers
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine

RNG = np.random.default_rng(4)
COUNT = 60


def absorbers() -> tuple[np.ndarray, np.ndarray]:
    """(moments (N, 4), depths at which they are asked) of one to six layers each."""
    moments = []
    for k in range(COUNT):
        a, z = RNG.uniform(0.1, 1.5, size=1 + k % 6), RNG.uniform(-1, 1, size=1 + k % 6)
        moments.append([(a * z**n).sum() / a.sum() for n in range(1, 5)])
    return np.array(moments), RNG.uniform(-1, 1, size=COUNT)


def by_definition(moments: np.ndarray, z: float) -> float:
    """From the distribution of three points, one of which is z, with these moments."""
    b = np.array([1, *(moments * (1 - BIAS) + np.array(SPREAD) * BIAS)])
    kernel = np.linalg.solve(np.array([b[k : k + 3] for k in range(3)]), [1, z, z * z])
    points = np.array([z, *np.roots(kernel[::-1]).real])
    weights = np.linalg.solve(np.vander(points, 3, increasing=True).T, b[:3])
    np.testing.assert_allclose([(weights * points**k).sum() for k in range(5)], b, atol=1e-6)
    return OWN * weights[0] + weights[1:][points[1:] < z].sum()


def leaves(moments: np.ndarray, depth: np.ndarray) -> list[Variable]:
    return [
        Variable(VEC4, (COUNT, 1), name="moments", data=list_image(moments)),
        Variable(FLOAT, (COUNT, 1), name="depth", data=list_image(depth)),
    ]


def test_share_is_that_of_the_three_points():
    given = absorbers()
    (found,) = evaluate([share_before(*leaves(*given))])
    expected = [by_definition(*one) for one in zip(*given, strict=True)]
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-6)


def test_share_lies_between_what_is_before_and_behind():
    """Of two absorbers: nothing is before the first, all before what lies far behind."""
    z = np.array([-0.5, 0.4])
    moments = np.tile([(z**n).mean() for n in range(1, 5)], (COUNT, 1))
    depth = np.linspace(-0.99, 0.99, COUNT)
    (found,) = evaluate([share_before(*leaves(moments, depth))])
    found = found.ravel()
    assert (np.diff(found) >= -1e-9).all()
    np.testing.assert_allclose(found[[0, -1]], [0, 1], atol=0.01)
    between = found[(depth > -0.4) & (depth < 0.3)]
    np.testing.assert_allclose(between, 0.5, atol=0.01)


def test_derivatives():
    """Of three layers and more: the moments of one or two lie on the border of what is possible, where only BIAS holds them."""
    given = leaves(
        *(np.where((np.arange(COUNT) % 6 < 2)[(..., *[None] * (x.ndim - 1))], x[5], x) for x in absorbers())
    )
    assert check_gradient(share_before(*given), given, step=1e-7) < 1e-3


SCENE = gc.glass()
TRUTH, COUNTS = gc.sorted_picture(SCENE)


def picture(scene: gc.Glass) -> tuple[gc.Drawn, Variable]:
    """The panes by moments, over the opaque quad and the background; and the leaves."""
    made = gc.drawn(scene, HARD, layers=1)

    def shade(surface):
        alpha = F.lookup(made.alphas, surface.face)
        return F.lookup(made.colours, surface.face) * alpha, F.vec3(1.0 - alpha)

    mesh = made.layers.peeled.mesh
    colour, clear = summed_layers(mesh, 2, shade)
    solid = made.layers.peeled.solid
    behind = F.select(F.greater_equal(solid, 0), F.lookup(made.colours, solid), tuple(gc.BACKGROUND))
    return made, colour + clear * behind


def check_error(found: np.ndarray) -> None:
    """Mean error under 2 % of the sorted picture where panes are; next to nothing where there is one."""
    error, there = np.abs(found - TRUTH), COUNTS > 0
    assert error[there].sum() <= 0.02 * TRUTH[there].sum(), error[there].sum() / TRUTH[there].sum()
    assert error[COUNTS > 2].sum() <= 0.02 * TRUTH[COUNTS > 2].sum()


def test_picture_is_nearly_the_sorted_one():
    found = evaluate([picture(SCENE)[1]])[0][0]
    check_error(found)
    np.testing.assert_allclose(found[COUNTS <= 1], TRUTH[COUNTS <= 1], atol=1e-6)


def test_gradient_is_the_central_difference_of_its_own_picture():
    made, image = picture(SCENE)
    error = image - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    loss = F.sum(F.dot(error, error))
    leaves = [made.position, made.colours, made.alphas]
    slopes = evaluate(gradient(loss, leaves))
    for leaf, slope in zip(leaves, slopes, strict=True):
        direction = np.random.default_rng(1).normal(size=leaf.shape)
        ends = [evaluate([loss], {leaf: leaf.data + h * direction})[0].item() for h in (1e-8, -1e-8)]
        assert (
            abs((ends[0] - ends[1]) / 2e-8 - (slope * direction).sum())
            <= 1e-3 * np.abs(slope * direction).sum()
        )


@pytest.mark.release
@pytest.mark.vk
def test_drivers_draw_it(run):
    made, image = picture(SCENE)
    loss = F.mean(F.dot(image, image))
    outputs = [image, *gradient(loss, [made.colours, made.alphas, made.position])]
    (found, *slopes), (expected, *truths) = run(outputs), evaluate(outputs)
    clear = gc.clear(SCENE)
    np.testing.assert_allclose(found[0][clear], expected[0][clear], atol=3e-3)
    for slope, truth in zip(slopes, truths, strict=True):
        assert np.abs(slope - truth).max() <= 0.05 * np.abs(truth).max()


@pytest.mark.vk
def test_a_draw_may_read_more_images_than_a_pass_has_attachments(run):
    """As gradients of sums over fragments do by an alpha and two matrices: it cannot be a dispatch, and cannot be split."""
    size = (6, 5)
    triangle = Variable(VEC4, (3, 1), data=np.array([[[(-1.0, -1, 0, 1), (3, -1, 0, 1), (-1, 3, 0, 1)]]]))
    images = [Variable(FLOAT, size, data=RNG.uniform(size=(1, 5, 6))) for _ in range(13)]
    squares = [F.square(x) for x in images]

    def value(face, depth):
        return total([x * float(k + 1) for k, x in enumerate(squares)]) * (F.to_float(face) + 1.0)

    (found,) = run([F.accumulate(triangle, size=size, value=value)])
    truth = sum((k + 1) * x.data**2 for k, x in enumerate(images))
    np.testing.assert_allclose(found, truth, rtol=1e-5)
    for name in ("mali_g76", "minimum"):
        engine = PlanningEngine(PROFILES[name], CPU, shader_text)
        engine.set_loss(F.sum(F.accumulate(triangle, size=size, value=lambda f, z: value(f, z) * z)))
        engine.set_optimizer(adam(1e-3), images)
        assert engine.plan.stages
