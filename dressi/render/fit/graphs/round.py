"""A round of a fit: a graph that is optimised for a number of steps, and what it begins with and finds."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.graph.types import Size, list_values
from ...cameras import Cameras
from ...core.engine import Engine
from ...drawing.draw import COLUMNS, compare
from ...mesh import Mesh
from ...objectives.metrics import code_psnr, iou
from ...surface.color import srgb_to_linear
from ...surface.screen import DrawnMesh
from .term import Term

CHUNK = 10
"""Steps between two polls of ``stop`` and ``progress``. Radii change at multiples of it, so that a resumed
fit computes the same numbers as one that was not stopped."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a round begins with, and what it has found. cameras: learned ones, in units of the scene; None
    where they stay.

    values: arrays by name beside the mesh and its UVs: its texture, maps of its material, fields of the
    light.
    """

    mesh: Mesh
    cameras: Cameras | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)

    def over(self, start: Found) -> Found:
        """What a round has found, with what it has left as it was at its start."""
        return Found(self.mesh, self.cameras or start.cameras, {**start.values, **self.values})


class Round(ABC):
    """Terms of a loss, and optimizers of the parameters that they have in common; each term brings its own.

    mesh: the present one; a round that remeshes replaces it.  outputs: Variables that are read at the end, by
    name.  factors: names of the ``Factors`` that it reads.  subject: what is drawn of it from any camera.
    doing: what it does, for people.
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
        self.until = steps
        """The step at which another ``Round`` goes on from the state of this one: one of larger pictures, where
        it is less than ``steps``."""
        self.outputs = dict(outputs or {})
        self.loss = reduce(operator.add, (term.loss for term in terms))
        """FLOAT 1x1."""
        own = dict(optimizers)
        for term in terms:
            own |= term.optimizers
        self.parameters = list(own)
        (whole, *more) = own.values()
        self.optimizer = optim.Clocked(optim.per_parameter(own) if more else whole, counter)
        self.factors = (*self.factors, *(name for term in terms for name in term.factors))

    def before(self, engine: Engine, step: int) -> None:
        """Called before a step that is a multiple of ten, and before the first one after a resume."""
        return

    def moved(self, state: dict[str, np.ndarray]) -> Mesh:
        """The mesh with the positions of a state of the engine."""
        return self.mesh.moved(list_values(state["position"], len(self.mesh.positions))[0])

    @abstractmethod
    def look(self, engine: Engine) -> Comparison:
        """The present training views."""

    @abstractmethod
    def found(self, engine: Engine) -> Found:
        """What the steps so far have found."""


def start(engine: Engine, work: Round) -> None:
    """Give a fresh engine the graph of a round."""
    engine.set_loss(work.loss)
    engine.set_optimizer(work.optimizer, work.parameters)
    for name, variable in work.outputs.items():
        engine.set_output(name, variable)


# What a running fit shows: its pictures beside those that it learns from.

MOST = 120.0
"""What stands for the infinite PSNR of equal pictures, which a table cannot hold."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """N training views at the size of the round.

    covered, masks: (N, h, w), of the fit and of the targets, covered from 1/2 on.  codes: (N, h, w, 3), the
    colours of the fit as sRGB codes, on black; None while it has none.  target_codes: those of the targets.
    """

    covered: np.ndarray
    masks: np.ndarray
    codes: np.ndarray | None
    target_codes: np.ndarray | None

    @property
    def iou(self) -> float:
        return iou(self.covered, self.masks)

    @property
    def psnr(self) -> float | None:
        """In dB, at most MOST, over the pixels of the masks; None without colours."""
        inside = self.masks >= 0.5
        if self.codes is None or self.target_codes is None or not inside.any():
            return None
        return min(code_psnr(np.clip(self.codes[inside], 0, 1), self.target_codes[inside]), MOST)

    def sheet(self) -> np.ndarray:
        """A linear image: targets above, the fit below them, and the difference; silhouettes while there are
        no colours."""
        pairs = []
        for codes, masks in ((self.target_codes, self.masks), (self.codes, self.covered)):
            if self.codes is None or codes is None:
                codes = 0.75 * np.repeat(masks[..., None], 3, axis=-1)
            pairs.append(srgb_to_linear(np.clip(codes[:COLUMNS], 0, 1)))
        return compare(*pairs)


# What is drawn of an optimisation that runs, from any camera.


@dataclass(frozen=True, eq=False)
class Subject:
    """A mesh as Variables of the engine that optimises it.

    position: VEC3 list.  faces: IVEC3 list, of which the first ``face_count`` are drawn; those without area
    are not. codes: from the mesh as it is drawn, and the matrices (MAT4, position to clip space) by which it is, to
    its colours at each pixel, VEC3 sRGB codes; None while it has none.  picture: instead, from matrices and a
    size to the whole picture, VEC3 sRGB codes.
    """

    position: Variable
    faces: Variable
    face_count: int
    codes: Callable[[DrawnMesh, Variable], Variable] | None = None
    picture: Callable[[Variable, Size], Variable] | None = None

    def moved(self, scale: float, shift: np.ndarray) -> Subject:
        """In other units."""
        return replace(self, position=self.position * scale + F.constant(tuple(shift.tolist())))
