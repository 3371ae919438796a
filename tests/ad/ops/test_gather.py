"""Reads by an index map: the meaning against loops, the transpose as a matrix, inverses, affine lookups."""

import random

import numpy as np
import pytest
from examples_gathers import SHAPE, TAKEN, domain, matrix, some_map

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.graph.index_map import Affine
from dressi.ad.ops.coordinates.affine import affine
from dressi.ad.ops.image.gather import Gather
from dressi.ad.ops.image.lookup import Lookup, ScatterAdd
from dressi.ad.transform.gradient import gradient
from dressi.ad.traversal import topological_order
from dressi.ad.types import FLOAT, INT, IVEC2


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
    back = gather.transpose(Variable.of(g, FLOAT))
    assert np.allclose(evaluate([back])[0].ravel(), m.T @ g.ravel())
    summed = Gather(Variable.of(g, FLOAT), index, domain(TAKEN), True)
    assert np.allclose(evaluate([summed.output])[0].ravel(), m.T @ g.ravel())
    assert summed.iterations == 0 or summed.iterations >= m.sum(0).max()
    assert np.allclose(evaluate([back.creator.transpose(Variable.of(x, FLOAT))])[0].ravel(), m @ x.ravel())
    short = summed.shortened(2)
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
def test_what_is_one_to_one_has_a_gather_as_transpose(make):
    y = make(Variable(FLOAT, (6, 5)))
    back = y.creator.transpose(y).creator
    assert isinstance(back, Gather) and not back.transposed


@pytest.mark.parametrize(
    "make",
    [
        lambda x: F.repeat(x, (20, 1)).creator.transpose(long()).creator,
        lambda x: F.resize(long(), (40, 3), "area").creator,
        lambda x: F.shift(x, 30, 0).creator.transpose(x).creator,
        lambda x: F.pad(x, 30, 0, 20, 1, "clamp").creator.transpose(long(90, 4)).creator,
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
    found, direct = F.lookup(table, index), Lookup(table, index).output
    outputs = [found, direct, *(gradient(F.sum(F.square(y)), [table])[0] for y in (found, direct))]
    kinds = {type(f) for f in topological_order([outputs[2]])}
    assert Gather in kinds and not kinds & {Lookup, ScatterAdd}
    y, expected, g, expected_g = evaluate(outputs)
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
