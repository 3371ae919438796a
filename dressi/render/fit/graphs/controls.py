"""What a person may change while a fit runs: factors that are data of its graphs, 1 unless they are moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ....ad.graph import Variable
from ....ad.optim.schedules import Number
from ....ad.types import FLOAT
from ....errors import InputError
from ...engine import Engine


@dataclass(frozen=True, eq=False)
class Factors:
    """Of a round: numbers that are part of its graph, or FLOAT leaves of one texel that ``Controls`` sends.

    rate: of all learning rates.  radius: of the radius of HardSoftRas.  smoothness, colour: of these terms of the loss.
    """

    rate: Number = 1.0
    radius: Number = 1.0
    smoothness: Number = 1.0
    colour: Number = 1.0


UNCHANGED = Factors()
RANGES = {"rate": (0.05, 5.0), "radius": (0.25, 4.0), "smoothness": (0.02, 50.0), "colour": (0.02, 50.0)}
"""The least and the largest value of each factor."""


@dataclass(eq=False)
class Controls:
    """The factors of a fit as leaves, and their present values. Values go to the engine of the round that runs.

    changes: (steps of the fit so far, name, value) of everything that was set, for the report.

    >>> from dressi.render.fit.graphs.controls import Controls
    >>> controls = Controls()
    >>> controls.set("rate", 0.5, step=120); controls.values["rate"], controls.changes
    (0.5, [(120, 'rate', 0.5)])
    """

    values: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RANGES, 1.0))
    changes: list[tuple[int, str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leaves = {
            name: Variable(FLOAT, name=f"factor of the {name}", data=np.ones((1, 1, 1))) for name in RANGES
        }
        self.factors = Factors(**self.leaves)
        """For the graphs of rounds."""

    def set(self, name: str, value: float, step: int) -> None:
        """Set a factor, from step ``step`` of the fit on. Raises InputError."""
        if name not in RANGES:
            raise InputError(f"there is no factor '{name}'; there are {', '.join(RANGES)}")
        least, most = RANGES[name]
        if not least <= value <= most:
            raise InputError(f"the factor of the {name} is {least:g} to {most:g}, not {value:g}")
        self.values[name] = float(value)
        self.changes.append((step, name, float(value)))

    def send(self, engine: Engine, names: Iterable[str]) -> None:
        """Send the present values of these factors, those that a round reads, to its engine."""
        for name in names:
            engine.send(self.leaves[name], np.full((1, 1, 1), self.values[name]))
