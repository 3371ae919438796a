"""What Gauss-Newton and Levenberg-Marquardt share: options, state, and the Programs of a nonlinear step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..optim.optimizer import STEP, State, check_clock, clock, names
from ..procedure import Procedure
from ..types import whole
from .energy import Energy
from .linear.conjugate_gradient import states
from .linear.preconditioner import Multilevel, Plain, Preconditioner
from .linear.probes import counter
from .linear.vectors import Updates, scalar
from .step import COST, RUNNING, Method, Solve


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
        """New state leaves by name, the step counter included. Raises GraphError for parameters that cannot be unknowns."""
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
        """The parts of a nonlinear step. moving: the parameters that are not frozen. record: further updates of the first
        part, which linearizes; they may read the state's ``cost``, as it was one step before."""
        solve = Solve(self, energy, parameters, moving, state)
        return Procedure((*solve.parts(record), *self.ends(solve)), solve.restart)
