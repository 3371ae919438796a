"""Gauss-Newton with a backtracking line search."""

from __future__ import annotations

from dataclasses import dataclass

from .. import functional as F
from ..procedure import Part
from ..types import whole
from .linear.vectors import Updates, set_flag
from .solver import LeastSquares
from .step import Solve, finite

LENGTH, SEARCHING = "step_length", "searching"
ARMIJO = 1e-4
"""The part of the decrease that the slope promises which a step has to reach."""


@dataclass(frozen=True)
class GaussNewton(LeastSquares):
    """Gauss-Newton: minimises half the sum of squared residuals; for ``DressiAD.set_optimizer``.

    A step solves J^T J d = -J^T r by conjugate gradients and moves the unknowns by t d, with t the first of 1, 1/2, 1/4, ...
    for which the cost falls by at least 1e-4 t of what the slope promises (Armijo). For linear residuals one step with
    enough iterations is the solution.

    iterations, tolerance, function_tolerance, independent, reset, forcing, preconditioner, counter: as for
    ``LevenbergMarquardt``. line_search: halvings at most; if none helps, the unknowns stay where they are and the problem
    ends. 0: t = 1 without a look at the cost. Unknowns that no residual determines stay where they are. Raises GraphError.

    >>> x = Variable.of([0.0, 0.0, 0.0, 0.0, 0.0], name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss([x - 2.0])
    ...     ad.set_optimizer(GaussNewton(), [x])
    ...     ad.step()
    ...     ad.recv(x).round(4).tolist(), ad.losses()
    ([2.0, 2.0, 2.0, 2.0, 2.0], [10.0])
    """

    line_search: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.line_search, "the number of halvings", 0)

    def _numbers(self):
        return {LENGTH: 1.0, SEARCHING: 0.0}

    def begins(self, solve):
        if not self.line_search:
            return []
        length = solve.state[LENGTH]
        return [(length, length * 0.0 + 1.0), *set_flag(solve.state, SEARCHING, solve.running)]

    def ends(self, solve: Solve) -> list[Part]:
        if not self.line_search:
            move: Updates = [*solve.take(solve.running, solve.moved()), *solve.counted()]
            return [solve.part("move", move, gate=solve.running)]
        state = solve.state
        length, searching = state[LENGTH], state[SEARCHING]
        gain = solve.present.decrease(solve.at(length), solve.axes)
        promised = length * (2.0 * ARMIJO) * solve.cg.decrease
        better = F.logical_and(finite(gain), F.greater_equal(gain, promised))
        accepted = F.logical_and(searching, better)
        shortest = F.less(length, 1.5 * 0.5**self.line_search)
        failed = F.logical_and(searching, F.logical_and(F.logical_not(better), shortest))
        on = F.logical_and(searching, F.logical_not(F.logical_or(better, shortest)))
        search: Updates = [
            *solve.take(accepted, solve.moved(length)),
            (length, F.select(searching, 0.5 * length, length)),
            *set_flag(state, SEARCHING, on),
            *solve.ended(F.logical_or(failed, F.logical_and(accepted, solve.settled(gain)))),
        ]
        return [
            solve.part("search", search, self.line_search + 1, searching),
            solve.part("count", solve.counted()),
        ]
