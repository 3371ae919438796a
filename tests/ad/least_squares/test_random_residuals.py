"""Random residual graphs: J p, J^T s and diag(J^T J) against the dense matrix, in the oracle."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from residual_graphs import Dense, Drawn, draw, flat, leaves, start

from dressi.ad import functional as F
from dressi.ad import networks
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.least_squares import Energy, Jacobian, diagonal
from dressi.ad.types import FLOAT

randoms = st.randoms(use_true_random=False)


def dense(drawn: Drawn) -> np.ndarray:
    return Dense(drawn).jacobian(start(drawn))


@settings(max_examples=60)
@given(randoms, st.booleans(), st.booleans(), st.booleans())
def test_products_are_those_of_the_dense_matrix(random, computed, reduced, contracted):
    drawn = draw(random, computed=computed, reduced=reduced, contracted=contracted)
    matrix = dense(drawn)
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
    expected = (dense(drawn) ** 2).sum(0)
    found = flat(evaluate(diagonal(drawn.residuals, drawn.unknowns).values))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7 * max(1.0, expected.max()))


@settings(max_examples=60)
@given(randoms, st.booleans(), st.booleans())
def test_the_diagonal_is_positive_where_an_unknown_counts(random: Random, computed: bool, contracted: bool):
    """Squares of several readings of one texel are added, so only a bound is known."""
    drawn = draw(random, computed=computed, contracted=contracted)
    values, rest = diagonal(drawn.residuals, drawn.unknowns)
    local = np.concatenate([np.full(np.prod(r.shape), r not in set(rest)) for r in drawn.residuals])
    expected = (dense(drawn)[local] ** 2).sum(0)
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
    expected = (dense(drawn) ** 2).sum(0)
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
    expected = (dense(drawn) ** 2).sum(0)
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
