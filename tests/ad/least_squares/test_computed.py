"""Values whose derivatives are images of their own."""

import numpy as np
import pytest

from dressi import MAT2, F, GraphError, Variable, gradient, jvp, least_squares
from dressi.ad.evaluate import evaluate


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
    }


@pytest.mark.parametrize("name", cases())
def test_values_and_first_derivatives_stay(name: str):
    y, inputs, wrt = cases()[name]
    kept = least_squares.linearized(y, inputs)
    assert kept.vtype is y.vtype and kept.domain == y.domain
    random = np.random.default_rng(9)
    along = [random.normal(size=x.shape) for x in wrt]
    seed = Variable.of(random.normal(size=y.shape)[0], y.vtype)
    for right, found in zip(
        evaluate([y, *jvp(y, wrt, along), *gradient(y, wrt, seed)]),
        evaluate([kept, *jvp(kept, wrt, along), *gradient(kept, wrt, seed)]),
        strict=True,
    ):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


def test_everything_else_is_constant():
    a, b = leaf(5, 6), leaf(5, 6, seed=1)
    (slope,) = gradient(F.sum(least_squares.linearized(a * b, a)), [b])
    assert not evaluate([slope])[0].any()


def test_what_cannot_be_linearized_is_named():
    a, b = leaf(5, 6), leaf(5, 6, seed=1)
    with pytest.raises(GraphError, match=r"Gather \(made at .* reads other texels; make its output an input"):
        least_squares.linearized(F.square(F.shift(a, 1, 0)), a)
    with pytest.raises(GraphError, match="is not computed from the inputs"):
        least_squares.linearized(F.square(a), [b])
    with pytest.raises(GraphError, match="float types"):
        least_squares.linearized(a, F.to_int(a))


def test_the_diagonal_goes_through():
    a = leaf(5, 6)
    step = F.normalize(F.vec2(a, F.shift(a, 1, 0)))
    y = F.sin(step.x) * step.y
    found, right = (
        evaluate(least_squares.diagonal([F.shift(v, 0, 1)], [a]).values)[0]
        for v in (least_squares.linearized(y, step), y)
    )
    np.testing.assert_allclose(found, right, rtol=1e-12)
