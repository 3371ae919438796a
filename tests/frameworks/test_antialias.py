"""Antialias: shares of pixels at edges, and the gradient of the whole pipeline against the loss of the picture drawn again."""

import numpy as np
import pytest
from clip_scenes import TRIANGLE, Q, octahedron, perspective

import dressi.numpy as dn
from dressi.errors import InputError

SIZE = (48, 48)
POINTS, TRIANGLES = octahedron()
POINTS = POINTS - Q([0.1, 0.05, 3.0])
PROJECTION = perspective(np.eye(3)) - perspective(np.zeros((1, 3)))  # of directions: linear


def picture(points: np.ndarray, colours: np.ndarray):
    """(1, H, W, 3), and a function from its gradient to that by the points."""
    pos = perspective(points)[None]
    (rast, _), pull_rast = dn.rasterize(pos, TRIANGLES, SIZE)
    colour, pull_colour = dn.interpolate(colours, rast, TRIANGLES)
    smooth, pull_smooth = dn.antialias(colour, rast, pos, TRIANGLES)

    def pull(seed: np.ndarray) -> np.ndarray:
        by = pull_smooth(seed)
        by_clip = by["pos"] + pull_rast(pull_colour(by["color"])["rast"])["pos"]
        return by_clip[0] @ PROJECTION.T

    return smooth, pull


def directions() -> list[np.ndarray]:
    """Translations, growth, rotations, one vertex."""
    around = POINTS - POINTS.mean(0)
    return [
        *(np.tile(axis, (6, 1)) for axis in np.eye(3)),
        around,
        *(np.cross(axis, around) for axis in np.eye(3)[1:]),
        np.eye(6)[:, :1] * [1, 0.3, 0],
    ]


@pytest.mark.vk
@pytest.mark.one_driver
def test_the_gradient_is_that_of_the_loss_of_the_picture_drawn_again(on_device):
    """Along each direction by a pixel to either side: L(+1) - L(-1) against the gradient integrated between."""
    colours = np.tile([1, 0.6, 0.2], (6, 1))
    target, _ = picture(POINTS * 1.07 + [0.1, 0, 0], colours)
    pixel, samples = 3 / SIZE[0], 12
    changes, found = [], []
    for way in directions():
        ends = [((picture(POINTS + s * pixel * way, colours)[0] - target) ** 2).sum() for s in (1, -1)]
        slopes = []
        for t in (np.arange(samples) + 0.5) / samples * 2 - 1:
            drawn, pull = picture(POINTS + t * pixel * way, colours)
            slopes.append((pull(2 * (drawn - target)) * way).sum())
        changes.append(ends[0] - ends[1])
        found.append(np.mean(slopes) * 2 * pixel)
    changes, found = np.array(changes), np.array(found)
    assert (np.abs(found - changes) < 0.02 * np.abs(changes).max()).all()
    assert abs(np.median(found / changes) - 1) < 0.04


@pytest.mark.vk
@pytest.mark.parametrize("edge", [2.2, 2.8], ids=["before the centre", "behind it"])
@pytest.mark.one_driver
def test_pixels_get_the_share_that_is_covered(on_device, edge):
    x = edge / 4 * 2 - 1
    pos = np.array([[[-1, -1, 0, 1], [x, -1, 0, 1], [x, 9, 0, 1]]])
    (rast, _), _ = dn.rasterize(pos, TRIANGLE, (4, 4))
    value, pull = dn.antialias((rast[..., 3:] > 0) * np.arange(1.0, 6.0), rast, pos, TRIANGLE)
    assert np.abs(value[0, 0, 2] - (edge - 2) * np.arange(1, 6)).max() < 1e-5
    slopes = pull(np.ones_like(value))
    moved = slopes["pos"][0, 1:, 0].sum()  # the right edge moves: 4 pixels are 2 units, in each of 4 rows
    assert abs(moved - 2 * 4 * 15) < 1e-3
    _, pull = dn.antialias((rast[..., 3:] > 0).astype(float), rast, pos, TRIANGLE)
    assert np.abs(pull(np.ones_like(value[..., :1]))["pos"]).max() > 0


@pytest.mark.vk
def test_shaded_pixels_jump_where_an_edge_passes_a_centre(on_device):
    """The gradient is exact in between. At a centre the picture jumps by half of the difference of two pixels, whose colours
    are all that is given: with colours (1 + 2 c) of column c, the jump is part of the change that no gradient has."""
    ramp = 1 + 2.0 * np.arange(4)

    def value(edge: float, pulled: bool = False):
        x = edge / 4 * 2 - 1
        pos = np.array([[[-1, -1, 0, 1], [x, -1, 0, 1], [x, 9, 0, 1]]])
        (rast, _), _ = dn.rasterize(pos, TRIANGLE, (4, 4))
        found, pull = dn.antialias((rast[..., 3:] > 0) * ramp[:, None], rast, pos, TRIANGLE)
        return (
            pull(np.eye(4)[0][:, None, None] + 0 * found)["pos"][0, 1:, 0].sum() / 2
            if pulled
            else found[0, 0].sum()
        )

    for edge in (1.8, 2.2, 2.8):
        slope = (value(edge + 0.05) - value(edge - 0.05)) / 0.1
        assert abs(value(edge, pulled=True) - slope) < 1e-3 * slope
    # A driver may put corners on a grid of a sixteenth of a pixel.
    jump = value(2.6) - value(2.4) - 0.1 * (ramp[1] + ramp[2])
    assert abs(jump - (ramp[2] - ramp[1]) / 2) < 1e-3
    slopes = [value(edge, pulled=True) for edge in 2 + (np.arange(8) + 0.5) / 8]
    assert abs(np.mean(slopes) + jump - (value(3.0) - value(2.0))) < 0.05


@pytest.mark.vk
@pytest.mark.one_driver
def test_each_image_blends_what_it_shows(on_device):
    """In range mode, edges of triangles that an image does not draw stay out of it."""
    two = np.concatenate([POINTS, POINTS * [1, 1, 0.9] + [0.4, 0.1, 0]])
    faces = np.concatenate([TRIANGLES, TRIANGLES + 6])
    shared = perspective(two)
    (rast, _), _ = dn.rasterize(shared, faces, SIZE, ranges=[[0, 8], [8, 8]])
    colour = (rast[..., 3:] > 0).astype(float)
    together, _ = dn.antialias(colour, rast, shared, faces)
    for k in range(2):
        pos = shared[None, 6 * k : 6 * k + 6]
        (one, _), _ = dn.rasterize(pos, TRIANGLES, SIZE)
        alone, _ = dn.antialias(colour[k : k + 1], one, pos, TRIANGLES)
        assert np.abs(together[k] - alone[0]).max() < 1e-5
    assert np.abs(together - colour).max() > 0.1


R = np.zeros((2, 4, 4, 4))
BAD = {
    "color has the shape": lambda: dn.antialias(R[0], R, np.zeros((2, 3, 4)), TRIANGLE),
    "rast has the shape": lambda: dn.antialias(R, R[:1], np.zeros((2, 3, 4)), TRIANGLE),
    "pos has 1 images, and color has 2": lambda: dn.antialias(R, R, np.zeros((1, 3, 4)), TRIANGLE),
    "tri has the shape": lambda: dn.antialias(R, R, np.zeros((2, 3, 4)), TRIANGLE[0]),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence):
        BAD[sentence]()


@pytest.mark.vk
def test_triangles_with_wrong_vertices_end_in_one_sentence(on_device):
    with pytest.raises(InputError, match="faces use vertex -1"):
        dn.antialias(R[:1], R[:1], np.zeros((1, 3, 4)), [[0, 1, -1]])
