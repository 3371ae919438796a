"""How much wider than the object masks are, by the photographs, and what their rims then say."""

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt, gaussian_filter

from dressi.render.cameras import Camera, Cameras
from dressi.render.fit import photo_dataset
from dressi.render.fit.textures.rims import fringe, rim_weights
from dressi.render.io import Photos

SIDE = 64


def discs(background: float, mean: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Four textured discs before a background, (4, H, W, 3) with blended rims, and what covers half of a pixel (4, H, W)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    shares = np.stack([np.clip(r + 0.5 - np.hypot(x - 32, y - 32), 0, 1) for r in (15, 17.3, 19.6, 22.1)])
    texture = mean + 0.5 * gaussian_filter(rng.normal(size=(4, SIDE, SIDE, 3)), (0, 1, 1, 0))
    return texture * shares[..., None] + background * (1 - shares[..., None]), shares >= 0.5


def moved(mask: np.ndarray, pixels: float) -> np.ndarray:
    """A mask (H, W) with its outline so many pixels farther outside."""
    return distance_transform_edt(~mask) - distance_transform_edt(mask) <= pixels


@pytest.mark.parametrize("background", [0.0, 0.9])
@pytest.mark.parametrize("wider", [-1, 0, 1, 2])
def test_the_background_within_masks_says_how_wide_they_are(background: float, wider: int):
    images, masks = discs(background)
    grown = np.stack([moved(mask, wider) for mask in masks])
    assert abs(fringe(images, grown) - max(wider, 0)) < 0.25 + 0.15 * max(wider, 0)


def test_rims_before_a_background_like_the_object_say_nothing():
    images, masks = discs(0.4)
    assert fringe(images, masks) < 0.3
    assert fringe(np.full_like(images, 0.4), masks) == 0
    assert fringe(images, np.ones(masks.shape)) == 0


def test_pixels_that_are_not_known_are_no_rim():
    images, masks = discs(0.0)
    known = np.ones(masks.shape, bool)
    known[:, :, 32:] = False
    # The picture says nothing there: it is black, and the mask ends.
    images, masks = images * known[..., None], np.stack([moved(mask, 1) for mask in masks]) & known
    assert fringe(images, masks) < 0.5 < fringe(images, masks, known)


def test_a_fit_of_photographs_knows_it_of_those_that_it_learns_from():
    images, masks = discs(0.0)
    grown = np.stack([moved(mask, 1) for mask in masks[:3]] + [masks[3]])
    camera = Camera.perspective(40, (SIDE, SIDE), (0, 0, 4), (0, 0, 0))
    photos = Photos(images, grown, Cameras([camera] * 4), tuple("abcd"), np.array([[-1.0] * 3, [1.0] * 3]))
    train = photo_dataset(photos).train
    assert train.fringe == fringe(images[:3], grown[:3]) > 0.5


def test_colours_of_narrow_fringes_count_up_to_the_rim():
    _, masks = discs(0.0)
    colours = [rim_weights(masks, fringe=width)[0] for width in (0.0, 1.0, 2.0, 3.0)]
    np.testing.assert_array_equal(colours[0], masks)
    np.testing.assert_array_equal(colours[2], colours[3])
    assert colours[0].sum() > colours[1].sum() > colours[2].sum() > 0
