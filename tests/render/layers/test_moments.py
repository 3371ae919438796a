"""Moments of absorbance: the transmittance that they give, by the definition, and pictures against sorted ones."""

import numpy as np

from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC4, list_image
from dressi.render.layers.moments import BIAS, OWN, SPREAD, transmittance_before

RNG = np.random.default_rng(4)
COUNT = 60


def absorbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(totals, moments (N, 4), depths at which they are asked) of one to six layers each."""
    totals, moments = [], []
    for k in range(COUNT):
        a, z = RNG.uniform(0.1, 1.5, size=1 + k % 6), RNG.uniform(-1, 1, size=1 + k % 6)
        totals.append(a.sum())
        moments.append([(a * z**n).sum() / a.sum() for n in range(1, 5)])
    return np.array(totals), np.array(moments), RNG.uniform(-1, 1, size=COUNT)


def by_definition(total: float, moments: np.ndarray, z: float) -> float:
    """From the distribution of three points, one of which is z, with these moments."""
    b = np.array([1, *(moments * (1 - BIAS) + np.array(SPREAD) * BIAS)])
    kernel = np.linalg.solve(np.array([b[k : k + 3] for k in range(3)]), [1, z, z * z])
    points = np.array([z, *np.roots(kernel[::-1]).real])
    weights = np.linalg.solve(np.vander(points, 3, increasing=True).T, b[:3])
    np.testing.assert_allclose([(weights * points**k).sum() for k in range(5)], b, atol=1e-6)
    return np.exp(-total * (OWN * weights[0] + weights[1:][points[1:] < z].sum()))


def leaves(total: np.ndarray, moments: np.ndarray, depth: np.ndarray) -> list[Variable]:
    return [
        Variable(FLOAT, (COUNT, 1), name="total", data=list_image(total)),
        Variable(VEC4, (COUNT, 1), name="moments", data=list_image(moments)),
        Variable(FLOAT, (COUNT, 1), name="depth", data=list_image(depth)),
    ]


def test_transmittance_is_that_of_the_three_points():
    given = absorbers()
    (found,) = evaluate([transmittance_before(*leaves(*given))])
    expected = [by_definition(*one) for one in zip(*given, strict=True)]
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-6)


def test_transmittance_lies_between_what_is_before_and_behind():
    """Of two absorbers: nothing is before the first, all before what lies far behind."""
    z = np.array([-0.5, 0.4])
    moments = np.tile([(z**n).mean() for n in range(1, 5)], (COUNT, 1))
    depth = np.linspace(-0.99, 0.99, COUNT)
    (found,) = evaluate([transmittance_before(*leaves(np.full(COUNT, 2.0), moments, depth))])
    found = found.ravel()
    assert (np.diff(found) <= 1e-9).all()
    np.testing.assert_allclose(found[[0, -1]], [1, np.exp(-2)], atol=0.01)
    between = found[(depth > -0.4) & (depth < 0.3)]
    np.testing.assert_allclose(between, np.exp(-1), atol=0.01)


def test_derivatives():
    """Of three layers and more: the moments of one or two lie on the border of what is possible, where only BIAS holds them."""
    given = leaves(
        *(np.where((np.arange(COUNT) % 6 < 2)[(..., *[None] * (x.ndim - 1))], x[5], x) for x in absorbers())
    )
    assert check_gradient(transmittance_before(*given), given, step=1e-7) < 1e-3
