"""Interpolate: values and gradients against the formulas, in float64."""

import numpy as np
import pytest
from clip_scenes import Q, octahedron, perspective

import dressi.numpy as dn
from dressi.errors import InputError


def scene(random: np.random.Generator, images: int = 2, attributes: int = 6):
    """rast, rast_db, attributes (images, 6, A), triangles (8, 3)."""
    points, triangles = octahedron()
    pos = np.stack([perspective(points - Q([0.2 * k, 0.1, 3.0])) for k in range(images)])
    (rast, db), _ = dn.rasterize(pos, triangles, (20, 24))
    return rast, db, random.normal(size=(images, len(points), attributes)), triangles


def formula(attr, rast, triangles, db, chosen):
    """The value and the derivatives by pixels, float64."""
    attr, rast, db = (np.asarray(a, np.float64) for a in (attr, rast, db))
    face = rast[..., 3].astype(int) - 1
    there = (face >= 0)[..., None]
    image = np.minimum(np.arange(len(rast))[:, None, None], len(attr) - 1)
    a, b, c = (attr[image, triangles[np.maximum(face, 0), k]] for k in range(3))
    u, v = rast[..., 0:1], rast[..., 1:2]
    value = np.where(there, a * u + b * v + c * (1 - u - v), 0)
    slopes = [
        np.where(there[..., 0], (a - c)[..., k] * db[..., i] + (b - c)[..., k] * db[..., 2 + i], 0)
        for k in chosen
        for i in (0, 1)
    ]
    return value, np.stack(slopes, -1)


@pytest.mark.vk
@pytest.mark.parametrize("chosen", ["all", [5, 0]], ids=["all", "some"])
@pytest.mark.one_driver
def test_values_and_gradients_are_those_of_the_formula(on_device, random, chosen):
    rast, db, attr, triangles = scene(random)
    numbers = range(attr.shape[-1]) if chosen == "all" else chosen
    (value, da), pull = dn.interpolate(attr, rast, triangles, db, chosen)
    expected, expected_da = formula(attr, rast, triangles, db, numbers)
    assert np.abs(value - expected).max() < 1e-5 and np.abs(da - expected_da).max() < 1e-5
    seeds = random.normal(size=value.shape), random.normal(size=da.shape)
    slopes = pull(*seeds)
    # The formula is linear in each of its arguments, so that any step will do.
    for name, k in (("attr", 0), ("rast", 1), ("rast_db", 3)):
        way = random.normal(size=(attr, rast, None, db)[k].shape)
        way[..., 2:] *= name != "rast"  # z/w and the triangle do not count
        moved = [attr, rast, triangles, db]
        moved[k] = moved[k] + way
        difference = sum(
            (s * (y - x)).sum() for s, x, y in zip(seeds, (expected, expected_da), formula(*moved, numbers))
        )
        found = (slopes[name] * way).sum()
        assert abs(found - difference) < 1e-4 * np.abs(slopes[name] * way).sum()


@pytest.mark.vk
@pytest.mark.one_driver
def test_attributes_of_one_batch_serve_all_images(on_device, random):
    rast, _, attr, triangles = scene(random, attributes=3)
    shared, pull = dn.interpolate(attr[:1], rast, triangles)
    flat, _ = dn.interpolate(attr[0], rast, triangles)
    own, own_pull = dn.interpolate(np.stack([attr[0], attr[0]]), rast, triangles)
    assert np.array_equal(shared, own) and np.array_equal(flat, own)
    seed = random.normal(size=own.shape)
    one, two = pull(seed)["attr"], own_pull(seed)["attr"]
    assert one.shape == (1, 6, 3) and np.abs(one[0] - two.sum(0)).max() < 1e-4


@pytest.mark.vk
@pytest.mark.one_driver
def test_nothing_is_drawn_on_the_background(on_device, random):
    _, _, attr, triangles = scene(random, images=1, attributes=2)
    value, pull = dn.interpolate(attr, np.zeros((1, 4, 4, 4)), triangles)
    assert value.max() == 0
    assert all(np.abs(slope).max() == 0 for slope in pull(np.ones_like(value)).values())


RAST = np.zeros((2, 4, 4, 4))
BAD = {
    "attr has the shape": lambda: dn.interpolate(np.zeros(3), RAST, [[0, 1, 2]]),
    "attr has 3 images, and rast has 2": lambda: dn.interpolate(np.zeros((3, 3, 1)), RAST, [[0, 1, 2]]),
    "rast has the shape": lambda: dn.interpolate(np.zeros((3, 1)), RAST[0], [[0, 1, 2]]),
    "needs rast_db": lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], diff_attrs="all"),
    "attribute 4; there are 1": lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, [4]),
    "diff_attrs is 'all' or a list": lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, [1.5]),
    "diff_attrs is one of": lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, "some"),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence):
        BAD[sentence]()
