"""Vectors of a solver: lists with a Variable for each unknown, and their products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...optim.optimizer import VANISHED, State
from ...transform.gradient import total
from ...types import FLOAT

Vector = Sequence[Variable]
Updates = list[tuple[Variable, Variable]]

WHOLE, EACH = "xyn", "xy"
"""Axes that a product sums over: those of one problem, and those of a problem for each tile."""


def dot(a: Vector, b: Vector, axes: str) -> Variable:
    """The inner product, FLOAT of one texel, with the batch if each tile is a problem."""
    return total([F.sum(inner(x, y), axes) for x, y in zip(a, b, strict=True)])


def set_flag(state: State, name: str, mask: Variable) -> Updates:
    """The update of a flag to a FLOAT mask by problem, of zeros and ones."""
    return [(state[name], F.select(mask, 1.0, 0.0) if mask.is_leaf else mask)]


def like(leaf: Variable, name: str) -> Variable:
    """A state leaf of the type and domain of another, zero at first."""
    return Variable(
        leaf.vtype, leaf.size, leaf.batch, channels=leaf.channels, name=name, data=np.zeros(leaf.shape)
    )


def scalar(name: str, problems: int, value: float = 0.0) -> Variable:
    """A state leaf with a FLOAT for each problem."""
    return Variable(FLOAT, (1, 1), problems, name=name, data=np.full((problems, 1, 1), value))


def quotient(a: Variable, b: Variable) -> Variable:
    """a / b, and 0 where b is not above 0, or so small that its reciprocal overflows."""
    positive = F.greater(b, VANISHED)
    return F.select(positive, a / F.select(positive, b, 1.0), 0.0)


def reciprocal(diagonal: Variable) -> Variable:
    """1 / x by components, and 0 where x is not above 0, or so small that 1 / x overflows: unknowns that nothing determines
    stay where they are."""
    positive = F.greater(diagonal, VANISHED)
    return F.select(positive, 1.0 / F.select(positive, diagonal, 1.0), 0.0)


def inner(a: Variable, b: Variable) -> Variable:
    """The product of two values at each texel, summed over their components: FLOAT."""
    product = F.hadamard(a, b)
    return product if product.vtype is FLOAT else F.sum_components(product)


def squared_norm(r: Variable) -> Variable:
    """|r|^2 at each texel, over all components: FLOAT."""
    return inner(r, r)
