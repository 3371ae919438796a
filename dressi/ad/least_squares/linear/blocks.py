"""Blocks of J^T J: the products of the derivatives by all components of one unknown at one texel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...ops.pixel.constant import constant
from ...transform.gradient import gradient, total
from ...types import MAT2, MAT3, MAT4, VType
from .diagonal import Paths, selections
from .preconditioner import Jacobi, Preconditioner
from .vectors import VANISHED, inner, joined, like, units

ORDERS: dict[int, VType] = {2: MAT2, 3: MAT3, 4: MAT4}
"""The type of a block by the number of components of the unknown."""
EXCESS = 1e-5
"""Part by which the diagonal of a block grows, so that singular blocks have an inverse."""


def block_type(unknown: Variable) -> VType | None:
    """The type of the blocks of an unknown; None unless it is a vector."""
    return None if unknown.vtype.is_matrix else ORDERS.get(unknown.vtype.components)


def couplings(residuals: Sequence[Variable], unknown: Variable) -> Variable | None:
    """The blocks of J^T J for one unknown, MATn of its domain, with a zero diagonal; None if there are none. Of residuals that
    read the unknown along paths; see ``diagonal``."""
    shares: list[Variable] = []
    for r in residuals:
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
            # Components that no residual determines get 1, and stay where they are: their part of a residual is zero.
            grown = F.select(F.greater(d, VANISHED), d * (1.0 + EXCESS), 1.0)
            block, rest = _diagonal_matrix(grown, vtype), couplings(jacobian.residuals, x)
            values[f"{n}.block"] = F.inverse(block if rest is None else block + rest)
        return values

    def apply(self, r, diagonal, names, values):
        alone = Jacobi().apply(r, diagonal, names, values)
        blocks = [values.get(f"{n}.block") for n in names]
        return [y if b is None else F.matmul(b, x) for x, y, b in zip(r, alone, blocks, strict=True)]
