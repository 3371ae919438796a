"""Jacobians, Hessians and derivatives of an order, against the gradient, central differences and closed forms."""

import numpy as np
import pytest
from random_graphs.derivatives import disagreements

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.expressions.jacobian import component_of
from dressi.ad.graph import Variable
from dressi.ad.ops.pixel.kinds import Pointwise
from dressi.ad.transform.fused import fused
from dressi.ad.transform.gradient import gradient, hvp, jvp, vjp
from dressi.ad.types import FLOAT, INT, MAT3, VEC2, VEC3
from dressi.errors import GraphError


def leaf(vtype, size=(1, 1), seed=0):
    v = Variable(vtype, size)
    v.data = np.random.default_rng(seed).uniform(0.5, 1.5, v.shape)
    return v


def everything():
    p, s = leaf(VEC3, (3, 2)), leaf(FLOAT, (3, 2), 1)
    w, m = leaf(VEC3, seed=2), leaf(MAT3, seed=3)
    n = F.normalize(p)
    outputs = [
        F.dot(n, w), F.cross(p, w) * s, m @ p, F.length(p), F.select(p.x > 1.0, F.sin(s), F.exp(-s) * p.z),
        F.maximum(p.x, p.y) * F.pow(s, 2.5), F.sigmoid(p), F.clamp(s, 0.7, 1.2), F.sqrt(s) / F.abs(p.z),
        F.reflect(n, F.normalize(w)), F.mix(p, w, s), m @ F.transpose(m),
        F.determinant(m), F.inverse(m @ m + s * m),
    ]  # fmt: skip
    return outputs, [p, s, w, m]


def test_rows_are_gradients_of_the_components():
    outputs, inputs = everything()
    rows = F.jacobian(outputs, inputs)
    components = [component_of(y, k) for y in outputs for k in range(y.vtype.components)]
    assert len(rows) == len(components)
    for y, row in zip(components, rows, strict=True):
        for x, entry in zip(inputs, row, strict=True):
            assert (entry.vtype, entry.domain) == (x.vtype, y.domain)
            for k in range(x.vtype.components):
                seed = np.zeros(x.vtype.components)
                seed[k] = 1.0
                (along,) = evaluate(jvp([y], [x], [F.constant(seed.reshape(x.vtype.shape), x.vtype)]))
                (found,) = evaluate([component_of(entry, k)])
                np.testing.assert_allclose(found, along, rtol=1e-12, atol=1e-12)


def test_by_an_intermediate_and_of_uniform_values():
    x = leaf(FLOAT, (4, 1))
    y = F.square(x)
    ((by_y,),) = F.jacobian(F.sin(y) * y, y)
    values = y_of = x.data**2
    np.testing.assert_allclose(evaluate([by_y])[0], np.cos(values) * values + np.sin(y_of))
    ((zero,),) = F.jacobian(F.sin(x), leaf(FLOAT))
    assert (evaluate([zero])[0] == 0).all() and zero.domain == x.domain


def test_hessians_are_symmetric_products():
    p = leaf(VEC3, (2, 1))
    y = F.exp(p.x * p.y) * F.length(p) + F.sin(p.z) * p.x
    rows = F.hessian(y, p)
    dense = np.stack([evaluate([row[0]])[0] for row in rows], axis=-2)
    np.testing.assert_allclose(dense, np.swapaxes(dense, -1, -2), rtol=1e-12)
    direction = np.array([0.3, -0.2, 0.9])
    (product,) = evaluate(hvp(F.sum(y), [p], [F.constant(direction, VEC3)]))
    np.testing.assert_allclose(dense @ direction, product, rtol=1e-10)


def test_higher_orders():
    x = leaf(FLOAT, (5, 1))
    third = F.derivative(F.sin(x) * F.exp(x), x, order=3)
    expected = 2.0 * np.exp(x.data) * (np.cos(x.data) - np.sin(x.data))
    np.testing.assert_allclose(evaluate([third])[0], expected, rtol=1e-12)
    assert evaluate([F.derivative(F.vec2(x, x * x), x, order=0)])[0].shape == (1, 1, 5, 2)
    assert (evaluate([F.derivative(x**3, x, order=4)])[0] == 0.0).all()


def test_a_length_of_zero_keeps_its_derivative():
    p = Variable.of([[0.0, 0.0, 0.0]], VEC3)
    for row in F.jacobian([F.length(p), F.normalize(p), F.sqrt(p.x)], p):
        assert (evaluate(row)[0] == 0.0).all()


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    assert disagreements(100 + seed, 30) == []


@pytest.mark.parametrize("seed", [5032, 5085, 5088])
def test_ratios_that_are_too_long_are_not_recognised(seed):
    assert disagreements(seed) == []


def test_an_infinite_constant_stays_one():
    x = leaf(FLOAT, (3, 1))
    ((slope,),) = F.jacobian(F.minimum(x * x, float("inf")) + F.constant(float("inf")), x)
    np.testing.assert_allclose(evaluate([slope])[0], 2.0 * x.data)


def test_vjp_is_the_transpose_of_jvp():
    p = leaf(VEC2, (3, 1))
    y = [F.sin(p), p.x * p.y]
    seeds, along = [leaf(VEC2, (3, 1), 4), leaf(FLOAT, (3, 1), 5)], leaf(VEC2, (3, 1), 6)
    (back,) = evaluate(vjp(y, p, seeds))
    forth = evaluate(jvp(y, p, [along]))
    one = sum((np.asarray(s.data).reshape(f.shape) * f).sum() for s, f in zip(seeds, forth, strict=True))
    assert (back * along.data.reshape(back.shape)).sum() == pytest.approx(one)
    with pytest.raises(GraphError, match="one for each output"):
        vjp(y, p, [1.0])


@fused
def softened(x, *, width):
    return x * x / (F.abs(x) + width)


def test_it_goes_through_hints_loops_checkpoints_and_fused_graphs():
    x = leaf(FLOAT, (3, 1))
    for y in (
        F.store(x * x) * F.recompute(x),
        softened(x, width=0.5) * x,
        F.checkpoint(lambda x: F.sin(x) * x, x),
        F.loop(lambda y: 0.5 * (y + x * x / (1.0 + y * y)), x, 5),
    ):
        ((found,),) = F.jacobian(y, x)
        values = evaluate([found, *gradient(y, [x], F.constant(1.0))])
        np.testing.assert_allclose(*values, rtol=1e-12)


class Steep(Pointwise):
    """Without a derivative."""

    expression = "$0 * 1e3"

    def compute(self, x):
        return x * 1e3


def test_bad_input():
    x, whole = leaf(FLOAT, (3, 1)), Variable.of(np.arange(3), INT)
    for call, text in (
        (lambda: F.jacobian(F.mean(x), x), "no Function of one texel"),
        (lambda: F.jacobian(F.shift(x, 1, 0), x), "no Function of one texel"),
        (lambda: F.jacobian(whole, x), "a float Variable, not INT"),
        (lambda: F.jacobian(2.0, x), "a float Variable, not 2.0"),
        (lambda: F.jacobian([], x), "no output: give one"),
        (lambda: F.jacobian(x * x, x, limit="many"), "number of operations"),
        (lambda: F.jacobian(F.exp(x) * F.sin(x), x, limit=2), "more than the limit of 2"),
        (lambda: F.hessian(F.vec2(x, x), x), "of one FLOAT"),
        (lambda: F.hessian([x, x], x), "of one FLOAT"),
        (lambda: F.derivative(x, x, order=-1), "order"),
        (lambda: F.derivative(x, leaf(VEC2)), "by one FLOAT"),
        (lambda: F.jacobian(x / 0.0, x), "constant zero"),
        (lambda: F.jacobian(x, leaf(FLOAT, (4, 1))), "has other texels than"),
        (lambda: F.jacobian(F.apply(Steep, x), x), "Steep.*test_jacobian"),
        (lambda: F.derivative(F.sin(F.exp(F.sin(x))), x, order=30, limit=200), "more than the limit of 200"),
    ):
        with pytest.raises(GraphError, match=text):
            call()
