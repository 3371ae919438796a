"""The backward graph and the forward one, against central differences in float64."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient, hvp, jvp
from dressi.ad.transform.verify import verify
from dressi.ad.traversal import topological_order
from dressi.ad.types import FLOAT, INT, MAT3, VEC2, VEC3
from dressi.errors import GraphError


def leaf(vtype, size=(1, 1), batch=1, seed=0):
    v = Variable(vtype, size, batch)
    v.data = np.random.default_rng(seed).uniform(0.5, 1.5, v.shape)
    return v


BROADCASTS = {
    "scalar against vector": lambda: (leaf(FLOAT, (3, 2)), leaf(VEC3, (3, 2), seed=1)),
    "texel against image": lambda: (leaf(FLOAT), leaf(FLOAT, (3, 2), seed=1)),
    "row against column": lambda: (leaf(VEC3, (3, 1)), leaf(VEC3, (1, 2), seed=1)),
    "shared against views": lambda: (leaf(FLOAT, (3, 2)), leaf(FLOAT, (3, 2), 4, seed=1)),
    "per view against image": lambda: (leaf(FLOAT, (1, 1), 4), leaf(VEC2, (3, 2), seed=1)),
    "scalar against matrix": lambda: (leaf(FLOAT, (2, 2)), leaf(MAT3, seed=1)),
}


@pytest.mark.parametrize("leaves", BROADCASTS.values(), ids=BROADCASTS)
@pytest.mark.parametrize("operation", [F.add, F.sub, F.mul, F.div])
def test_broadcasting_is_undone(leaves, operation):
    a, b = leaves()
    y = operation(a, b)
    assert check_gradient(y, [a, b]) < 1e-8
    for x, g in zip((a, b), gradient(F.sum(F.sum_components(y)), [a, b]), strict=True):
        assert (g.vtype, g.domain) == (x.vtype, x.domain)


def test_a_composition_of_everything_smooth():
    a, b = leaf(FLOAT), leaf(VEC3, (4, 3), 2, seed=1)
    m, c = leaf(MAT3, (1, 1), 2, seed=2), leaf(VEC3, (1, 3), seed=3)
    y = F.normalize(m @ (b * a + c)) * F.sin(b.x) + F.exp(b.zyx * 0.1) * a
    assert check_gradient(y, [a, b, c, m]) < 1e-8
    assert check_gradient(F.mean(F.square(y).x + y.y), [a, b, c, m]) < 1e-6


def test_reductions_and_expansions():
    x = leaf(VEC2, (3, 2), 2)
    table = leaf(FLOAT, (4, 1), seed=2)
    y = F.mean(x, "x") * F.sum(x, "yn")
    assert check_gradient(y, [x]) < 1e-8
    assert check_gradient(F.expand(table, 3, (4, 2)) * 2.0, [table]) < 1e-8
    assert check_gradient(F.sum(F.expand(F.sum(table), 3, (4, 2)) * table), [table]) < 1e-8


def test_the_gradient_of_a_mean_stays_one_texel():
    x = leaf(FLOAT, (64, 64))
    (g,) = gradient(F.mean(F.square(x)), [x])
    sizes = [f.output.size for f in topological_order([g]) if f.output.size != (1, 1)]
    assert len(sizes) <= 3  # 2 x, its product, at most one broadcast; no chain of expansions


def test_a_linear_chain_through_a_lookup_and_its_transpose():
    table, index = leaf(VEC3, (5, 2)), Variable(INT, (3, 3))
    index.data = np.array([[[0, 9, 3], [3, -1, 50], [2, 2, 2]]])
    y = F.lookup(table * table, index)
    assert check_gradient(y, [table]) < 1e-8
    values = leaf(VEC3, (3, 3), seed=4)
    assert check_gradient(F.scatter_add(values * values, index, (5, 2)), [values]) < 1e-8


def test_second_derivatives():
    x = leaf(FLOAT, (2, 2))
    (g,) = gradient(F.sum(F.sin(x) * x * x), [x])
    assert check_gradient(g, [x]) < 1e-7


def test_intermediates_can_be_asked_for():
    x = leaf(FLOAT, (2, 2))
    y = x * 3.0
    gx, gy = gradient(F.sum(y * y), [x, y])
    assert np.allclose(evaluate([gx])[0], 18 * x.data) and np.allclose(evaluate([gy])[0], 6 * x.data)


def test_independent_variables_have_zeros_of_their_own_shape():
    x, other = leaf(FLOAT, (2, 2)), leaf(VEC3, (4, 1), 3)
    (g,) = gradient(F.sum(x), [other])
    assert (g.vtype, g.domain) == (other.vtype, other.domain) and not evaluate([g])[0].any()
    (t,) = jvp([x * 2.0], [other], [other])
    assert t.domain == x.domain and not evaluate([t])[0].any()


def test_nothing_flows_through_integers_and_stopped_gradients():
    x = leaf(FLOAT, (2, 2))
    assert not evaluate(gradient(F.sum(F.to_float(F.to_int(x)) + F.stop_gradient(x)), [x]))[0].any()


def test_the_tangent_of_one_texel_fills_the_output():
    s, v = leaf(FLOAT), leaf(VEC3, (3, 2), 2, seed=1)
    (t,) = jvp([v + s], [s], [F.constant(2.0)])
    assert (t.vtype, t.domain) == (v.vtype, v.domain) and (evaluate([t])[0] == 2).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, n: gradient(x, [x]), "one texel"),
        (lambda x, n: gradient(F.sum(x), [n]), "integers"),
        (lambda x, n: gradient(x, [x], seed=n), "type of the loss"),
        (lambda x, n: jvp([x], [n], [n]), "tangent"),
    ],
)
def test_what_has_no_derivative_is_named(make, message):
    with pytest.raises(GraphError, match=message):
        make(leaf(FLOAT, (2, 2)), Variable(INT, (2, 2), name="n"))


def test_a_scalar_tangent_of_a_vector_goes_through_functions_of_vectors_alone():
    x = leaf(VEC3, (2, 1))
    expected = evaluate(jvp([F.dot(x, x)], [x], [F.constant((0.5, 0.5, 0.5))]))[0]
    assert np.array_equal(evaluate(jvp([F.dot(x, x)], [x], [0.5]))[0], expected)


def test_one_variable_and_plain_numbers_will_do_in_forward_mode():
    x = leaf(VEC3, (2, 1))
    expected = evaluate(jvp([F.square(x)], [x], [F.constant(0.5)]))[0]
    for tangent in (0.5, [0.5], np.full(x.shape, 0.5), F.constant(0.5)):
        assert np.array_equal(evaluate(jvp(F.square(x), x, tangent))[0], expected)
    y = Variable(data=2.0)
    assert evaluate(hvp(y**3, y, 1.0))[0].item() == 12.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: jvp([F.square(x)], [x], []), "1 inputs but 0 tangents"),
        (lambda x: jvp([1.0], [x], [None]), "of Variables, not 1.0"),
        (lambda x: jvp(F.square(x), "x", [None]), "by Variables, not 'x'"),
        (lambda x: gradient(F.square(x), None), "by Variables, not None"),
        (lambda x: gradient([F.square(x)], [x]), "of a Variable, not"),
    ],
)
def test_what_is_no_variable_is_refused(make, message):
    with pytest.raises(GraphError, match=message):
        make(leaf(FLOAT))


def test_equal_graphs_give_equal_gradients():
    def build():
        x = leaf(VEC3, (3, 3))
        y = F.sum(F.dot(x, F.sin(x)) * x.y)
        return [(type(f).__name__, f.attributes) for f in topological_order(gradient(y, [x]))]

    assert build() == build()


def test_the_gradient_of_three_thousand_functions_grows_with_them():
    def functions(count: int) -> int:
        x, a = leaf(FLOAT, (4, 4)), leaf(FLOAT)
        y = x
        for _ in range(count):
            y = F.sin(y * a) + x
        g = gradient(F.sum(y), [x, a])
        verify(g)
        return len(topological_order(g))

    few, many = functions(100), functions(1000)
    assert many <= 10.1 * few and many <= 12 * 1000


def test_a_wrong_derivative_is_found():
    class Wrong(type(F.sin(leaf(FLOAT)).creator)):
        def partials(self, x):
            return (F.cos(x) * 1.01,)

    x = leaf(FLOAT, (2, 2))
    assert check_gradient(Wrong(x).output, [x]) > 1e-3


def test_a_malformed_function_is_found():
    y = F.sin(leaf(FLOAT, (2, 2)))
    verify([y])
    y.creator.inputs = (leaf(VEC2, (2, 2)),)
    with pytest.raises(GraphError, match="gives VEC2"):
        verify([y])
