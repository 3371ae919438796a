"""Expressions: equal ones are one, steps compute what the graph does, and operations are few."""

import numpy as np
import pytest
from random_graphs.derivatives import random_outputs

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.expressions.count import as_written, count, fewest, shortest
from dressi.ad.expressions.jacobian import Writer, jacobian_steps
from dressi.ad.expressions.reader import Reader
from dressi.ad.expressions.table import ONE, Table
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT

a, b, c = (Variable(FLOAT, name=name) for name in "abc")


@pytest.mark.parametrize(
    "pair",
    [
        lambda: ((a + b) * (a - b), F.square(a) - F.square(b)),
        lambda: (2.0 * a + 4.0 * b + 3.0 * a, 4.0 * b + 5.0 * a),
        lambda: (a * b / b, a),
        lambda: (F.sin(-a), -F.sin(a)),
        lambda: (F.square(F.sin(a)) + F.square(F.cos(a)), F.constant(1.0)),
        lambda: (F.sqrt(a) * F.sqrt(a) * b, a * b),
        lambda: (a - (a + 0.0 * b), F.constant(0.0)),
        lambda: (a / -1.0, -a),
        lambda: (F.mix(a, b, 0.25), 0.75 * a + 0.25 * b),
        lambda: (F.pow(a, 3.0) / a, a * a),
        lambda: (F.sin(a + b - a), F.sin(b)),
        lambda: (F.exp(F.log(a)), a),
        lambda: (F.exp2(-2.0 * F.log2(a)), 1.0 / (a * a)),
        lambda: (F.log(F.exp(a + b)), a + b),
        lambda: (F.square(1.0 / F.sqrt(a)), 1.0 / a),
        lambda: ((b * F.inversesqrt(a)) * (c / F.sqrt(a)), b * c / a),
        lambda: (F.maximum(a, a) + F.minimum(b, b), a + b),
        lambda: (F.maximum(F.maximum(a, b), a), F.maximum(a, b)),
        lambda: (F.select(a > 0.5, F.select(a > 0.5, b, 0.0), c), F.select(a > 0.5, b, c)),
        lambda: (F.select(a > 0.5, c, 3.0 * F.select(a > 0.5, c, b)), F.select(a > 0.5, c, 3.0 * b)),
        lambda: (F.select(a > 0.5, b, F.select(a > 0.5, c, b)), b),
        lambda: (F.select(F.constant(1.0), a, b), a),
    ],
)
def test_equal_expressions_are_one(pair):
    x, y = Reader(Table()).read(pair())
    assert x == y


def test_expressions_that_differ_stay_apart():
    terms = [a, b, a + b, a * b, F.sin(a), F.cos(a), F.exp(a), F.sqrt(a), a * a, a / b, F.select(a > b, a, b)]
    terms += [
        F.log(2.0 * F.exp(a)),
        F.exp(0.5 * F.log(a)),
        F.maximum(a, -a),
        F.select(a > b, F.select(b > a, a, b), b),
    ]
    terms += [(b / F.sqrt(a)) * c, F.maximum(a, F.minimum(a, b)), 2.0**28 * a + b - 2.0**-33 * a]
    read = [x for (x,) in Reader(Table()).read([*terms, *(2.0 * t for t in terms)])]
    assert len({x.entry for x in read}) == len(terms) and ONE not in {x.entry for x in read}
    assert len(set(read)) == 2 * len(terms)


def test_sums_and_products_are_few():
    assert fewest([a * b + a * c]).total == 2
    assert fewest([a * b * c, b * c + 1.0]).total == 3
    horner = fewest([1.0 + 2.0 * a + 3.0 * a * a + 4.0 * a * a * a])
    assert (horner.adds, horner.multiplies) == (3, 3)
    assert fewest([-(a - b), b - a]).total == 1
    assert fewest([a / c, b]).divides == 1 and fewest([a / c]).multiplies == 0
    assert as_written([a * b + a * c]).total == 3
    x, y, z, p, q, v, w = (Variable(FLOAT, name=name) for name in "xyzpqvw")
    spread = fewest([x * (a * p + b * q) + p * y + q * z])  # p (x a + y) + q (x b + z)
    assert (spread.adds, spread.multiplies) == (3, 4)
    # Multiplied out, both are sums of products of p and q with the same two sums.
    one, other = v * p + w * q, v * q - w * p
    turned = [
        x * one + z * other + y * p + a * p + b * q + c * q,
        z * one - x * other + b * p + c * p - y * q - a * q,
    ]
    assert fewest(turned).multiplies == 8
    assert count(jacobian_steps([a / c], [a, c])).divides == 1
    # Where products are dearer: three vectors turned by one angle, each with three products instead of four.
    rotated = [
        f(p, q)
        for p, q in ((x, y), (z, v), (p, q))
        for f in (lambda p, q: a * p - b * q, lambda p, q: b * p + a * q)
    ]
    assert fewest(rotated).multiplies == 12 and fewest(rotated, 2.0).multiplies == 9
    values = dict(zip((a, b, x, y, z, p, q, v), (0.3, -1.2, 0.7, 2.1, -0.4, 0.9, 1.7, -2.3), strict=True))
    for expected, found in zip(
        evaluate(rotated, values), evaluate(written(rotated, 2.0), values), strict=True
    ):
        assert found.item() == pytest.approx(expected.item(), rel=1e-13)
    # A symmetric matrix times two vectors.
    symmetric = [
        f(p, q)
        for p, q in ((x, y), (z, v), (p, q))
        for f in (lambda p, q: a * p + b * q, lambda p, q: b * p + c * q)
    ]
    assert fewest(symmetric, 2.0).multiplies == 9
    # Constants that no single precision holds stay apart.
    tiny = a
    for _ in range(8):
        tiny = tiny * 1e-12
    assert evaluate(written([tiny])[0:1], {a: 1.0})[0].item() == pytest.approx(1e-96)


@pytest.mark.parametrize(
    ("build", "adds", "multiplies"),
    [
        (lambda: 2.0 * a + 4.0 * b + 3.0 * a, 1, 2),
        (lambda: 0.1 * a + b + 0.2 * a + c + 0.5 * b, 2, 2),
        (lambda: 2.0 * a + 4.0 * b - 5.0 * a, 1, 2),
        (lambda: (2.0 + a) * b + 3.0 * b, 1, 1),
        (lambda: (a + 2.0) - (b + 5.0), 2, 0),
        (lambda: F.maximum(F.constant(2.0), F.constant(3.0)) * a + b * a, 1, 1),
        (lambda: 2.0 * a + F.exp(F.constant(1.0)) * a + b, 1, 1),
        (lambda: (2.0 * a + 4.0 * b + c) - 2.0 * a, 1, 1),
    ],
)
def test_constants_are_computed_when_steps_are_made(build, adds, multiplies):
    y = build()
    found = fewest([y])
    assert (found.adds, found.multiplies, found.calls) == (adds, multiplies, {})
    values = {a: 0.7, b: -1.3, c: 2.1}
    (expected,) = evaluate([y], values)
    assert evaluate(written([y]), values)[0].item() == pytest.approx(expected.item(), rel=1e-14)


def written(outputs, product_cost=1.0):
    reader = Reader(Table())
    roots = [x for y in reader.read(outputs) for x in y]
    return Writer(shortest(reader.table, roots, product_cost)).roots()


@pytest.mark.parametrize("seed", range(12))
def test_steps_compute_what_the_graph_does(seed):
    outputs, values = random_outputs(seed)
    for y, found in zip(evaluate(outputs, values), evaluate(written(outputs), values), strict=True):
        np.testing.assert_allclose(np.broadcast_to(found, y.shape), y, rtol=1e-11, atol=1e-11)
    assert fewest(outputs).total <= as_written(outputs).total


def test_what_is_read_at_other_texels_counts():
    x, y = (Variable.of(np.ones((4, 4)), FLOAT) for _ in range(2))
    found = fewest([F.shift(F.sin(x) * y, 1, 0) + x])
    assert found.calls == {"sin": 1, "gather": 1} and (found.adds, found.multiplies) == (1, 1)
