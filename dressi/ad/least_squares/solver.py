"""The solvers Gauss-Newton and Levenberg-Marquardt, and the Programs of a step that they share: linearize,
solve the linear system, move the unknowns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import RasterFunction, Variable
from ..graph.program import Part, Procedure, Program
from ..graph.traversal import topological_order
from ..graph.types import whole
from ..optim.constraints import Constraints
from ..optim.optimizer import STEP, State, check_clock, clock, names
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from .energy import Energy
from .linear import direct
from .linear.coarse import OPEN, SHORT, Coarse
from .linear.conjugate_gradient import (
    SOLVING,
    BoundedGradient,
    ConjugateGradient,
    Normal,
    face_states,
    least,
    states,
)
from .linear.diagonal import diagonal
from .linear.preconditioner import Multilevel, Plain, Preconditioner, Values
from .linear.vectors import EACH, WHOLE, Jacobian, Updates, dot, numbers_of, quotient, scalar, set_flag

__all__ = ["GaussNewton", "LeastSquares", "LevenbergMarquardt"]

FIRST = 10  # iterations of a solve after which a coarse space may be made
RUNNING, COST, STOPPED = "running", "cost", "stopped"
REASONS = {
    1: "function tolerance: the last step changed the cost by less than {function_tolerance:g} of it",
    2: "no step lowers the cost any more",
    3: "the loss has not fallen by {function_tolerance:g} of itself in {patience} steps",
    4: "gradient tolerance: no component of J^T r was above {gradient_tolerance:g} before the last step",
    5: "step tolerance: the last step was shorter than {step_tolerance:g} of the unknowns",
}
"""Why a problem ended, by the number that the state ``stopped`` holds."""


@dataclass(frozen=True)
class LeastSquares(ABC):
    """The options of a least-squares solver; see ``GaussNewton`` and ``LevenbergMarquardt``."""

    iterations: int = 100
    tolerance: float = 1e-4
    function_tolerance: float = 1e-6
    gradient_tolerance: float = 0.0
    step_tolerance: float = 0.0
    independent: bool = False
    reset: int = 10
    forcing: float = 0.0
    preconditioner: Preconditioner | None = Multilevel()  # noqa: RUF009 - a frozen record
    counter: Variable | None = None
    precision: str = "single"

    def __post_init__(self) -> None:
        if self.precision not in ("single", "double"):
            raise GraphError(f'precision is "single" or "double", not {self.precision!r}')
        whole(self.iterations, "the number of iterations", 1)
        whole(self.reset, "the period of the residual's reset", 0)
        if self.counter is not None:
            check_clock(self.counter)
        if self.preconditioner is not None and not isinstance(self.preconditioner, Preconditioner):
            raise GraphError(
                "a preconditioner is Jacobi(), BlockJacobi(), Multilevel() or None, not"
                f" {self.preconditioner!r}"
            )
        for name in ("tolerance", "function_tolerance", "gradient_tolerance", "step_tolerance"):
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

    def states(self, parameters: Sequence[Variable], constraints: Constraints | None = None) -> State:
        """New state leaves by name, with the step counter. Raises GraphError for invalid unknowns."""
        for p in parameters:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be an unknown of least squares")
        batches = {p.batch for p in parameters} if self.independent else {1}
        if len(batches) > 1:
            raise GraphError(
                "independent problems need unknowns of one batch, an image for each problem, not"
                f" {', '.join(map(str, parameters))}"
            )
        problems = batches.pop() if batches else 1
        if constraints is not None:
            parameters = [u for p in parameters for u in constraints.unknowns[p]]
        own = names(parameters)
        numbers = {**self._numbers(), RUNNING: 1.0, COST: 0.0, STOPPED: 0.0}
        limited = constraints is not None and constraints.limited()
        return {
            **states(parameters, own, problems),
            **(face_states(parameters, own, problems) if limited else {}),
            **self.inverse.states(parameters, own),
            **{name: scalar(name, problems, value) for name, value in numbers.items()},
            direct.PROBE: direct.counter(),
            STEP: self.counter if self.counter is not None else clock(),
        }

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
        constraints: Constraints | None = None,
        given: Sequence[Variable] = (),
    ) -> Procedure:
        """The parts of a nonlinear step. moving: the parameters that are not frozen. record: further updates
        of the first part; they may read the state's ``cost``, which is that of the step before. given: J^T r,
        if others know it better."""
        solve = Solve(self, energy, parameters, moving, state, constraints or Constraints(parameters), given)
        return Procedure((*solve.parts(record), *self.ends(solve)), restart=(solve.running,))

    def begins(self, solve: Solve) -> Updates:
        """Updates of the solver's own numbers when a step begins."""
        return []

    def damping(self, solve: Solve, diagonal: Sequence[Variable]) -> list[Variable] | None:
        """What is added to the diagonal of the system, one Variable for each unknown; None: nothing."""
        return None

    @abstractmethod
    def ends(self, solve: Solve) -> list[Part]:
        """The parts of a step behind the linear solve: they move the unknowns."""


@dataclass
class Solve:
    """One energy with its unknowns and state: builds the Programs of a step."""

    solver: LeastSquares
    energy: Energy
    parameters: Sequence[Variable]
    moved_parameters: Sequence[Variable]
    state: State
    constraints: Constraints
    given: Sequence[Variable] = ()  # J^T r, one leaf for each unknown
    moving: list[Variable] = field(init=False)  # the unknowns: parameters, or their increments on manifolds
    names: list[str] = field(init=False)
    kept: list[str] = field(default_factory=list, init=False)  # state leaves that the preconditioner uses
    axes: str = field(init=False)
    cg: ConjugateGradient = field(init=False)

    def __post_init__(self) -> None:
        solver, problems = self.solver, self.running.batch
        of = self.constraints.unknowns
        self.parameters = [u for p in self.parameters for u in of[p]]
        self.moving = [u for p in self.moved_parameters for u in of[p]]
        self.names = [n for p, n in zip(self.parameters, names(self.parameters)) if p in self.moving]
        self.axes = EACH if solver.independent else WHOLE
        self.energy = on_manifolds(self.energy, self.moved_parameters, self.constraints)
        how = self.state, self.names, self.axes, solver.tolerance, solver.forcing
        self.limited = self.constraints.limited(self.moving)
        if self.limited:
            pairs = [(u, self.constraints.limits(u)) for u in self.moving]
            self.cg = BoundedGradient(*how, [p and (p[0] - u, p[1] - u) for u, p in pairs])
        else:
            self.cg = ConjugateGradient(*how)
        for r in self.energy.residuals if solver.independent else ():
            if r.batch != problems:
                raise GraphError(
                    f"the residual {r} has a batch of {r.batch} and the unknowns of {problems}, but"
                    " independent problems have an image each in both; Variable.of(array, batched=True)"
                    " takes the first axis as the batch"
                )

    @property
    def running(self) -> Variable:
        """FLOAT mask: the problems that have not converged."""
        return self.state[RUNNING]

    @cached_property
    def jacobian(self) -> Jacobian:
        return Jacobian(self.energy.linearized(), self.moving)

    @cached_property
    def drawn(self) -> dict[Variable, Variable]:
        """Leaves for what the residuals rasterize at the present unknowns. Rasterizing has no derivative, so
        that products with J read these leaves and draw nothing."""
        leaves = {}
        for k, f in enumerate(rasters(self.jacobian.residuals)):
            v, zeros = f.output, np.zeros(f.output.shape, int)
            leaves[v] = Variable(v.vtype, v.size, v.batch, channels=v.channels, name=f"drawn {k}", data=zeros)
        return leaves

    @property
    def present(self) -> Energy:
        """The energy at the present unknowns, over the leaves ``drawn``."""
        return self.energy.with_residuals(substitute(self.energy.residuals, self.drawn))

    def over_drawn(self, residuals: Sequence[Variable]) -> Jacobian:
        """The Jacobian of residuals over the leaves ``drawn``."""
        return Jacobian(substitute(residuals, self.drawn), self.moving)

    @cached_property
    def numbers(self) -> int:
        """How many numbers of one problem are unknown."""
        return sum(numbers_of(x, self.solver.independent) for x in self.moving)

    @cached_property
    def columns(self) -> direct.Columns | None:
        """J^T J as a matrix, for rendered residuals of few numbers in unknowns of one texel."""
        texels = all(x.size == (1, 1) for x in self.moving)
        if not (self.drawn and self.numbers <= direct.FEW and texels):
            return None
        return direct.Columns(self.products, self.state[direct.PROBE], self.solver.independent)

    @cached_property
    def products(self) -> Jacobian:
        """The Jacobian that the linear solve multiplies by, over the leaves ``drawn``."""
        return self.over_drawn(self.jacobian.residuals)

    @cached_property
    def coarse(self) -> Coarse | None:
        """The coarse space of lists, if the preconditioner has one for them."""
        layout = self.solver.inverse.layout(self.parameters, names(self.parameters))
        if layout is None or self.columns or self.limited or self.solver.iterations <= SHORT:
            return None
        return Coarse.of(self.jacobian.residuals, self.moving, self.names, layout, self.state)

    def _normal(self, diagonal: Sequence[Variable], values: Values) -> Normal:
        j = self.products
        product = self.columns or (lambda p: j.reverse(j.forward(p)))
        damping, kind = self.solver.damping(self, diagonal), self.solver.inverse
        return Normal(product, list(diagonal), damping, kind, self.names, values, self.coarse)

    def begin(self, diagonal: Sequence[Variable], gradient: Sequence[Variable], cost: Variable) -> Updates:
        """Updates that set up the preconditioner over a diagonal of J^T J, and begin the linear solve."""
        bare = self._normal(diagonal, {})
        cost = cost * 0.0 if self.given else cost  # what is given has no rounding errors of the residuals
        values = bare.preconditioner.setup(bare.apply, bare.whole, self.names, self.products)
        self.kept = list(values)
        start = self.cg.start(replace(bare, values=values), gradient, self.running, cost)
        if self.coarse:
            start += self.coarse.older(self.cg.inner)
        return [*((self.state[name], value) for name, value in values.items()), *start]

    @cached_property
    def system(self) -> Normal:
        return self._normal(self.cg.diagonal, {name: self.state[name] for name in self.kept})

    def parts(self, record: Updates) -> list[Part]:
        cg, j = self.cg, self.jacobian
        if self.drawn and self.numbers <= direct.MOST and not self.limited:
            return [self._direct(record)]
        # Many pixels read the few numbers along many paths, whose squares do not add up.
        tried = [r for r in j.residuals if self.numbers <= direct.FEW and (self.columns or rasters([r]))]
        squares, rest = diagonal([r for r in j.residuals if r not in tried], self.moving)
        rest = [*tried, *rest]
        gradient = self.given or j.reverse(j.residuals)
        first: Updates = [
            *zip(cg.diagonal, squares, strict=True),
            *zip(cg.gradient, gradient, strict=True),
            *self._begun(record),
        ]
        if not rest and not self.drawn:
            first += self.begin(squares, gradient, self.energy.cost(self.axes))
            return [self.part("linearize", first, gate=self.running), *self._iterations()]
        # What sets up the solve may read leaves that the first part updates.
        parts = [self.part("linearize", first, gate=self.running)]
        if rest:
            parts.append(self._probing(rest))
        number = self.state[direct.PROBE]
        begin = [*self.begin(cg.diagonal, cg.gradient, self.state[COST]), (number, number * 0)]
        return [*parts, self.part("start", begin, gate=self.running), *self._iterations()]

    def _iterations(self) -> list[Part]:
        """The parts that run the iterations; the last one of each period renews the residual."""
        system, reset, count = self.system, self.solver.reset, self.solver.iterations
        plain = self.part("iterate", self.cg.iterate(system), gate=self.cg.active)
        anew = plain
        if reset:
            anew = self.part("renew", self.cg.iterate(system, anew=True), gate=self.cg.active)

        if isinstance(self.cg, BoundedGradient):
            project = self.part("project", self.cg.project(system), gate=self.cg.hit)
            last = [anew if reset and k % reset == reset - 1 else plain for k in range(count)]
            return [part for one in last for part in (one, project)]

        def iterations(count: int) -> list[Part]:
            if not reset:
                return [replace(plain, times=count)]
            periods, left = divmod(count, reset)
            period = [replace(plain, times=reset - 1), anew]
            return [part for part in (*period * periods, replace(plain, times=left)) if part.times]

        if self.coarse is None:
            return iterations(count)
        # After the first iterations the coarse system is inverted, when that is due.
        cg, coarse, opened = self.cg, self.coarse, self.state[OPEN]
        due = coarse.due(cg.active, cg.inner)
        again = [*cg.restart(system), *coarse.made(cg.inner)]
        rows = [
            self.part("coarse", coarse.bordered(system.apply, cg.direction), gate=opened),
            self.part("grow", coarse.grown(cg.direction, cg.diagonal), gate=opened),
        ]
        return [
            *iterations(FIRST),
            self.part("judge", coarse.begun(due, cg.direction, cg.diagonal), gate=cg.active),
            *rows * coarse.layout.count,
            self.part("restart", again, gate=opened),
            *iterations(count - FIRST),
        ]

    def _begun(self, record: Updates) -> Updates:
        """Updates of every first part: the cost, the leaves ``drawn``, the solver's numbers, the record."""
        running = F.max(self.running, "n")
        return [
            (self.state[COST], self.energy.cost(self.axes)),
            *((leaf, drawn) for drawn, leaf in self.drawn.items()),
            *self.solver.begins(self),
            *((leaf, F.select(running, new, leaf)) for leaf, new in record),
        ]

    def _direct(self, record: Updates) -> Part:
        """The part that linearizes and solves the linear system of few unknowns as a matrix."""
        cg = self.cg
        solution = direct.solved(self.jacobian, self.axes, lambda squares: self.solver.damping(self, squares))
        updates: Updates = [
            *zip(cg.diagonal, solution.diagonal, strict=True),
            *zip(cg.gradient, solution.gradient, strict=True),
            *zip(cg.change, solution.change, strict=True),
            (cg.decrease, solution.decrease),
            *self._begun(record),
        ]
        return self.part("linearize", updates, gate=self.running)

    def _probing(self, residuals: Sequence[Variable]) -> Part:
        """The part that adds the diagonal of residuals that are not local, or makes the matrix."""
        if self.columns:
            updates = self.columns.updates(self.cg.diagonal)
            return self.part("probe", updates, self.columns.count, gate=self.running)
        updates, count = direct.probes(
            self.over_drawn(residuals), self.cg.diagonal, self.state[direct.PROBE], self.solver.independent
        )
        return self.part("probe", updates, count, gate=self.running)

    def part(self, name: str, updates: Updates, times: int = 1, gate: Variable | None = None) -> Part:
        program = Program({}, tuple(updates))
        program.check()
        return Part(name, simplify(program), times, gate)

    # ---- what the ends of a step need
    def at(self, step: Variable | None = None) -> Energy:
        """The energy at the unknowns plus the change, or ``step`` times it."""
        places = [Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count) for x in self.moving]
        residuals = substitute(self.energy.residuals, dict(zip(self.moving, places, strict=True)))
        moved = dict(zip(places, self.moved(step), strict=True))
        return self.energy.with_residuals(substitute(residuals, moved))

    def moved(self, step: Variable | None = None) -> list[Variable]:
        """The unknowns plus the change, or ``step`` times it."""
        change = self.cg.change if step is None else [d * step for d in self.cg.change]
        return [self._snapped(x, x + d) for x, d in zip(self.moving, change, strict=True)]

    def _snapped(self, x: Variable, y: Variable) -> Variable:
        """y, exactly at a bound if it is there but for rounding."""
        pair = self.constraints.limits(x)
        for end in pair or ():
            y = F.select(F.less_equal(F.abs(y - end), 4e-7 * F.abs(end)), end, y)
        return y if pair is None else F.clamp(y, *pair)

    def ended(self, tried: Variable, converged: Variable, failed: Variable, step: Variable) -> Updates:
        """Updates of the flag of problems that still run, and of the reason why others ended. tried: those
        whose step, ``step`` times the change, is known. converged: by the cost. failed: no step helps."""
        reason = F.select(converged, 1.0, F.select(failed, 2.0, 0.0))
        for number, small in self._small(step):
            reason = F.select(F.logical_and(tried, small), number, reason)
        over = F.logical_and(self.running, F.greater(reason, 0.0))
        on = F.logical_and(self.running, F.logical_not(over))
        stopped = F.select(over, reason, F.select(self.running, 0.0, self.state[STOPPED]))
        return [*set_flag(self.state, RUNNING, on), (self.state[STOPPED], stopped)]

    def _small(self, step: Variable) -> list[tuple[float, Variable]]:
        """Reasons to end, by number: a step that is short, and a gradient that was small. Between bounds the
        gradient is the way to x - J^T r (Ceres). On a manifold a step is compared with the parameter."""
        solver, found = self.solver, list[tuple[float, Variable]]()
        if solver.step_tolerance:
            short = F.sqrt(dot(self.cg.change, self.cg.change, self.axes)) * step
            extent = F.sqrt(dot(self.moved_parameters, self.moved_parameters, self.axes))
            bound = solver.step_tolerance * (extent + solver.step_tolerance)
            found.append((5.0, F.less_equal(short, bound)))
        if solver.gradient_tolerance:
            steps = []
            for x, g in zip(self.moving, self.cg.gradient, strict=True):
                pair = self.constraints.limits(x)
                steps.append(F.abs(g if pair is None else x - F.clamp(x - g, *pair)))
            largest = -least([-v for v in steps], self.axes)
            found.append((4.0, F.less_equal(largest, solver.gradient_tolerance)))
        return found

    def counted(self) -> Updates:
        """The update of the step counter; and no linear solve goes on, if its iterations did not end it."""
        ended = set_flag(self.state, SOLVING, self.cg.active * 0.0)
        return [(self.state[STEP], self.state[STEP] + 1), *ended]

    def take(self, accepted: Variable, moved: Sequence[Variable]) -> Updates:
        """New values of the unknowns where a step is accepted."""
        new = iter(moved)
        values = [
            (p, self.constraints.value(p, [next(new) for _ in self.constraints.unknowns[p]]))
            for p in self.moved_parameters
        ]
        return [(p, F.select(accepted, y, p)) for p, y in values]

    def settled(self, gain: Variable) -> Variable:
        """Whether a decrease of the cost is below the function tolerance."""
        return F.less_equal(F.abs(gain), self.solver.function_tolerance * self.state[COST])


def on_manifolds(energy: Energy, parameters: Sequence[Variable], constraints: Constraints) -> Energy:
    """The energy by the increments of those parameters that are on manifolds."""
    moved = {p: kind for p, kind in constraints.moving.items() if p in parameters}
    if not moved:
        return energy
    # A Variable cannot stand for what it is computed from, so that placeholders come first.
    places = {p: Variable(p.vtype, p.size, p.batch, channels=p.channels) for p in moved}
    by = {places[p]: kind(p, *constraints.unknowns[p]) for p, kind in moved.items()}
    return energy.with_residuals(substitute(substitute(energy.residuals, places), by))


def rasters(residuals: Sequence[Variable]) -> list[RasterFunction]:
    return [f for f in topological_order(residuals) if isinstance(f, RasterFunction)]


def finite(x: Variable) -> Variable:
    """FLOAT mask: x is a number below 1e38, neither infinite nor NaN."""
    return F.less(F.abs(x), np.float32(1e38).item())


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

    iterations, tolerance, function_tolerance, gradient_tolerance, step_tolerance, independent, reset, forcing,
    preconditioner, counter, precision: as for ``LevenbergMarquardt``. line_search: halvings at most; if none helps, the
    unknowns stay where they are and the problem ends. 0: t = 1 without a look at the cost, and no tolerance
    but that of a linear solve. Unknowns that no residual determines stay where
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
        if self.precision == "double" and not self.line_search:
            raise GraphError(
                'precision="double" refines the unknowns where the solver ends, and GaussNewton(line_search=0) never'
                " ends; leave its line search on, or call DressiAD.refine"
            )

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
            *solve.ended(
                F.logical_or(accepted, failed), F.logical_and(accepted, solve.settled(gain)), failed, length
            ),
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

    iterations: the most of conjugate gradients. tolerance: they end when one lowers the model by less than
    tolerance / k of what all k did. function_tolerance: a problem has converged when a step changes its cost
    by less than this part; further steps do nothing until a leaf is sent. gradient_tolerance: it has also
    converged when no component of J^T r was larger before the step; step_tolerance: when the step is shorter
    than this part of the unknowns (Ceres's parameter_tolerance). 0: not looked at. ``DressiAD.stopped`` says
    which. radius: the first one, > 0.
    independent: each image of the batch is a problem of its own, with its own radius and end. reset: the
    period at which the residual is computed anew; 0: never. forcing: a linear solve also ends when its
    residual, in the norm of the preconditioner, is below this part of the first one; 0: never.
    preconditioner: ``least_squares.Multilevel()`` for images and lists, ``least_squares.Jacobi()`` or
    ``BlockJacobi()``; None: plain conjugate gradients. counter: counts the steps, from ``optim.clock()``, for
    residuals whose weights follow a schedule; then set function_tolerance to 0, since a converged problem
    does not look at its weights again. precision: "single": all of it in 32 bits. "double": the step with
    which the solver ends is followed by ``DressiAD.refine``, so that J^T r, the cost and the unknowns have 64
    bits on the host, and linear solves 32 on the device; ``recv`` then gives the unknowns in float64. No part
    of a shader computes in 64 bits, so it runs on every device. Raises GraphError.

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
        settled = F.logical_or(F.logical_and(accepted, solve.settled(gain)), solve.settled(model))
        still = F.logical_not(solve.running)
        updates: Updates = [
            *solve.take(accepted, solve.moved()),
            (radius, F.select(still, radius, new_radius)),
            (divisor, F.select(still, divisor, F.select(accepted, 2.0, F.minimum(2.0 * divisor, 1e16)))),
            *solve.ended(solve.running, settled, F.less(new_radius, 1e-15), F.constant(1.0)),
            *solve.counted(),
        ]
        return [solve.part("decide", updates, gate=solve.running)]
