"""Gathers and their transposes, long lists, and accumulation."""

import random

import numpy as np
import pytest
from examples_gathers import SHAPE, TAKEN, domain, matrix, some_map, summed
from numpy.testing import assert_allclose

from dressi import DressiAD, F, GraphError, LevenbergMarquardt, Variable, adam, gradient, jvp, least_squares
from dressi.ad.check import check_gradient
from dressi.ad.contract.contraction import ContractFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.index_map import Affine
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT, INT, IVEC2, IVEC3, LIST_WIDTH, VEC3, VEC4
from dressi.ad.ops.image.coordinates import affine
from dressi.ad.ops.image.image import Gather
from dressi.ad.ops.image.lookup import Lookup, ScatterAdd


@pytest.mark.parametrize("seed", range(60))
def test_gathers_and_their_transposes_are_matrices(seed):
    rng = random.Random(seed)
    index = some_map(rng)
    m = matrix(index, TAKEN, SHAPE)
    x, g = np.random.default_rng(seed).normal(size=(2, 200))
    x, g = x[: m.shape[1]].reshape(2, 3, 4), g[: m.shape[0]].reshape(3, 4, 5)
    gather = Gather(Variable.of(x, FLOAT), index, domain(SHAPE))
    if gather.output.domain != domain(SHAPE):
        return  # the axes of the batch are left alone
    assert np.allclose(evaluate([gather.output])[0].ravel(), m @ x.ravel())
    for back in (gather.vjp(Variable.of(g, FLOAT), 0).creator, summed(Variable.of(g, FLOAT), index)):
        assert np.allclose(evaluate([back.output])[0].ravel(), m.T @ g.ravel())
        assert np.allclose(evaluate([back.vjp(Variable.of(x, FLOAT), 0)])[0].ravel(), m @ x.ravel())
    assert back.iterations == 0 or back.iterations >= m.sum(0).max()
    short = back.shortened(2)
    if short is not None:
        assert np.allclose(evaluate([short])[0].ravel(), m.T @ g.ravel())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: F.flip(x, "xy"),
        F.swap_axes,
        lambda x: F.subsample(x, (3, 2), (1, 1)),
        lambda x: F.crop(x, 1, 2, (2, 3)),
        lambda x: F.pad(x, 1, 2, 0, 3),
        lambda x: F.shift(x, 2, -1, "zero"),
        lambda x: F.shift(x, 2, -1, "repeat"),
        lambda x: F.crop(x, 3, 2, (1, 1)),
        lambda x: F.take(Variable(FLOAT, (2, 3), 4), F.tile_index((1, 1), 2) * 2 + 1),
    ],
)
def test_what_is_one_to_one_has_one_term_as_transpose(make):
    y = make(Variable(FLOAT, (6, 5)))
    back = y.creator.vjp(y, 0).creator
    assert isinstance(back, ContractFunction) and back.terms == 1 and back.place is None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: F.repeat(x, (20, 1)).creator.vjp(long(), 0).creator,
        lambda x: F.resize(long(), (40, 3), "area").creator,
        lambda x: F.shift(x, 30, 0).creator.vjp(x, 0).creator,
        lambda x: F.pad(x, 30, 0, 20, 1, "clamp").creator.vjp(long(90, 4), 0).creator,
    ],
)
def test_partial_sums_keep_channels(make):
    f = make(long(40))
    short = f.shortened(4)
    assert short.domain == f.output.domain and short.channels == 3
    assert np.allclose(*evaluate([short, f.output]))


def long(width=800, height=3):
    values = np.random.default_rng(1).normal(size=(2, 3, height, width))
    return Variable(FLOAT, (width, height), 2, channels=3, data=values)


def kinds(v: Variable) -> set[type]:
    return {type(f) for f in topological_order([v])}


SIZE = (12, 10)
P = F.pixel_coordinates(SIZE)
INDICES = {
    "moved": P + (1, -2),
    "smaller": F.pixel_coordinates((4, 3)) * (3, 2) + 1,
    "every third": F.pixel_coordinates((4, 3)) * 3 + 1,
    "larger": F.pixel_coordinates((30, 20)) / 3,
    "turned": P.yx,
    "reversed": F.constant((11, 9)) - P,
    "clamped": F.clamp(P + (2, -1), 0, (11, 9)),
    "sheared": F.ivec2(P.x + 2 * P.y - 5, P.y),
    "diagonal": F.ivec2(P.x, P.x),
    "row by row": F.linear_index(SIZE) + 24,
    "outside": P + 40,
}


@pytest.mark.parametrize("name", INDICES)
def test_affine_lookups_are_gathers_both_ways(name):
    x, index = Variable.of(np.random.default_rng(3).normal(size=(10, 12))), INDICES[name]
    y, direct = F.lookup(x, index), Lookup(x, index).output
    assert not kinds(y) & {Lookup, ScatterAdd}
    assert np.array_equal(evaluate([y])[0], evaluate([direct])[0])
    weights = Variable.of(np.random.default_rng(4).normal(size=y.shape), FLOAT)
    (found,), (expected,) = (gradient(F.sum(v * weights), [x]) for v in (y, direct))
    assert ScatterAdd not in kinds(found) and ScatterAdd in kinds(expected)
    assert np.allclose(evaluate([found])[0], evaluate([expected])[0])


@pytest.mark.parametrize(
    "index",
    [
        lambda: Variable(INT, SIZE),
        lambda: F.ivec2(F.mod(P.x, 5), P.y),
        lambda: P * P,
        lambda: F.linear_index((5, 5)) * 5,  # no columns and rows that are affine
    ],
)
def test_other_lookups_stay_lookups(index):
    x = Variable(FLOAT, SIZE)
    assert isinstance(F.lookup(x, index()).creator, Lookup)


def test_sums_that_cost_more_than_a_scatter_stay_scatters():
    x = Variable(FLOAT, (1, 1))
    y = F.lookup(x, F.pixel_coordinates((64, 64)) * 0)
    assert ScatterAdd in kinds(gradient(F.sum(y), [x])[0])


def test_components_of_an_index():
    i = F.linear_index((8, 3), 2)
    assert affine(F.ivec2(i * 2 - 1, -i / 1)) is None  # a quotient of negative numbers
    assert affine(F.ivec2(i / 8, 7)) == (Affine.of({3: 1, 2: 8}, 0, 8), Affine((), 7))
    assert affine(F.tile_index((1, 1), 3) * 2) == (Affine.axis(0, 2),)
    assert affine(Variable(IVEC2)) is None


def bordered_indices(w: int, h: int) -> dict[str, Variable]:
    """Indices of a table of size (w, h) that are affine within a border, as they are usually written."""
    at, large = F.pixel_coordinates((w, h)), F.pixel_coordinates((4 * w, 3 * h))
    i, j, x, y = at.x, at.y, F.to_float(large.x), F.to_float(large.y)
    return {
        "one side": F.ivec2(F.maximum(i - 3, 0), j),
        "both sides": F.ivec2(F.clamp(i + 2, 0, w - 1), F.minimum(F.maximum(j - 1, 0), h - 1)),
        "vectors": F.clamp(at + (2, -3), 0, (w - 1, h - 1)),
        "different borders": F.ivec2(F.minimum(i + 3, w - 1), F.abs(j - 2)),
        "clamped and outside": F.ivec2(F.clamp(j - 1, 0, w - 1), i - 1),
        "mirrored": F.ivec2(F.maximum(i - 2, 1 - i), h - 1 - F.abs(h - 1 - (j + 2))),
        "around": F.ivec2((i + 2) % w, j),
        "selected": F.ivec2(F.select(i > 2, i - 3, 0), j),
        "floors": F.ivec2(F.to_int(F.floor(x / 4.0)), F.to_int(y / 3.0)),
        "floors clamped": F.ivec2(F.clamp(F.to_int(F.floor((x - 2.0) * 0.25)), 0, w - 1), F.to_int(y) / 3),
        "clamped floats": F.to_int(F.clamp(F.to_float(at) + (0.5, -2.5), 0.0, (w - 1.0, h - 1.0))),
        "rows and columns apart": F.ivec2(
            F.clamp(F.pixel_coordinates((w, 1)).x - 2 + F.pixel_coordinates((1, h)).x, 0, w - 1),
            F.minimum(F.pixel_coordinates((1, h)).y + 1, h - 1),
        ),
        "rounded to zero": (at - 3) / 2,
        "numbers": F.clamp(j - 1, 0, h - 1) * w + F.clamp(i + 1, 0, w - 1),
    }


@pytest.mark.parametrize("case", bordered_indices(9, 7))
def test_lookups_within_a_border_gather_backwards(case):
    table = Variable.of(np.random.default_rng(0).normal(size=(7, 9)), FLOAT)
    index = bordered_indices(9, 7)[case]
    lookups = [F.lookup(table, index), Lookup(table, index).output]
    slope, expected_slope = (gradient(F.sum(F.square(y)), [table])[0] for y in lookups)
    assert ContractFunction in kinds(slope) and not kinds(slope) & {Lookup, ScatterAdd}
    y, expected, g, expected_g = evaluate([*lookups, slope, expected_slope])
    assert (y == expected).all()
    np.testing.assert_allclose(g, expected_g, rtol=1e-12, atol=1e-12)


def test_lookups_that_are_no_border_stay_lookups():
    """What jumps, or reads texels within the border of a part of the table."""
    table, i = Variable.of(np.arange(8.0), FLOAT), F.pixel_coordinates((8, 1)).x
    for index in ((i * i) % 8, F.clamp(i, 2, 5), F.select(i > 3, i, 7 - i)):
        found = F.lookup(table, index)
        assert isinstance(found.creator, Lookup)
        read, expected = evaluate([found, index])
        assert (read == expected).all()


def test_one_row_of_a_table_read_into_a_column():
    """The inverse has no axis left that could hold the row: the tile's are its own."""
    x, at = Variable(FLOAT, (6, 3), channels=2, data=np.ones((1, 2, 3, 6))), F.pixel_coordinates((1, 4))
    index = F.ivec2(at.y + 1, 1 + 0 * at.x)
    gradients = [gradient(F.sum(y), [x])[0] for y in (F.lookup(x, index), Lookup(x, index).output)]
    found, expected = evaluate(gradients)
    assert (found == expected).all() and expected.sum() == 8


COUNTS = [LIST_WIDTH - 1, LIST_WIDTH, LIST_WIDTH + 1, 2 * LIST_WIDTH, 3 * LIST_WIDTH - 5]


def value(y: Variable) -> np.ndarray:
    return evaluate([y])[0].squeeze()


@pytest.mark.parametrize("count", COUNTS)
def test_reductions_are_of_the_entries(count):
    x = np.random.default_rng(count).normal(size=(count, 3)) + 5.0
    for sign in (1, -1):  # what fills a row is 0, beyond one of the extremes each time
        v, numbers = Variable.of(sign * x, VEC3), Variable.of(sign * (np.arange(count) + 3))
        for reduce, expected in ((F.sum, np.sum), (F.mean, np.mean), (F.max, np.max), (F.min, np.min)):
            assert_allclose(value(reduce(v)), expected(sign * x, 0))
            # Entry by entry a list stays a list.
            assert_allclose(value(reduce(F.exp(-v) + 1.0)), expected(np.exp(-sign * x) + 1.0, 0))
        for reduce, expected in ((F.sum, np.sum), (F.max, np.max), (F.min, np.min)):
            assert value(reduce(numbers)) == expected(sign * (np.arange(count) + 3))


def test_a_batch_of_lists_is_reduced_list_by_list():
    x = np.random.default_rng(0).normal(size=(2, 5000))
    v = Variable.of(x, batched=True)
    assert_allclose(value(F.mean(v, "xy")), x.mean(1))
    assert_allclose(value(F.sum(v)), x.sum())
    assert_allclose(value(F.sum(F.sum(v, "n"))), x.sum())


@pytest.mark.parametrize("count", COUNTS)
def test_scatters_add_the_entries(count):
    index = np.arange(count) % 7
    weights = np.random.default_rng(1).normal(size=count)
    where = Variable.of(index)
    assert_allclose(value(F.scatter_add(Variable.of(weights), where, (7, 1))), np.bincount(index, weights))
    assert_allclose(value(F.scatter_add(2.0, where, (7, 1))), 2.0 * np.bincount(index))
    assert value(F.scatter_max(where + 5, where, (9, 1))).tolist() == [*range(5, 12), -1, -1]
    assert_allclose(value(F.scatter_add(Variable.of(weights), 3, (4, 1)))[3], weights.sum())


def test_gradients_are_those_of_the_entries():
    table = Variable.of(np.random.default_rng(2).normal(size=5), name="table")
    index = Variable.of(np.arange(4100) % 5)
    read = F.lookup(table, index)
    (g,) = gradient(F.sum(F.square(read)), [table])
    assert_allclose(value(g), 2 * 820 * table.data.ravel())
    check_gradient(F.mean(F.square(read)) + F.max(read), [table])
    for seed in (F.constant(1.0), Variable.of(np.ones(4100))):
        assert value(gradient(read, [table], seed)[0]).tolist() == [820] * 5
    x = Variable.of(np.ones(4100), name="x")
    assert value(gradient(F.mean(x), [x])[0]).sum() == pytest.approx(1.0)


def test_operations_across_the_ends_of_rows_are_refused():
    x = Variable.of(np.ones(5000), name="signal")
    for what in (
        lambda: F.shift(x, 1, 0),
        lambda: F.crop(x, 1, 0, (4000, 1)),
        lambda: F.pad(x, 1, 0, 0, 0),
        lambda: F.resize(x, (100, 1)),
        lambda: F.window_max(x, 1, "x"),
        lambda: F.window_min(x + 1.0, 1, "x"),
    ):
        with pytest.raises(GraphError, match=r"a list of 5000 entries, .*\(1, 5000\).*F.lookup"):
            what()
    for axes in ("x", "y", "xn"):
        with pytest.raises(GraphError, match="list of 5000 entries in rows of 4096; reduce it along 'xy'"):
            F.sum(x, axes)
    row = Variable.of(np.ones((1, 5000)))
    assert value(F.sum(F.shift(row, 1, 0), "x")) == 5000


@pytest.mark.one_driver
def test_devices_fit_a_long_list(device):
    """A line through 5000 points, by least squares and by Adam, against NumPy."""
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 1.0, 5000)
    y = 2.0 * x + 1.0 + 0.01 * rng.normal(size=5000)
    at, seen = Variable.of(x), Variable.of(y)
    slope, offset = Variable.of(0.0, name="slope"), Variable.of(0.0, name="offset")
    residual = slope * at + offset - seen
    expected = np.polyfit(x, y, 1)
    for energy in ([residual], [least_squares.Robust(residual, least_squares.huber(10.0))]):
        with DressiAD(device) as ad:
            ad.set_loss(energy)
            ad.set_optimizer(LevenbergMarquardt(), [slope, offset])
            ad.step(10)
            found = [ad.recv(slope).item(), ad.recv(offset).item()]
        assert_allclose(found, expected, rtol=1e-5)
    with DressiAD(device) as ad:
        ad.set_loss(F.mean(F.square(residual)))
        ad.set_optimizer(adam(0.1), [slope, offset])
        ad.step(1)
        assert ad.losses()[0] == pytest.approx(np.mean(y**2), rel=1e-6)


ACCUMULATE_SIZE = (8, 8)


def accumulated(*drawn, **options) -> Variable:
    return F.accumulate(*drawn, size=ACCUMULATE_SIZE, **options)


def grid(z=0.0):
    """Four squares of two triangles each that fill the image, and meet in edges through pixel centres."""
    steps = np.array([-1.0, 1 / 16 * 2, 1.0])  # 1 / 16 is the centre of a pixel beside the middle
    x, y = np.meshgrid(steps, steps)
    points = np.stack([x, y, np.full_like(x, z), np.ones_like(x)], -1).reshape(-1, 4)
    squares = [(3 * r + c, 3 * r + c + 1, 3 * r + c + 4, 3 * r + c + 3) for r in range(2) for c in range(2)]
    rows = [t for a, b, c, d in squares for t in ((a, b, c), (c, a, d))]  # of both orientations
    return Variable.of(points, VEC4), Variable.of(np.array(rows), IVEC3)


def ones(face, depth):
    return 1.0


def test_triangles_that_meet_cover_every_pixel_once():
    assert (evaluate([accumulated(*grid(), value=ones)])[0] == 1).all()


def test_every_fragment_counts_in_front_of_the_limit():
    position, faces = grid()
    layers = np.stack([position.data[0] + [0, 0, z, 0] for z in (0.25, 0.5, 0.75)])
    stack = Variable(VEC4, (9, 1), 3, data=layers)
    limit = Variable(FLOAT, ACCUMULATE_SIZE, data=np.full((1, 8, 8), 0.6))
    counts = evaluate([accumulated(stack, faces, value=ones, limit=limit)])[0]
    assert counts.reshape(3, -1).tolist() == [[1.0] * 64, [1.0] * 64, [0.0] * 64]
    twice = Variable.of(np.concatenate([faces.data.reshape(-1, 3)[:8]] * 2), IVEC3)

    def odd(face, depth):
        return F.vec3(1.0, depth, F.to_float(face)), F.mod(F.to_float(face), 2.0)

    (sums,) = evaluate([accumulated(stack, twice, value=odd)])
    assert set(sums[0, ..., 0].ravel()) == {0.0, 2.0}
    assert np.allclose(sums[..., 1], sums[..., 0] * np.array([0.25, 0.5, 0.75])[:, None, None])
    assert sums[1, ..., 2].max() == 7 + 15


def test_derivatives_by_the_depth_and_none_by_what_decides():
    position, faces = grid(0.5)
    limit = Variable(FLOAT, data=0.9)
    drawn = accumulated(position, faces, value=lambda face, depth: depth * 4.0, limit=limit)
    slope, none = evaluate(gradient(F.sum(drawn), [position, limit]))
    assert np.isclose(slope[..., 2].sum(), 4 * 64) and not none.any()  # the weights of corners add up to one
    moved = Variable(VEC4, position.size, data=np.tile([0.0, 0.0, 0.1, 0.0], (1, 1, 9, 1)))
    assert np.allclose(evaluate(jvp([drawn], [position], [moved]))[0], 0.4)


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (lambda face, depth: face, {}, "adds floats"),
        (lambda face, depth: (depth, face), {}, "masks of a fragment are FLOAT"),
        (lambda face, depth: None, {}, "returns the value of a fragment"),
        (lambda face, depth: F.sum(depth), {}, "texel by texel"),
        (lambda face, depth: Variable(FLOAT, (3, 3)), {}, "1x1 or 8x8"),
        (ones, {"limit": Variable(VEC3)}, "limits of a fragment are FLOAT"),
        (ones, {"limit": Variable(FLOAT, (4, 4))}, "one texel or of 8x8"),
        (ones, {"triangles": 9}, "cannot draw 9 triangles of a list of 8"),
        (ones, {"live": Variable(INT, (3, 1))}, "8 faces need as many texels"),
    ],
)
def test_mistakes_are_named(value, options, message):
    with pytest.raises(GraphError, match=message):
        accumulated(*grid(), value=value, **options)


def test_the_depth_of_faces_of_several_triangles_has_no_derivative():
    position, faces = grid()
    drawn = accumulated(position, faces, triangles_per_face=2, value=lambda face, depth: depth * depth)
    with pytest.raises(GraphError, match="triangles_per_face=1"):
        gradient(F.sum(drawn), [position])


def test_a_mark_in_a_value_stops_its_gradient():
    table = Variable.of([2.0, 3.0], FLOAT)
    value = {"value": lambda face, depth: F.stop_gradient(F.lookup(table, face)) * 2.0}
    position = Variable.of(2 * [[-1.0, -1, 0, 1], [3, -1, 0, 1], [-1, 3, 0, 1]], VEC4)
    (slope,) = gradient(F.sum(accumulated(position, **value)), [table])
    assert not evaluate([slope])[0].any()
