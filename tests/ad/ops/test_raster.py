"""The rasterizer's meaning: coverage, order, the fragment sub-graph."""

import time

import numpy as np
import pytest

from dressi import FLOAT, INT, IVEC3, VEC2, VEC4, Access, F, GraphError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.ops.image.draws import rasterize
from dressi.ad.transform.simplify import simplify, verify

SIZE = (12, 8)


def positions(corners, batch=1):
    """A VEC4 list of clip positions; ``corners`` (batch, n, 4) or (n, 4)."""
    corners = np.asarray(corners, float).reshape(batch, -1, 4)
    return Variable(VEC4, (corners.shape[1], 1), batch, name="position", data=corners[:, None])


def pixels(points, z=0.5, w=1.0, size=SIZE):
    """Clip positions of points given in pixels."""
    points = np.asarray(points, float)
    ndc = points / np.array(size) * 2 - 1
    return np.concatenate([ndc * w, np.full((len(points), 1), z * w), np.full((len(points), 1), w)], axis=1)


def faces(rows):
    rows = np.asarray(rows, np.int64)
    return Variable(IVEC3, (len(rows), 1), data=rows[None, None])


def test_a_rectangle_covers_the_pixels_whose_centres_it_holds():
    corners = positions(pixels([(2, 1), (7, 1), (7, 4), (2, 4)]))
    (ids,) = evaluate([rasterize(corners, faces([(0, 1, 2), (0, 2, 3)]), size=SIZE, triangles_per_face=2)])
    expected = np.full((1, 8, 12), -1)
    expected[0, 1:4, 2:7] = 0
    assert np.array_equal(ids, expected)


def test_y_goes_down_and_both_sides_are_drawn():
    low = pixels([(0, 8), (12, 8), (0, 0)])
    for corners in (low, low[::-1]):
        (ids,) = evaluate([rasterize(positions(corners), size=SIZE)])
        assert ids[0, 7, 0] == 0 and ids[0, 0, 11] == -1


def random_triangles(count, batch, seed=0, size=SIZE):
    random = np.random.default_rng(seed)
    w = random.uniform(0.5, 2, (batch, count, 3, 1))
    xy = random.uniform(-1, 1, (batch, count, 1, 2)) + random.normal(size=(batch, count, 3, 2)) * 0.3
    z = random.uniform(-0.1, 1.1, (batch, count, 3, 1))
    return np.concatenate([xy, z, np.ones_like(z)], axis=-1) * w


def brute_force(corners, size):
    """One triangle after the other, over all pixels: the definition."""
    depth, winner = np.full(size[::-1], np.inf), np.full(size[::-1], -1)
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    for k, triangle in enumerate(corners):
        ndc = triangle[:, :3] / triangle[:, 3:]
        p = (ndc[:, :2] * 0.5 + 0.5) * np.array(size)
        cross = [
            (p[j, 0] - p[i, 0]) * (y - p[i, 1]) - (p[j, 1] - p[i, 1]) * (x - p[i, 0])
            for i, j in ((1, 2), (2, 0), (0, 1))
        ]
        weights = np.stack(cross) / sum(cross)
        z = (weights * ndc[:, 2, None, None]).sum(axis=0).astype(np.float32)
        won = (weights >= 0).all(axis=0) & (z >= 0) & (z <= 1) & (z < depth)
        depth[won], winner[won] = z[won], k
    return winner


def test_random_triangles_agree_with_brute_force():
    corners = random_triangles(60, 3)
    (ids,) = evaluate([rasterize(positions(corners, 3), size=(24, 17))])
    assert np.array_equal(ids, [brute_force(tile, (24, 17)) for tile in corners])


def test_small_chunks_give_the_same_image(monkeypatch):
    ids = rasterize(positions(random_triangles(60, 2), 2), size=(24, 17))
    (whole,) = evaluate([ids])
    monkeypatch.setattr("dressi.ad.ops.image.draws.PAIRS", 50)
    assert np.array_equal(evaluate([ids])[0], whole)


def test_the_nearer_face_wins_and_of_equal_ones_the_lower():
    square = [(1, 1), (9, 1), (1, 7)]
    stack = np.concatenate([pixels(square, z) for z in (0.7, 0.3, 0.3, 0.5)])
    (ids,) = evaluate([rasterize(positions(stack), size=SIZE)])
    assert set(np.unique(ids)) == {-1, 1}


def test_a_depth_of_one_is_the_background():
    square = pixels([(1, 1), (9, 1), (1, 7)], 1.0)
    assert (evaluate([rasterize(positions(square), size=SIZE)])[0] == -1).all()
    near = positions(pixels([(1, 1), (9, 1), (1, 7)]))
    for depth, winner in ((1.0, -1), (7.0, -1), (0.999, 0), (-3.0, 0)):
        ids = rasterize(near, size=SIZE, fragment=lambda face, depth=depth: (F.to_float(face) + depth, None))
        assert evaluate([ids])[0].max() == winner


def test_lists_wrap_and_may_be_longer_than_what_is_drawn():
    corners = random_triangles(30, 1)
    flat = np.zeros((1, 4, 32, 4))
    flat.reshape(1, -1, 4)[:, :90] = corners.reshape(1, -1, 4)
    wrapped = Variable(VEC4, (32, 4), data=flat)
    order = np.zeros((1, 4, 8, 3), np.int64)
    order.reshape(1, -1, 3)[:, :30] = np.arange(90).reshape(30, 3)
    indexed = rasterize(wrapped, Variable(IVEC3, (8, 4), data=order), size=SIZE)  # padding: degenerate faces
    drawn = rasterize(wrapped, size=SIZE, triangles=30)
    one, two, three = evaluate([indexed, drawn, rasterize(positions(corners), size=SIZE)])
    assert np.array_equal(one, three) and np.array_equal(two, three)


@pytest.mark.parametrize("batch", [1, 2])
def test_faces_that_are_not_live_are_not_drawn(batch):
    """As if they had no area; the mask may have padding, and decide the batch."""
    corners = random_triangles(12, 1)
    mask = np.zeros((batch, 1, 9))
    mask[..., :6] = np.random.default_rng(3).integers(0, 2, (batch, 1, 6))
    live = Variable(FLOAT, (9, 1), batch, data=mask)
    (ids,) = evaluate([rasterize(positions(corners), size=SIZE, triangles_per_face=2, live=live)])
    for tile in range(batch):
        left = corners.reshape(6, 6, 4) * mask[tile, 0, :6, None, None]
        expected = evaluate([rasterize(positions(left), size=SIZE, triangles_per_face=2)])[0]
        assert np.array_equal(ids[tile], expected[0]) and len(np.unique(ids)) > 2


@pytest.mark.parametrize("broken", [(np.nan, 0, 0.5, 1), (np.inf, 0, 0.5, 1), (0, 0, 0, 0)])
def test_triangles_that_reach_nowhere_are_dropped(broken):
    corners = pixels([(0, 0), (12, 0), (0, 8)])
    corners[1] = broken
    assert (evaluate([rasterize(positions(corners), size=SIZE)])[0] == -1).all()


def behind_the_eye(count, size, seed=5):
    """Triangles with corners on both sides of the eye, and what they cover by the rays through all pixels."""
    random = np.random.default_rng(seed)
    # z is the depth before the eye
    eye = random.uniform(-1, 1, (count, 3, 3)) * (1.5, 1.0, 1.0) + (0.0, 0.0, 0.4)
    near, far = 0.05, 3.0
    x, y, z = np.moveaxis(eye, -1, 0)
    clip = np.stack([x, y, (z - near) * far / (far - near), z], axis=-1)
    depth, winner = np.full(size[::-1], np.inf), np.full(size[::-1], -1)
    for row in range(size[1]):
        for column in range(size[0]):
            ray = np.array([(column + 0.5) / size[0] * 2 - 1, (row + 0.5) / size[1] * 2 - 1, 1.0])
            for k, corners in enumerate(eye):
                weights = np.linalg.solve(corners.T, ray)  # the point where they add up to one
                t = 1 / weights.sum()
                if (weights * t >= 0).all() and near <= t <= far and t < depth[row, column]:
                    depth[row, column], winner[row, column] = t, k
    return clip, winner


def test_triangles_that_reach_behind_the_eye_are_clipped():
    clip, winner = behind_the_eye(12, (24, 17))
    assert ((clip[..., 3] < 0).any(axis=1) & (clip[..., 3] > 0).any(axis=1)).sum() >= 6
    (ids,) = evaluate([rasterize(positions(clip), size=(24, 17))])
    assert len(np.unique(winner)) > 3 and np.array_equal(ids[0], winner)


def test_depth_outside_the_clip_volume_is_cut():
    corners = pixels([(0, 0), (12, 0), (0, 8)])
    corners[:, 2] = (-1, 1, 1)
    (ids,) = evaluate([rasterize(positions(corners), size=SIZE)])
    assert ids[0, 0, 0] == -1 and ids[0, 0, 9] == 0


def test_a_fragment_orders_and_discards():
    square = [(0, 0), (24, 0), (0, 16)]
    stack = positions(np.concatenate([pixels(square) for _ in range(3)]))
    centres = Variable(VEC2, (3, 1), data=[[[(2.0, 2.0), (10.0, 2.0), (6.0, 6.0)]]])
    radius = Variable(FLOAT, data=[[[4.0]]])

    def fragment(face):
        here = F.to_float(F.pixel_coordinates(SIZE)) + 0.5
        distance = F.length(here - F.lookup(centres, face))
        return distance / 20.0, F.less(distance, radius)

    ids = rasterize(stack, size=SIZE, fragment=fragment)
    verify([ids])
    y, x = np.meshgrid(np.arange(8) + 0.5, np.arange(12) + 0.5, indexing="ij")
    distance = np.stack([np.hypot(x - cx, y - cy) for cx, cy in centres.data[0, 0]])
    expected = np.where(distance.min(axis=0) < 4.0, distance.argmin(axis=0), -1)
    assert np.array_equal(evaluate([ids])[0][0], expected)


def test_what_depends_on_the_face_runs_in_the_fragment_and_the_rest_outside():
    stack = positions(np.tile(pixels([(0, 0), (24, 0), (0, 16)]), (2, 1)))
    image = Variable(FLOAT, SIZE, name="image", data=np.zeros((1, 8, 12)))
    table = Variable(FLOAT, (2, 1), name="table", data=[[[0.2, 0.1]]])
    smooth = F.sin(image)
    ids = rasterize(stack, size=SIZE, fragment=lambda face: (F.lookup(table * 2.0, face) + smooth, None))
    function = ids.creator
    assert [x.name for x in function.externals if x.name] == []
    assert sorted(type(f).__name__ for f in function.fragment.functions) == ["Add", "Lookup"]
    first, *others = function.access
    fetched = {type(x.creator).__name__: a for x, a in zip(function.externals, others, strict=True)}
    assert first is Access.PULL and fetched == {"Mul": Access.FETCH, "Sin": Access.SAME_PIXEL}
    assert (evaluate([ids])[0] == 1).all()


def test_the_batch_comes_from_positions_or_from_what_the_fragment_reads():
    shared = positions(pixels([(0, 0), (24, 0), (0, 16)]))
    depth = Variable(FLOAT, (1, 1), 3, data=np.array([0.1, np.nan, 0.3]).reshape(3, 1, 1))
    ids = rasterize(shared, size=SIZE, fragment=lambda face: (depth + F.to_float(face), None))
    (values,) = evaluate([ids])
    assert ids.batch == 3
    assert [int(v.max()) for v in values] == [0, -1, 0]  # NaN never wins
    assert rasterize(positions(random_triangles(2, 4), 4), size=SIZE).batch == 4


def test_tables_of_a_batch_are_read_in_their_own_tile():
    stack = positions(np.tile(pixels([(0, 0), (24, 0), (0, 16)]), (2, 2, 1)), 2)
    table = Variable(FLOAT, (2, 1), 2, data=[[[0.1, 0.2]], [[0.9, 0.3]]])
    (ids,) = evaluate([rasterize(stack, size=SIZE, fragment=lambda face: (F.lookup(table, face), None))])
    assert (ids[0] == 0).all() and (ids[1] == 1).all()


def test_equal_rasterizations_are_one():
    stack = positions(random_triangles(4, 1))
    table = Variable(FLOAT, (4, 1), data=np.zeros((1, 1, 4)))

    def draw(scale):
        return rasterize(stack, size=SIZE, fragment=lambda face: (F.lookup(table, face) * scale, None))

    outputs = simplify(Program({"a": draw(0.5), "b": draw(0.5), "c": draw(0.25)})).outputs
    assert outputs["a"] is outputs["b"] and outputs["a"] is not outputs["c"]


def test_there_is_no_derivative():
    stack = positions(random_triangles(4, 1))
    ids = rasterize(stack, size=SIZE)
    assert not evaluate(gradient(F.sum(F.to_float(ids)), [stack]))[0].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"triangles": 3}, "cannot draw 3 triangles of a list of 2"),
        ({"triangles_per_face": 3}, "do not make faces"),
        ({"position": Variable(VEC2, (6, 1))}, "VEC4"),
        ({"faces": Variable(VEC4, (6, 1))}, "IVEC3"),
        ({"fragment": lambda face: (face, None)}, "are FLOAT"),
        ({"fragment": lambda face: (F.sum(F.to_float(face)), None)}, "texel by texel"),
        ({"live": Variable(FLOAT)}, "2 faces need as many texels"),
        ({"live": Variable(VEC2, (2, 1))}, "FLOAT or INT"),
        ({"fragment": lambda face: (Variable(FLOAT, (3, 3)), None)}, "1x1 or 12x8"),
        ({"fragment": lambda face: (F.lookup(F.to_float(face), Variable(INT)), None)}, "texel by texel"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(GraphError, match=message):
        rasterize(**{"position": positions(random_triangles(2, 1)), "size": SIZE} | options)


def test_a_soft_band_of_many_faces_is_fast():
    corners = random_triangles(1500, 1, size=(128, 128))
    stack = positions(np.repeat(corners, 2, axis=1))

    def fragment(face):
        here = (F.to_float(F.pixel_coordinates((128, 128))) + 0.5) * (2.0 / 128) - 1.0
        a = F.lookup(stack, face * 6)
        return F.length(here - a.xy / a.w) * 0.1, None

    ids = rasterize(stack, size=(128, 128), triangles_per_face=2, fragment=fragment)
    start = time.perf_counter()
    evaluate([ids])
    assert time.perf_counter() - start < 10
