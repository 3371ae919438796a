"""Jacobians, Hessians and third derivatives are those of SymPy, to 1e-12."""

import numpy as np
import pytest
from random_graphs.programs import random_outputs

from dressi import F, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.traversal import topological_order

sympy = pytest.importorskip("sympy")

MEANING = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Neg": lambda a: -a,
    "Square": lambda a: a**2,
    "Sin": sympy.sin,
    "Cos": sympy.cos,
    "Max": lambda a, b: sympy.Piecewise((a, a > b), (b, True)),
}


def in_sympy(outputs: list[Variable], leaves: list[Variable]) -> list:
    known: dict[Variable, object] = {v: sympy.Symbol(v.name, real=True) for v in leaves}
    for f in topological_order(outputs):
        meaning = MEANING.get(type(f).__name__)
        known[f.output] = meaning(*map(known.get, f.inputs)) if meaning else sympy.Float(f.value[0])
    return [known[y] for y in outputs]


@pytest.mark.parametrize("seed", (200, 201, 202, 205))  # 203 takes SymPy a minute
def test_derivatives(seed):
    outputs, values = random_outputs(seed, 9)
    leaves = list(values)
    symbols = [sympy.Symbol(v.name, real=True) for v in leaves]
    theirs = in_sympy(outputs, leaves)
    y, x = outputs[-1], leaves[0]
    pairs = [
        (ours, expression.diff(s))
        for row, expression in zip(F.jacobian(outputs, leaves), theirs, strict=True)
        for ours, s in zip(row, symbols, strict=True)
    ]
    pairs += [
        (ours, theirs[-1].diff(s, t))
        for s, row in zip(symbols, F.hessian(y, leaves), strict=True)
        for t, ours in zip(symbols, row, strict=True)
    ]
    pairs.append((F.derivative(y, x, order=3), theirs[-1].diff(symbols[0], 3)))
    assert any(expression != 0 for _, expression in pairs)
    expected = sympy.lambdify(symbols, [expression for _, expression in pairs], "numpy")
    mine = evaluate([ours for ours, _ in pairs], values)
    for found, wanted in zip(mine, expected(*values.values()), strict=True):
        wanted = np.broadcast_to(wanted, found.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * (1.0 + np.abs(wanted).max()))
