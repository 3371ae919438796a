"""Operators of image pipelines: their values against loops in NumPy and SciPy, their derivatives against
differences."""

import numpy as np
import pytest
from pipelines import PIPELINES, RANDOM, leaf
from scipy import ndimage, signal

from dressi import FLOAT, VEC2, VEC3, F, GraphError, Variable
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate


@pytest.mark.parametrize("name", PIPELINES)
def test_derivatives(name: str):
    made, leaves = PIPELINES[name]
    assert check_gradient(made, leaves) < 1e-6


def value(x: Variable) -> np.ndarray:
    return np.asarray(evaluate([x])[0], np.float64)


def array(leaf: Variable) -> np.ndarray:
    return np.asarray(leaf.data, np.float64)


def test_a_slice_is_trilinear_in_column_row_and_guide():
    grid, guide = leaf(size=(3, 2), channels=4), leaf(size=(7, 5), low=-0.2, high=1.2)
    rows, columns = np.mgrid[:5, :7]
    places = [array(guide)[0] * 4 - 0.5, (rows + 0.5) * 2 / 5 - 0.5, (columns + 0.5) * 3 / 7 - 0.5]
    found = ndimage.map_coordinates(array(grid)[0], places, order=1, mode="nearest")
    assert np.allclose(value(F.slice_grid(grid, guide))[0], found, atol=1e-6)
    values = leaf(size=(7, 5))
    pairing = (value(F.splat_grid(values, guide, (3, 2), 4)) * array(grid)).sum()
    assert np.isclose(pairing, (found * array(values)[0]).sum(), rtol=1e-5)


def test_a_warp_reads_each_channel():
    image, flow = leaf(FLOAT, channels=5), leaf(VEC2, low=-1.4, high=1.4)
    found = value(F.warp(image, flow))
    for k in range(5):
        assert np.allclose(found[:, k], value(F.warp(F.channel(image, k), flow)))


def test_a_warp_reads_between_texels():
    image, flow = leaf(), leaf(VEC2, low=-2, high=2)
    rows, columns = np.mgrid[:6, :7]
    moved = [rows + array(flow)[0, ..., 1], columns + array(flow)[0, ..., 0]]
    found = ndimage.map_coordinates(array(image)[0], moved, order=1, mode="nearest")
    assert np.allclose(value(F.warp(image, flow))[0], found, atol=1e-6)
    # A homography that translates is a flow that is the same everywhere.
    shift = np.array([[1, 0, 0.3], [0, 1, -0.6], [0, 0, 1]])
    same = F.warp(image, Variable.of(np.broadcast_to([0.3, -0.6], (6, 7, 2)), VEC2))
    assert np.allclose(value(F.warp_homography(image, shift)), value(same), atol=1e-6)


CUBIC = (lambda d: (1.5 * d - 2.5) * d * d + 1, lambda d: ((2.5 - 0.5 * d) * d - 4) * d + 2)


@pytest.mark.parametrize("filter", ["bilinear", "cubic"])
def test_a_warp_reads_beyond_each_border(filter: str):
    image, flow = leaf(VEC2, (8, 9)), leaf(VEC2, (8, 9), low=-3, high=3)
    names = {
        "clamp": "edge",
        "zero": "constant",
        "mirror": "symmetric",
        "reflect": "reflect",
        "repeat": "wrap",
    }
    y, x = (np.mgrid[:9, :8] + array(flow)[0].transpose(2, 0, 1)[::-1]) + 6

    def weight(d: np.ndarray) -> np.ndarray:
        d = np.abs(d)
        if filter == "bilinear":
            return np.maximum(1 - d, 0)
        return np.where(d < 1, CUBIC[0](d), np.where(d < 2, CUBIC[1](d), 0))

    for border, mode in names.items():
        padded, wanted = np.pad(array(image)[0], ((6, 6), (6, 6), (0, 0)), mode=mode), 0
        for j, i in np.ndindex(4, 4):
            row, column = np.floor(y).astype(int) + j - 1, np.floor(x).astype(int) + i - 1
            wanted = wanted + (weight(y - row) * weight(x - column))[..., None] * padded[row, column]
        assert np.allclose(value(F.warp(image, flow, border, filter))[0], wanted, atol=2e-6), border


def test_values_are_sorted_and_medians_found():
    x = Variable(FLOAT, (4, 3), 2, channels=5, data=RANDOM.integers(0, 4, (2, 5, 3, 4)))
    for axis, k in zip("ncyx", range(4), strict=True):
        assert np.array_equal(value(F.sort(x, axis)), np.sort(array(x), k))
        assert np.array_equal(value(F.sort_index(x, axis)), np.argsort(array(x), k, kind="stable"))
    y = leaf(VEC3, (9, 8))
    for radius in (1, 2, 3):
        wanted = ndimage.median_filter(array(y)[0], 2 * radius + 1, mode="mirror", axes=(0, 1))
        assert np.array_equal(value(F.median(y, radius, "reflect"))[0], wanted)


def test_blurs_and_recurrences_are_those_of_scipy():
    x = leaf(size=(12, 9))
    plane = array(x)[0]
    assert np.allclose(value(F.gaussian_blur(x, 1.2, "mirror", reach=4))[0], ndimage.gaussian_filter(plane, 1.2, radius=5), atol=1e-6)  # fmt: skip
    weights = ndimage.uniform_filter(np.ones((9, 12)), 5, mode="constant")
    box = ndimage.uniform_filter(plane, 5, mode="constant") / weights
    assert np.allclose(value(F.box_blur(x, 2))[0], box, atol=1e-6)
    assert np.allclose(value(F.recurrence(x, 0.8))[0], signal.lfilter([1], [1, -0.8], plane), atol=1e-5)
    # Of order two: y[i] = x[i] + 0.9 y[i - 1] - 0.4 y[i - 2], with the state (y[i], y[i - 1]).
    state = F.recurrence(F.vec2(x, 0.0 * x), np.array([[0.9, -0.4], [1, 0]]), "y").x
    assert np.allclose(value(state)[0], signal.lfilter([1], [1, -0.9, 0.4], plane, axis=0), atol=1e-5)
    point = np.zeros((65, 65))
    point[32, 32] = 1
    kernel = value(F.recursive_blur(Variable.of(point, FLOAT), 4.0))[0]
    assert np.isclose((kernel * (np.arange(65) - 32) ** 2).sum(), 16, rtol=0.02)


def test_a_guided_filter_is_a_linear_function_of_its_guide():
    image, guide = leaf(size=(8, 7)), leaf(VEC3, (8, 7))
    p, g, sums, count = (array(image)[0], array(guide)[0], np.zeros((7, 8, 4)), np.zeros((7, 8)))
    windows = [(slice(max(y - 1, 0), y + 2), slice(max(x - 1, 0), x + 2)) for y in range(7) for x in range(8)]
    for window in windows:
        inside = g[window].reshape(-1, 3)
        cov = np.cov(inside.T, bias=True) + 0.01 * np.eye(3)
        slope = np.linalg.solve(cov, ((inside - inside.mean(0)) * p[window].reshape(-1, 1)).mean(0))
        sums[window] += [*slope, p[window].mean() - slope @ inside.mean(0)]
        count[window] += 1
    mean = sums / count[..., None]
    assert np.allclose(value(F.guided_filter(image, guide, 1, 0.01))[0], (mean[..., :3] * g).sum(-1) + mean[..., 3], atol=1e-5)  # fmt: skip


def test_a_histogram_counts_every_texel():
    x = leaf(batch=2)
    counts = value(F.histogram(x, 6))
    assert counts.shape == (2, 1, 6) and np.allclose(counts.sum(-1), 42)
    centres = Variable.of((np.arange(12) % 4 + 0.5).reshape(3, 4) / 4, FLOAT)
    assert np.allclose(value(F.histogram(centres, 4)), 3)


def test_local_laplacian_changes_detail_and_leaves_edges():
    random = np.random.default_rng(0)
    step = np.where(np.arange(32) < 16, 0.2, 0.8) + random.uniform(-0.03, 0.03, (32, 32))
    flat = value(F.local_laplacian(Variable.of(step), -0.9, sigma=0.1, levels=3, bands=24))[0]
    assert flat[:, 4:12].std() < 0.45 * step[:, 4:12].std()
    assert abs(np.mean(flat[:, 17] - flat[:, 14]) - 0.6) < 0.05


def test_demosaicking_keeps_what_was_measured_and_linear_ramps():
    rows, columns = np.mgrid[:10, :12]
    ramp = np.stack([0.02 * columns, 0.1 + 0.02 * columns + 0.01 * rows, 0.2 + 0.01 * rows], -1)
    for pattern in ("RGGB", "BGGR", "GRBG", "GBRG"):
        mosaic = F.bayer_mosaic(Variable.of(ramp), pattern)
        measured = value(F.bayer_filter((12, 10), pattern)).argmax(-1)[0]
        expected = np.take_along_axis(ramp, measured[..., None], -1)[..., 0]
        assert np.allclose(value(mosaic)[0], expected, atol=1e-6)
        for method in ("bilinear", "malvar"):
            again = value(F.demosaic(mosaic, pattern, method))[0]
            assert np.allclose(again[2:-2, 2:-2], ramp[2:-2, 2:-2], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: F.slice_grid(leaf(channels=1), leaf()), "two depths"),
        (lambda: F.slice_grid(leaf(channels=4), leaf(VEC2)), "guide"),
        (lambda: F.warp(leaf(), leaf()), "flow"),
        (lambda: F.warp(leaf(), leaf(VEC2), "edge"), "reflect"),
        (lambda: F.sort(leaf(VEC2)), "no order"),
        (lambda: F.sort(leaf(), "z"), "one of n, c, y, x"),
        (lambda: F.median(leaf(), 4), "up to 3"),
        (lambda: F.histogram(leaf(), 4, 1.0, 0.0), "low < high"),
        (lambda: F.demosaic(leaf(size=(5, 4))), "whole blocks"),
        (lambda: F.bayer_filter((4, 4), "RGBG"), "RGGB"),
        (lambda: F.recurrence(leaf(VEC2), leaf(VEC2)), "square matrix"),
        (lambda: F.gaussian_pyramid(leaf(), 9), "fewer levels"),
        (lambda: F.guided_filter(leaf(), leaf(size=(3, 3)), 1), "domains"),
        (lambda: F.guided_filter(leaf(), leaf(), 1, 0.0), "above 0"),
    ],
)
def test_bad_input_is_named(make, words: str):
    with pytest.raises(GraphError, match=words):
        make()
