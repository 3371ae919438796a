"""Sampling against a reference in NumPy, and what the gradient through the inverse UV table is."""

import numpy as np
import pytest
from texels import WRAP, bilinear

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, VEC2, VEC3

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("wrap", WRAP)
@pytest.mark.parametrize("batch", [1, 2])
def test_bilinear_sampling(wrap, batch):
    texture, uv = RNG.random((batch, 4, 6, 3)), RNG.uniform(-1.5, 2.5, (2, 5, 7, 2))
    out = F.sample(Variable(VEC3, (6, 4), batch, data=texture), Variable(VEC2, (7, 5), 2, data=uv), wrap=wrap)
    (found,) = evaluate([out])
    for tile in range(2):
        assert np.allclose(found[tile], bilinear(texture[tile % batch], uv[tile], wrap))


def test_texel_centres_and_corners():
    texture = Variable(FLOAT, (4, 2), data=np.arange(8.0).reshape(1, 2, 4))
    centres = (F.to_float(F.pixel_coordinates((4, 2))) + 0.5) / (4.0, 2.0)
    for filter in ("nearest", "bilinear"):
        assert np.array_equal(evaluate([F.sample(texture, centres, filter)])[0], texture.data)
    corner = Variable(VEC2, data=[0.0, 0.0])
    assert evaluate([F.sample(texture, corner, wrap="clamp")])[0] == 0
    assert evaluate([F.sample(texture, corner)])[0] == np.mean([0, 3, 4, 7])
    assert evaluate([F.sample(texture, (0.999, 0.999), "nearest")])[0] == 7


def test_the_texture_gets_the_sum_over_all_pixels():
    uv = Variable(VEC2, (16, 16), 2, data=RNG.random((2, 16, 16, 2)))
    texture = Variable(FLOAT, (4, 4), data=RNG.random((1, 4, 4)))
    (g,) = gradient(F.sum(F.sample(texture, uv)), [texture])
    assert evaluate([F.sum(g)])[0] == pytest.approx(2 * 16 * 16)


# ---- inverse UV
def jitters(n: int) -> np.ndarray:
    """The centres of n x n cells."""
    centres = (np.arange(n) + 0.5) / n
    return np.stack(np.meshgrid(centres, centres), -1).reshape(-1, 2)


def mean_gradient(texture, uv, mask, weight, points, **options) -> tuple[np.ndarray, np.ndarray]:
    """(exact gradient by the texture, mean over the jitter of the one through the table)."""
    jitter = Variable(VEC2)
    exact = gradient(F.sum(F.sample(texture, uv) * F.select(mask, weight, 0.0)), [texture])
    through = F.sample_inverse_uv(texture, uv, mask, jitter, **options)
    (g,) = gradient(F.sum(through * F.select(mask, weight, 0.0)), [texture])
    mean = np.mean([evaluate([g], {jitter: p})[0] for p in points], axis=0)
    return evaluate(exact)[0], mean


def test_inverse_uv_is_exact_in_the_mean_where_no_two_pixels_share_a_texel():
    # Pixels two texels apart, at offsets that are multiples of 1/8 texel: 8x8 jitters give the exact mean.
    x, y = np.meshgrid(np.arange(4), np.arange(4))
    place = np.stack((2 * x, 2 * y), -1) + RNG.integers(0, 8, (4, 4, 2)) / 8
    uv = Variable(VEC2, (4, 4), data=(place + 0.5)[None] / 8)
    mask = Variable(FLOAT, (4, 4), data=(RNG.random((1, 4, 4)) > 0.3).astype(float))
    weight = Variable(FLOAT, (4, 4), data=RNG.random((1, 4, 4)))
    texture = Variable(FLOAT, (8, 8), data=RNG.random((1, 8, 8)))
    for count in (True, False):
        exact, mean = mean_gradient(texture, uv, mask, weight, jitters(8), count=count)
        assert np.allclose(mean, exact, atol=1e-12) and exact.any()


def test_inverse_uv_of_a_magnified_texture_has_the_right_scale_when_claims_are_counted():
    uv = (F.to_float(F.pixel_coordinates((32, 32))) + 0.5) / 32.0
    texture = Variable(FLOAT, (8, 8), data=RNG.random((1, 8, 8)))
    smooth = 1.0 + 0.2 * uv.x
    exact, mean = mean_gradient(texture, uv, F.constant(1.0), smooth, jitters(4))
    assert np.allclose(mean, exact, rtol=0.05)
    _, paper = mean_gradient(texture, uv, F.constant(1.0), smooth, jitters(4), count=False)
    assert paper.sum() < 0.1 * exact.sum()  # one pixel of sixteen


def test_inverse_uv_table():
    uv = Variable(VEC2, (2, 1), 2, data=[[[[0.1, 0.1], [0.6, 0.6]]], [[[0.6, 0.6], [-0.1, 0.2]]]])
    mask = Variable(FLOAT, (2, 1), 2, data=[[[1.0, 0.0]], [[1.0, 1.0]]])
    (table,) = evaluate([F.inverse_uv(uv, mask, (2, 2))])
    assert table[0].tolist() == [[0, 3], [-1, 2]]
    (own,) = evaluate([F.inverse_uv(uv, mask, (2, 2), batch=2)])
    assert own.tolist() == [[[0, -1], [-1, -1]], [[-1, 3], [-1, 2]]]


def test_value_and_gradient_by_uv_are_those_of_sample():
    texture = Variable(VEC3, (6, 4), data=RNG.random((1, 4, 6, 3)))
    uv = Variable(VEC2, (5, 3), 2, data=RNG.random((2, 3, 5, 2)))
    plain, through = F.sample(texture, uv), F.sample_inverse_uv(texture, uv, 1.0, (0.3, 0.6))
    a, b = evaluate([plain, through])
    assert np.array_equal(a, b)
    a, b = (evaluate(gradient(F.sum(v.x * v.y), [uv]))[0] for v in (plain, through))
    assert np.allclose(a, b, atol=1e-12)
