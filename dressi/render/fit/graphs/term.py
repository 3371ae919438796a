"""A term of the loss of a round, and what a term of the shape phase sees of its round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ....ad import optim
from ....ad.graph import Variable
from ....ad.types import FLOAT, Size
from ...forms.edges.edge_list import EdgeList, edge_list
from ...forms.form import Form, Silhouette
from ...mesh import Mesh
from ...surface.screen import DrawnMesh
from .controls import Factors
from .learned import Learned
from .lists import Lists
from .plan import FitRound

BETAS = (0.9, 0.99)
"""Decay rates of Adam in every phase."""


class Term:
    """A summand of the loss of a round: ``loss`` FLOAT 1x1, its weight included.

    A term of the shape phase is a class that is made from a ``Canvas`` and the weight of its option, and is named in the row
    of that option in ``FitOptions``:

        class Consistency(Term):
            def __init__(self, canvas: Canvas, weight: float):
                super().__init__(normal_consistency(canvas.position, canvas.edges) * weight)

    optimizers: those of parameters of its own, by leaf.  of_vertices: the leaves among them that are lists of vertices, whose values follow a mesh that is remeshed.
    factors: names of the ``Factors`` that it reads.  codes: the colours of the surface, sRGB codes, of a term that learns
    them.
    """

    share: float = 1.0
    """Weight relative to silhouettes where its option is 1, or yes."""
    far: bool = True
    """Whether a round that goes far, as the first does, has it."""
    scheduled: bool = False
    """Whether the schedule says which rounds have it; others have it in all."""

    def __init__(
        self,
        loss: Variable,
        *,
        optimizers: Mapping[Variable, optim.Optimizer] | None = None,
        of_vertices: tuple[Variable, ...] = (),
        factors: tuple[str, ...] = (),
        codes: Callable[[DrawnMesh], Variable] | None = None,
        shown: bool = True,
    ):
        self.loss, self.optimizers, self.of_vertices = loss, dict(optimizers or {}), of_vertices
        self.factors, self.codes, self.shown = factors, codes, shown

    def data(self, mesh: Mesh) -> dict[Variable, np.ndarray]:
        """What to send when the round goes on with a remeshed mesh, by leaf: what the term knows of the topology beside
        ``Canvas.lists``, which the round sends."""
        return {}


@dataclass(frozen=True, eq=False)
class Canvas:
    """What terms of the shape phase see of their round.

    mesh, lists: what is optimised, as it was at the start.  rest: (V, 3) the shape whose details stay, None: it smooths.  position: VEC3 list.  views: the pictures.  pick: the views of a step
    from images of all of them.  matrices: (N, 4, 4), None where poses are learned.  size: of the pictures of the round; they are drawn at ``wide``, with a ``margin``.
    soft: what is drawn, by ``form`` with ``layers``, at ``radius``.
    """

    mesh: Mesh
    lists: Lists
    rest: np.ndarray | None
    views: Learned
    pick: Callable[[Variable], Variable]
    matrices: np.ndarray | None
    size: Size
    wide: Size
    margin: int
    form: Form
    layers: int
    radius: Variable
    soft: Silhouette
    plan: FitRound
    factors: Factors

    @property
    def position(self) -> Variable:
        """VEC3 list: the vertices."""
        return self.lists.position

    @property
    def edges(self) -> EdgeList:
        """Of the faces; those of a mesh that is remeshed follow it."""
        return self.lists.edges or edge_list(self.mesh.faces)

    @property
    def count(self) -> int:
        """Of views."""
        return len(self.views.masks)

    @property
    def unit(self) -> float:
        """How many units of clip w are one unit of the scene: learned poses are in units of the scene, matrices are from
        them to the world."""
        return 1.0 if self.matrices is None else float(np.linalg.norm(self.matrices[0, 3, :3]))

    def image(self, name: str, data: np.ndarray) -> Variable:
        """FLOAT: an image of each view, drawn size, of the views of the step."""
        return self.pick(Variable(FLOAT, self.wide, self.count, name=name, data=data))
