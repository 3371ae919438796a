"""Figures of merit against values worked out by hand."""

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render import metrics, primitives
from dressi.render.color import linear_to_srgb, srgb_to_linear


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
