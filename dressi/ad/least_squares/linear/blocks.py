"""Blocks of J^T J: the products of the derivatives by all components of one unknown at one texel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...ops.pixel.constant import constant
from ...transform.gradient import gradient, total
from ...types import MAT2, MAT3, MAT4, VType
from .diagonal import Paths, selections, unrolled
from .preconditioner import Jacobi, Preconditioner
from .vectors import VANISHED, inner, joined, like, units

ORDERS: dict[int, VType] = {2: MAT2, 3: MAT3, 4: MAT4}
"""The type of a block by the number of components of the unknown."""
NEAR, ROUNDED = 1e-3, 1e-6
"""Parts of the diagonal: NEAR is added to a block before it is inverted, ROUNDED is about its rounding error in 32 bits."""


def block_type(unknown: Variable) -> VType | None:
    """The type of the blocks of an unknown; None unless it is a vector."""
    return None if unknown.vtype.is_matrix else ORDERS.get(unknown.vtype.components)


def couplings(residuals: Sequence[Variable], unknown: Variable) -> Variable | None:
    """The blocks of J^T J for one unknown, MATn of its domain, with a zero diagonal; None if there are none. Of residuals that
    read the unknown along paths; see ``diagonal``."""
    shares: list[Variable] = []
    for r in (unrolled(r, [unknown]) for r in residuals):
        functions = selections(r, unknown)
        paths = Paths(unknown, functions or [])
        for path, tangents in paths.flow(r).items() if functions is not None else ():
            columns = [F.fit(t, r) for t in tangents]
            for j, unit in enumerate(units(unknown.vtype)):
                products = [
                    inner(columns[j], other) if i != j else F.constant(0.0) for i, other in enumerate(columns)
                ]
                seed = F.stop_gradient(joined(products, unknown.vtype))
                # The gradient of a linear function of the unknown is the transpose of the path.
                (column,) = gradient(F.sum(inner(paths.read[path], seed)), [unknown])
                shares.append(F.outer(column, unit))
    return total(shares) if shares else None


def inverse(diagonal: Variable, rest: Variable | None, vtype: VType) -> Variable:
    """About the inverse of the blocks B with a diagonal D and entries beside it, MATn, symmetric and positive definite:

        2 M - M B M,    M = C^-1 (B + ROUNDED D) C^-1,    C = B + NEAR D

    It is B^-1 where B is not nearly singular, and about D^-1 along what B does not determine. There B^-1 would multiply the
    rounding errors of a residual until conjugate gradients diverge. Components that no residual determines get 1, and stay
    where they are: their part of a residual is zero.
    """
    n = vtype.shape[0]
    own = F.select(F.greater(diagonal, VANISHED), diagonal, 1.0)
    block = _diagonal_matrix(own * (1.0 + ROUNDED), vtype)
    block = block if rest is None else block + rest
    c = {(i, j): F.component(block, (i, j)) for i in range(n) for j in range(i + 1)}
    c |= {(k, k): F.component(own, k) * (1.0 + NEAR) for k in range(n)}
    near = _inverse(c, n, vtype)
    found = near @ block @ near
    found = 2.0 * found - found @ block @ found  # a step of Newton's iteration for the inverse
    return 0.5 * (found + F.transpose(found))


def _inverse(matrix: Mapping[tuple[int, int], Variable], n: int, vtype: VType) -> Variable:
    """The inverse of a symmetric matrix, entries (i, j) with j <= i, by L P L^T. Cofactors, as in ``F.inverse``, lose three
    digits more of four components."""
    lower: dict[tuple[int, int], Variable] = {}
    scaled: dict[tuple[int, int], Variable] = {}  # L times P
    pivots: list[Variable] = []
    for i in range(n):
        for j in range(i + 1):
            entry = total([matrix[i, j], *(-(scaled[i, k] * lower[j, k]) for k in range(j))])
            if j < i:
                scaled[i, j], lower[i, j] = entry, entry * pivots[j]
            else:
                pivots.append(1.0 / F.maximum(entry, 0.1 * NEAR * matrix[i, i]))
    entries: list[Variable] = []
    for column in range(n):
        x = [F.constant(1.0 if k == column else 0.0) for k in range(n)]
        for i in range(n):
            x[i] = total([x[i], *(-(lower[i, k] * x[k]) for k in range(column, i))])
        x = [value * pivot for value, pivot in zip(x, pivots, strict=True)]
        for i in reversed(range(n)):
            x[i] = total([x[i], *(-(lower[k, i] * x[k]) for k in range(i + 1, n))])
        entries += x
    return joined(entries, vtype)


def _diagonal_matrix(d: Variable, vtype: VType) -> Variable:
    """The matrix with the components of d on its diagonal."""
    n = vtype.shape[0]
    return total([d[k] * constant(np.diag(np.eye(n)[k]), vtype) for k in range(n)])


@dataclass(frozen=True)
class BlockJacobi(Preconditioner):
    """Multiplies by the inverse of the block of each texel: components of an unknown that act together, as the coordinates of
    a point on a plane, are solved together. Unknowns that are no vectors get Jacobi.

    >>> LevenbergMarquardt(preconditioner=least_squares.BlockJacobi()).preconditioner
    BlockJacobi()
    """

    def states(self, unknowns, names):
        typed = [(x, n, block_type(x)) for x, n in zip(unknowns, names, strict=True)]
        return {
            f"{n}.block": like(Variable(vtype, x.size, x.batch, channels=x.channels), f"{n}.block")
            for x, n, vtype in typed
            if vtype
        }

    def setup(self, apply, diagonal, names, jacobian):
        values = {}
        for x, d, n in zip(jacobian.unknowns, diagonal, names, strict=True):
            vtype = block_type(x)
            if vtype is None:
                continue
            values[f"{n}.block"] = inverse(d, couplings(jacobian.residuals, x), vtype)
        return values

    def apply(self, r, diagonal, names, values):
        alone = Jacobi().apply(r, diagonal, names, values)
        blocks = [values.get(f"{n}.block") for n in names]
        return [y if b is None else b @ x for x, y, b in zip(r, alone, blocks, strict=True)]
