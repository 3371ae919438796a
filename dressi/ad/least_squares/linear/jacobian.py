"""Products with a Jacobian, without the matrix."""

from __future__ import annotations

from collections.abc import Sequence

from ... import functional as F
from ...graph import Variable
from ...transform.gradient import gradient, jvp, total
from .vectors import inner


class Jacobian:
    """Products with the Jacobian J of residuals by unknowns, without the matrix: ``forward`` J p, ``reverse`` J^T s.

    residuals, unknowns: Variables of float types. Vectors are lists with a Variable for each residual, or each unknown.

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
        """J^T s, of the types and domains of the unknowns. s: one Variable for each residual, taken as constant."""
        products = [F.sum(inner(r, F.stop_gradient(v))) for r, v in zip(self.residuals, s, strict=True)]
        return gradient(total(products), self.unknowns)
