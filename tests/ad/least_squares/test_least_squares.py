"""Least squares on the oracle: dense and coarse systems, computed residuals, and random ones."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from residual_graphs import Dense, Drawn, draw, flat, leaves, start, unflat

from dressi import MAT2, F, GraphError, Variable, gradient, jvp, least_squares, networks
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, INT, MAT3, VEC2, VEC3
from dressi.ad.least_squares import Energy, Jacobian, diagonal
from dressi.ad.least_squares.linear import coarse
from dressi.ad.least_squares.linear.coarse import shares
from dressi.ad.least_squares.linear.direct import Columns, solved
from dressi.ad.least_squares.linear.vectors import EACH, WHOLE

WEIGHT = 0.3
STARTS = np.array([[0.3, -0.2, 0.5], [1.0, 0.1, -0.4]])


def residuals_of(x: Variable, y: Variable) -> list[Variable]:
    """Residuals that read a list computed from the unknowns: not texel by texel."""
    places = F.constant(np.eye(3)) @ x
    table = F.expand(places.x, x.batch, (5, 1)) * F.to_float(F.linear_index((5, 1))) + F.sin(places.y) + y
    index = Variable(INT, (6, 1), data=np.array([[[4, 0, 3, 3, 1, 2]]]))
    return [F.lookup(F.square(table), index), F.vec3(places.z, y, places.x) * WEIGHT]


def direct_leaves(problems: int) -> tuple[Variable, Variable]:
    x = Variable(VEC3, (1, 1), problems, name="x", data=STARTS[:problems, None, None])
    y = Variable(FLOAT, (1, 1), problems, name="y", data=np.array([0.7, -0.6])[:problems, None, None])
    return x, y


def dense(
    residuals: list[Variable], unknowns: tuple[Variable, Variable], problem: int
) -> tuple[np.ndarray, np.ndarray]:
    """J and r of one problem by differences."""

    def at(step: np.ndarray) -> np.ndarray:
        values = {}
        for leaf, part in zip(unknowns, (step[:3], step[3]), strict=True):
            moved = np.array(leaf.data, np.float64)
            moved[problem, 0, 0] += part
            values[leaf] = moved
        return np.concatenate([v[problem].reshape(-1) for v in evaluate(residuals, values)])

    h = 1e-6
    columns = [(at(h * e) - at(-h * e)) / (2 * h) for e in np.eye(4)]
    return np.stack(columns, axis=1), at(np.zeros(4))


@pytest.mark.parametrize("problems", [1, 2])
def test_the_solution_is_that_of_the_dense_system(problems: int):
    unknowns = direct_leaves(problems)
    residuals = residuals_of(*unknowns)
    axes = WHOLE if problems == 1 else EACH
    found = solved(Jacobian(residuals, unknowns), axes, lambda squares: [0.1 * d for d in squares])
    change, diagonal = evaluate(found.change), evaluate(found.diagonal)
    (decrease,) = evaluate([found.decrease])
    for k in range(problems):
        matrix, right = dense(residuals, unknowns, k)
        normal, slope = matrix.T @ matrix, matrix.T @ right
        expected = np.linalg.solve(normal + 0.1 * np.diag(np.diag(normal)), -slope)
        for vector, wanted in ((change, expected), (diagonal, np.diag(normal))):
            assert np.concatenate([v[k].reshape(-1) for v in vector]) == pytest.approx(wanted, rel=1e-5)
        assert decrease[k].item() == pytest.approx(-0.5 * slope @ expected, rel=1e-5)


@pytest.mark.parametrize("independent", [False, True])
def test_numbers_of_all_channels_are_solved(independent: bool):
    """Of one problem those of all images, of independent ones those of each."""
    rng = np.random.default_rng(1)
    x = Variable(FLOAT, (2, 1), 2, channels=2, name="x", data=np.zeros((2, 2, 1, 2)))
    scale, right = (
        Variable(FLOAT, (2, 1), 2, channels=2, data=rng.uniform(0.5, 2.0, (2, 2, 1, 2))) for _ in range(2)
    )
    residuals = [scale * x - right, 0.5 * (F.channel(x, 0) - F.channel(x, 1))]
    found = solved(Jacobian(residuals, [x]), EACH if independent else WHOLE, lambda squares: None)
    (change,) = evaluate(found.change)
    for n in range(2):
        for column in range(2):
            a, b = scale.data[n, :, 0, column], right.data[n, :, 0, column]
            expected = np.linalg.lstsq(np.vstack([np.diag(a), [[0.5, -0.5]]]), [*b, 0.0])[0]
            assert change[n, :, 0, column] == pytest.approx(expected, rel=1e-6)
    assert evaluate([found.decrease])[0].size == (2 if independent else 1)


def test_what_no_residual_determines_stays():
    x = Variable(VEC3, name="x", data=STARTS[:1, None, None])
    residual = F.sum(F.square(x)).x + F.sum(F.square(x)).y - 2.0
    found = solved(Jacobian([residual], [x]), WHOLE, lambda squares: None)
    change = evaluate(found.change)[0][0, 0, 0]
    assert np.isfinite(change).all() and change[2] == 0.0
    # One equation for two numbers: the step reaches it by the first of them alone.
    assert 2 * STARTS[0] @ change == pytest.approx(-(STARTS[0, 0] ** 2 + STARTS[0, 1] ** 2 - 2.0))


def chain(count: int, x: Variable) -> Variable:
    """Differences along a path through a list."""
    first, second = (Variable.of(np.arange(count - 1) + k) for k in (0, 1))
    return F.lookup(x, second) - F.lookup(x, first)


def test_shares_of_a_path_add_up_and_fall_with_the_distance():
    x = Variable.of(np.zeros(30), name="x")
    (found,) = shares([chain(20, x)], [x], 3) or ()
    assert found.shape == (30, 3)
    assert_allclose(found[:20].sum(1), 1.0)
    assert not found[20:].any()  # entries that no residual connects
    centres = found.argmax(0)
    assert sorted(centres) == [0, pytest.approx(10, abs=1), 19]
    assert (np.diff(found[:10, centres.argmin()]) < 0).all()


def test_parts_without_a_centre_have_no_coarse_space():
    x, y = Variable.of(np.zeros(12), name="x"), Variable.of(np.zeros(12), name="y")
    pairs = F.lookup(x, Variable.of(np.arange(0, 12, 2))) - F.lookup(x, Variable.of(np.arange(1, 12, 2)))
    with pytest.warns(UserWarning, match="entries of x in more parts than the 5 centres"):
        assert shares([pairs], [x], 5) is None
    assert shares([pairs], [x], 6) is not None
    assert shares([x - 1.0], [x], 6) is None  # no residual reads two entries
    # An entry of one list and one of another, read together, are connected.
    found = shares([chain(12, x), F.lookup(x, Variable.of(np.arange(12))) * y], [x, y], 2)
    assert found is not None and (found[1].sum(1) > 0.99).all()


def test_texels_behind_the_last_entry_are_no_parts_of_the_graph():
    count = 4100  # two rows, of which the second is nearly empty
    x, y = (Variable.of(np.zeros(count), name=name) for name in "xy")
    found = shares([chain(count, x), x - y], [x, y], 2)
    assert found is not None and not found[0][count:].any()
    assert_allclose(np.stack(found)[:, :count].sum(2), 1.0)


def test_indices_with_channels_connect_entries():
    """A polygon a channel: the differences of a path, two entries at a time."""
    x = Variable.of(np.zeros(20), name="x")
    first = np.arange(19)
    data = [np.stack([first + k, first + k])[None, :, None] for k in (0, 1)]
    at = [Variable(INT, (19, 1), channels=2, data=numbers) for numbers in data]
    plain, wide = shares([chain(20, x)], [x], 3), shares([F.lookup(x, at[1]) - F.lookup(x, at[0])], [x], 3)
    np.testing.assert_array_equal(plain, wide)


def test_indices_that_follow_from_the_unknowns_or_have_no_values_connect_nothing():
    x = Variable.of(np.zeros(12), name="x")
    assert shares([F.lookup(x, F.to_int(x) + 1) - x], [x], 2) is None
    assert shares([F.lookup(x, Variable(INT, (12, 1), name="later")) - x], [x], 2) is None


def alike(x: Variable, data: np.ndarray, name: str | None = None) -> Variable:
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, name=name, data=data)


def ones(x: Variable) -> Variable:
    return alike(x, np.ones(x.shape))


def made(residuals, unknowns, most):
    """The coarse space after its set-up, the values of its state, and J^T J."""
    names = [str(x.name) for x in unknowns]
    layout = coarse.Layout.of(unknowns, names, most)
    assert layout is not None and layout.count <= most
    state = layout.states(unknowns, names)
    space = coarse.Coarse.of(residuals, unknowns, names, layout, state)
    assert space is not None
    jacobian = Jacobian(residuals, unknowns)
    direction = [alike(x, np.zeros(x.shape)) for x in unknowns]
    known = [ones(x) for x in unknowns]  # every entry is determined
    programs = [
        space.bordered(lambda p: jacobian.reverse(jacobian.forward(p)), direction),
        space.grown(direction, known),
    ]
    due = space.due(F.constant(1.0), F.constant(0.0))
    begin = space.begun(due, direction, known)
    values: dict[Variable, np.ndarray] = {}
    for program in [begin, *programs * layout.count]:
        found = evaluate([v for _, v in program], values)
        values.update({leaf: np.reshape(v, leaf.shape) for (leaf, _), v in zip(program, found, strict=True)})
    return space, values, jacobian


def matrix(product, unknowns, values=None) -> np.ndarray:
    """The dense matrix of a linear function of vectors."""
    places = [Variable(x.vtype, x.size, x.batch, channels=x.channels) for x in unknowns]
    outputs, size = product(places), sum(int(np.prod(x.shape)) for x in unknowns)
    units = [dict(zip(places, unflat(e, unknowns), strict=True)) for e in np.eye(size)]
    return np.stack([flat(evaluate(outputs, {**(values or {}), **unit})) for unit in units], 1)


@pytest.fixture
def small(monkeypatch):
    """Coarse spaces for lists of a few entries."""
    monkeypatch.setattr(coarse, "ENTRIES", 4)
    monkeypatch.setattr(coarse, "LEAST", 8)


@pytest.mark.usefixtures("small")
def test_the_coarse_inverse_is_that_of_the_system_on_its_functions():
    rng = np.random.default_rng(0)
    x = Variable.of(rng.normal(size=(14, 3)), VEC3, name="x")
    y = Variable.of(np.zeros((9, 3, 3)), MAT3, name="y")
    fixed = Variable.of(0.0, name="weight")  # one texel: no list of entries
    at = [Variable.of(rng.integers(0, n, 40)) for n in (14, 14, 9)]
    a, b, m = F.lookup(x, at[0]), F.lookup(x, at[1]), F.lookup(y, at[2])
    residuals = [a - b + m @ Variable.of(rng.normal(size=(40, 3))), 0.1 * x + fixed, 0.1 * y]
    unknowns = [x, y, fixed]
    space, values, jacobian = made(residuals, unknowns, 60)
    assert space.functions[2] is None
    system = matrix(lambda p: jacobian.reverse(jacobian.forward(p)), unknowns)
    found = matrix(lambda p: space.apply(p, [ones(x) for x in p])[0], unknowns, values)
    assert_allclose(found, found.T, atol=1e-9)
    # The range of the correction is that of its functions: there it is the inverse.
    left, singular, _ = np.linalg.svd(found)
    p = left[:, singular > 1e-9 * singular[0]]
    assert p.shape[1] == space.layout.count
    assert_allclose(found, p @ np.linalg.inv(p.T @ system @ p) @ p.T, atol=1e-6 * singular[0])


@pytest.mark.usefixtures("small")
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_with_jacobi_it_is_symmetric_and_positive_definite(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(10, 40))
    vectors = rng.random() < 0.5
    x = Variable.of(rng.normal(size=(count, 2) if vectors else count), name="x")
    edges = rng.integers(0, count, (2, int(rng.integers(count, 3 * count))))
    weights = Variable.of(np.exp(rng.normal(size=edges.shape[1])))
    residuals = [weights * (F.lookup(x, Variable.of(edges[0])) - F.lookup(x, Variable.of(edges[1]))), 0.1 * x]
    layout = coarse.Layout.of([x], ["x"], 24)
    assert layout is not None
    if coarse.Coarse.of(residuals, [x], ["x"], layout, layout.states([x], ["x"])) is None:
        return  # too many parts
    space, values, jacobian = made(residuals, [x], 24)
    system = matrix(lambda p: jacobian.reverse(jacobian.forward(p)), [x])
    whole = matrix(lambda p: space.apply(p, [ones(x) for x in p])[0], [x], values)
    whole += np.diag(1.0 / np.diag(system))
    assert_allclose(whole, whole.T, rtol=1e-6, atol=1e-9 * np.abs(whole).max())
    assert np.linalg.eigvalsh(whole)[0] > 0.0


def leaf(*shape: int, seed: int = 0, vtype=None) -> Variable:
    return Variable.of(np.random.default_rng(seed).uniform(0.5, 1.5, shape), vtype, name=f"x{seed}")


def cases() -> dict[str, tuple[Variable, list[Variable], list[Variable]]]:
    """y, the inputs, and the leaves."""
    a, b = leaf(5, 6), leaf(5, 6, seed=1)
    step = a - F.shift(a, 1, 0)
    v, m = leaf(5, 6, 2, seed=2), leaf(5, 6, 2, 2, seed=3, vtype=MAT2)
    one = leaf(1, 1, seed=4)
    return {
        "scalars": (F.sin(a * step) / (1.0 + step * step), [a, step], [a]),
        "vectors": (F.normalize(v) * F.exp(b), [v, b], [v, b]),
        "matrices": (m @ F.vec2(F.cos(a), b), [m, a, b], [m, a, b]),
        "one texel": (F.square(a) * one, [a, one], [a, one]),
        "beside constants": (a * F.sqrt(b), [a], [a]),
        "neighbours": (
            F.normalize(F.vec2(a, F.shift(a, 1, 0))) * F.shift(step * b, 0, 1, "zero"),
            [a, b],
            [a, b],
        ),
    }


@pytest.mark.parametrize("name", cases())
def test_values_and_first_derivatives_stay(name: str):
    y, inputs, wrt = cases()[name]
    kept = least_squares.linearized(y, inputs)
    assert kept.vtype is y.vtype and kept.domain == y.domain
    random = np.random.default_rng(9)
    along = [random.normal(size=x.shape) for x in wrt]
    seed = Variable.of(random.normal(size=y.shape)[0], y.vtype)
    right, found = (evaluate([v, *jvp(v, wrt, along), *gradient(v, wrt, seed)]) for v in (y, kept))
    for one, other in zip(right, found, strict=True):
        assert_allclose(other, one, rtol=1e-12, atol=1e-12)


def test_everything_else_is_constant():
    a, b = leaf(5, 6), leaf(5, 6, seed=1)
    (slope,) = gradient(F.sum(least_squares.linearized(a * b, a)), [b])
    assert not evaluate([slope])[0].any()


def test_what_cannot_be_linearized_is_named():
    a, b = leaf(5, 6), leaf(5, 6, seed=1)
    with pytest.raises(GraphError, match=r"\(made at .* reads them otherwise; make its output an input"):
        least_squares.linearized(F.square(F.sum(a)), a)
    with pytest.raises(GraphError, match="is not computed from the inputs"):
        least_squares.linearized(F.square(a), [b])
    with pytest.raises(GraphError, match="float types"):
        least_squares.linearized(a, F.to_int(a))


@pytest.mark.parametrize(
    "border, mode", [("zero", "constant"), ("clamp", "edge"), ("repeat", "wrap"), ("reflect", "reflect")]
)
def test_neighbours_are_those_of_a_padded_volume(border, mode):
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    x = Variable(FLOAT, (5, 4), channels=3, data=values[None])
    for dx, dy, dz in ((1, 0, 0), (0, -2, 1), (-1, 1, -2)):
        found, inside = evaluate(
            [least_squares.neighbour(x, dx, dy, dz, border), least_squares.in_bounds(x, dx, dy, dz)]
        )
        at = slice(2 + dz, 5 + dz), slice(2 + dy, 6 + dy), slice(2 + dx, 7 + dx)
        assert_allclose(found[0], np.pad(values, 2, mode=mode)[at])
        assert_allclose(np.broadcast_to(inside[0], values.shape), np.pad(np.ones_like(values), 2)[at])
        assert (
            check_gradient(F.sum(F.square(F.sin(least_squares.neighbour(x, dx, dy, dz, border)))), [x]) < 1e-6
        )


def test_the_diagonal_goes_through():
    a = leaf(5, 6)
    step = F.normalize(F.vec2(a, F.shift(a, 1, 0)))
    y = F.sin(step.x) * step.y
    diagonals = [diagonal([F.shift(v, 0, 1)], [a]) for v in (least_squares.linearized(y, step), y)]
    assert_allclose(*(evaluate(d.values)[0] for d in diagonals), rtol=1e-12)


@pytest.mark.parametrize("independent", [False, True])
def test_the_matrix_multiplies_like_the_jacobian(independent: bool):
    rng = np.random.default_rng(0)
    x = Variable(FLOAT, (1, 1), 3, name="x", data=rng.normal(size=(3, 1, 1)))
    y = Variable(VEC2, (1, 1), 3, name="y", data=rng.normal(size=(3, 1, 1, 2)))
    z = Variable(FLOAT, (1, 1), 3, channels=2, name="z", data=rng.normal(size=(3, 2, 1, 1)))
    ramp = Variable(FLOAT, (4, 2), 3, data=rng.normal(size=(3, 2, 4)))
    unknowns, residuals = [x, y, z], [F.sin(ramp * x) + y.x * y.y, ramp * F.dot(y, y) + x, ramp * z - x * z]
    if not independent:
        residuals.append(F.sum(x * y.x, "n") - 1.0)
    jacobian = Jacobian(residuals, unknowns)
    probe = Variable(INT, name="probe", data=np.zeros((1, 1, 1), np.int64))
    columns = Columns(jacobian, probe, independent)
    assert columns.count == (5 if independent else 15)
    kept = [alike(v, np.zeros(v.shape), f"d{k}") for k, v in enumerate(unknowns)]
    updates = columns.updates(kept)
    values = {leaf: np.asarray(leaf.data) for leaf, _ in updates}
    for _ in range(columns.count):
        found = evaluate([value for _, value in updates], values)
        values = dict(zip(values, found, strict=True))
    p = [alike(v, rng.normal(size=v.shape)) for v in unknowns]
    mine = evaluate(columns(p), {leaf: value for leaf, value in values.items() if leaf not in {probe, *kept}})
    for a, b in zip(mine, evaluate(jacobian.reverse(jacobian.forward(p))), strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9)
    # The diagonal, by its entries.
    for k, leaf in enumerate(kept):
        for tile in range(3):
            for c in range(leaf.vtype.components * leaf.channels):
                unit = [np.zeros(v.shape) for v in unknowns]
                unit[k].reshape(3, -1)[tile, c] = 1.0
                e = [alike(v, u) for v, u in zip(unknowns, unit, strict=True)]
                entry = evaluate(jacobian.reverse(jacobian.forward(e)))[k].reshape(3, -1)[tile, c]
                assert values[leaf].reshape(3, -1)[tile, c] == pytest.approx(entry, rel=1e-6)


randoms = st.randoms(use_true_random=False)


def random_dense(drawn: Drawn) -> np.ndarray:
    return Dense(drawn).jacobian(start(drawn))


@settings(max_examples=60)
@given(randoms, st.booleans(), st.booleans(), st.booleans())
def test_products_are_those_of_the_dense_matrix(random, computed, reduced, contracted):
    drawn = draw(random, computed=computed, reduced=reduced, contracted=contracted)
    matrix = random_dense(drawn)
    numbers = np.random.default_rng(0)
    p, s = (numbers.normal(size=n) for n in matrix.T.shape)
    product = Jacobian(drawn.residuals, drawn.unknowns)
    bound = 1e-6 * max(1.0, np.abs(matrix).max()) * max(matrix.shape)
    forward = flat(evaluate(product.forward(leaves(p, drawn.unknowns))))
    assert forward == pytest.approx(matrix @ p, rel=0, abs=bound)
    reverse = flat(evaluate(product.reverse(leaves(s, drawn.residuals))))
    assert reverse == pytest.approx(matrix.T @ s, rel=0, abs=bound)


@settings(max_examples=60)
@given(randoms)
def test_the_diagonal_is_exact_where_a_residual_reads_an_unknown_in_one_way(random: Random):
    drawn = draw(random, ways=1)
    expected = (random_dense(drawn) ** 2).sum(0)
    found = flat(evaluate(diagonal(drawn.residuals, drawn.unknowns).values))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7 * max(1.0, expected.max()))


@settings(max_examples=60)
@given(randoms, st.booleans(), st.booleans())
def test_the_diagonal_is_positive_where_an_unknown_counts(random: Random, computed: bool, contracted: bool):
    """Squares of several readings of one texel are added, so only a bound is known."""
    drawn = draw(random, computed=computed, contracted=contracted)
    values, rest = diagonal(drawn.residuals, drawn.unknowns)
    local = np.concatenate([np.full(np.prod(r.shape), r not in set(rest)) for r in drawn.residuals])
    expected = (random_dense(drawn)[local] ** 2).sum(0)
    found = flat(evaluate(values))
    assert np.isfinite(found).all() and (found >= 0).all()
    assert (found[expected > 1e-6 * max(1.0, expected.max(initial=0.0))] > 0).all()


INDEX = Variable.of([2, 0, 5, -1, 1])
PLACED: dict[str, Callable[[Variable], Variable]] = {
    "shift": lambda x: F.shift(x, 1, 0),
    "lookup": lambda x: F.lookup(x, INDEX),
    "both": lambda x: F.shift(F.lookup(x, INDEX), -1, 0, "zero"),
}


@pytest.mark.parametrize("placed", PLACED.values(), ids=PLACED)
def test_the_diagonal_reaches_through_values_that_are_computed_first(placed):
    """As rotations at vertices are, which each of several edges reads."""
    x = Variable.of(np.linspace(0.3, 1.2, 12).reshape(6, 2), name="x")
    turned = F.vec2(F.sin(x.x) * x.y, F.square(x.y))
    drawn = Drawn((placed(turned) * placed(x.x),), (x,))
    expected = (random_dense(drawn) ** 2).sum(0)
    found = diagonal(drawn.residuals, drawn.unknowns)
    assert not found.rest
    assert flat(evaluate(found.values)) == pytest.approx(expected, rel=1e-6, abs=1e-9)


VOLUME = Variable.of(np.random.default_rng(1).uniform(0.5, 1.5, (2, 3, 4, 5)), FLOAT, name="volume")
KERNEL = Variable.of(np.random.default_rng(2).uniform(0.5, 1.5, (2, 3)), FLOAT, name="kernel")
LINEAR = Variable.of(np.random.default_rng(3).uniform(0.5, 1.5, (2, 3)), FLOAT, name="linear")
VECTORS = Variable.of(np.random.default_rng(4).uniform(0.5, 1.5, (4, 5, 3)), name="vectors")
ALONG = "out[n, z, y, x] = v[n, z + 1, y, x] * v[n, z, y, x]"
CONTRACTED: dict[str, Callable[[], Drawn]] = {
    "along the channels": lambda: Drawn((F.contract(ALONG, v=VOLUME, extents={"z": 2}),), (VOLUME,)),
    "a channel": lambda: Drawn((F.square(F.channel(VOLUME, 1)),), (VOLUME,)),
    "there and back": lambda: Drawn(
        (VOLUME - F.channels(F.concatenate_channels(F.sin(VOLUME), VOLUME), 0, 3),), (VOLUME,)
    ),
    "components": lambda: Drawn((F.square(F.to_channels(VECTORS)), F.from_channels(VOLUME)), (VECTORS, VOLUME)),
    "a window": lambda: Drawn((F.sin(F.correlate(VOLUME, KERNEL, border="repeat")),), (VOLUME,)),
    "a kernel": lambda: Drawn((F.sin(F.correlate(F.channel(VOLUME, 0), KERNEL, border="zero")),), (KERNEL,)),
    "a layer": lambda: Drawn((F.tanh(networks.linear({"weight": LINEAR}, VOLUME)),), (LINEAR, VOLUME)),
    "shifted": lambda: Drawn((F.shift(F.contract(ALONG, v=F.square(VOLUME), extents={"z": 2}), 1, 0),), (VOLUME,)),
}  # fmt: skip


@pytest.mark.parametrize("make", CONTRACTED.values(), ids=CONTRACTED)
def test_the_diagonal_reaches_through_contractions_of_few_terms(make):
    drawn = make()
    found = diagonal(drawn.residuals, drawn.unknowns)
    assert not found.rest
    expected = (random_dense(drawn) ** 2).sum(0)
    assert flat(evaluate(found.values)) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_diagonal_of_layers_behind_each_other_is_left_to_probes():
    """Their squares do not add up."""
    first = F.tanh(networks.linear({"weight": LINEAR}, VOLUME))
    second = networks.linear({"weight": Variable.of(np.ones((2, 2)), FLOAT)}, first)
    assert diagonal([second], [VOLUME]).rest == [second]


@settings(max_examples=30)
@given(randoms)
def test_the_cost_is_half_the_sum_of_squares(random: Random):
    drawn = draw(random, computed=True, reduced=True, contracted=True)
    (cost,) = evaluate([Energy(drawn.residuals).cost()])
    assert cost.item() == pytest.approx(0.5 * np.square(Dense(drawn).residuals(start(drawn))).sum())
