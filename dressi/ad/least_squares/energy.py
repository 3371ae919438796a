"""Energies: half the sum of squared residuals, E(x) = 1/2 sum |r_k(x)|^2."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..ops.image.entries import entries_only
from ..transform.gradient import total
from .linear.vectors import WHOLE, inner, squared_norm
from .robust import Kernel, Robust

Residual = Variable | Robust


class Energy:
    """A list of residuals. ``cost()`` is what a least-squares solver minimises.

    residuals: Variables of any float type, size, channels and batch, or ``Robust`` ones. A weight is a factor of the residual: the root
    of the weight of its square. What a mask or a border excludes is zero: ``F.select(valid, r, 0.0)``. Raises GraphError for
    anything else.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> energy = least_squares.Energy([F.crop(x, 1, 0, (4, 1)) - F.crop(x, 0, 0, (4, 1)), 0.5 * x])
    >>> evaluate(energy.cost()).item()  # half of 1 + 4 + 9 + 16, and of a quarter of 191
    38.875
    """

    def __init__(self, residuals: Sequence[Residual]):
        if isinstance(residuals, Variable | Robust) or not isinstance(residuals, Sequence) or not residuals:
            raise GraphError(f"an energy is a list of at least one residual, not {residuals!r}")
        found = [r if isinstance(r, Robust) else (r, None) for r in residuals]
        for r, kernel in found:
            if not isinstance(r, Variable):
                raise GraphError(
                    f"a residual is a Variable, or Robust(Variable, kernel), not {r!r}; F makes one of numbers"
                )
            if r.vtype.is_int:
                raise GraphError(f"the residual {r} holds integers; convert it with F.to_float")
            if kernel is not None and not isinstance(kernel, Kernel):
                raise GraphError(
                    f"a robust kernel is huber(width), cauchy(width) or tukey(width), not {kernel!r}"
                )
        self.residuals: tuple[Variable, ...] = tuple(entries_only(r) for r, _ in found)
        self.kernels: tuple[Kernel | None, ...] = tuple(k for _, k in found)

    def cost(self, axes: str = WHOLE) -> Variable:
        """The cost, FLOAT of one texel; with axes "xyc" that of every image, FLOAT of one texel with the batch."""
        return total([F.sum(0.5 * self._rho(r, k), axes) for r, k in zip(self.residuals, self.kernels)])

    def _rho(self, r: Variable, kernel: Kernel | None) -> Variable:
        s = squared_norm(r)
        return s if kernel is None else kernel.rho(s)

    def decrease(self, after: Energy, axes: str = WHOLE) -> Variable:
        """The cost of this minus that of ``after``, the same energy at other unknowns; exact where the two are nearly equal.

        Squares are subtracted texel by texel: |a|^2 - |b|^2 = (a - b) . (a + b).
        """
        parts = []
        for a, b, kernel in zip(self.residuals, after.residuals, self.kernels, strict=True):
            if kernel is None:
                difference = inner(a - b, a + b)
            else:
                difference = kernel.rho(squared_norm(a)) - kernel.rho(squared_norm(b))
            parts.append(F.sum(0.5 * difference, axes))
        return total(parts)

    def with_residuals(self, residuals: Sequence[Variable]) -> Energy:
        """The energy of other residuals with the same kernels."""
        pairs = zip(residuals, self.kernels, strict=True)
        return Energy([r if k is None else Robust(r, k) for r, k in pairs])

    def linearized(self) -> list[Variable]:
        """The residuals as the solver sees them: those with a kernel times sqrt(rho'), which is held constant."""
        return [
            r if k is None else r * F.stop_gradient(F.sqrt(k.weight(squared_norm(r))))
            for r, k in zip(self.residuals, self.kernels)
        ]
