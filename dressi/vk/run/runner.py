"""What runs the steps of an objective: one Program, or the several Programs of a least-squares solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from ...ad.graph.user_code import user_level
from ...ad.objective import Objective
from ...ad.program import Program
from ...ad.transform.simplify import verify
from ...config import config, shader_text
from ..plan.compiler import build_plan
from ..plan.model.device import DeviceModel
from ..plan.options import PlanOptions
from ..planning import bytes_in_parts, program_within
from .executor import VulkanExecutor
from .measure.calibration import model_of
from .measure.timing import print_times
from .steps import Steps, running
from .values.evaluations import Evaluations
from .values.losses import Losses
from .values.residuals import check_derivatives, check_start, warn_of_idle, warn_of_losses
from .workspace import Workspace


class Runner:
    """Builds what runs the steps when it is needed, and again after ``forget``.

    make: makes the executor of a Program; it takes the keywords of ``VulkanExecutor`` as well.  options, model:
    that programs are planned with, to see what fits the bound of memory.
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

    def program(self) -> Program:
        """The simplified Program of a step. Of a least-squares solver only what records the losses."""
        if self._program is None:
            self._program = program_within(self._objective, self._options.memory, self._taken)
            if config.check:
                verify(self._program)
        return self._program

    def _taken(self, program: Program) -> int:
        """Bytes that a program takes."""
        cost = self._model or model_of(self._workspace.device)
        return bytes_in_parts(
            program,
            lambda one, changing: build_plan(
                one, self._workspace.limits, shader_text, self._options, cost, changing, every=True
            ),
        )

    def _build(self) -> VulkanExecutor | Steps:
        if self._built is None:
            if self._objective.uncounted():
                warnings.warn(
                    "the loss reads a counter of steps that the optimizer does not count; give it to the optimizer, as in"
                    " Clocked(adam(rate), counter) or LevenbergMarquardt(counter=counter)",
                    RuntimeWarning,
                    stacklevel=user_level(),
                )
            procedure = self._objective.procedure()
            if procedure is None:
                self._built = running(self.program(), self._workspace, self._make)
            else:
                check_start(self._objective, self._evaluations)
                warn_of_idle(self._objective, self._evaluations)
                if config.check:
                    for part in procedure.parts:
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
        if n and self._objective.solves and isinstance(built, Steps) and not self._began:
            self._losses.run(built, 1)
            check_derivatives(self._objective, self._evaluations)
            self._began, n = True, n - 1
        self._losses.run(built, n)

    def wait(self) -> None:
        """Wait until all steps are done."""
        if self._built is not None:
            self._built.wait()

    def losses(self) -> list[float]:
        """The recorded loss of every step so far; also after ``close``."""
        known = len(self._losses.found)
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
            self._built, self._began = None, False

    def print_times(self, stages: bool) -> None:
        """Print the time of the longest submission, and those of the stages if ``stages``, where steps ran."""
        if self._built is None:
            return
        for executor in self.executors.values() if stages else ():
            print_times(executor)
        device = self._workspace.device
        print(f"dressi: {device.name}: longest submission {1e3 * device.longest_submission:.3g} ms")
