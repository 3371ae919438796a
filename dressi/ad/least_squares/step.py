"""The Programs of a nonlinear step: linearize, solve the linear system, and what the ends of a step need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import RasterFunction, Variable
from ..optim.optimizer import STEP, State, names
from ..program import Part, Program
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from ..traversal import topological_order
from .energy import Energy
from .linear.coarse import OPEN, SHORT, Coarse
from .linear.conjugate_gradient import SOLVING, ConjugateGradient, Normal
from .linear.diagonal import diagonal
from .linear.direct import FEW, MOST, PROBE, Columns, Probes, solved
from .linear.preconditioner import Preconditioner, Values
from .linear.vectors import EACH, WHOLE, Jacobian, Updates, numbers_of, set_flag

FIRST = 10
"""Iterations of a solve after which a coarse space may be made."""
RUNNING, COST = "running", "cost"


class Method(ABC):
    """What a step needs of a solver: its options, and how it damps the linear system and moves the
    unknowns."""

    iterations: int
    tolerance: float
    function_tolerance: float
    independent: bool
    reset: int
    forcing: float
    preconditioner: Preconditioner | None

    @property
    @abstractmethod
    def inverse(self) -> Preconditioner:
        """The preconditioner; without one that of plain conjugate gradients."""

    def begins(self, solve: Solve) -> Updates:
        """Updates of the solver's own numbers when a step begins."""
        return []

    @abstractmethod
    def ends(self, solve: Solve) -> list[Part]:
        """The parts of a step behind the linear solve: they move the unknowns."""

    def damping(self, solve: Solve, diagonal: Sequence[Variable]) -> list[Variable] | None:
        """What is added to the diagonal of the system, one Variable for each unknown; None: nothing."""
        return None


@dataclass
class Solve:
    """One energy with its unknowns and state: builds the Programs of a step."""

    solver: Method
    energy: Energy
    parameters: Sequence[Variable]
    moving: Sequence[Variable]
    state: State
    names: list[str] = field(init=False)
    kept: list[str] = field(default_factory=list, init=False)  # state leaves that the preconditioner uses
    axes: str = field(init=False)
    cg: ConjugateGradient = field(init=False)

    def __post_init__(self) -> None:
        own = [n for p, n in zip(self.parameters, names(self.parameters)) if p in self.moving]
        self.axes = EACH if self.solver.independent else WHOLE
        self.names = own
        solver = self.solver
        self.cg = ConjugateGradient(self.state, own, self.axes, solver.tolerance, solver.forcing)
        if self.solver.independent:
            self._check_independent()

    def _check_independent(self) -> None:
        problems = self.state[RUNNING].batch
        for r in self.energy.residuals:
            if r.batch != problems:
                raise GraphError(
                    f"the residual {r} has a batch of {r.batch} and the unknowns of {problems}, but independent problems have an"
                    " image each in both; Variable.of(array, batched=True) takes the first axis as the batch"
                )

    @property
    def running(self) -> Variable:
        """FLOAT mask: the problems that have not converged."""
        return self.state[RUNNING]

    @property
    def restart(self) -> tuple[Variable, ...]:
        """Leaves that are set to 1 when the energy has changed from outside."""
        return (self.running,)

    @cached_property
    def jacobian(self) -> Jacobian:
        return Jacobian(self.energy.linearized(), self.moving)

    @cached_property
    def drawn(self) -> dict[Variable, Variable]:
        """Leaves for what the residuals rasterize at the present unknowns. Rasterizing has no derivative, so
        that products with J read these leaves and draw nothing."""
        values = [f.output for f in rasters(self.jacobian.residuals)]
        zeros = [np.zeros(v.shape, int) for v in values]
        return {
            v: Variable(v.vtype, v.size, v.batch, channels=v.channels, name=f"drawn {k}", data=zero)
            for k, (v, zero) in enumerate(zip(values, zeros, strict=True))
        }

    @property
    def present(self) -> Energy:
        """The energy at the present unknowns, over the leaves ``drawn``."""
        return self.energy.with_residuals(substitute(self.energy.residuals, self.drawn))

    def over_drawn(self, residuals: Sequence[Variable]) -> Jacobian:
        """The Jacobian of residuals over the leaves ``drawn``."""
        return Jacobian(substitute(residuals, self.drawn), self.moving)

    @cached_property
    def columns(self) -> Columns | None:
        """J^T J as a matrix, for rendered residuals of few numbers."""
        few = sum(numbers_of(x, self.solver.independent) for x in self.moving) <= FEW
        if not (self.drawn and few and Columns.fits(self.moving)):
            return None
        return Columns(self.products, self.state[PROBE], self.solver.independent)

    @cached_property
    def products(self) -> Jacobian:
        """The Jacobian that the linear solve multiplies by, over the leaves ``drawn``."""
        return self.over_drawn(self.jacobian.residuals)

    @cached_property
    def coarse(self) -> Coarse | None:
        """The coarse space of lists, if the preconditioner has one for them."""
        layout = self.solver.inverse.layout(self.parameters, names(self.parameters))
        if layout is None or self.columns or self.solver.iterations <= SHORT:
            return None
        return Coarse.of(self.jacobian.residuals, self.moving, self.names, layout, self.state)

    def _normal(self, diagonal: Sequence[Variable], values: Values) -> Normal:
        j = self.products
        product = self.columns or (lambda p: j.reverse(j.forward(p)))
        damping, kind = self.solver.damping(self, diagonal), self.solver.inverse
        return Normal(product, list(diagonal), damping, kind, self.names, values, self.coarse)

    def begin(self, diagonal: Sequence[Variable], gradient: Sequence[Variable], cost: Variable) -> Updates:
        """Updates that set up the preconditioner over a diagonal of J^T J, and begin the linear solve. cost:
        the present one."""
        bare = self._normal(diagonal, {})
        values = bare.preconditioner.setup(bare.apply, bare.whole, self.names, self.products)
        self.kept = list(values)
        start = self.cg.start(replace(bare, values=values), gradient, self.running, cost)
        if self.coarse:
            start += self.coarse.older(self.cg.inner)
        return [*((self.state[name], value) for name, value in values.items()), *start]

    @cached_property
    def system(self) -> Normal:
        """The system of this step, over the state leaves."""
        return self._normal(self.cg.diagonal, {name: self.state[name] for name in self.kept})

    def parts(self, record: Updates) -> list[Part]:
        """Linearize, and solve the linear system."""
        cg, j = self.cg, self.jacobian
        numbers = sum(numbers_of(x, self.solver.independent) for x in self.moving)
        if self.drawn and numbers <= MOST:
            return [self._direct(record)]
        # Many pixels read the few numbers along many paths, whose squares do not add up.
        tried = [r for r in j.residuals if numbers <= FEW and (self.columns or rasters([r]))]
        squares, rest = diagonal([r for r in j.residuals if r not in tried], self.moving)
        rest = [*tried, *rest]
        gradient = j.reverse(j.residuals)
        first: Updates = [
            *zip(cg.diagonal, squares, strict=True),
            *zip(cg.gradient, gradient, strict=True),
            *self._begun(record),
        ]
        # What sets up the solve may read leaves that the first part updates.
        apart = bool(rest or self.drawn)
        if not apart:
            first += self.begin(squares, gradient, self.energy.cost(self.axes))
        found = [self.part("linearize", first, gate=self.running)]
        if rest:
            found.append(self._probing(rest))
        if apart:
            number = self.state[PROBE]
            begin = [*self.begin(cg.diagonal, cg.gradient, self.state[COST]), (number, number * 0)]
            found.append(self.part("start", begin, gate=self.running))
        return [*found, *self._iterations()]

    def _iterations(self) -> list[Part]:
        """The parts that run the iterations; the last one of each period renews the residual."""
        system, reset, count = self.system, self.solver.reset, self.solver.iterations
        plain = self.part("iterate", self.cg.iterate(system), gate=self.cg.active)
        anew = plain
        if reset:
            anew = self.part("renew", self.cg.iterate(system, anew=True), gate=self.cg.active)

        def iterations(count: int) -> list[Part]:
            if not reset:
                return [replace(plain, times=count)]
            periods, left = divmod(count, reset)
            period = [replace(plain, times=reset - 1), anew]
            return [part for part in (*period * periods, replace(plain, times=left)) if part.times]

        if self.coarse is None:
            return iterations(count)
        return [*iterations(FIRST), *self._coarse_parts(self.coarse), *iterations(count - FIRST)]

    def _coarse_parts(self, coarse: Coarse) -> list[Part]:
        """The parts that invert the coarse system, when that is due, and go on from there."""
        cg, opened = self.cg, self.state[OPEN]
        due = coarse.due(cg.active, cg.inner)
        again = [*cg.restart(self.system), *coarse.made(cg.inner)]
        rows = [
            self.part("coarse", coarse.bordered(self.system.apply, cg.direction), gate=opened),
            self.part("grow", coarse.grown(cg.direction, cg.diagonal), gate=opened),
        ]
        return [
            self.part("judge", coarse.begun(due, cg.direction, cg.diagonal), gate=cg.active),
            *rows * coarse.layout.count,
            self.part("restart", again, gate=opened),
        ]

    def _begun(self, record: Updates) -> Updates:
        """What the first part of a step updates in any case: the cost, the leaves ``drawn``, the solver's
        numbers, and what is recorded while a problem runs."""
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
        found = solved(self.jacobian, self.axes, lambda squares: self.solver.damping(self, squares))
        updates: Updates = [
            *zip(cg.diagonal, found.diagonal, strict=True),
            *zip(cg.change, found.change, strict=True),
            (cg.decrease, found.decrease),
            *self._begun(record),
        ]
        return self.part("linearize", updates, gate=self.running)

    def _probing(self, residuals: Sequence[Variable]) -> Part:
        """The part that adds the diagonal of residuals that are not local, or makes the matrix."""
        if self.columns:
            updates = self.columns.updates(self.cg.diagonal)
            return self.part("probe", updates, self.columns.count, gate=self.running)
        jacobian = self.over_drawn(residuals)
        probes = Probes(jacobian, self.cg.diagonal, self.state, self.solver.independent)
        return self.part("probe", probes.updates(), probes.count, gate=self.running)

    def part(self, name: str, updates: Updates, times: int = 1, gate: Variable | None = None) -> Part:
        """A simplified Program with a name."""
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
        return [x + d for x, d in zip(self.moving, change, strict=True)]

    def ended(self, converged: Variable) -> Updates:
        """Updates of the flag of problems that still run, those that converged now left out."""
        return set_flag(self.state, RUNNING, F.logical_and(self.running, F.logical_not(converged)))

    def counted(self) -> Updates:
        """The update of the step counter; and no linear solve goes on, if its iterations did not end it."""
        ended = set_flag(self.state, SOLVING, self.cg.active * 0.0)
        return [(self.state[STEP], self.state[STEP] + 1), *ended]

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
