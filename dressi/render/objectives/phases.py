"""An optimisation in phases: parameters of HardSoftRas that change with the steps, and forms that change with
the phase.

Radius, sigma and other numbers are leaves: within a phase they go from a first to a last value and are sent,
without a new build. The form and the layers determine the graph, so each phase is built once; parameters and
the state of the optimizer (moments and step counter) are carried over.

    radius = Variable(FLOAT, name="radius")

    def build(phase):
        drawn = hard_soft_ras(clip, faces, size=size, face_count=count, radius=radius, **phase.options)
        return l2(drawn.silhouette, falloff(distance, radius))

    phases = [
        Phase(100, {"form": "outer"}, {radius: (0.6, 0.1)}),
        Phase(100, {"form": "face", "layers": 3}, {radius: (0.1, 0.01)}),
    ]
    result = run_phases(phases, build, adam(0.01), [position], lambda: DressiAD(device))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.types import FLOAT
from ...ad.optim import Optimizer
from ...errors import InputError
from ..core.engine import MakeEngine


@dataclass(frozen=True)
class Phase:
    """A number of steps on one graph."""

    steps: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options for ``build``: the form, its layers."""
    numbers: Mapping[Variable, tuple[float, float]] = field(default_factory=dict)
    """FLOAT 1x1 leaves and their values, positive, at the first and after the last step: geometric in
    between."""

    def at(self, step: int) -> dict[Variable, float]:
        """The numbers before that step of the phase."""
        done = step / self.steps
        return {leaf: first * (last / first) ** done for leaf, (first, last) in self.numbers.items()}


@dataclass
class PhasesResult:
    """The result of the phases."""

    state: dict[str, np.ndarray]
    """Parameters and the optimizer's state by name, as ``DressiAD.state()`` gives them."""
    losses: list[float]
    """Loss of every step. Losses of different forms are not comparable."""
    builds: int
    """Number of graphs built: one a phase."""


def run_phases(
    phases: Sequence[Phase],
    build: Callable[[Phase], Variable],
    optimizer: Optimizer,
    parameters: Sequence[Variable],
    make_engine: MakeEngine,
    *,
    chunk: int = 1,
) -> PhasesResult:
    """Run the phases one after the other.

    build: gives the loss (FLOAT 1x1) of a phase on the same leaves; called once a phase.  parameters: named
    leaves. chunk: steps between two changes of the numbers. Raises InputError for invalid phases.
    """
    for phase in phases:
        _check(phase)
    if chunk < 1 or not phases:
        raise InputError("an optimisation in phases needs a phase, and a chunk of at least one step")
    state: dict[str, np.ndarray] | None = None
    losses: list[float] = []
    for phase in phases:
        engine = make_engine()
        try:
            engine.set_loss(build(phase))
            engine.set_optimizer(optimizer, parameters)
            if state is not None:
                engine.restore(state)
            for step in range(0, phase.steps, chunk):
                for leaf, value in phase.at(step).items():
                    engine.send(leaf, np.full((1, 1, 1), value))
                engine.step(min(chunk, phase.steps - step))
            losses += engine.losses()
            state = engine.state()
        finally:
            engine.close()
    assert state is not None
    return PhasesResult(state, losses, len(phases))


def _check(phase: Phase) -> None:
    if phase.steps < 1:
        raise InputError(f"a phase has at least one step, not {phase.steps}")
    for leaf, values in phase.numbers.items():
        if leaf.vtype is not FLOAT or leaf.size != (1, 1) or not leaf.is_leaf:
            raise InputError(f"numbers of a phase are FLOAT 1x1 leaves, and {leaf} is not")
        if min(values) <= 0:
            raise InputError(
                f"{leaf} goes from a positive value to another, not from {values[0]} to {values[1]}"
            )
