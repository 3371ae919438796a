"""Vectors of a solver: lists with a Variable for each unknown, and their products, also with the Jacobian.

Products sum over all numbers of an unknown: components, texels, channels and the batch. If problems are
independent, each image of the batch is one, with all of its channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...graph.types import FLOAT, VType
from ...ops.image.coordinates import ChannelIndex, LinearIndex, TileIndex
from ...ops.pixel.constant import constant
from ...optim.optimizer import VANISHED, State
from ...transform.gradient import gradient, jvp, total

__all__ = ["Jacobian"]

Vector = Sequence[Variable]
Updates = list[tuple[Variable, Variable]]

WHOLE, EACH = "xycn", "xyc"
"""Axes that a product sums over: those of one problem, and those of a problem for each image of the batch."""


def dot(a: Vector, b: Vector, axes: str) -> Variable:
    """The inner product, FLOAT of one texel, with the batch if each image is a problem."""
    return total([F.sum(inner(x, y), axes) for x, y in zip(a, b, strict=True)])


def set_flag(state: State, name: str, mask: Variable) -> Updates:
    """The update of a flag to a FLOAT mask by problem, of zeros and ones."""
    return [(state[name], F.select(mask, 1.0, 0.0) if mask.is_leaf else mask)]


def scalar(name: str, problems: int, value: float = 0.0) -> Variable:
    """A state leaf with a FLOAT for each problem."""
    return Variable(FLOAT, (1, 1), problems, name=name, data=np.full((problems, 1, 1), value))


def quotient(a: Variable | float, b: Variable) -> Variable:
    """a / b, and 0 where b is not above 0, or so small that its reciprocal overflows."""
    positive = F.greater(b, VANISHED)
    return F.select(positive, a / F.select(positive, b, 1.0), 0.0)


def reciprocal(diagonal: Variable) -> Variable:
    """1 / x by components, 0 as for ``quotient``: unknowns that nothing determines stay where they are."""
    return quotient(1.0, diagonal)


def inner(a: Variable, b: Variable) -> Variable:
    """The product of two values at each texel, summed over their components: FLOAT."""
    product = F.hadamard(a, b)
    return product if product.vtype is FLOAT else F.sum_components(product)


def squared_norm(r: Variable) -> Variable:
    return inner(r, r)


def units(vtype: VType) -> list[Variable]:
    """The unit values of a type, one for each component."""
    if vtype is FLOAT:
        return [constant(1.0)]
    return [constant(e.reshape(vtype.shape), vtype) for e in np.eye(vtype.components)]


def joined(parts: Sequence[Variable], vtype: VType) -> Variable:
    """A value of a type from FLOATs, one for each component."""
    if vtype is FLOAT:
        return parts[0]
    return total([part * unit for part, unit in zip(parts, units(vtype), strict=True)])


def texels_of(x: Variable, independent: bool) -> int:
    """Texels of one problem in an unknown, in all channels. independent: each image is a problem."""
    return x.domain.area * (x.channels if independent else x.tiles)


def numbers_of(x: Variable, independent: bool) -> int:
    return x.vtype.components * texels_of(x, independent)


def texel_number(x: Variable, independent: bool) -> Variable:
    """INT: the number of each texel of an unknown among ``texels_of``, of the domain of the unknown."""
    index, tiles = LinearIndex(x.domain).output, x.channels if independent else x.tiles
    if tiles == 1:
        return index
    tile = (ChannelIndex if independent else TileIndex)(x.domain).output
    return index + tile * x.domain.area


def unit_vector(unknowns: Vector, number: Variable, independent: bool) -> list[Variable]:
    """The vector with a 1 at ``number`` among the numbers of all unknowns, and 0 elsewhere. number: INT of a
    domain that broadcasts with the unknowns."""
    parts, first = [], 0
    for x in unknowns:
        start = texel_number(x, independent) * x.vtype.components + first
        parts.append(joined([F.equal(start + c, number) for c in range(x.vtype.components)], x.vtype))
        first += numbers_of(x, independent)
    return parts


Lower = dict[tuple[int, int], Variable]
"""Entries (i, j) with j <= i of a small matrix, FLOATs."""


def factorised(
    matrix: Lower, count: int, inverted: Callable[[Variable, int], Variable]
) -> tuple[Lower, list[Variable]]:
    """L P L^T of a symmetric matrix: L, and the inverse of P. inverted: the inverse of pivot i."""
    lower: Lower = {}
    scaled: Lower = {}  # L times P
    pivots: list[Variable] = []
    for i in range(count):
        for j in range(i + 1):
            entry = total([matrix[i, j], *(-(scaled[i, k] * lower[j, k]) for k in range(j))])
            if j < i:
                scaled[i, j], lower[i, j] = entry, entry * pivots[j]
            else:
                pivots.append(inverted(entry, i))
    return lower, pivots


def substituted(
    lower: Lower, pivots: Sequence[Variable], right: Sequence[Variable], first: int = 0
) -> list[Variable]:
    """(L P L^T)^-1 b, of which the numbers before ``first`` are 0."""
    x, count = list(right), len(right)
    for i in range(count):
        x[i] = total([x[i], *(-(lower[i, k] * x[k]) for k in range(first, i))])
    x = [value * pivot for value, pivot in zip(x, pivots, strict=True)]
    for i in reversed(range(count)):
        x[i] = total([x[i], *(-(lower[k, i] * x[k]) for k in range(i + 1, count))])
    return x


# Products with a Jacobian, without the matrix.


class Jacobian:
    """Products with the Jacobian of residuals by unknowns, without the matrix: ``forward``, ``reverse``.

    residuals, unknowns: Variables of float types. Vectors are lists, a Variable for each.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> jacobian = least_squares.Jacobian([F.square(x)], [x])
    >>> evaluate(jacobian.forward([F.zeros_like(x) + 1.0])[0]).tolist()
    [2.0, 4.0, 8.0, 14.0, 22.0]
    >>> evaluate(jacobian.reverse([0.5 * x])[0]).tolist()
    [1.0, 4.0, 16.0, 49.0, 121.0]
    """

    def __init__(self, residuals: Sequence[Variable], unknowns: Sequence[Variable]):
        self.residuals, self.unknowns = list(residuals), list(unknowns)

    def forward(self, p: Sequence[Variable]) -> list[Variable]:
        """J p: the change of each residual when the unknowns change by p."""
        return jvp(self.residuals, self.unknowns, list(p))

    def reverse(self, s: Sequence[Variable]) -> list[Variable]:
        """J^T s, like the unknowns. s: one Variable for each residual, taken as constant."""
        products = [F.sum(inner(r, F.stop_gradient(v))) for r, v in zip(self.residuals, s, strict=True)]
        return gradient(total(products), self.unknowns)
