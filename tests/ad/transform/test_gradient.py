"""Gradients, declared derivatives, and second derivatives."""

import importlib
import pkgutil

import numpy as np
import pytest
from examples import CASES, DIFFERENTIABLE, Build, concrete_functions
from numpy.testing import assert_allclose
from second_derivatives import differences, directions, forward, reverse, weighted, worst

import dressi.ad
import dressi.render
from dressi import FLOAT, INT, MAT3, VEC2, VEC3, F, GraphError, gradient, hvp, jvp
from dressi.ad.check import check_gradient
from dressi.ad.graph import Function, PixelFunction, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import leaves, topological_order
from dressi.ad.ops.pixel.kinds import Shortcut
from dressi.ad.transform.simplify import simplify, verify


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


class Double(PixelFunction):
    """Declares no derivative."""

    glsl = "2.0 * $0"

    def infer(self):
        return FLOAT, self.broadcast()

    def eval(self, x):
        return 2.0 * x


class DoubleByPartials(Double):
    def partials(self, x):
        return (F.constant(2.0),)


class DoubleByVjp(Double):
    def vjp(self, gy, i):
        return gy * 2.0


class DoubleByJvp(Double):
    def jvp(self, tangents):
        return tangents[0] * 2.0


class DeclaredZero(Double):
    zero_derivative = True


class Refusing(Double):
    no_derivative = "counts sheep; use F.length"


def declared_leaf() -> Variable:
    return Variable(FLOAT, (3, 2), name="x", data=np.linspace(-1.0, 2.0, 6).reshape(1, 2, 3))


def declared_reverse(y: Variable, x: Variable) -> np.ndarray:
    return evaluate(gradient(F.sum(y), [x]))[0]


def declared_forward(y: Variable, x: Variable) -> np.ndarray:
    return evaluate(jvp([y], [x], [F.constant(1.0)]))[0]


@pytest.mark.parametrize(
    "cls, mode, message",
    [
        (Double, declared_reverse, "Double.*FLOAT x.*no derivative.*partials.*test_gradient.py"),
        (Double, declared_forward, "Double.*declares no derivative.*zero_derivative"),
        (DoubleByVjp, declared_forward, "DoubleByVjp.*declares vjp alone.*jvp"),
        (DoubleByJvp, declared_reverse, "DoubleByJvp.*declares jvp alone.*vjp"),
        (Refusing, declared_reverse, "Refusing.*counts sheep; use F.length"),
        (Refusing, declared_forward, "Refusing.*counts sheep; use F.length"),
    ],
)
def test_what_is_not_declared_is_named_when_it_is_asked_for(cls, mode, message):
    x = declared_leaf()
    y = F.square(cls(x).output) + x
    evaluate([y])
    with pytest.raises(GraphError, match=message):
        mode(y, x)


@pytest.mark.parametrize(
    "cls, mode, expected",
    [
        (DoubleByPartials, declared_reverse, 2.0),
        (DoubleByPartials, declared_forward, 2.0),
        (DoubleByVjp, declared_reverse, 2.0),
        (DoubleByJvp, declared_forward, 2.0),
        (DeclaredZero, declared_reverse, 0.0),
        (DeclaredZero, declared_forward, 0.0),
    ],
)
def test_what_is_declared_counts(cls, mode, expected):
    x = declared_leaf()
    assert (mode(cls(x).output, x) == expected).all()


@pytest.mark.parametrize("mode", [declared_reverse, declared_forward])
@pytest.mark.parametrize(
    "use",
    [
        lambda y, x: F.select(F.greater(y, 0.0), x, 2.0 * x),
        lambda y, x: F.floor(y) + x,
        lambda y, x: F.stop_gradient(y) + x,
        lambda y, x: F.to_float(F.to_int(y)) + x,
        lambda y, x: F.lookup(x, F.to_int(F.abs(y))),
    ],
)
def test_no_derivative_is_asked_for_where_none_arrives(use, mode):
    x = declared_leaf()
    assert np.isfinite(mode(use(Double(x).output, x), x)).all()


@pytest.mark.parametrize("cls", [Double, DoubleByVjp, DoubleByJvp, Refusing])
def test_a_loss_that_does_not_depend_on_the_function_asks_nothing(cls):
    x, other = declared_leaf(), declared_leaf()
    y = cls(x).output + other
    assert (declared_reverse(y, other) == 1).all() and (declared_forward(y, other) == 1).all()


for package in (dressi.ad, dressi.render):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


@pytest.mark.parametrize("cls", concrete_functions("dressi."), ids=lambda cls: cls.__name__)
def test_every_function_declares_its_derivative_in_one_way(cls):
    # Functions whose gradients are taken together have one vjp for all of them.
    vjp = cls.vjp is not Function.vjp or cls.joint is not Function.joint
    jvp_ = cls.jvp is not Function.jvp
    assert vjp == jvp_, "declare both modes"
    ways = [cls.partials is not Function.partials, vjp and jvp_, cls.zero_derivative, bool(cls.no_derivative)]
    assert sum(ways) == 1, "declare partials, or vjp and jvp, or zero_derivative, or no_derivative"


@pytest.mark.parametrize("cls, build", DIFFERENTIABLE)
def test_products_with_the_hessian_are_differences_of_the_gradient(cls: type[Function], build: Build):
    example = build()
    loss, wrt = weighted(example.output), example.wrt
    along = directions(wrt)
    expected = differences(loss, wrt, along)
    for mode in (forward, reverse):
        assert worst(evaluate(mode(loss, wrt, along)), expected) < 1e-5


# Estimated or stopped on purpose; or, at the data of the examples, jumps, kinks and NaN that a select does
# not take.
APART = {"InverseUVSample", "StopGradient", "Round", "Select", "Normalize", "Equal", "NotEqual"}


def others(build: Build) -> list[Variable]:
    """Float leaves by which the example is not said to be differentiable."""
    example = build()
    if example.output.vtype.is_int:
        return []
    return [x for x in leaves([example.output]) if not x.vtype.is_int and x not in {*example.wrt}]


@pytest.mark.parametrize(
    "cls, build", [c for c in CASES if c.values[0].__name__ not in APART and others(c.values[1])]
)
def test_no_float_input_has_a_silent_zero(cls: type[Function], build: Build):
    """By each of them the derivative is that of differences, or an error that names the Function."""
    y = build().output
    wrt = [x for x in leaves([y]) if not x.vtype.is_int]
    loss = F.sum(F.sum_components(y))
    try:
        found = evaluate(gradient(loss, wrt))
    except GraphError as error:
        assert f"{cls.__name__}(" in str(error)
        return
    along = directions(wrt)
    high, low = (
        evaluate([loss], {x: x.data + s * 1e-6 * t.data for x, t in zip(wrt, along, strict=True)})[0]
        for s in (1, -1)
    )
    total = sum(float((g * t.data).sum()) for g, t in zip(found, along, strict=True))
    assert total == pytest.approx(float((high - low).item() / 2e-6), abs=1e-6)


# ---- where derivatives are replaced by zeros
@pytest.mark.parametrize(
    "build",
    [
        lambda x: F.sqrt(x),
        lambda x: F.length(F.vec2(x, 0.0)),
        lambda x: F.dot(F.normalize(F.vec3(x, 0.0, x)), (1.0, 2.0, 3.0)),
        lambda x: F.atan2(x, 0.0 * x),
        lambda x: F.pow(x, F.constant(1.5)),
        lambda x: F.asin(1.0 + x),
        lambda x: F.acos(x - 1.0),
        lambda x: F.select(F.greater(x, 0.0), F.log(x), x),
        lambda x: F.select(F.greater(x, 0.0), F.log2(x), x),
        lambda x: F.select(F.greater(x, 0.0), F.inversesqrt(x), x),
        lambda x: F.abs(x),
        lambda x: F.clamp(x, 0.0, 1.0),
        lambda x: F.max(x, 0.0) + F.min(0.0, x),
    ],
)
def test_second_derivatives_at_the_end_of_the_domain_are_zero_and_no_number_is_lost(build):
    x = Variable(data=0.0)
    along = [F.constant(1.0)]
    for mode in (forward, reverse):
        assert evaluate(mode(build(x), [x], along))[0].item() == 0


@pytest.mark.parametrize("power, expected", [(2, 2.0), (3, 0.0), (4, 0.0)])
def test_whole_powers_are_exact_at_zero(power, expected):
    x = Variable(data=0.0)
    assert evaluate(hvp(x**power, [x], [F.constant(1.0)]))[0].item() == expected


def test_empty_normals_leave_others_alone():
    """One empty texel must not turn a shared parameter into NaN."""
    v = Variable(VEC3, (3, 1), data=[[[[0.0, 0.0, 0.0], [1.0, 2.0, 2.0], [0.5, -1.0, 0.3]]]])
    scale = Variable(data=1.5)
    loss = F.sum(F.square(F.normalize(v * scale).x) + F.length(v * scale))
    for mode in (forward, reverse):
        h = evaluate(mode(loss, [v, scale], directions([v, scale])))
        assert all(np.isfinite(values).all() for values in h)
        assert not h[0][0, 0, 0].any() and h[0][0, 0, 1].any()


# ---- ties
def test_of_texels_that_tie_the_first_gets_the_gradient():
    x = Variable(FLOAT, (4, 2), data=[[[1.0, 5.0, 5.0, 2.0], [5.0, 0.0, 5.0, 0.0]]])
    losses = F.max(x), F.min(x), F.sum(F.max(x, "x"))
    largest, smallest, row = evaluate([gradient(loss, [x])[0] for loss in losses])
    assert largest[0].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]  # of the columns, (5, 5, 5, 2), the first
    assert smallest[0].tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
    assert row[0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_windows_give_the_gradient_to_the_first_of_equal_texels():
    x = Variable(FLOAT, (5, 1), data=[[[1.0, 3.0, 3.0, 0.0, 2.0]]])
    losses = [F.sum(f(x, 1, "x")) for f in (F.window_max, F.window_min)]
    largest, smallest = evaluate([gradient(loss, [x])[0] for loss in losses])
    assert largest[0, 0].tolist() == [0, 3, 1, 0, 1] and smallest[0, 0].tolist() == [2, 0, 0, 3, 0]


def test_components_have_extremes_of_their_own():
    x = Variable(VEC2, (2, 1), 2, data=[[[[1.0, 9.0], [2.0, 8.0]]], [[[3.0, 1.0], [0.0, 2.0]]]])
    (g,) = evaluate(gradient(F.sum_components(F.max(x) * F.constant((10.0, 20.0))), [x]))
    assert g.tolist() == [[[[0, 20], [0, 0]]], [[[10, 0], [0, 0]]]]


# ---- estimates of the gradient are not differentiated
def test_the_gradient_through_inverse_uv_has_exact_derivatives_by_uv_alone():
    texture = Variable(VEC3, (6, 5), data=np.random.default_rng(0).uniform(size=(1, 5, 6, 3)))
    uv = Variable(VEC2, (4, 3), data=np.random.default_rng(1).uniform(size=(1, 3, 4, 2)))

    def losses(sampled: Variable) -> Variable:
        return F.sum(F.dot(sampled, sampled) + sampled.x)

    estimated = losses(F.sample_inverse_uv(texture, uv, F.constant(1.0)))
    exact = losses(F.sample(texture, uv))
    along = directions([uv])
    for mode in (forward, reverse):
        found, expected = (evaluate(mode(loss, [uv], along))[0] for loss in (estimated, exact))
        assert_allclose(found, expected, atol=1e-12)
    by_texture = gradient(estimated, [texture])
    with pytest.raises(GraphError, match=r"InverseUVSample.*use F.sample"):
        jvp(by_texture, [texture], directions([texture]))
    with pytest.raises(GraphError, match=r"GatherNumbered.*F.sample"):
        gradient(F.sum(by_texture[0].x), [uv])
    with pytest.raises(GraphError, match=r"InverseUVSample.*use F.sample"):
        jvp(gradient(estimated, [uv]), [texture], directions([texture]))


# ---- shortcuts
def test_programs_of_first_order_hold_no_shortcut():
    x = Variable(VEC3, (3, 2), data=np.ones((1, 2, 3, 3)))
    loss = F.sum(F.sqrt(x.x) + F.length(x) + F.normalize(x).y + F.atan2(x.y, x.z))
    (g,) = gradient(loss, [x])
    assert any(isinstance(f, Shortcut) for f in topological_order([g]))
    program = simplify(Program({"gradient": g}))
    assert not any(isinstance(f, Shortcut) for f in program.functions)
    assert_allclose(*evaluate([g, program.outputs["gradient"]]))
