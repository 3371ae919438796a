"""Figures of merit against values worked out by hand."""

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.mesh import primitives
from dressi.render.objectives import metrics
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear


def test_srgb_is_exact_in_both_pieces_and_inverts():
    np.testing.assert_allclose(
        linear_to_srgb(np.array([0.0031308, 0.5, 1.0])), [0.04045, 0.7353569, 1.0], atol=1e-5
    )
    values = np.linspace(0, 1, 1001)
    np.testing.assert_allclose(linear_to_srgb(srgb_to_linear(values)), values, atol=1e-7)
    np.testing.assert_allclose(linear_to_srgb(np.array([-1.0, 2.0])), [0, 1], atol=1e-12)


def test_iou_is_the_mean_over_the_views():
    a, b = np.zeros((3, 4, 4)), np.zeros((3, 4, 4))
    a[0, :2], b[0, 1:3] = 1, 1  # 4 of 12
    a[1, 0], b[1, 0] = 0.5, 0.9  # soft masks count from a half
    assert metrics.iou_per_view(a, b) == pytest.approx([1 / 3, 1, 1])
    assert metrics.iou(a, b) == pytest.approx(7 / 9)
    with pytest.raises(InputError, match="one size"):
        metrics.iou(a, b[:, :2])


def test_psnr_is_pooled_in_srgb_over_the_masks():
    targets = np.full((2, 4, 4, 3), srgb_to_linear(np.array(0.5)))
    images, masks = targets.copy(), np.zeros((2, 4, 4))
    masks[0, :2], masks[1, :1] = 1, 1
    images[0, 0] = srgb_to_linear(np.array(0.6))
    images[:, 3] = 1.0  # outside the masks
    assert metrics.psnr(images, targets, masks) == pytest.approx(-10 * np.log10(0.01 * 4 / 12), abs=1e-5)
    assert metrics.psnr(targets, targets, masks) == float("inf")
    with pytest.raises(InputError, match="empty"):
        metrics.psnr(images, targets, masks * 0)


def test_chamfer_of_two_spheres_is_the_gap_between_them():
    small, large = primitives.icosphere(3), primitives.icosphere(3, 1.2)
    assert metrics.chamfer(small, large, 5000) == pytest.approx(0.2, abs=0.01)
    assert metrics.chamfer(small.positions, small.positions) == 0
    points = metrics.sample_surface(primitives.cube(), 6000, seed=1)
    assert np.abs(points).max(1) == pytest.approx(1.0)
    on_top = (points[:, 1] > 0.999).mean()
    assert on_top == pytest.approx(1 / 6, abs=0.02)


def test_silhouettes_are_compared_where_they_are_known():
    a, b, known = np.zeros((1, 4, 4)), np.zeros((1, 4, 4)), np.ones((1, 4, 4))
    a[0, :2], b[0, 1:3] = 1, 1
    known[0, 2:] = 0
    assert metrics.iou(a, b, known) == pytest.approx(1 / 2)
    with pytest.raises(InputError, match="one size"):
        metrics.iou(a, b, known[:, 1:])


def test_ssim_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1, 16, 20, 3))
    masks = np.zeros((1, 16, 20))
    masks[0, 8, 9] = 1  # the whole window lies in the picture
    window = np.exp(-0.5 * (np.hypot(*np.mgrid[-5:6, -5:6]) / 1.5) ** 2)
    window = window[..., None] / window.sum()
    p, q = (linear_to_srgb(v[0, 3:14, 4:15]) for v in (x, y))
    mean_p, mean_q = (window * p).sum((0, 1)), (window * q).sum((0, 1))
    var_p, var_q = (window * (p - mean_p) ** 2).sum((0, 1)), (window * (q - mean_q) ** 2).sum((0, 1))
    both = (window * (p - mean_p) * (q - mean_q)).sum((0, 1))
    expected = (2 * mean_p * mean_q + 1e-4) * (2 * both + 9e-4)
    expected /= (mean_p**2 + mean_q**2 + 1e-4) * (var_p + var_q + 9e-4)
    assert metrics.ssim(x, y, masks) == pytest.approx(expected.mean())
    whole = np.ones_like(masks)
    assert metrics.ssim(x, x, whole) == pytest.approx(1) and metrics.ssim(x, y, whole) < 0.2
    with pytest.raises(InputError, match="empty"):
        metrics.ssim(x, y, masks * 0)


def test_ssim_does_not_look_where_nothing_is_known():
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1, 16, 20, 3))
    known = np.ones((1, 16, 20), bool)
    known[:, :, 14:] = False
    cropped = metrics.ssim(x[:, :, :14], y[:, :, :14], np.ones((1, 16, 14)))
    x[:, :, 14:] = 0.7
    assert metrics.ssim(x, y, np.ones((1, 16, 20)), known) == pytest.approx(cropped)


def test_inside_of_both_masks_colours_count_without_rims_and_exposures():
    rng = np.random.default_rng(0)
    targets = rng.uniform(0.1, 0.35, (2, 20, 24, 3))
    masks, covered = np.zeros((2, 20, 24)), np.zeros((2, 20, 24))
    masks[:, 2:18, 2:20], covered[:, 4:18, 2:24] = 1, 1
    inside = metrics.interior(covered, masks)
    assert inside[0].sum() == 8 * 12 and inside[0, 7:15, 5:17].all()
    gains = np.array([[0.8, 1.0, 1.3], [1.1, 0.9, 0.7]])
    images = srgb_to_linear(linear_to_srgb(targets) / gains[:, None, None])
    images[:, :7] = 7.0  # beside the interior anything may be
    np.testing.assert_allclose(metrics.code_gains(images, targets, inside), gains)
    assert (metrics.code_gains(images, targets, np.zeros_like(inside)) == 1).all()
