"""Operations on arrays of other frameworks: rasterize, interpolate, texture, antialias, and Functions of one's own."""

import gc

import numpy as np
import pytest
from clip_scenes import TRIANGLE, Q, bilinear, halved, octahedron, perspective, rasterized, texel_at

import dressi.numpy as dn
from dressi import VEC2, VEC4, F, GraphError, InputError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.frameworks.engine import Engine
from dressi.render import hard_soft_ras

SIZE = (40, 24)  # (width, height)


def scene() -> tuple[np.ndarray, np.ndarray]:
    points, triangles = octahedron()
    return perspective(points - Q([0.1, 0.05, 3.0])), triangles


def test_values_are_those_of_a_plain_rasterizer(on_device):
    clip, triangles = scene()
    (rast, _), _ = dn.rasterize(clip[None], triangles, SIZE[::-1])
    expected, clear = rasterized(clip, triangles, SIZE)
    assert clear.sum() > 400 and (expected[clear][:, 3] > 0).sum() > 100
    assert np.abs(rast[0] - expected)[clear].max() < 2e-5


def test_the_first_row_is_the_bottom_and_u_belongs_to_the_first_vertex(on_device):
    pos = [[[-1, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]]  # the lower left half
    (rast, db), _ = dn.rasterize(pos, TRIANGLE, (8, 8))
    assert (rast[0, ..., 3] > 0).sum(1).tolist()[0] >= 7 and rast[0, 7, 1:].max() == 0
    assert rast[0, 0, 0, 0] > 0.8 and rast[0, 0, 6, 1] > 0.8
    assert np.allclose(db[0, 0, 0], [-1 / 8, -1 / 8, 1 / 8, 0], atol=1e-6)


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


def interpolate_scene(random: np.random.Generator, images: int = 2, attributes: int = 6):
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


@pytest.mark.parametrize("chosen", ["all", [5, 0]], ids=["all", "some"])
@pytest.mark.one_driver
def test_values_and_gradients_are_those_of_the_formula(on_device, random, chosen):
    rast, db, attr, triangles = interpolate_scene(random)
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


@pytest.mark.one_driver
def test_attributes_of_one_batch_serve_all_images(on_device, random):
    rast, _, attr, triangles = interpolate_scene(random, attributes=3)
    shared, pull = dn.interpolate(attr[:1], rast, triangles)
    flat, _ = dn.interpolate(attr[0], rast, triangles)
    own, own_pull = dn.interpolate(np.stack([attr[0], attr[0]]), rast, triangles)
    assert np.array_equal(shared, own) and np.array_equal(flat, own)
    seed = random.normal(size=own.shape)
    one, two = pull(seed)["attr"], own_pull(seed)["attr"]
    assert one.shape == (1, 6, 3) and np.abs(one[0] - two.sum(0)).max() < 1e-4


@pytest.mark.one_driver
def test_nothing_is_drawn_on_the_background(on_device, random):
    _, _, attr, triangles = interpolate_scene(random, images=1, attributes=2)
    value, pull = dn.interpolate(attr, np.zeros((1, 4, 4, 4)), triangles)
    assert value.max() == 0
    assert all(np.abs(slope).max() == 0 for slope in pull(np.ones_like(value)).values())


RAST = np.zeros((2, 4, 4, 4))


def places(random: np.random.Generator, shape=(1, 6, 7)) -> np.ndarray:
    """uv inside and outside of [0, 1], no nearer to a kink of the filters than a tenth of a texel of 8 and of its mips."""
    texel = random.integers(-5, 13, (*shape, 2)) + random.choice([0.15, 0.35, 0.65, 0.85], (*shape, 2))
    return texel / 8


def mipped(texture, uv, level, boundary, between):
    """Mips of (H, W, C) at levels (...)."""
    levels = [texture]
    while min(levels[-1].shape[:2]) > 1:
        levels.append(halved(levels[-1]))
    level = np.clip(level, 0, len(levels) - 1)
    values = np.stack([bilinear(image, uv, boundary) for image in levels])
    at = lambda k: np.take_along_axis(values, k[None, ..., None], 0)[0]  # noqa: E731
    if not between:
        return at(np.floor(level + 0.5).astype(int))
    low = np.minimum(np.floor(level).astype(int), len(levels) - 2)
    share = (level - low)[..., None]
    return at(low) * (1 - share) + at(low + 1) * share


def footprint_level(uv_da, size):
    """log2 of the longest axis of the pixel's footprint in texels, by the singular values of its Jacobian."""
    jacobian = uv_da.reshape(*uv_da.shape[:-1], 2, 2) * size
    return np.log2(np.linalg.svd(jacobian, compute_uv=False)[..., 0])


@pytest.mark.one_driver
@pytest.mark.parametrize("boundary", ["wrap", "clamp", "zero"])
def test_filters_without_mips(on_device, random, boundary):
    texture, uv = random.normal(size=(1, 8, 8, 5)), places(random)
    value, pull = dn.texture(texture, uv, boundary_mode=boundary)
    assert np.abs(value[0] - bilinear(texture[0], uv[0], boundary)).max() < 1e-5
    seed = random.normal(size=value.shape)
    slopes = pull(seed)
    loss = lambda t, x: (seed[0] * bilinear(t[0], x[0], boundary)).sum()  # noqa: E731
    way = random.normal(size=texture.shape)
    assert abs((slopes["tex"] * way).sum() - loss(way, uv)) < 1e-4 * np.abs(slopes["tex"] * way).sum()
    way, h = random.normal(size=uv.shape), 1e-5
    difference = (loss(texture, uv + h * way) - loss(texture, uv - h * way)) / (2 * h)
    assert abs((slopes["uv"] * way).sum() - difference) < 1e-4 * np.abs(slopes["uv"] * way).sum()
    value, pull = dn.texture(texture, uv, filter_mode="nearest", boundary_mode=boundary)
    i, j = np.moveaxis(np.floor(uv[0] * 8).astype(int), -1, 0)
    assert np.abs(value[0] - texel_at(texture[0], i, j, boundary)).max() < 1e-6
    assert np.abs(pull(seed)["uv"]).max() == 0


@pytest.mark.one_driver
@pytest.mark.parametrize("boundary", ["wrap", "clamp", "zero"])
def test_mips_by_footprint_and_bias(on_device, random, boundary):
    texture, uv = random.normal(size=(1, 16, 16, 3)), places(random)
    da = random.uniform(-0.4, 0.4, (*uv.shape[:3], 4))
    bias = random.uniform(-0.7, 0.7, uv.shape[:3])
    level = footprint_level(da[0], 16) + bias[0]
    for mode, between in (("linear-mipmap-linear", True), ("linear-mipmap-nearest", False)):
        value, _ = dn.texture(texture, uv, da, bias, filter_mode=mode, boundary_mode=boundary)
        expected = mipped(texture[0], uv[0], level, boundary, between)
        near = np.abs((level + 0.5) % 1 - 0.0) > 1e-3  # where the nearer level is clear
        assert np.abs(value[0] - expected)[near].max() < 1e-4
    value, pull = dn.texture(texture, uv, da, bias, boundary_mode=boundary)
    seed = random.normal(size=value.shape)
    slopes = pull(seed)

    def loss(t, x, d, b):
        found = mipped(t[0], x[0], footprint_level(d[0], 16) + b[0], boundary, True)
        return (seed[0] * found).sum()

    given = [texture, uv, da, bias]
    for k, name in enumerate(("tex", "uv", "uv_da", "mip_level_bias")):
        way, h = random.normal(size=given[k].shape), 1e-6
        plus, minus = (loss(*given[:k], given[k] + s * h * way, *given[k + 1 :]) for s in (1, -1))
        found = (slopes[name] * way).sum()
        assert abs(found - (plus - minus) / (2 * h)) < 2e-3 * np.abs(slopes[name] * way).sum(), name


@pytest.mark.one_driver
@pytest.mark.release
def test_given_mips_are_those_that_are_made(on_device, random):
    texture, uv = random.normal(size=(2, 8, 16, 2)), places(random, (2, 5, 5))
    level = random.uniform(0, 5, uv.shape[:3])
    made, pull = dn.texture(texture, uv, mip_level_bias=level)
    mips, pull_mips = dn.texture_mips(texture)
    assert [m.shape for m in mips] == [(2, 4, 8, 2), (2, 2, 4, 2), (2, 1, 2, 2), (2, 1, 1, 2)]
    given, pull_given = dn.texture(texture, uv, mip_level_bias=level, mip=mips)
    assert np.abs(made - given).max() < 1e-6
    slopes = pull_given(made)
    total = slopes["tex"] + pull_mips(*(slopes[f"mip[{k}]"] for k in range(4)))["tex"]
    assert np.abs(total - pull(made)["tex"]).max() < 1e-4
    limited, _ = dn.texture(texture, uv, mip_level_bias=level, max_mip_level=2)
    shorter, _ = dn.texture(texture, uv, mip_level_bias=level, mip=mips[:2])
    capped, _ = dn.texture(texture, uv, mip_level_bias=np.minimum(level, 2))
    assert np.abs(limited - shorter).max() < 1e-6 and np.abs(limited - capped).max() < 1e-6
    flat, _ = dn.texture(texture, uv, mip_level_bias=level, max_mip_level=0)
    assert np.abs(flat - dn.texture(texture, uv)[0]).max() < 1e-6


def corners_of(direction):
    """The face, and s and t on it in [-1, 1], by the table of OpenGL's cube maps."""
    x, y, z = direction
    axis = int(np.abs(direction).argmax())
    face = 2 * axis + (direction[axis] < 0)
    s, t = [(-z, -y), (z, -y), (x, z), (x, -z), (x, -y), (-x, -y)][face]
    return face, s / abs(direction[axis]), t / abs(direction[axis])


@pytest.mark.one_driver
def test_cube_maps(on_device, random):
    cube = random.normal(size=(1, 6, 4, 4, 3))
    d = random.normal(size=(1, 9, 9, 3))
    d[0, 0, 0] = 0
    nearest, _ = dn.texture(cube, d, filter_mode="nearest", boundary_mode="cube")
    linear, pull = dn.texture(cube, d, boundary_mode="cube")
    assert np.abs(nearest[0, 0, 0]).max() == 0 and np.abs(linear[0, 0, 0]).max() == 0
    for row, column in np.ndindex(9, 9):
        if row or column:
            face, s, t = corners_of(d[0, row, column])
            uv = np.array([s, t]) * 0.5 + 0.5
            i, j = np.minimum((uv * 4).astype(int), 3)
            assert np.abs(nearest[0, row, column] - cube[0, face, j, i]).max() < 1e-6
            if np.abs(np.array([s, t])).max() < 0.7:
                assert np.abs(linear[0, row, column] - bilinear(cube[0, face], uv, "clamp")).max() < 1e-4
    slopes = pull(np.ones_like(linear))
    assert abs(slopes["tex"].sum() - 3 * 80) < 1e-2  # weights of a filter add up to 1, and (0, 0, 0) has none
    assert np.abs(slopes["uv"][0, 0, 0]).max() == 0
    length = (slopes["uv"] * d).sum(-1)  # the length of a direction does not matter
    assert np.abs(length).max() < 1e-3 * np.abs(slopes["uv"]).max()


@pytest.mark.one_driver
def test_levels_of_cube_maps_are_those_of_the_place_on_the_face(on_device, random):
    cube = np.broadcast_to(np.arange(6.0)[None, :, None, None, None], (1, 6, 16, 16, 1)).copy()
    ramp = [cube[:, :, :: 2**k, :: 2**k] * 0 + 10.0 * (k + 1) for k in range(4)]
    d = np.zeros((1, 1, 8, 3))
    d[..., 0], d[..., 1], d[..., 2] = random.uniform(-0.5, 0.5, 8), random.uniform(-0.5, 0.5, 8), -2.0
    da = random.uniform(-0.4, 0.4, (1, 1, 8, 6))
    value, pull = dn.texture(
        cube * 0, d, da, mip=[m * 1.0 for m in ramp[1:]] + [ramp[3][:, :, :1, :1] + 10], boundary_mode="cube"
    )
    expected = []
    for (x, y, z), (xx, xy, yx, yy, zx, zy) in zip(d[0, 0], da[0, 0]):
        by = np.array([[1 / z, 0, -x / z**2], [0, 1 / z, -y / z**2]]) @ np.array(
            [[xx, xy], [yx, yy], [zx, zy]]
        )
        level = np.log2(np.linalg.svd(by * 8, compute_uv=False)[0])
        expected.append(np.interp(np.clip(level, 0, 4), range(5), [0, 20, 30, 40, 50]))
    assert np.abs(value[0, 0, :, 0] - expected).max() < 1e-3
    assert np.abs(pull(np.ones_like(value))["uv_da"]).max() > 0


T, UV = np.zeros((1, 4, 4, 3)), np.zeros((1, 2, 2, 2))


ANTIALIAS_SIZE = (48, 48)
POINTS, TRIANGLES = octahedron()
POINTS = POINTS - Q([0.1, 0.05, 3.0])
PROJECTION = perspective(np.eye(3)) - perspective(np.zeros((1, 3)))  # of directions: linear


def picture(points: np.ndarray, colours: np.ndarray):
    """(1, H, W, 3), and a function from its gradient to that by the points."""
    pos = perspective(points)[None]
    (rast, _), pull_rast = dn.rasterize(pos, TRIANGLES, ANTIALIAS_SIZE)
    colour, pull_colour = dn.interpolate(colours, rast, TRIANGLES)
    smooth, pull_smooth = dn.antialias(colour, rast, pos, TRIANGLES)

    def pull(seed: np.ndarray) -> np.ndarray:
        by = pull_smooth(seed)
        by_clip = by["pos"] + pull_rast(pull_colour(by["color"])["rast"])["pos"]
        return by_clip[0] @ PROJECTION.T

    return smooth, pull


def sampled(points: np.ndarray, colours: np.ndarray, samples: int = 12) -> np.ndarray:
    """The same picture as the mean of so many samples along each side of a pixel."""
    height, width = ANTIALIAS_SIZE
    (rast, _), _ = dn.rasterize(perspective(points)[None], TRIANGLES, (height * samples, width * samples))
    colour, _ = dn.interpolate(colours, rast, TRIANGLES)
    return colour.reshape(1, height, samples, width, samples, 3).mean((2, 4))


def directions() -> list[np.ndarray]:
    """Translations, growth, rotations, one vertex."""
    around = POINTS - POINTS.mean(0)
    return [
        *(np.tile(axis, (6, 1)) for axis in np.eye(3)),
        around,
        *(np.cross(axis, around) for axis in np.eye(3)[1:]),
        np.eye(6)[:, :1] * [1, 0.3, 0],
    ]


@pytest.mark.one_driver
def test_the_gradient_is_that_of_the_loss_of_a_sampled_picture(on_device, random):
    """Along each direction by a pixel to either side: L(+1) - L(-1) against the gradient integrated between."""
    colours = random.uniform(0, 1, (6, 3))
    target = sampled(POINTS * 1.07 + [0.1, 0, 0], colours)
    pixel, samples = 3 / ANTIALIAS_SIZE[0], 12
    changes, found = [], []
    for way in directions():
        ends = [((sampled(POINTS + s * pixel * way, colours) - target) ** 2).sum() for s in (1, -1)]
        slopes = []
        for t in (np.arange(samples) + 0.5) / samples * 2 - 1:
            drawn, pull = picture(POINTS + t * pixel * way, colours)
            slopes.append((pull(2 * (drawn - target)) * way).sum())
        changes.append(ends[0] - ends[1])
        found.append(np.mean(slopes) * 2 * pixel)
    changes, found = np.array(changes), np.array(found)
    assert (np.abs(found - changes) < 0.02 * np.abs(changes).max()).all()
    assert abs(np.median(found / changes) - 1) < 0.04


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


@pytest.mark.parametrize("edge", [1.8, 2.2, 2.8])
def test_shaded_edges_move_by_the_colour_at_the_edge(on_device, edge):
    """Column c has the colour 1 + 2 c at its centre, c + 1/2."""
    pos = np.array([[[-1, -1, 0, 1], [edge / 2 - 1, -1, 0, 1], [edge / 2 - 1, 9, 0, 1]]])
    (rast, _), _ = dn.rasterize(pos, TRIANGLE, (4, 4))
    value, pull = dn.antialias((rast[..., 3:] > 0) * (1 + 2.0 * np.arange(4))[:, None], rast, pos, TRIANGLE)
    moved = pull(np.ones_like(value))["pos"][0, 1:, 0].sum()  # 4 pixels are 2 units, in each of 4 rows
    assert abs(moved / (2 * 4) - 2 * edge) < 1e-3


@pytest.mark.one_driver
def test_each_image_blends_what_it_shows(on_device):
    """In range mode, edges of triangles that an image does not draw stay out of it."""
    two = np.concatenate([POINTS, POINTS * [1, 1, 0.9] + [0.4, 0.1, 0]])
    faces = np.concatenate([TRIANGLES, TRIANGLES + 6])
    shared = perspective(two)
    (rast, _), _ = dn.rasterize(shared, faces, ANTIALIAS_SIZE, ranges=[[0, 8], [8, 8]])
    colour = (rast[..., 3:] > 0).astype(float)
    together, _ = dn.antialias(colour, rast, shared, faces)
    for k in range(2):
        pos = shared[None, 6 * k : 6 * k + 6]
        (one, _), _ = dn.rasterize(pos, TRIANGLES, ANTIALIAS_SIZE)
        alone, _ = dn.antialias(colour[k : k + 1], one, pos, TRIANGLES)
        assert np.abs(together[k] - alone[0]).max() < 1e-5
    assert np.abs(together - colour).max() > 0.1


R = np.zeros((2, 4, 4, 4))


BAD = [
    ("pos has the shape", lambda: dn.rasterize(np.zeros((3, 4)), TRIANGLE, (8, 8))),
    ("tri has the shape", lambda: dn.rasterize(np.zeros((1, 3, 4)), [[0, 1]], (8, 8))),
    ("tri holds int32", lambda: dn.rasterize(np.zeros((1, 3, 4)), [[0.5, 1, 2]], (8, 8))),
    ("the resolution is", lambda: dn.rasterize(np.zeros((1, 3, 4)), TRIANGLE, (8, 0))),
    ("pos is empty", lambda: dn.rasterize(np.zeros((1, 0, 4)), TRIANGLE, (8, 8))),
    ("ranges has the shape", lambda: dn.rasterize(np.zeros((3, 4)), TRIANGLE, (8, 8), ranges=[0, 1])),
    ("attr has the shape", lambda: dn.interpolate(np.zeros(3), RAST, [[0, 1, 2]])),
    ("attr has 3 images, and rast has 2", lambda: dn.interpolate(np.zeros((3, 3, 1)), RAST, [[0, 1, 2]])),
    ("rast has the shape", lambda: dn.interpolate(np.zeros((3, 1)), RAST[0], [[0, 1, 2]])),
    ("needs rast_db", lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], diff_attrs="all")),
    ("attribute 4; there are 1", lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, [4])),
    ("diff_attrs is 'all' or a list", lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, [1.5])),
    ("diff_attrs is one of", lambda: dn.interpolate(np.zeros((3, 1)), RAST, [[0, 1, 2]], RAST, "some")),
    ("tex has the shape", lambda: dn.texture(T[0], UV)),
    ("uv has the shape", lambda: dn.texture(T, UV[..., :1])),
    ("tex has 3 images, and uv has 1", lambda: dn.texture(np.zeros((3, 4, 4, 3)), UV)),
    ("filter_mode is one of", lambda: dn.texture(T, UV, filter_mode="cubic")),
    ("boundary_mode is one of", lambda: dn.texture(T, UV, boundary_mode="mirror")),
    ("needs uv_da or mip_level_bias", lambda: dn.texture(T, UV, filter_mode="linear-mipmap-linear")),
    ("uv_da has the shape", lambda: dn.texture(T, UV, UV)),
    ("faces of a cube map are square", lambda: dn.texture(np.zeros((1, 6, 4, 2, 3)), np.zeros((1, 2, 2, 3)), boundary_mode="cube")),
    ("max_mip_level must be at least 0", lambda: dn.texture(T, UV, mip_level_bias=UV[..., 0], max_mip_level=-1)),
    ("mip.0. has the shape", lambda: dn.texture(T, UV, mip_level_bias=UV[..., 0], mip=[T])),
    ("mip has 3 levels", lambda: dn.texture(T, UV, mip_level_bias=UV[..., 0], mip=[T[:, :2, :2], *[T[:, :1, :1]] * 2])),
    ("color has the shape", lambda: dn.antialias(R[0], R, np.zeros((2, 3, 4)), TRIANGLE)),
    ("rast has the shape", lambda: dn.antialias(R, R[:1], np.zeros((2, 3, 4)), TRIANGLE)),
    ("pos has 1 images, and color has 2", lambda: dn.antialias(R, R, np.zeros((1, 3, 4)), TRIANGLE)),
    ("tri has the shape", lambda: dn.antialias(R, R, np.zeros((2, 3, 4)), TRIANGLE[0])),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "call"), BAD, ids=[sentence for sentence, _ in BAD])
def test_bad_input_ends_in_one_sentence(sentence, call):
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_triangles_with_wrong_vertices_end_in_one_sentence(on_device):
    with pytest.raises(InputError, match="faces use vertex -1"):
        dn.antialias(R[:1], R[:1], np.zeros((1, 3, 4)), [[0, 1, -1]])


@pytest.mark.one_driver
def test_the_gradient_of_a_wrapped_graph_is_that_of_gradient(on_device, random):
    def function(image, weight):
        blurred = image + F.shift(image, 1, 0) * weight
        return F.sigmoid(blurred), F.mean(F.square(blurred))

    image, weight = random.normal(size=(5, 7, 3)), random.normal(size=(5, 7))
    (blurred, mean), pull = dn.wrap(function)(image, weight)
    assert blurred.shape == (1, 5, 7, 3) and mean.shape == (1, 1, 1, 3)
    seeds = random.normal(size=blurred.shape), random.normal(size=mean.shape)
    x, w = Variable.of(image), Variable.of(weight)
    y, m = function(x, w)
    total = sum(F.sum(F.dot(Variable.of(s), v)) for s, v in zip(seeds, (y, m)))
    expected = evaluate([y, m, *gradient(total, [x, w])])
    found = pull(*seeds)
    assert np.abs(blurred - expected[0]).max() < 1e-6
    assert np.abs(found["image"] - expected[2][0]).max() < 1e-5
    assert np.abs(found["weight"] - expected[3][0]).max() < 1e-5
    assert np.abs(pull(None, seeds[1])["image"] - expected[2][0]).max() > 1e-3


@pytest.mark.one_driver
def test_lists_and_batches_come_back_as_they_were_given(on_device, random):
    points = random.normal(size=(3, 5, 2))
    double = dn.wrap(lambda points: points * 2.0, types={"points": VEC2}, batched=True)
    value, pull = double(points)
    assert np.allclose(value, 2 * points) and pull(value)["points"].shape == (3, 5, 2)
    value, pull = dn.wrap(lambda points: points * 2.0)(points[0])
    assert value.shape == (5, 2) and pull(value)["points"].shape == (5, 2)
    counted, _ = dn.wrap(lambda points: F.to_int(points))(points[0])
    assert counted.dtype == np.int32


@pytest.mark.one_driver
def test_soft_silhouettes_of_tensors(on_device):
    points, triangles = octahedron(0.8)

    def silhouette(position):
        clip = F.vec4(position.xy, (position.z + position.w) * 0.5, position.w)
        return hard_soft_ras(
            clip, triangles, face_count=8, size=(24, 24), radius=0.2, form="outer"
        ).silhouette

    soft, pull = dn.wrap(silhouette, types={"position": VEC4})(perspective(points - [0, 0, 3]))
    assert 0 < soft.min(initial=1, where=soft > 0) < 0.5 and soft.max() == 1
    outwards = pull(np.ones_like(soft))["position"][:, :2] * perspective(points - [0, 0, 3])[:, :2]
    assert outwards.sum() > 1  # growing covers more


@pytest.mark.one_driver
def test_one_program_serves_all_calls_of_a_signature(device):
    from dressi.frameworks import engine

    calls = []
    with engine.using(device) as found:
        function = dn.wrap(lambda image: calls.append(image) or image + 1.0)
        for value in (0.0, 1.0, 2.0):
            assert function(np.full((4, 6), value))[0].max() == value + 1
        once = len(calls)
        for _ in range(3):
            function(np.zeros((6, 4)))
        assert len(found._kept) == 2 and len(calls) == 2 * once
    assert isinstance(found, Engine) and not found._kept


@pytest.mark.one_driver
def test_meshes_of_similar_size_share_programs(device, random):
    """As with remeshing: the rest of the lists is not drawn, and gradients have the shapes of the inputs."""
    from dressi.frameworks import engine

    points, triangles = octahedron()
    with engine.using(device) as found:
        pictures = []
        for extra in (27, 28):
            more = np.concatenate([points - [0, 0, 3], random.normal(size=(extra, 3))])
            pos = perspective(more)[None]
            unused = np.full((extra, 3), 3)  # points
            faces = np.concatenate([triangles, unused])
            (rast, _), pull = dn.rasterize(pos, faces, (16, 16))
            mask = (rast[..., 3:] > 0).astype(float)
            smooth, pull_smooth = dn.antialias(mask, rast, pos, faces)
            pictures.append(smooth)
            assert pull(rast)["pos"].shape == pos.shape == pull_smooth(mask)["pos"].shape
        assert len(found._kept) == 2
    assert all(np.array_equal(picture, pictures[0]) for picture in pictures)


@pytest.mark.one_driver
def test_programs_in_excess_are_dropped(device, monkeypatch):
    from dressi.frameworks import engine

    monkeypatch.setattr(engine, "KEPT", 2)
    with engine.using(device) as found:
        function = dn.wrap(lambda image: image * 2.0)
        for width in (1, 2, 3, 1):
            value, pull = function(np.ones((5, width)))
            assert pull(value)["image"].max() == 4
        gc.collect()
        assert len(found._kept) == 2


@pytest.mark.one_driver
def test_anything_with_dlpack_is_an_array(on_device):
    class Other:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    pos = np.array([[[-1, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]], np.float32)
    (rast, _), _ = dn.rasterize(Other(pos), Other(TRIANGLE), (4, 4))
    assert rast[..., 3].sum() > 4 and np.from_dlpack(rast).shape == (1, 4, 4, 4)


WRAP_BAD = {
    "wrap takes a function": lambda: dn.wrap(3),
    "has no argument 'x'": lambda: dn.wrap(lambda y: y, types={"x": VEC2}),
    "has positional arguments alone": lambda: dn.wrap(lambda *x: x[0]),
    "takes image, not 2 arrays": lambda: dn.wrap(lambda image: image)(1.0, 2.0),
    "returns a Variable": lambda: dn.wrap(lambda image: 3.0)(np.zeros((4, 6))),
    "there are 1 outputs, not 2": lambda: dn.wrap(lambda image: image)(np.zeros((4, 6)))[1](0, 0),
    "has the shape": lambda: dn.wrap(lambda image: image)(np.zeros((4, 6)))[1](np.zeros(3)),
    "not numbers": lambda: dn.wrap(lambda image: image)(np.array(["a"])),
    "no array that NumPy can read": lambda: dn.wrap(lambda image: image)([[1.0], [1.0, 2.0]]),
}


@pytest.mark.one_driver
@pytest.mark.parametrize("sentence", WRAP_BAD)
def test_bad_input_of_wrapped_functions_ends_in_one_sentence(on_device, sentence):
    with pytest.raises((InputError, GraphError), match=sentence):
        WRAP_BAD[sentence]()


@pytest.mark.one_driver
def test_examples_run(on_device, examples):
    result = examples(dn)
    assert result.failed == 0 and result.attempted > 15
