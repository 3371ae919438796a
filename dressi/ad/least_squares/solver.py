"""The solvers Gauss-Newton and Levenberg-Marquardt, and the options and state that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..optim.optimizer import STEP, State, check_clock, clock, names
from ..program import Part, Procedure
from ..types import whole
from .energy import Energy
from .linear.conjugate_gradient import states
from .linear.direct import counter
from .linear.preconditioner import Multilevel, Plain, Preconditioner
from .linear.vectors import Updates, dot, quotient, scalar, set_flag
from .step import COST, RUNNING, Method, Solve, finite

__all__ = ["GaussNewton", "LeastSquares", "LevenbergMarquardt"]


@dataclass(frozen=True)
class LeastSquares(Method):
    """The options of a least-squares solver; see ``GaussNewton`` and ``LevenbergMarquardt``."""

    iterations: int = 100
    tolerance: float = 1e-4
    function_tolerance: float = 1e-6
    independent: bool = False
    reset: int = 10
    forcing: float = 0.0
    preconditioner: Preconditioner | None = Multilevel()  # noqa: RUF009 - a frozen record
    counter: Variable | None = None

    def __post_init__(self) -> None:
        whole(self.iterations, "the number of iterations", 1)
        whole(self.reset, "the period of the residual's reset", 0)
        if self.counter is not None:
            check_clock(self.counter)
        if self.preconditioner is not None and not isinstance(self.preconditioner, Preconditioner):
            raise GraphError(
                f"a preconditioner is Jacobi(), BlockJacobi(), Multilevel() or None, not {self.preconditioner!r}"
            )
        for name in ("tolerance", "function_tolerance"):
            self._number(name, 0.0)
        self._number("forcing", 0.0, below=1.0)

    @property
    def inverse(self) -> Preconditioner:
        """The preconditioner; without one that of plain conjugate gradients."""
        return Plain() if self.preconditioner is None else self.preconditioner

    def _number(self, name: str, least: float, *, above: bool = False, below: float = np.inf) -> None:
        value = getattr(self, name)
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
        if not ((number > least if above else number >= least) and number < below):
            bound = f"above {least:g}" if above else f"of at least {least:g}"
            bound += f" and below {below:g}" if below < np.inf else ""
            raise GraphError(f"{name} of {type(self).__name__} is a finite number {bound}, not {value!r}")

    def states(self, parameters: Sequence[Variable]) -> State:
        """New state leaves by name, the step counter included. Raises GraphError for parameters that cannot
        be unknowns."""
        for p in parameters:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be an unknown of least squares")
        problems = self._problems(parameters)
        own = names(parameters)
        found = {**states(parameters, own, problems), **self.inverse.states(parameters, own)}
        found |= {n: scalar(n, problems, value) for n, value in self._numbers().items()}
        made = [scalar(RUNNING, problems, 1.0), scalar(COST, problems), counter()]
        return {
            **found,
            **{str(leaf.name): leaf for leaf in made},
            STEP: self.counter if self.counter is not None else clock(),
        }

    def _problems(self, parameters: Sequence[Variable]) -> int:
        if not self.independent:
            return 1
        batches = {p.batch for p in parameters}
        if len(batches) > 1:
            raise GraphError(
                "independent problems need unknowns of one batch, an image for each problem, not "
                f"{', '.join(map(str, parameters))}"
            )
        return batches.pop() if batches else 1

    @abstractmethod
    def _numbers(self) -> dict[str, float]:
        """The solver's own numbers and flags for each problem, by name, with the values they start from."""

    def procedure(
        self,
        energy: Energy,
        parameters: Sequence[Variable],
        moving: Sequence[Variable],
        state: State,
        record: Updates,
    ) -> Procedure:
        """The parts of a nonlinear step. moving: the parameters that are not frozen. record: further updates
        of the first part, which linearizes; they may read the state's ``cost``, as it was one step before."""
        solve = Solve(self, energy, parameters, moving, state)
        return Procedure((*solve.parts(record), *self.ends(solve)), solve.restart)


# Gauss-Newton with a backtracking line search.

LENGTH, SEARCHING = "step_length", "searching"
ARMIJO = 1e-4
"""The part of the decrease that the slope promises which a step has to reach."""


@dataclass(frozen=True)
class GaussNewton(LeastSquares):
    """Gauss-Newton: minimises half the sum of squared residuals; for ``DressiAD.set_optimizer``.

    A step solves J^T J d = -J^T r by conjugate gradients and moves the unknowns by t d, with t the first of
    1, 1/2, 1/4, ... for which the cost falls by at least 1e-4 t of what the slope promises (Armijo). For
    linear residuals one step with enough iterations is the solution.

    iterations, tolerance, function_tolerance, independent, reset, forcing, preconditioner, counter: as for
    ``LevenbergMarquardt``. line_search: halvings at most; if none helps, the unknowns stay where they are and
    the problem ends. 0: t = 1 without a look at the cost. Unknowns that no residual determines stay where
    they are. Raises GraphError.

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


# Levenberg-Marquardt with the trust region of Ceres.

RADIUS, SHRINK = "radius", "radius_divisor"


@dataclass(frozen=True)
class LevenbergMarquardt(LeastSquares):
    """Levenberg-Marquardt: minimises half the sum of squared residuals; for ``DressiAD.set_optimizer``.

    A step solves (J^T J + D / radius) d = -J^T r, D = clamp(diag(J^T J), diagonal), by conjugate gradients,
    and moves the unknowns by d if the cost falls by more than min_relative_decrease of what the quadratic
    model says. The radius then grows by up to 3 times; otherwise it shrinks by 2, 4, 8, ... (Madsen, Nielsen
    and Tingleff; constants of Ceres). A step that would make the cost infinite or NaN is not taken.

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
