"""What runs the steps of an objective: one Program, or the several Programs of a least-squares solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.program import Program
from ...ad.graph.traversal import topological_order
from ...ad.graph.user_code import user_level
from ...ad.least_squares.covariance import Covariance
from ...ad.least_squares.linear.conjugate_gradient import OUTCOME
from ...ad.least_squares.linear.diagonal import diagonal
from ...ad.least_squares.linear.vectors import Jacobian
from ...ad.least_squares.objective import HISTORY, Objective
from ...ad.least_squares.refinement import Refinement
from ...ad.least_squares.solver import REASONS, RUNNING, STOPPED, LeastSquares
from ...ad.ops.pixel.compare import Select
from ...ad.transform.simplify import verify
from ...config import config
from ...errors import DeviceError, GraphError, InputError
from ..plan.core.options import PlanOptions
from ..plan.model.device import DeviceModel
from ..planning import bytes_in_parts, program_within
from .device.transfer import Readback
from .evaluations import Evaluations
from .execution.executor import VulkanExecutor, planned
from .execution.steps import Steps, running
from .execution.workspace import Workspace
from .measure.calibration import model_of
from .measure.timing import print_times


class Runner:
    """Builds what runs the steps when it is needed, and again after ``forget``.

    make: makes the executor of a Program; it takes the keywords of ``VulkanExecutor`` as well.  options,
    model: to plan programs with, to see what fits the bound of memory.
    """

    def __init__(
        self,
        objective: Objective,
        evaluations: Evaluations,
        workspace: Workspace,
        make: Callable[..., VulkanExecutor],
        options: PlanOptions,
        model: DeviceModel | None,
    ):
        self._objective, self._evaluations = objective, evaluations
        self._options, self._model = options, model
        self._workspace, self._make = workspace, make
        self._losses = Losses(objective, workspace)
        self._built: VulkanExecutor | Steps | None = None
        self._program: Program | None = None
        self._began = False  # a step of a least-squares solver has shown finite derivatives
        self._exact: dict[Variable, np.ndarray] = {}  # unknowns in 64 bits, with which a solver has ended

    def program(self) -> Program:
        """The simplified Program of a step; for a least-squares solver, what records the losses."""
        limits, options = self._workspace.limits, self._options

        def taken(program: Program) -> int:
            """Bytes that a program takes."""
            cost = self._model or model_of(self._workspace.device)
            how = limits, options, cost
            return bytes_in_parts(program, lambda one, changing: planned(one, *how, changing, False, True))

        if self._program is None:
            self._program = program_within(self._objective, options.memory, taken)
            if config.check:
                verify(self._program)
        return self._program

    def _build(self) -> VulkanExecutor | Steps:
        if self._built is not None:
            return self._built
        if self._objective.uncounted():
            _warn(
                "the loss reads a counter of steps that the optimizer does not count; give it to the optimizer, as in"
                " Clocked(adam(rate), counter) or LevenbergMarquardt(counter=counter)"
            )
        self._objective.constraints.check(lambda vs: [r.result() for r in self._evaluations.read(vs)])
        procedure = self._objective.procedure()
        if procedure is None:
            self._built = running(self.program(), self._workspace, self._make)
        else:
            if self._doubles:
                self._refinement()  # raises for what has none, before anything is built
            check_start(self._objective, self._evaluations)
            warn_of_idle(self._objective, self._evaluations)
            for part in procedure.parts if config.check else ():
                verify(part.program)
            self._built = Steps(procedure, self._workspace, self._make)
        return self._built

    @property
    def executors(self) -> dict[str, VulkanExecutor]:
        """The executors of a step by name, the one that runs most often first."""
        return self._build().executors

    def run(self, n: int) -> None:
        """Queue ``n`` steps. The first one of a least-squares solver is waited for, and checked."""
        built = self._build()
        self._exact = self._refined()
        if n and self._objective.solves and isinstance(built, Steps) and not self._began:
            self._losses.run(built, 1)
            check_derivatives(self._objective, self._evaluations)
            self._began, n = True, n - 1
        self._losses.run(built, n)
        if self._doubles and not self._exact and self.stopped() is not None:
            self.refine(200)

    def stopped(self) -> str | None:
        """The reasons why the problems of a least-squares solver ended; None while one goes on."""
        solver, state = self._objective.optimizer, self._objective.state
        if solver is None or STOPPED not in state:
            return None
        running, codes = (r.result() for r in self._evaluations.read([state[RUNNING], state[STOPPED]]))
        if running.any():
            return None
        every = sorted({int(code) for code in codes.flat})
        return "; ".join(REASONS[code].format(**vars(solver)) for code in every if code)

    def covariance(self, chosen: Sequence[Variable]) -> np.ndarray:
        """As ``DressiAD.covariance``."""
        objective, workspace = self._objective, self._workspace
        if objective.energy is None:
            raise GraphError("a covariance is that of residuals; give set_loss a list of them")
        objective.optimised(chosen)
        moving = [p for p in objective.parameters if p not in objective.frozen]
        if still := [p for p in chosen if p in objective.frozen]:
            raise GraphError(f"{still[0]} is frozen and has no covariance; release it, or leave it out")
        wanted = Covariance(objective.energy, moving, objective.constraints)
        workspace.hold([wanted.number])

        def column(k: int) -> np.ndarray:
            workspace.send_many({wanted.number: k})
            return np.concatenate([r.result().ravel() for r in self._evaluations.read(wanted.columns)])

        return wanted.of(chosen or moving, column, lambda v: self._evaluations.read([v])[0].result())

    @property
    def _doubles(self) -> bool:
        solver = self._objective.optimizer
        return isinstance(solver, LeastSquares) and solver.precision == "double"

    def _refinement(self) -> Refinement:
        objective, solver = self._objective, self._objective.optimizer
        if objective.energy is None or not isinstance(solver, LeastSquares):
            raise GraphError("refine takes residuals and a solver of least squares, such as GaussNewton()")
        moving = [p for p in objective.parameters if p not in objective.frozen]
        return Refinement(objective.energy, solver, moving, objective.constraints)

    def _refined(self) -> dict[Variable, np.ndarray]:
        """Unknowns in 64 bits, unless something was sent since."""
        return self._exact if isinstance(self._built, Steps) and not self._built.fresh else {}

    def read(self, variable: Variable) -> Readback:
        """The present value of a Variable, in 64 bits where a solver has found it in those."""
        value, exact = self._evaluations.read_one(variable), self._refined().get(variable)
        return value if exact is None else value.then(lambda _: variable.as_given(exact))

    def refine(self, steps: int = 50, tolerance: float = 1e-13) -> list[np.ndarray]:
        """As ``DressiAD.refine``."""
        workspace, wanted = self._workspace, self._refinement()
        workspace.hold([*wanted.state.values(), *wanted.given])
        built = Steps(wanted.procedure, workspace, self._make)

        def read(leaves: Sequence[Variable]) -> list[np.ndarray]:
            return [r.result() for r in self._evaluations.read(leaves)]

        def solved(values: Mapping[Variable, np.ndarray]) -> list[np.ndarray]:
            workspace.send_many(values)
            built.run(1)
            return read(wanted.changes)

        try:
            found = wanted.of(steps, tolerance, lambda v: read([v])[0], solved)
        finally:
            built.close()
        exact = dict(zip(wanted.unknowns, found, strict=True))
        workspace.send_many(exact)
        if self._doubles and isinstance(self._built, Steps):
            self._exact, self._built.fresh = exact, False  # no reason for further steps
        return found

    def wait(self) -> None:
        """Wait until all steps are done."""
        if self._built is not None:
            self._built.wait()

    def losses(self) -> list[float]:
        """The recorded loss of every step so far; also after ``close``."""
        known = len(self._losses.known)
        losses = self._losses.read(self._built)
        if self._began:
            warn_of_losses(losses[known:], self._objective, self._evaluations)
        return losses

    def forget(self) -> None:
        """Build anew before the next step. The losses stay."""
        if self._built is not None:
            self.losses()
        self.close()
        self._program = None

    def close(self) -> None:
        """Release what was built."""
        if self._built is not None:
            self._built.close()
            self._built, self._began, self._exact = None, False, {}

    def print_times(self, stages: bool) -> None:
        """Print the time of the longest submission, and of each stage if ``stages``, where steps ran."""
        if self._built is None:
            return
        for executor in self.executors.values() if stages else ():
            print_times(executor)
        device = self._workspace.device
        print(f"dressi: {device.name}: longest submission {1e3 * device.longest_submission:.3g} ms")


# The loss of every step: a ring buffer on the device, which is read before it overflows.


class Losses:
    """Runs steps and keeps their losses, each as it was before the step's update. known: those read."""

    def __init__(self, objective: Objective, workspace: Workspace):
        self._objective, self._workspace = objective, workspace
        self.known: list[float] = []
        self._count = 0  # steps whose loss was read, as the device counts them
        self._unread = 0  # steps since then, at most: an interrupt may leave some undone

    def run(self, executor: VulkanExecutor | Steps, n: int) -> None:
        """``n`` steps, in parts that the ring buffer holds."""
        recorded = self._objective.recorded
        while n > 0:
            room = HISTORY - self._unread if recorded else n
            if room == 0:
                self.read(executor)
                continue
            now = min(n, room)
            self._unread += now if recorded else 0
            executor.run(now)
            n -= now

    def read(self, executor: VulkanExecutor | Steps | None) -> list[float]:
        """All losses so far; waits for the steps that are not done."""
        if self._unread and executor is not None:
            count = int(self._workspace.read(self._objective.counter).result().reshape(()))
            if not self._count <= count <= self._count + self._unread:
                raise DeviceError(
                    f"{self._workspace.device.name} counted {count - self._count} steps where at most {self._unread} were"
                    " submitted; its driver is wrong: update it, or choose another device (`dressi devices` lists them)"
                )
            ring = self._workspace.read(self._objective.history).result().reshape(-1)
            self.known += [float(ring[k % HISTORY]) for k in range(self._count, count)]
            self._count, self._unread = count, 0
            executor.wait()
        return self.known


# Parameters and optimizer state by name.


def read_state(tree: Mapping[str, Variable], workspace: Workspace) -> dict[str, np.ndarray]:
    """The present values of leaves by name."""
    workspace.hold(tree.values())
    return {name: workspace.read(v).result() for name, v in tree.items()}


def by_leaf(
    state: Mapping[str, np.ndarray], tree: Mapping[str, Variable], partial: bool
) -> dict[Variable, np.ndarray]:
    """The arrays of a state by leaf. Raises GraphError for other names than the tree's; partial: for more."""
    odd = set(state) - set(tree) if partial else set(state) ^ set(tree)
    if odd:
        names, cure = ", ".join(sorted(odd)), "" if partial else "; partial=True sets what there is"
        raise GraphError(f"the state does not belong to this optimisation; it differs in: {names}{cure}")
    return {tree[name]: array for name, array in state.items()}


# Checks when a least-squares solver starts: residuals and derivatives that are no numbers stop it with a
# sentence.

SMALLEST = 1e-30  # a cost below this may be zero only because squares are too small for 32 bits


def check_start(objective: Objective, evaluations: Evaluations) -> None:
    """Raises InputError that names a residual and texel that are infinite or NaN at the present unknowns."""
    energy, loss = objective.energy, objective.loss
    if loss is None:
        return
    (cost,) = (r.result() for r in evaluations.read([loss]))
    if energy is None:
        if not np.isfinite(cost).all():
            raise InputError(
                f"the loss is {cost.item()} where the optimisation starts; ad.evaluate of what it is made of shows"
                " where from"
            )
        return
    if np.isfinite(cost).all():
        # A cost may be zero although residuals are not.
        for k, residual in enumerate(energy.residuals if cost.item() < SMALLEST else ()):
            largest = float(np.abs(evaluations.read([residual])[0].result()).max())
            if largest > 0.0:
                raise InputError(
                    f"the squares of the residuals vanish in 32 bits: the largest value of residual {k} of the energy,"
                    f" {residual}, is {largest:.2g}; scale the residuals"
                )
        return
    for k, residual in enumerate(energy.residuals):
        (values,) = (r.result() for r in evaluations.read([residual]))
        bad = ~np.isfinite(values)
        if bad.any():
            raise InputError(
                f"residual {k} of the energy, {residual} (made at {residual.where}), is {_first(values, residual)} when the"
                f" solver starts, and not finite at {bad.sum()} of {bad.size} values; start from other unknowns, or guard"
                " the operation that overflows"
            )
    raise InputError(
        f"the cost of the energy is {cost.item()} when the solver starts, although all residuals are finite: their squares"
        " overflow; scale the residuals"
    )


def check_derivatives(objective: Objective, evaluations: Evaluations) -> None:
    """After the first step: raises InputError that names the residual, the unknown and the texel if J^T r is
    infinite or NaN, where conjugate gradients end before they begin."""
    energy = objective.energy
    if energy is None or _solved(objective, evaluations):
        return
    moving = [p for p in objective.parameters if p not in objective.frozen]
    for k, (named, residual) in enumerate(zip(energy.residuals, energy.linearized(), strict=True)):
        slopes = evaluations.read(Jacobian([residual], moving).reverse([residual]))
        for p, slope in zip(moving, slopes, strict=True):
            values = slope.result()
            if not np.isfinite(values).all():
                raise InputError(
                    f"the derivative of residual {k} of the energy, {named} (made at {named.where}), by {p} is"
                    f" {_first(values, p)}, although the residual is finite: an operation on its way has no finite slope"
                    " there, such as F.sqrt at 0, or any operation on NaN whose result an F.select leaves out; guard its"
                    " argument, as in F.square(x - F.select(valid, data, 0.0))"
                )


def _first(values: np.ndarray, like: Variable) -> str:
    """The first value that is not finite, and where: "nan at texel (2, 0) of tile 0"."""
    values = values.reshape(like.tiled)
    bad = ~np.isfinite(values)
    tile, y, x = np.argwhere(bad)[0][:3]
    image, channel = divmod(int(tile), like.channels)
    where = f"tile {tile}" if like.channels == 1 else f"channel {channel} of image {image}"
    return f"{values[bad][0]} at texel ({x}, {y}) of {where}"


def _solved(objective: Objective, evaluations: Evaluations) -> bool:
    """Whether the last linear solve came to numbers."""
    numbers = evaluations.read([objective.state[name] for name in OUTCOME])
    return all(np.isfinite(number.result()).all() for number in numbers)


def warn_of_losses(losses: Sequence[float], objective: Objective, evaluations: Evaluations) -> None:
    """Warns when a recorded cost, or the last linear solve, is infinite or NaN, as after such values sent."""
    bad = [k for k, loss in enumerate(losses) if not np.isfinite(loss)]
    if bad:
        _warn(
            f"the cost was {losses[bad[0]]} before step {bad[0]}; the unknowns stay where they are until finite values are"
            " sent to the leaves that the residuals read"
        )
    elif losses and not _solved(objective, evaluations):
        _warn(
            "the derivative of the residuals was infinite or NaN in the last step, although their cost is finite; the"
            " unknowns stay where they are"
        )


def warn_of_idle(objective: Objective, evaluations: Evaluations) -> None:
    """Warns of unknowns that no residual reads at the start, if no residual has a mask."""
    energy = objective.energy
    if energy is None or any(isinstance(f, Select) for f in topological_order(energy.residuals)):
        return
    moving = [p for p in objective.parameters if p not in objective.frozen]
    squares, rest = diagonal(energy.residuals, moving)
    if rest:
        return
    for p, value in zip(moving, evaluations.read(squares), strict=True):
        numbers = value.result()
        idle = int(np.count_nonzero(numbers == 0.0))
        if idle:
            _warn(
                f"{idle} of the {numbers.size} numbers of {p} change no residual where the solver starts: the"
                " system is singular, and they stay where they are"
            )


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=user_level())
