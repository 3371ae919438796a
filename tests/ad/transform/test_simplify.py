"""Graphs are simplified, fused, and laid out in tiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dressi import FLOAT, INT, MAT2, VEC2, VEC3, F, GraphError, gradient
from dressi.ad.graph import Function, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import topological_order
from dressi.ad.ops.image.lookup import ScatterAdd
from dressi.ad.transform.fused import fused
from dressi.ad.transform.rewrite import on, rewrite, substitute
from dressi.ad.transform.rules import RULES
from dressi.ad.transform.simplify import simplify, verify
from dressi.ad.transform.tiles import over_tiles, stacked, unstacked
from dressi.config import config
from dressi.vk.run.execution.executor import VulkanExecutor


def leaf(vtype=FLOAT, size=(3, 2), batch=1, seed=0, name=None):
    v = Variable(vtype, size, batch, name=name)
    v.data = np.random.default_rng(seed).uniform(0.5, 1.5, v.shape)
    return v


def simple(y):
    return simplify(Program({"y": y})).outputs["y"]


def kinds(y):
    return [type(f).__name__ for f in topological_order([y])]


X, V, M = leaf(), leaf(VEC3, seed=1), leaf(MAT2, (1, 1), seed=2)
B3, I3 = leaf(batch=3, seed=8), Variable(INT, (2, 2), 3, data=np.arange(12).reshape(3, 2, 2))
C = F.constant

IDENTITIES = {
    "x + 0": (lambda: X + 0.0, []),
    "0 + v": (lambda: 0.0 + V, []),
    "x - 0": (lambda: X - 0.0, []),
    "x * 1": (lambda: X * 1.0, []),
    "vector of ones": (lambda: V * C((1.0, 1.0, 1.0)), []),
    "x / 1": (lambda: X / 1.0, []),
    "0 - x": (lambda: 0.0 - X, ["Neg"]),
    "x * -1": (lambda: X * -1.0, ["Neg"]),
    "- - x": (lambda: F.neg(-X), []),
    "x + -v": (lambda: V + -X, ["Sub"]),
    "-x + v": (lambda: -X + V, ["Sub"]),
    "x - -v": (lambda: X - -V, ["Add"]),
    "-x * -v": (lambda: -X * -V, ["Mul"]),
    "-(x - v)": (lambda: -(X - V), ["Sub"]),
    "signs meet": (lambda: V + (-X) * F.sin(X), ["Sin", "Mul", "Sub"]),
    "x * 2 * 3": (lambda: X * 2.0 * 3.0, ["Constant", "Mul"]),
    "folded": (lambda: X + (F.sin(C(0.5)) * 2.0 + C(1.0)), ["Constant", "Add"]),
    "stop_gradient": (lambda: F.stop_gradient(X), []),
    "select known": (lambda: F.select(1.0, X, F.sin(X)), []),
    "select same": (lambda: F.select(F.less(X, 1.0), X, X), []),
    "select not": (lambda: F.select(F.logical_not(X), 1.0, X), ["Constant", "Select"]),
    "select again": (lambda: F.select(X, F.select(X, V, 1.0), 2.0), ["Constant", "Select"]),
    "select otherwise": (lambda: F.select(X, V, F.select(X, 1.0, V)), []),
    "max same": (lambda: F.maximum(V, V) + F.minimum(X, X), ["Add"]),
    "max again": (lambda: F.maximum(F.maximum(X, V), X), ["Max"]),
    "max of min": (lambda: F.maximum(V, F.minimum(V, X)), []),
    "max of constants": (lambda: F.maximum(F.maximum(X, 0.7), 1.1), ["Constant", "Max"]),
    "like terms": (lambda: 2.0 * X + X * 3.0 - X * 4.0, []),
    "terms that cancel": (lambda: V - (V * 3.0 - V * 2.0) + X, ["Add", "Constant", "Mul"]),
    "masks": (
        lambda: F.square(X > 1.0) + F.logical_not(F.logical_not(X > 1.0)) * 2.0,
        ["Constant", "Constant", "Less", "Mul"],
    ),
    "masks of masks": (lambda: F.logical_or(X > V, F.logical_and(X > V, X > 1.0)), ["Less"]),
    "select implied": (
        lambda: F.select(F.logical_and(X > V, X), F.select(X, V, 1.0), 2.0),
        ["Constant", "Less", "LogicalAnd", "Select"],
    ),
    "root of a square": (lambda: F.sqrt(F.square(X)) + F.pow(F.exp(X), 1.0), ["Abs", "Exp", "Add"]),
    "log of exp": (lambda: F.log(F.exp(X)) + F.log2(F.exp2(V)), ["Add"]),
    "exp of log": (
        lambda: F.exp(F.log(F.abs(X))) * F.exp2(F.log2(F.square(V) + 1.0)),
        ["Abs", "Square", "Constant", "Add", "Mul"],
    ),
    "square of a root": (lambda: F.square(F.sqrt(F.exp(X))), ["Exp"]),
    "square of an inverse root": (
        lambda: F.square(F.inversesqrt(F.exp(X))) + F.square(1.0 / F.sqrt(F.maximum(X, 0.5))),
        ["Constant", "Exp", "Div", "Constant", "Max", "Div", "Add"],
    ),
    "swizzles": (lambda: V.zyx.zy, ["Swizzle"]),
    "a part": (lambda: F.vec3(X, X + 1.0, 2.0).x, []),
    "parts": (lambda: F.vec3(F.vec2(X, 1.0), X), ["Constant", "Construct"]),
    "dot": (lambda: F.sum_components(V * F.sin(V)), ["Sin", "Dot"]),
    "transposed twice": (lambda: F.transpose(F.transpose(M)), []),
    "expanded for nothing": (lambda: X * F.expand(leaf(size=(1, 1), seed=3), 1, (3, 2)), ["Mul"]),
    "expanded twice": (lambda: F.expand(F.expand(M, 1, (3, 1)), 2, (3, 2)), ["Expand"]),
    "expanded later": (
        lambda: F.sin(F.expand(leaf(size=(1, 1), seed=3), 3) * 2.0) + B3,
        ["Constant", "Mul", "Sin", "Add"],
    ),
    "expanded tables": (lambda: F.lookup(F.expand(X, 3), I3), ["Lookup"]),
    "expanded images": (lambda: F.shift(F.expand(X, 3), 1, 0), ["Gather", "Expand"]),
    "shifts out of an image": (lambda: F.sin(F.shift(X, 99, 0, "zero")) + X * V, ["Mul"]),
    "gradients of these": (lambda: X * V + gradient(F.sum(F.shift(X, 0, -99, "zero")), [X])[0], ["Mul"]),
    "gradients of a select": (lambda: F.select(X, V, 0.0) - F.select(X, 0.0, X), ["Neg", "Select"]),
    "abs of a negative": (lambda: F.abs(F.neg(X)) + F.square(F.neg(X)), ["Abs", "Square", "Add"]),
    "equal parts": (lambda: F.sin(X * V) + F.sin(V * X), ["Mul", "Sin", "Add"]),
}


@pytest.mark.parametrize(("build", "left"), IDENTITIES.values(), ids=IDENTITIES)
def test_identities(build, left):
    y = build()
    new = simple(y)
    verify([new])
    assert sorted(kinds(new)) == sorted(left)
    assert (new.vtype, new.domain) == (y.vtype, y.domain)
    assert np.allclose(evaluate([new])[0], evaluate([y])[0], rtol=1e-12)


UNTOUCHED = {
    "not a number of a logarithm": lambda: F.exp(F.log(X - 1.0)),
    "not a number of a root": lambda: F.square(F.sqrt(X - 1.0)),
    "a select of another width": lambda: F.select(X, F.select(X, 1.0, V), 2.0),
    "a broadcast by adding zeros": lambda: leaf(size=(1, 1)) + F.zeros_like(X),
    "a widening": lambda: X + C((0.0, 0.0, 0.0)),
    "random numbers of every tile": lambda: F.random(
        F.expand(Variable(INT, data=[[[3]]]), 3, (2, 2)), 1, (2, 2), 3
    ),
    "not a number": lambda: X * 0.0,
    "no literal": lambda: X + C(1.0) / C(0.0),
    "too large for a device": lambda: X + C(1e30) * C(1e30),
    "integers too large": lambda: F.to_int(X) + C(2**30) * C(4),
}


@pytest.mark.parametrize("build", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_would_change_the_meaning_stays(build):
    y = build()
    new = simple(y)
    assert (new.vtype, new.domain) == (y.vtype, y.domain)
    assert kinds(new) == kinds(y) or evaluate([new])[0].shape == evaluate([y])[0].shape
    assert np.array_equal(evaluate([new])[0], evaluate([y])[0], equal_nan=True)
    assert kinds(new)


def test_zero_and_minus_zero_are_two_constants():
    x = Variable(FLOAT, data=[[[1.0]]])
    y, z = x / (C(0.0) + 0.0 * x), x / (C(-0.0) * x)
    assert np.array_equal(*evaluate([simple(z), z])) and not np.array_equal(*evaluate([y, z]))


def test_gradients_of_components_are_joined():
    (g,) = gradient(F.sum(V.x * V.y + F.sin(V.z)), [V])
    new = simple(g)
    assert "Spread" not in kinds(new) and len(kinds(new)) < len(kinds(g))
    assert np.allclose(*evaluate([g, new]))


def test_sums_of_scatters_are_one_scatter():
    table, index = leaf(VEC2, (4, 2), name="table"), Variable(INT, (3, 2), data=[[[0, 1, 2], [7, 7, -1]]])
    first, second, third = (F.lookup(table, i) for i in (index, index + 1, index * 2))
    y = F.sum(first.x * second.y) + F.sum(F.length(third)) + F.sum(table.x)
    (g,) = gradient(y, [table])
    program = simplify(Program({"g": g, "again": g * 2.0}))
    scatters = [f for f in program.functions if isinstance(f, ScatterAdd)]
    assert len(scatters) == 1 and len(scatters[0].pairs) == 3
    assert np.allclose(evaluate([program.outputs["g"]])[0], evaluate([g])[0])


def test_scatters_that_are_read_alone_stay_apart():
    index = Variable(INT, (3, 2), data=np.zeros((1, 2, 3), int))
    a, b, c = (F.scatter_add(x, index, (2, 1)) for x in (X, X * 2.0, X * 3.0))
    program = simplify(Program({"sum": a + b + c, "a": a}))
    assert sorted(len(f.pairs) for f in program.functions if isinstance(f, ScatterAdd)) == [1, 2]
    assert np.allclose(evaluate([program.outputs["sum"]])[0], evaluate([a + b + c])[0])
    other = F.scatter_add(X, index, (4, 1))
    apart = simplify(Program({"s": a + F.lookup(other, C(0))}))
    assert len([f for f in apart.functions if isinstance(f, ScatterAdd)]) == 2


def test_reductions_are_pooled():
    y = F.sum(X, "xy") + F.sum(F.sin(X), "xy") + F.sum(leaf(size=(5, 5)), "xy") + F.sum(X * 2.0, "xy")
    new = simple(y)
    assert kinds(new).count("Sum") == 4  # two axes of the two sizes
    assert np.allclose(*evaluate([y, new]))
    bound = F.maximum(F.maximum(F.max(X, "xy"), F.max(F.cos(X), "xy")), F.max(F.sin(X), "xy"))
    new = simple(bound)
    assert kinds(new).count("ReduceMax") == 2 and np.allclose(*evaluate([bound, new]))


def test_reductions_that_are_read_alone_stay_apart():
    a, b = F.sum(X, "xy"), F.sum(F.sin(X), "xy")
    program = simplify(Program({"loss": a + b, "a": a, "b": b}))
    assert len([f for f in program.functions if type(f).__name__ == "Sum"]) == 4


def test_updated_leaves_and_names_stay():
    x = leaf(name="x")
    program = simplify(Program({"same": x + 0.0, "twice": x + x}, ((x, x * 1.0 + 1.0),)))
    assert program.updates[0][0] is x
    program.check()
    # What has become the updated leaf itself is copied: an output is what it was before the update.
    assert [type(f).__name__ for f in program.functions if f.output is program.outputs["same"]] == ["Expand"]
    assert simplify(Program({"same": x + 0.0})).outputs["same"] is x


def test_simplifying_twice_changes_nothing():
    y = F.sum(F.sin(X * V).x * -X + F.dot(V, V * 2.0))
    once = simplify(Program({str(i): g for i, g in enumerate(gradient(y, [X, V]))}))
    twice = simplify(once)
    assert [repr(f) for f in once.functions] == [repr(f) for f in twice.functions]


def test_the_rewrites_are_shown_and_the_graph_verified(capsys):
    with config(debug=2, check=True):
        simple(X + 0.0)
    assert "add_zero 1" in capsys.readouterr().err


def test_substitution():
    a, b = leaf(seed=5), leaf(seed=6)
    y = F.sin(a * 2.0) + a
    (new,) = substitute([y], {a: b})
    assert np.allclose(evaluate([new])[0], np.sin(b.data * 2) + b.data)
    (nested,) = substitute([y], {y.creator.inputs[0]: F.cos(a)})
    assert np.allclose(evaluate([nested])[0], np.cos(a.data) + a.data)
    with pytest.raises(GraphError, match="cannot stand for"):
        substitute([y], {a: V})


def test_rules_that_run_in_circles_are_stopped():
    def forth(function):
        return F.cos(function.inputs[0])

    @on(type(F.cos(X).creator))
    def back(function):
        return F.sin(function.inputs[0])

    with pytest.raises(GraphError, match="circles"):
        rewrite([F.sin(X)], [on(type(F.sin(X).creator))(forth), back])
    with pytest.raises(GraphError, match="depends on it"):
        rewrite([F.sin(X)], [lambda f: F.cos(f.output) if type(f).__name__ == "Sin" else None])
    with pytest.raises(GraphError, match="another type"):
        rewrite([F.sin(X)], [lambda f: V])


def test_what_replaces_a_variable_may_be_larger_than_what_is_rewritten():
    mark, long = leaf(), X
    for _ in range(1500):
        long = F.mul(long, C(1.0)) + X
    assert rewrite([mark * mark], RULES, {mark: long}).fired["mul_one"] == 1500


def test_ten_thousand_functions_are_simplified_in_one_sweep(monkeypatch):
    """Each Function is rebuilt about once, however long the chain: the work is linear."""
    rebuilt = []
    rebuild = Function.rebuild
    monkeypatch.setattr(Function, "rebuild", lambda self, *x: (rebuilt.append(1), rebuild(self, *x))[1])
    y = X
    for i in range(2500):
        y = F.sin(y * 1.0 + X) * (0.5 + (i % 7) * 0.01) + 0.0
    new = simplify(Program({"y": y}))
    assert len(new.functions) < 7600
    assert len(rebuilt) < 2 * 12500


UNARY = [
    F.neg, F.sin, F.square, lambda x: x * 1.0, lambda x: x + 0.0, lambda x: x * -1.0, lambda x: 2.0 * x,
    F.stop_gradient, lambda x: F.expand(x, 2, (3, 2)), lambda x: F.sum_components(x) * x, lambda x: x - 1.0,
]  # fmt: skip
BINARY = [
    F.add, F.sub, F.mul, lambda a, b: F.select(F.less(F.sum_components(a), 1.0), a, b), lambda a, b: a - -b,
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25)
)
def test_random_graphs_keep_their_values_and_gradients(steps):
    leaves = [leaf(VEC2, (3, 2), 2), leaf(VEC2, (1, 1), seed=1), leaf(FLOAT, (3, 1), seed=2)]
    pool = [*leaves, C((0.25, -0.5)), C(0.0)]
    for operation, i, j in steps:
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        y = UNARY[operation](a) if operation < len(UNARY) else BINARY[operation - len(UNARY)](a, b)
        pool.append(F.sin(y))
    loss = F.mean(F.sum_components(pool[-1]))
    outputs = {"loss": loss, **{f"g{i}": g for i, g in enumerate(gradient(loss, leaves))}}
    program = simplify(Program(outputs))
    verify(program)
    assert len(program.functions) <= len(Program(outputs).functions)
    old, new = (evaluate(list(p.values())) for p in (outputs, program.outputs))
    for a, b in zip(old, new, strict=True):
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_scatters_keep_the_batch_that_their_values_bring():
    """A value is expanded to two tiles, its index has one: without the expansion there would be one tile to
    add."""
    index = F.linear_index((7, 5))
    table = F.scatter_add(F.expand(F.constant(2.0), 2), index, (6, 6), 2)
    moved = F.scatter_add(F.expand(leaf(FLOAT, (7, 5)), 2), index, (6, 6), 2)
    for y in (table, moved):
        assert np.allclose(*evaluate([y, simple(y)]))


@fused
def nearest(face: Variable, x: Variable) -> Variable:
    return F.select(F.less(face, 0), F.constant(-1.0), F.sqrt(x) + 2.0)


@pytest.mark.parametrize(("face", "value"), [(-1, -1.0), (3, None)])
def test_a_value_is_known_where_the_graph_knows_it(face, value):
    made = nearest(Variable(INT, (4, 4)), Variable(FLOAT, (4, 4))).creator
    found = made.known_value({0: np.array(face)})
    assert found is None if value is None else found == value
    assert made.known_value({}) is None


@fused
def folded(face: Variable, x: Variable) -> Variable:
    return nearest(face, x * 3.0) * 2.0 + nearest(face, x)


def test_one_within_another_is_what_its_graph_is(device):
    face, x = Variable.of(np.array([-1, 2, 0, 5]), INT), Variable.of([1.0, 2.0, 3.0, 4.0], FLOAT)
    y = folded(face, x)
    truth = 2 * np.sqrt([3, 6.0, 9, 12]) + np.sqrt([1, 2.0, 3, 4]) + 6
    truth[0] = -3
    with VulkanExecutor(Program({"y": y}), device) as executor:
        executor.run()
        found = executor.recv(y)
    assert np.abs(evaluate([y])[0].ravel() - truth).max() <= 1e-6
    assert np.abs(found.ravel() - truth).max() <= 1e-5


def tiles_leaf(batch: int, size: tuple[int, int], seed: int) -> Variable:
    data = np.random.default_rng(seed).normal(size=(batch, *size[::-1]))
    return Variable(FLOAT, size, batch, name=f"leaf {seed}", data=data)


@pytest.mark.parametrize("tiles", [1, 3])
def test_graph_over_tiles_is_a_graph_an_image(tiles):
    """Also where the images have one tile, and what is read beside them has several."""
    images = [tiles_leaf(1 if tiles == 3 else tiles, (3, 2), seed) for seed in range(4)]
    scale, table = tiles_leaf(tiles, (1, 1), 8), tiles_leaf(tiles, (5, 1), 9)

    def graph(x: Variable) -> Variable:
        index = F.to_int(F.clamp(x, 0.0, 1.0) * 4.0)
        return F.sin(x * scale) * F.lookup(table, index if x.batch == tiles else F.expand(index, tiles)) + x

    placeholder = Variable(FLOAT, (3, 2), tiles)
    wide = [F.expand(x, tiles) for x in images]
    batch, constant = over_tiles([graph(placeholder), F.constant(2.0)], [placeholder], [stacked(wide)], 4)
    assert constant.batch == batch.batch == 4 * tiles
    found, expected = unstacked(batch, 4), [graph(x) for x in wide]
    leaves = [*images, scale, table]

    def weighed(parts: list[Variable]) -> Variable:
        return F.sum(sum((F.square(x) * (k + 1.0) for k, x in enumerate(parts)), F.constant(0.0)))

    values = [evaluate([*parts, *gradient(weighed(parts), leaves)]) for parts in (found, expected)]
    for a, b in zip(*values, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_images_of_one_tile_stand_beside_others():
    x, y = Variable(INT, (2, 1), data=[[[4, -1]]]), Variable(INT, (2, 1), 2, data=[[[1, 2]], [[3, 5]]])
    (found,) = evaluate([stacked([x, y])])
    assert found.reshape(4, 2).tolist() == [[4, -1], [4, -1], [1, 2], [3, 5]]
