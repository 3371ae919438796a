"""Rasterize: conventions, values and gradients, ranges and layers."""

import numpy as np
import pytest
from clip_scenes import TRIANGLE, Q, octahedron, perspective, rasterized

import dressi.numpy as dn
from dressi.errors import InputError

SIZE = (40, 24)  # (width, height)


def scene() -> tuple[np.ndarray, np.ndarray]:
    points, triangles = octahedron()
    return perspective(points - Q([0.1, 0.05, 3.0])), triangles


@pytest.mark.vk
def test_values_are_those_of_a_plain_rasterizer(on_device):
    clip, triangles = scene()
    (rast, _), _ = dn.rasterize(clip[None], triangles, SIZE[::-1])
    expected, clear = rasterized(clip, triangles, SIZE)
    assert clear.sum() > 400 and (expected[clear][:, 3] > 0).sum() > 100
    assert np.abs(rast[0] - expected)[clear].max() < 2e-5


@pytest.mark.vk
def test_the_first_row_is_the_bottom_and_u_belongs_to_the_first_vertex(on_device):
    pos = [[[-1, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]]  # the lower left half
    (rast, db), _ = dn.rasterize(pos, TRIANGLE, (8, 8))
    assert (rast[0, ..., 3] > 0).sum(1).tolist()[0] >= 7 and rast[0, 7, 1:].max() == 0
    assert rast[0, 0, 0, 0] > 0.8 and rast[0, 0, 6, 1] > 0.8
    assert np.allclose(db[0, 0, 0], [-1 / 8, -1 / 8, 1 / 8, 0], atol=1e-6)


@pytest.mark.vk
def test_derivatives_by_pixels_are_differences_of_neighbours(on_device):
    clip, triangles = scene()
    (rast, db), _ = dn.rasterize(clip[None], triangles, (256, 256))
    face = rast[0, ..., 3]
    for axis, parts in ((1, (0, 2)), (0, (1, 3))):
        after, before = np.roll(rast[0], -1, axis), np.roll(rast[0], 1, axis)
        # Not beside an edge, where the driver may cover a centre just outside of the triangle.
        uv = np.stack([r[..., :2] for r in (before, after)])
        inner = (face > 0) & (after[..., 3] == face) & (before[..., 3] == face)
        inner &= (uv > 0.01).all((0, -1)) & (uv.sum(-1) < 0.99).all(0)
        slope = 0.5 * (after - before)[..., :2][inner]
        assert inner.sum() > 10000
        assert (np.abs(slope - db[0][..., parts][inner]) < 1e-5 + 0.05 * np.abs(slope)).all()


def loss_and_slope(
    clip: np.ndarray, triangles: np.ndarray, weights: list[np.ndarray]
) -> tuple[float, np.ndarray]:
    found, pull = dn.rasterize(clip[None], triangles, SIZE[::-1])
    return sum(float((w * y).sum()) for w, y in zip(weights, found)), pull(*weights)["pos"][0]


@pytest.mark.vk
@pytest.mark.one_driver
def test_the_gradient_agrees_with_differences_of_the_plain_rasterizer(on_device, random):
    """u, v and z/w, at pixels whose triangle does not change."""
    clip, triangles = scene()
    expected, clear = rasterized(clip, triangles, SIZE)
    weight = random.normal(size=expected.shape) * clear[..., None] * (expected[..., 3:] > 0) * [1, 1, 1, 0]
    _, slope = loss_and_slope(clip, triangles, [weight[None], np.zeros((1, *SIZE[::-1], 4))])
    for _ in range(4):
        way = random.normal(size=clip.shape)
        h = 1e-5
        plus, minus = (rasterized(clip + s * h * way, triangles, SIZE)[0] for s in (1, -1))
        difference = (weight * (plus - minus)).sum() / (2 * h)
        assert abs((slope * way).sum() - difference) < 2e-3 * np.abs(slope * way).sum()


@pytest.mark.vk
def test_the_derivatives_by_pixels_have_a_gradient_too(on_device, random):
    clip, triangles = scene()
    (rast, _), _ = dn.rasterize(clip[None], triangles, SIZE[::-1])
    _, clear = rasterized(clip, triangles, SIZE)
    weight = random.normal(size=rast.shape) * clear[None, ..., None]
    zero = np.zeros_like(weight)
    _, slope = loss_and_slope(clip, triangles, [zero, weight])
    way = random.normal(size=clip.shape) * 0.1
    h = 0.02
    plus, minus = (
        loss_and_slope((clip + s * h * way).astype(np.float32), triangles, [zero, weight])[0] for s in (1, -1)
    )
    assert abs((slope * way).sum() - (plus - minus) / (2 * h)) < 0.02 * np.abs(slope * way).sum()
    (_, db), pull = dn.rasterize(clip[None], triangles, SIZE[::-1], grad_db=False)
    assert np.abs(pull(None, db)["pos"]).max() == 0


@pytest.mark.vk
@pytest.mark.one_driver
def test_ranges_draw_parts_of_one_mesh(on_device):
    clip, triangles = scene()
    both = np.concatenate([clip, clip + np.float32([0.5, 0, 0, 0])])
    faces = np.concatenate([triangles, triangles + len(clip)])
    (rast, _), pull = dn.rasterize(both, faces, SIZE[::-1], ranges=[[0, 8], [8, 8], [8, 0]])
    (alone, _), _ = dn.rasterize(np.stack([clip, both[len(clip) :]]), triangles, SIZE[::-1])
    shift = np.where(alone[1, ..., 3] > 0, 8, 0)
    assert np.array_equal(rast[0], alone[0]) and rast[2].max() == 0
    assert np.array_equal(rast[1, ..., 3], alone[1, ..., 3] + shift)
    slope = pull(np.ones_like(rast) * [[[[1]]], [[[0]]], [[[0]]]])["pos"]
    assert slope.shape == both.shape and np.abs(slope[:6]).max() > 0 and np.abs(slope[6:]).max() == 0


@pytest.mark.vk
def test_layers_are_peeled_from_front_to_back(on_device):
    clip, triangles = scene()
    layer, seen, depths = None, [], []
    for _ in range(3):
        (layer, _), _ = dn.rasterize(clip[None], triangles, SIZE[::-1], before=layer)
        seen.append(layer[0, ..., 3])
        depths.append(layer[0, ..., 2])
    _, clear = rasterized(clip, triangles, SIZE)
    inside = clear & (seen[0] > 0)
    assert (seen[1][inside] > 0).all() and (seen[1][inside] != seen[0][inside]).all()
    assert (depths[1] > depths[0])[inside].all()
    assert seen[2][clear].max() == 0  # a convex body has two layers


BAD = {
    "pos has the shape": lambda: dn.rasterize(np.zeros((3, 4)), TRIANGLE, (8, 8)),
    "tri has the shape": lambda: dn.rasterize(np.zeros((1, 3, 4)), [[0, 1]], (8, 8)),
    "tri holds int32": lambda: dn.rasterize(np.zeros((1, 3, 4)), [[0.5, 1, 2]], (8, 8)),
    "the resolution is": lambda: dn.rasterize(np.zeros((1, 3, 4)), TRIANGLE, (8, 0)),
    "pos is empty": lambda: dn.rasterize(np.zeros((1, 0, 4)), TRIANGLE, (8, 8)),
    "ranges has the shape": lambda: dn.rasterize(np.zeros((3, 4)), TRIANGLE, (8, 8), ranges=[0, 1]),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        BAD[sentence]()
    assert "\n" not in str(caught.value)
