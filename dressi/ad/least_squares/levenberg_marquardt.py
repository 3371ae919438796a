"""Levenberg-Marquardt with the trust region of Ceres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..procedure import Part
from .linear.vectors import Updates, dot, quotient
from .solver import LeastSquares
from .step import Solve, finite

RADIUS, SHRINK = "radius", "radius_divisor"


@dataclass(frozen=True)
class LevenbergMarquardt(LeastSquares):
    """Levenberg-Marquardt: minimises half the sum of squared residuals; for ``DressiAD.set_optimizer``.

    A step solves (J^T J + D / radius) d = -J^T r, D = clamp(diag(J^T J), diagonal), by conjugate gradients, and moves the
    unknowns by d if the cost falls by more than min_relative_decrease of what the quadratic model says. The radius then
    grows by up to 3 times; otherwise it shrinks by 2, 4, 8, ... (Madsen, Nielsen and Tingleff; constants of Ceres). A
    step that would make the cost infinite or NaN is not taken.

    iterations: of conjugate gradients at most. tolerance: they end when one lowers the model by less than tolerance / k of
    what all k did. function_tolerance: a problem has converged when a step changes its cost by less than this part; further
    steps do nothing until a leaf is sent. radius: at first, > 0. independent: each image of the batch is a problem of its
    own, with its own radius and end. reset: every so many iterations the residual is computed anew; 0: never. forcing: a
    linear solve also ends when its residual, in the norm of the preconditioner, is below this part of what it was; 0: never.
    preconditioner: ``least_squares.Multilevel()`` for images and lists, ``least_squares.Jacobi()`` or ``BlockJacobi()``;
    None: plain conjugate gradients.
    counter: of the steps, from ``optim.clock()``, for residuals whose weights follow a schedule; then set function_tolerance
    to 0, since a converged problem does not look at its weights again. Raises GraphError.

    >>> x = Variable.of([0.0, 0.0, 0.0, 0.0, 0.0], name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss([F.square(x) - 4.0, 0.1 * (x - 3.0)])
    ...     ad.set_optimizer(LevenbergMarquardt(), [x])
    ...     ad.step(20)
    ...     ad.recv(x).round(2).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    radius: float = 1e4
    min_relative_decrease: float = 1e-3
    diagonal: tuple[float, float] = (1e-6, 1e32)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._number("radius", 0.0, above=True)
        self._number("min_relative_decrease", 0.0, below=1.0)
        pair = isinstance(self.diagonal, Sequence) and len(self.diagonal) == 2
        if not (pair and 0 < self.diagonal[0] <= self.diagonal[1]):
            raise GraphError(
                f"diagonal of LevenbergMarquardt is (low, high) with 0 < low <= high, not {self.diagonal!r}"
            )

    def _numbers(self):
        return {RADIUS: self.radius, SHRINK: 2.0}

    def damping(self, solve: Solve, diagonal: Sequence[Variable]) -> list[Variable]:
        radius = solve.state[RADIUS]
        return [F.clamp(d, *self.diagonal) * (1.0 / radius) for d in diagonal]

    def ends(self, solve: Solve) -> list[Part]:
        cg, state = solve.cg, solve.state
        radius, divisor = state[RADIUS], state[SHRINK]
        damped = [F.hadamard(d, x) for d, x in zip(self.damping(solve, cg.diagonal), cg.change, strict=True)]
        model = cg.decrease + 0.5 * dot(cg.change, damped, solve.axes)
        gain = solve.present.decrease(solve.at(), solve.axes)
        ratio = quotient(gain, model)
        better = F.logical_and(finite(gain), F.greater(ratio, self.min_relative_decrease))
        accepted = F.logical_and(solve.running, better)
        change = 2.0 * ratio - 1.0
        grown = radius / F.maximum(1.0 - change * change * change, 1.0 / 3.0)
        new_radius = F.clamp(F.select(accepted, grown, radius / divisor), 1e-16, 1e16)
        ended = F.logical_or(
            F.logical_and(accepted, solve.settled(gain)),
            F.logical_or(solve.settled(model), F.less(new_radius, 1e-15)),
        )
        still = F.logical_not(solve.running)
        updates: Updates = [
            *solve.take(accepted, solve.moved()),
            (radius, F.select(still, radius, new_radius)),
            (divisor, F.select(still, divisor, F.select(accepted, 2.0, F.minimum(2.0 * divisor, 1e16)))),
            *solve.ended(ended),
            *solve.counted(),
        ]
        return [solve.part("decide", updates, gate=solve.running)]
