"""What Gauss-Newton and Levenberg-Marquardt share: options, state, and the Programs of a nonlinear step."""

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
from ..optim.optimizer import STEP, State, clock, names
from ..procedure import Part, Procedure
from ..program import Program
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from ..traversal import topological_order
from ..types import INT, whole
from .conjugate_gradient import ConjugateGradient, Normal, states
from .diagonal import diagonal
from .direct import MOST, numbers_of, solved
from .energy import Energy, Jacobian
from .preconditioner import Multilevel, Preconditioner, Values, reads_neighbours
from .probes import FEW, PROBE, Probes, counter
from .vectors import EACH, WHOLE, Updates, any_of, flags, scalar, set_flag

RUNNING, COST = "running", "cost"


@dataclass(frozen=True)
class LeastSquares(ABC):
    """The options of a least-squares solver; see ``GaussNewton`` and ``LevenbergMarquardt``."""

    iterations: int = 100
    tolerance: float = 1e-4
    function_tolerance: float = 1e-6
    independent: bool = False
    reset: int = 10
    forcing: float = 0.0
    preconditioner: Preconditioner = Multilevel()  # noqa: RUF009 - a frozen record
    counter: Variable | None = None

    def __post_init__(self) -> None:
        whole(self.iterations, "the number of iterations", 1)
        whole(self.reset, "the period of the residual's reset", 0)
        if self.counter is not None and (self.counter.vtype, self.counter.domain) != (INT, clock().domain):
            raise GraphError(f"the counter of steps is made by optim.clock(), not {self.counter}")
        if not isinstance(self.preconditioner, Preconditioner):
            raise GraphError(f"a preconditioner is Jacobi() or Multilevel(), not {self.preconditioner!r}")
        for name in ("tolerance", "function_tolerance", "forcing"):
            self._number(name, 0.0)

    def _number(self, name: str, least: float, *, above: bool = False) -> None:
        value = getattr(self, name)
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
        if not (number > least if above else number >= least):
            bound = f"above {least:g}" if above else f"of at least {least:g}"
            raise GraphError(f"{name} of {type(self).__name__} is a number {bound}, not {value!r}")

    def states(self, parameters: Sequence[Variable]) -> State:
        """New state leaves by name, the step counter included. Raises GraphError for parameters that cannot be unknowns."""
        for p in parameters:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be an unknown of least squares")
        problems = self._problems(parameters)
        own = names(parameters)
        found = {**states(parameters, own, problems), **self.preconditioner.states(parameters, own)}
        found |= {n: scalar(n, problems, value) for n, value in self._numbers().items()}
        made = [*flags(RUNNING, problems, 1.0), *self._flags(problems), scalar(COST, problems), counter()]
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
                "independent problems need unknowns of one batch, a tile for each problem, not "
                f"{', '.join(map(str, parameters))}"
            )
        return batches.pop() if batches else 1

    @abstractmethod
    def _numbers(self) -> dict[str, float]:
        """The solver's own numbers for each problem, by name, with the values they start from."""

    def _flags(self, problems: int) -> list[Variable]:
        """State leaves of the solver's own flags."""
        return []

    def begins(self, solve: Solve) -> Updates:
        """Updates of the solver's own numbers when a step begins."""
        return []

    @abstractmethod
    def ends(self, solve: Solve) -> list[Part]:
        """The parts of a step behind the linear solve: they move the unknowns."""

    def damping(self, solve: Solve, diagonal: Sequence[Variable]) -> list[Variable] | None:
        """What is added to the diagonal of the system, one Variable for each unknown; None: nothing."""
        return None

    def procedure(
        self,
        energy: Energy,
        parameters: Sequence[Variable],
        moving: Sequence[Variable],
        state: State,
        record: Updates,
    ) -> Procedure:
        """The parts of a nonlinear step. moving: the parameters that are not frozen. record: further updates of the first
        part, which linearizes; they may read the state's ``cost``, as it was one step before."""
        solve = Solve(self, energy, parameters, moving, state)
        return Procedure((*solve.parts(record), *self.ends(solve)), solve.restart)


@dataclass
class Solve:
    """One energy with its unknowns and state: builds the Programs of a step."""

    solver: LeastSquares
    energy: Energy
    parameters: Sequence[Variable]
    moving: Sequence[Variable]
    state: State
    names: list[str] = field(init=False)
    wide: list[str] = field(init=False)  # the unknowns whose neighbours some residual reads
    axes: str = field(init=False)
    cg: ConjugateGradient = field(init=False)

    def __post_init__(self) -> None:
        own = [n for p, n in zip(self.parameters, names(self.parameters)) if p in self.moving]
        self.axes = EACH if self.solver.independent else WHOLE
        self.names = own
        self.wide = [
            n for x, n in zip(self.moving, own) if any(reads_neighbours(r, x) for r in self.energy.residuals)
        ]
        solver = self.solver
        self.cg = ConjugateGradient(self.state, own, self.axes, solver.tolerance, solver.forcing)
        if self.solver.independent:
            self._check_independent()

    def _check_independent(self) -> None:
        problems = self.state[RUNNING].batch
        for r in self.energy.residuals:
            if r.batch != problems:
                raise GraphError(
                    f"the residual {r} has {r.batch} tiles, but there are {problems} independent problems; each"
                    " residual needs a tile for each problem"
                )

    @property
    def running(self) -> Variable:
        """FLOAT mask: the problems that have not converged."""
        return self.state[RUNNING]

    @property
    def any_running(self) -> Variable:
        """Whether any has not, one texel."""
        return any_of(self.state, RUNNING)

    @property
    def restart(self) -> tuple[Variable, ...]:
        """Leaves that are set to 1 when the energy has changed from outside."""
        return tuple(dict.fromkeys((self.running, self.any_running)))

    @cached_property
    def jacobian(self) -> Jacobian:
        return Jacobian(self.energy.linearized(), self.moving)

    @cached_property
    def drawn(self) -> dict[Variable, Variable]:
        """Leaves for what the residuals rasterize at the present unknowns. Rasterizing has no derivative, so that products
        with J read these leaves and draw nothing."""
        return {
            f.output: Variable(
                f.output.vtype,
                f.output.size,
                f.output.batch,
                name=f"drawn {k}",
                data=np.zeros(f.output.shape, int),
            )
            for k, f in enumerate(rasters(self.jacobian.residuals))
        }

    @property
    def present(self) -> Energy:
        """The energy at the present unknowns, over the leaves ``drawn``."""
        return self.energy.with_residuals(substitute(self.energy.residuals, self.drawn))

    def over_drawn(self, residuals: Sequence[Variable]) -> Jacobian:
        """The Jacobian of residuals over the leaves ``drawn``."""
        return Jacobian(substitute(residuals, self.drawn), self.moving)

    def _normal(self, diagonal: Sequence[Variable], values: Values) -> Normal:
        j = self.over_drawn(self.jacobian.residuals)
        product = lambda p: j.reverse(j.forward(p))  # noqa: E731
        damping, kind = self.solver.damping(self, diagonal), self.solver.preconditioner
        return Normal(product, list(diagonal), damping, kind, self.names, values)

    def begin(self, diagonal: Sequence[Variable], gradient: Sequence[Variable]) -> Updates:
        """Updates that set up the preconditioner over a diagonal of J^T J, and begin the linear solve."""
        bare = self._normal(diagonal, {})
        values = bare.preconditioner.setup(bare.apply, bare.whole, self.names, self.wide)
        start = self.cg.start(replace(bare, values=values), gradient, self.running)
        return [*((self.state[name], value) for name, value in values.items()), *start]

    @cached_property
    def system(self) -> Normal:
        """The system of this step, over the state leaves."""
        kept = self.solver.preconditioner.states(
            [x for x, n in zip(self.moving, self.names, strict=True) if n in self.wide], self.wide
        )
        return self._normal(self.cg.diagonal, {name: self.state[name] for name in kept})

    def parts(self, record: Updates) -> list[Part]:
        """Linearize, and solve the linear system."""
        cg, j = self.cg, self.jacobian
        numbers = sum(numbers_of(x, self.solver.independent) for x in self.moving)
        if self.drawn and numbers <= MOST:
            return [self._direct(record)]
        # Many pixels read the few numbers along many paths, whose squares do not add up.
        tried = [r for r in j.residuals if numbers <= FEW and rasters([r])]
        squares, rest = diagonal([r for r in j.residuals if r not in tried], self.moving)
        rest = [*tried, *rest]
        gradient = j.reverse(j.residuals)
        first: Updates = [
            *zip(cg.diagonal, squares, strict=True),
            *zip(cg.gradient, gradient, strict=True),
            (self.state[COST], self.energy.cost(self.axes)),
            *((leaf, drawn) for drawn, leaf in self.drawn.items()),
            *self.solver.begins(self),
            *record,
        ]
        # What sets up the solve may read leaves that the first part updates.
        apart = bool(rest or self.drawn)
        if not apart:
            first += self.begin(squares, gradient)
        found = [self.part("linearize", first, gate=self.any_running)]
        if rest:
            found.append(self._probing(rest))
        if apart:
            number = self.state[PROBE]
            begin = [*self.begin(cg.diagonal, cg.gradient), (number, number * 0)]
            found.append(self.part("start", begin, gate=self.any_running))
        system = self.system
        whole_periods, rest = divmod(self.solver.iterations, self.solver.reset or self.solver.iterations + 1)
        plain = lambda n: self.part("iterate", cg.iterate(system), n, cg.any_active)  # noqa: E731
        if whole_periods:
            one, anew = (
                plain(self.solver.reset - 1),
                self.part("renew", cg.iterate(system, anew=True), 1, cg.any_active),
            )
            found += [one, anew] * whole_periods if one.times else [anew] * whole_periods
        if rest:
            found.append(plain(rest))
        return found

    def _direct(self, record: Updates) -> Part:
        """The part that linearizes and solves the linear system of few unknowns as a matrix."""
        cg = self.cg
        found = solved(self.jacobian, self.axes, lambda squares: self.solver.damping(self, squares))
        updates: Updates = [
            *zip(cg.diagonal, found.diagonal, strict=True),
            *zip(cg.change, found.change, strict=True),
            (cg.decrease, found.decrease),
            (self.state[COST], self.energy.cost(self.axes)),
            *((leaf, drawn) for drawn, leaf in self.drawn.items()),
            *self.solver.begins(self),
            *record,
        ]
        return self.part("linearize", updates, gate=self.any_running)

    def _probing(self, residuals: Sequence[Variable]) -> Part:
        """The part that adds the diagonal of residuals that are not local."""
        jacobian = self.over_drawn(residuals)
        probes = Probes(jacobian, self.cg.diagonal, self.state, self.solver.independent)
        return self.part("probe", probes.updates(), probes.count, gate=self.any_running)

    def part(self, name: str, updates: Updates, times: int = 1, gate: Variable | None = None) -> Part:
        """A simplified Program with a name."""
        program = Program({}, tuple(updates))
        program.check()
        return Part(name, simplify(program), times, gate)

    # ---- what the ends of a step need
    def at(self, step: Variable | None = None) -> Energy:
        """The energy at the unknowns plus the change, or ``step`` times it."""
        places = [Variable(x.vtype, x.size, x.batch, count=x.count) for x in self.moving]
        residuals = substitute(self.energy.residuals, dict(zip(self.moving, places, strict=True)))
        moved = dict(zip(places, self.moved(step), strict=True))
        return self.energy.with_residuals(substitute(residuals, moved))

    def moved(self, step: Variable | None = None) -> list[Variable]:
        """The unknowns plus the change, or ``step`` times it."""
        change = self.cg.change if step is None else [d * step for d in self.cg.change]
        return [x + d for x, d in zip(self.moving, change, strict=True)]

    def ended(self, converged: Variable) -> Updates:
        """Updates of the flag of problems that still run, those that converged now left out."""
        return set_flag(self.state, RUNNING, F.logical_and(self.running, F.logical_not(converged)))

    def counted(self) -> Updates:
        """The update of the step counter."""
        return [(self.state[STEP], self.state[STEP] + 1)]

    def take(self, accepted: Variable, moved: Sequence[Variable]) -> Updates:
        """New values of the unknowns where a step is accepted."""
        return [(x, F.select(accepted, y, x)) for x, y in zip(self.moving, moved, strict=True)]

    def settled(self, gain: Variable) -> Variable:
        """Whether a decrease of the cost is below the function tolerance."""
        return F.less_equal(F.abs(gain), self.solver.function_tolerance * self.state[COST])


def rasters(residuals: Sequence[Variable]) -> list[RasterFunction]:
    """What the residuals rasterize, in topological order."""
    return [f for f in topological_order(residuals) if isinstance(f, RasterFunction)]


def finite(x: Variable) -> Variable:
    """FLOAT mask: x is a number below 1e38, neither infinite nor NaN."""
    return F.less(F.abs(x), np.float32(1e38).item())
