"""J^T J of some dozens of unknowns as a matrix, for residuals that are dear to compute, such as rendered images.

A Program that is run once for each number k of the unknowns stores column k, J^T J e_k. The iterations of conjugate gradients
then multiply by the matrix and render nothing: they may be as many as it takes.

The unknowns have one texel. Rows are kept like the unknown that they belong to, one column a texel along x:

    (A p)_x = sum_k A_x[k] p[k],    p[k] the number k of all unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...transform.gradient import total
from .jacobian import Jacobian
from .vectors import Updates, inner, numbers_of, unit_vector


@dataclass
class Columns:
    """The matrix of a problem. probe: INT leaf, the number of the column that is computed. independent: each image is a problem."""

    jacobian: Jacobian
    probe: Variable
    independent: bool

    def __post_init__(self) -> None:
        unknowns = self.jacobian.unknowns
        counts = [numbers_of(x, self.independent) for x in unknowns]
        self.count = sum(counts)
        self._first = [sum(counts[:k]) for k in range(len(counts))]
        self._rows = [
            Variable(
                x.vtype, (self.count, 1), x.batch, channels=x.channels, name=f"rows {k}",
                data=np.zeros((*x.shape[:-2 - len(x.vtype.shape)], 1, self.count, *x.vtype.shape)),
            )
            for k, x in enumerate(unknowns)
        ]  # fmt: skip

    @staticmethod
    def fits(unknowns: Sequence[Variable]) -> bool:
        """Whether all unknowns have one texel."""
        return all(x.size == (1, 1) for x in unknowns)

    def updates(self, diagonal: Sequence[Variable]) -> Updates:
        """What one run stores. diagonal: state leaves that collect that of the matrix, 0 at first."""
        places = self._unit(self.jacobian.unknowns, self.probe)
        column = self.jacobian.reverse(self.jacobian.forward(places))
        here = F.equal(F.linear_index((self.count, 1)), self.probe)
        return [
            *((rows, F.select(here, q, rows)) for rows, q in zip(self._rows, column, strict=True)),
            *((d, d + F.hadamard(place, q)) for d, place, q in zip(diagonal, places, column, strict=True)),
            (self.probe, self.probe + 1),
        ]

    def __call__(self, p: Sequence[Variable]) -> list[Variable]:
        """J^T J p, by the stored columns."""
        index = F.linear_index((self.count, 1))
        values = []
        for x, place in zip(p, self._unit(p, index), strict=True):
            values.append(F.sum(inner(place, x), "c" if self.independent else "cn"))
        return [F.sum(rows * total(values), "x") for rows in self._rows]

    def _unit(self, unknowns: Sequence[Variable], index: Variable) -> list[Variable]:
        """e_k in each unknown, for the INT k at each texel of ``index``."""
        pairs = zip(unknowns, self._first, strict=True)
        return [unit_vector(x, first, index, self.independent) for x, first in pairs]
