"""The coarse space of lists: its graph, and the inverse on it against dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from residual_graphs import flat, unflat

from dressi import F, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.least_squares import Jacobian
from dressi.ad.least_squares.linear import coarse
from dressi.ad.least_squares.linear.coarse import shares
from dressi.ad.types import INT, MAT3, VEC3


def chain(count: int, x: Variable) -> Variable:
    """Differences along a path through a list."""
    first, second = (Variable.of(np.arange(count - 1) + k) for k in (0, 1))
    return F.lookup(x, second) - F.lookup(x, first)


def test_shares_of_a_path_add_up_and_fall_with_the_distance():
    x = Variable.of(np.zeros(30), name="x")
    (found,) = shares([chain(20, x)], [x], 3) or ()
    assert found.shape == (30, 3)
    np.testing.assert_allclose(found[:20].sum(1), 1.0)
    assert not found[20:].any()  # entries that no residual connects
    centres = found.argmax(0)
    assert sorted(centres) == [0, pytest.approx(10, abs=1), 19]
    assert (np.diff(found[:10, centres.argmin()]) < 0).all()


def test_parts_without_a_centre_have_no_coarse_space():
    x, y = Variable.of(np.zeros(12), name="x"), Variable.of(np.zeros(12), name="y")
    pairs = F.lookup(x, Variable.of(np.arange(0, 12, 2))) - F.lookup(x, Variable.of(np.arange(1, 12, 2)))
    assert shares([pairs], [x], 5) is None
    assert shares([pairs], [x], 6) is not None
    assert shares([x - 1.0], [x], 6) is None  # no residual reads two entries
    # An entry of one list and one of another, read together, are connected.
    found = shares([chain(12, x), F.lookup(x, Variable.of(np.arange(12))) * y], [x, y], 2)
    assert found is not None and (found[1].sum(1) > 0.99).all()


def test_indices_with_channels_connect_entries():
    """A polygon a channel: the differences of a path, two entries at a time."""
    x = Variable.of(np.zeros(20), name="x")
    first = np.arange(19)
    at = [
        Variable(INT, (19, 1), channels=2, data=np.stack([first + k, first + k])[None, :, None])
        for k in (0, 1)
    ]
    plain, wide = shares([chain(20, x)], [x], 3), shares([F.lookup(x, at[1]) - F.lookup(x, at[0])], [x], 3)
    np.testing.assert_array_equal(plain, wide)


def test_indices_that_follow_from_the_unknowns_or_have_no_values_connect_nothing():
    x = Variable.of(np.zeros(12), name="x")
    assert shares([F.lookup(x, F.to_int(x) + 1) - x], [x], 2) is None
    assert shares([F.lookup(x, Variable(INT, (12, 1), name="later")) - x], [x], 2) is None


def ones(x: Variable) -> Variable:
    """Like x, all components 1."""
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, data=np.ones(x.shape))


def made(residuals, unknowns, most):
    """The coarse space after its set-up, the values of its state, and J^T J."""
    names = [str(x.name) for x in unknowns]
    layout = coarse.Layout.of(unknowns, names, most)
    assert layout is not None and layout.count <= most
    state = layout.states(unknowns, names)
    space = coarse.Coarse.of(residuals, unknowns, names, layout, state)
    assert space is not None
    jacobian = Jacobian(residuals, unknowns)
    direction = [
        Variable(x.vtype, x.size, x.batch, channels=x.channels, data=np.zeros(x.shape)) for x in unknowns
    ]
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
    used = values or {}
    columns = [
        flat(evaluate(outputs, {**used, **dict(zip(places, unflat(e, unknowns), strict=True))}))
        for e in np.eye(size)
    ]
    return np.stack(columns, 1)


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
    np.testing.assert_allclose(found, found.T, atol=1e-9)
    # The range of the correction is that of its functions: there it is the inverse.
    left, singular, _ = np.linalg.svd(found)
    p = left[:, singular > 1e-9 * singular[0]]
    assert p.shape[1] == space.layout.count
    np.testing.assert_allclose(found, p @ np.linalg.inv(p.T @ system @ p) @ p.T, atol=1e-6 * singular[0])


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
    whole = matrix(lambda p: space.apply(p, [ones(x) for x in p])[0], [x], values) + np.diag(
        1.0 / np.diag(system)
    )
    np.testing.assert_allclose(whole, whole.T, rtol=1e-6, atol=1e-9 * np.abs(whole).max())
    assert np.linalg.eigvalsh(whole)[0] > 0.0
