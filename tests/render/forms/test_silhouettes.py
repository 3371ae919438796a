"""What soft silhouettes are compared with: distances, margins, and what is not known."""

import numpy as np
import pytest
from meshes import disc

from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT
from dressi.render.fit import FitRound
from dressi.render.fit.graphs.learned import Learned
from dressi.render.fit.graphs.mask_distances import cut_off, least_distances, signed_distances
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.forms.face import peeled_target
from dressi.render.forms.soft_target import outline_distances, soft_target
from dressi.render.mesh.primitives import octasphere


def test_distances_to_a_straight_outline_are_exact():
    mask = np.zeros((1, 8, 16))
    mask[:, :, 6:] = 1
    expected = np.broadcast_to((np.arange(16) + 0.5 - 6) / 8, (8, 16))
    np.testing.assert_allclose(signed_distances(mask, (16, 8))[0], expected)
    # At half the size the outline, at x = 6 of 16, still lies where it was.
    half = signed_distances(mask, (8, 4))[0]
    np.testing.assert_allclose(half, np.broadcast_to((2 * np.arange(8) + 1 - 6) / 8, (4, 8)))


def test_distances_know_the_margin():
    mask = disc(24, 7)[None]
    np.testing.assert_allclose(
        signed_distances(mask, (24, 24), 5),
        signed_distances(np.pad(mask, ((0, 0), (5, 5), (5, 5))), (34, 34)) * 34 / 24,
    )
    # At a third of the size, with centres where every third one was.
    inner = signed_distances(mask, (8, 8), 2)
    np.testing.assert_allclose(inner[:, 2:-2, 2:-2], signed_distances(mask, (24, 24))[:, 1::3, 1::3])
    assert inner.shape == (1, 12, 12) and (np.diff(inner[0, 6, :3]) > 0.9 / 8).all()


def test_what_the_border_cuts_may_go_on_anywhere_outside():
    mask = np.zeros((2, 12, 12))
    mask[0, 4:8, :6] = 1  # goes on to the left, and from there wherever it likes
    mask[1, 4:8, 2:6] = 1
    np.testing.assert_array_equal(cut_off(mask), [True, False])
    nearest, outline = least_distances(mask, (12, 12), 4), signed_distances(mask, (12, 12), 4)
    np.testing.assert_array_equal(nearest[1], outline[1])
    assert (nearest[0] >= outline[0]).all()
    # Half a pixel from the border of the picture on the outermost pixels, whatever the mask is; covered beyond.
    np.testing.assert_allclose(nearest[0, 4, 4:-4], -0.5 / 12)
    assert (nearest[0, :4] > 0).all() and (nearest[0, :, -4:] > 0).all()
    # Near the mask it is the mask that counts.
    np.testing.assert_allclose(nearest[0, 9, 4 + 6 : 4 + 8], outline[0, 9, 4 + 6 : 4 + 8])


def test_what_is_not_known_may_be_covered():
    mask, known = np.zeros((2, 12, 12)), np.ones((2, 12, 12), bool)
    mask[:, 4:8, 4:8] = 1
    known[0, :, 8:] = known[1, :, 11:] = False  # padding: up to the mask, and away from it
    np.testing.assert_array_equal(cut_off(mask, known), [True, False])
    nearest = least_distances(mask, (12, 12), 0, known)
    np.testing.assert_allclose(nearest[0, 0, 4:8], [-3.5 / 12, -2.5 / 12, -1.5 / 12, -0.5 / 12])
    assert (nearest[0, :, 8:] > 0).all()
    np.testing.assert_array_equal(nearest[1], signed_distances(mask[1:], (12, 12))[0])


@pytest.mark.one_driver
@pytest.mark.parametrize(("plain", "bounds"), [(False, (0.01, 0.01, 0.02)), (True, (0.11, 0.05, 0.03))])
def test_targets_know_where_in_a_pixel_a_mask_ends(plain, bounds):
    """The size of a disc whose soft silhouette is nearest to the target, by its true one, at radii of 1, 3 and 8 pixels."""
    n, samples, offsets = 40, 8, np.linspace(-0.4, 0.4, 161)
    fine, centres = ((np.mgrid[:k, :k] + 0.5) * n / k for k in (n * samples, n))
    found = []
    for seed in range(4):
        middle = n / 2 + np.random.default_rng(seed).uniform(-0.5, 0.5, (2, 1, 1))
        inside, away = (10.0 - np.hypot(*(grid - middle)) for grid in (fine, centres))
        coverage = (inside > 0).reshape(n, samples, n, samples).mean((1, 3))
        targets = [soft_target(away > 0 if plain else coverage, r / n) for r in (1, 3, 8)]
        drawn = np.maximum(-away - offsets[:, None, None], 0.0)
        losses = [
            ((np.maximum(1 - drawn / r, 0) ** 2 - t) ** 2).sum((1, 2))
            for r, t in zip((1, 3, 8), targets, strict=True)
        ]
        found.append(offsets[np.argmin(losses, axis=1)])
    assert (np.abs(np.mean(found, axis=0)) <= bounds).all()


def test_distances_of_full_and_empty_masks_are_far():
    full, empty = signed_distances(np.stack([np.ones((4, 4)), np.zeros((4, 4))]), (4, 4))
    assert full.min() > 1 and empty.max() < -1


@pytest.mark.one_driver
def test_outlines_keep_thin_lines_and_single_pixels():
    mask = np.zeros((9, 12))
    mask[2, 1:8], mask[5, 9], mask[6, 10] = 1, 1, 1
    found = outline_distances(mask)
    assert (np.sign(found) == np.where(mask, 1, -1)).all()
    np.testing.assert_allclose(found[:5, 4], [-1.5, -0.5, 0.5, -0.5, -1.5], atol=1e-6)
    mask[6, 10] = 0  # of two pixels that touch at a corner one side has to be joined
    np.testing.assert_allclose(outline_distances(1 - mask), -outline_distances(mask), atol=1e-6)
    # Straight edges of any slope, of their shares of the pixels.
    rows, columns = np.mgrid[:144, :192] / 16 + 1 / 32
    inside = 4.2 + 0.3 * (columns - 6) - rows
    partly = (inside > 0).reshape(9, 16, 12, 16).mean((1, 3))
    exact = (4.2 + 0.3 * (np.arange(12) + 0.5 - 6) - np.arange(9)[:, None] - 0.5) / np.hypot(1, 0.3)
    np.testing.assert_allclose(outline_distances(partly)[2:-2, 2:-2], exact[2:-2, 2:-2], atol=0.05)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_sharp_target_is_the_mask(layers: int):
    mask = disc(32, 9)[None]
    distance = Variable(FLOAT, (32, 32), data=signed_distances(mask, (32, 32)))
    (soft,) = evaluate([peeled_target(distance, Variable(FLOAT, data=np.full((1, 1, 1), 7e-4)), layers)])
    np.testing.assert_allclose(soft, mask, atol=1e-6)


def test_what_lies_outside_of_the_picture_costs_nothing():
    """A ball that the picture's border cuts: whatever it becomes beyond, the loss is that of a good fit."""
    size = (24, 24)
    y, x = np.mgrid[:24, :24] + 0.5
    ball = octasphere(2, 0.4, (0.95, 0.0, 0.5))  # clip space is that of the first two coordinates
    mask = (np.hypot(x - 12 - 12 * 0.95, y - 12) < 12 * 0.4).astype(np.float64)
    masks = np.stack([mask, mask])
    flat = np.diag([1.0, 1.0, 0.1, 1.0])
    matrices = np.stack([flat, flat])

    def loss(positions: np.ndarray, known: np.ndarray | None = None) -> float:
        plan = FitRound(0, 24, 1, (0.2, 0.2), (0.1, 0.1), 0.0)
        views = Learned(matrices, masks, np.zeros((*masks.shape, 3)), known, None)
        work = ShapeRound(ball.moved(positions), views, size, plan)
        return float(evaluate([work.loss], {work.radius: np.full((1, 1, 1), 0.2)})[0].item())

    outside = ball.positions[:, 0] > 1.05
    true = loss(ball.positions)
    longer = loss(ball.positions + np.where(outside[:, None], (0.3, 0, 0), 0))
    inside = loss(ball.positions + np.where(outside[:, None], 0, (-0.15, 0, 0)))
    assert true < 2e-3 and longer < 1.3 * true and inside > 5 * true
