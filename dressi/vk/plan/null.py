"""The executor that plans and runs nothing: for packing tests and ``--plan`` on machines without a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.program import Program
from ...errors import GraphError
from .glsl.writer import ShaderText
from .limits import UNBOUNDED, DeviceLimits
from .plan import DEFAULT, PlanOptions, build_plan


class NullExecutor:
    """Same protocol as the others; ``runs`` counts the steps asked for, leaves keep what was sent."""

    def __init__(
        self,
        program: Program,
        shader_text: ShaderText,
        *,
        options: PlanOptions = DEFAULT,
        limits: DeviceLimits = UNBOUNDED,
    ):
        self.plan = build_plan(program, limits, shader_text, options)
        self.program = self.plan.program
        self.runs = 0
        self._values = {v: v.data for v in program.leaves if v.data is not None}

    def send(self, variable: Variable, values: Any) -> None:
        if variable not in self.program.leaves:
            raise GraphError(f"{variable} is not a leaf of this program")
        self._values[variable] = variable.conform(values)

    def recv(self, variable: Variable) -> np.ndarray:
        """What was sent to a leaf; zeros for everything computed."""
        return np.asarray(self._values.get(variable, np.zeros(variable.shape)), variable.vtype.dtype)

    def run(self, n: int = 1) -> None:
        self.runs += n

    def wait(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing to release."""
