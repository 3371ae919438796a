"""A round of a fit: a graph that is optimised for a number of steps, and what it begins with and finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ....ad import optim
from ....ad.graph import Variable
from ...cameras import Cameras
from ...engine import Engine
from ...mesh import Mesh
from .comparison import Comparison
from .subject import Subject
from .term import Term

CHUNK = 10
"""Steps between two polls of ``stop`` and ``progress``. Radii change at multiples of it, so that a resumed fit computes the
same numbers as one that was not stopped."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a round begins with, and what it has found. cameras: learned ones, in units of the scene; None where they stay.

    values: arrays by name beside the mesh and its UVs: its texture, maps of its material, fields of the light.
    """

    mesh: Mesh
    cameras: Cameras | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    def over(self, start: Found) -> Found:
        """What a round has found, with what it has left as it was at its start."""
        return Found(self.mesh, self.cameras or start.cameras, {**start.values, **self.values})


class Round(ABC):
    """Terms of a loss, and optimizers of the parameters that they have in common; each term brings its own.

    mesh: as it is now: a round that remeshes replaces it.  outputs: Variables that are read at the end, by name.  factors: names of the
    ``Factors`` that it reads.  subject: what is drawn of it from any camera.  doing: what it does, for people.
    """

    name: str
    doing: str = ""
    factors: tuple[str, ...] = ("rate",)
    subject: Subject

    def __init__(
        self,
        mesh: Mesh,
        steps: int,
        terms: Sequence[Term],
        optimizers: Mapping[Variable, optim.Optimizer],
        counter: Variable,
        outputs: Mapping[str, Variable] | None = None,
    ):
        self.mesh, self.steps, self.terms = mesh, steps, list(terms)
        self.outputs = dict(outputs or {})
        first, *others = self.terms
        loss = first.loss
        for term in others:
            loss = loss + term.loss
        self.loss = loss
        """FLOAT 1x1."""
        own = dict(optimizers)
        for term in terms:
            own |= term.optimizers
        self.parameters = list(own)
        (whole, *more) = own.values()
        self.optimizer = optim.Clocked(optim.per_parameter(own) if more else whole, counter)
        self.factors = (*self.factors, *(name for term in terms for name in term.factors))

    def before(self, engine: Engine, step: int) -> None:
        """What changes before a step, a multiple of ten or a resumed one: nothing, unless a kind of round has something."""
        return

    @abstractmethod
    def look(self, engine: Engine) -> Comparison:
        """The training views as they are now."""

    @abstractmethod
    def found(self, engine: Engine) -> Found:
        """What the steps so far have found."""


def start(engine: Engine, work: Round) -> None:
    """Give a fresh engine the graph of a round."""
    engine.set_loss(work.loss)
    engine.set_optimizer(work.optimizer, work.parameters)
    for name, variable in work.outputs.items():
        engine.set_output(name, variable)
