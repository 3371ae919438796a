"""A term of the loss of a round, and what a term of the shape phase sees of its round."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ....ad import optim
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, IVEC3, VEC3, Size, list_image
from ....ad.optim.schedules import Number
from ....errors import InputError
from ...cameras import Cameras
from ...cameras.pose import Similarity, align, poses, unit_cameras, world_cameras
from ...core.engine import Engine
from ...core.lists import list_leaf, padded
from ...forms.edges.edge_list import EdgeList, edge_list, with_room
from ...forms.form import Form, Silhouette
from ...mesh import Mesh
from ...objectives.regularizers import Adjacency, adjacency, laplacian_loss
from ...objectives.sparse import Room
from ...surface.screen import DrawnMesh
from ..data.dataset import Dataset
from ..data.learned import Learned

BETAS = (0.9, 0.99)
"""Decay rates of Adam in every phase."""


class Term:
    """A summand of the loss of a round: ``loss`` FLOAT 1x1, its weight included.

    A term of the shape phase is a class that is made from a ``Canvas`` and the weight of its option, and is
    named in the row of that option in ``FitOptions``, such as ``terms.Consistency``.

    optimizers: those of parameters of its own, by leaf.  of_vertices: the leaves among them that are lists of
    vertices, whose values follow a mesh that is remeshed. factors: names of the ``Factors`` that it reads.
    codes: the colours of the surface, sRGB codes, of a term that learns them.
    """

    share: float = 1.0
    """Weight relative to silhouettes where its option is 1, or yes."""
    far: bool = True
    """Whether it is active in coarse rounds."""
    scheduled: bool = False
    """Whether the schedule says which rounds have it. Other terms are in all rounds."""

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
        """Arrays to send when the round goes on with a remeshed mesh, by leaf, beside ``Canvas.lists``."""
        return {}


@dataclass(frozen=True, eq=False)
class Canvas:
    """What terms of the shape phase see of their round.

    lists: of the mesh at the start of the round.  rest: (V, 3) the shape whose details stay; None: the
    Laplacian smooths.  views: the pictures.  pick: the views of a step from images of all of them.  matrices:
    (N, 4, 4), None where poses are learned.  size: of the pictures of the round; they are drawn at ``wide``,
    with a ``margin``.  soft: what is drawn, by ``form`` with ``layers``, at ``radius``.
    """

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
        """Edges of the faces; those of a mesh that is remeshed follow it."""
        return self.lists.edges or edge_list(self.lists.mesh.faces)


# The lists of a mesh that a round of the shape phase optimises: for one topology, or with room for others.
#
# With room, the counts of faces and vertices are data like the lists themselves, so that a remeshed mesh
# needs no new build.

PARTS = 32
"""Most components of a mesh that is sure to have room."""
VALENCE = 24
"""Most neighbours of a vertex."""


class Lists:
    """The lists of one mesh."""

    def __init__(self, mesh: Mesh):
        self.mesh, self.faces, self.vertices = mesh, len(mesh.faces), len(mesh.positions)

    @cached_property
    def position(self) -> Variable:
        """VEC3 list of ``vertices``: the parameter."""
        return list_leaf("position", VEC3, padded(self.mesh.positions, self.vertices))

    @cached_property
    def face_list(self) -> Variable:
        """IVEC3 list of ``faces``, all of which are drawn."""
        return list_leaf("faces", IVEC3, padded(self.mesh.faces, self.faces))

    @property
    def edges(self) -> EdgeList | None:
        """Edges for forms that draw them; None: those of the faces' data."""
        return None

    @cached_property
    def neighbours(self) -> Adjacency:
        """Of ``vertices`` vertices."""
        return adjacency(self.mesh.faces, self.vertices)

    def bending(self, moved: Variable, weight: Number) -> Variable:
        """FLOAT 1x1: the squared Laplacian of a list of vertices times a weight, scaled so that the same
        shape has the same value at every subdivision."""
        return laplacian_loss(moved, self.neighbours) * (weight * self.vertices**2)


class SpareLists(Lists):
    """Lists for closed meshes of at most ``faces`` faces. Faces in excess have no area and are not drawn;
    vertices in excess have no faces and get no gradient."""

    def __init__(self, mesh: Mesh, faces: int):
        super().__init__(mesh)
        # V = F / 2 + 2 for a sphere, less with handles, and two more for every further component.
        self.faces, self.vertices = faces, faces // 2 + 2 * PARTS

    @staticmethod
    def suit(mesh: Mesh, faces: int) -> bool:
        """Whether the mesh is closed and has room among ``faces`` faces."""
        if len(mesh.faces) > faces or not mesh.is_closed() or mesh.component_count() > PARTS:
            return False
        return int(np.diff(mesh.neighbours()[0]).max()) <= VALENCE

    @cached_property
    def edges(self) -> EdgeList:
        return self._edges(self.mesh)

    @cached_property
    def neighbours(self) -> Adjacency:
        return self._neighbours(self.mesh)

    @cached_property
    def used(self) -> Variable:
        """FLOAT 1x1: the number of vertices in use."""
        return Variable(FLOAT, name="vertices in use", data=self._used(self.mesh))

    def bending(self, moved: Variable, weight: Number) -> Variable:
        return laplacian_loss(moved, self.neighbours, "sum") * self.used * weight

    def data(self, mesh: Mesh) -> dict[Variable, np.ndarray]:
        """What to send for another mesh, by leaf, but for its positions. Raises InputError where there is no
        room."""
        faces = {self.face_list: list_image(padded(mesh.faces, self.faces)), self.used: self._used(mesh)}
        edges = self.edges.data(self._edges(mesh))
        return {**faces, **edges, **self.neighbours.data(self._neighbours(mesh))}

    def rows(self, image: np.ndarray, mesh: Mesh) -> np.ndarray:
        """(V, ...) the entries of the image of a list that belong to vertices of the mesh."""
        return image.reshape(-1, *image.shape[3:])[: len(mesh.positions)]

    def image(self, rows: np.ndarray) -> np.ndarray:
        """The image of a list with these entries for the vertices."""
        return list_image(padded(rows, self.vertices))

    def _edges(self, mesh: Mesh) -> EdgeList:
        return with_room(edge_list(mesh.faces), 3 * self.faces // 2)

    def _neighbours(self, mesh: Mesh) -> Adjacency:
        return adjacency(mesh.faces, self.vertices, room=Room(3 * self.faces, VALENCE))

    @staticmethod
    def _used(mesh: Mesh) -> np.ndarray:
        return np.full((1, 1, 1), float(len(mesh.positions)))


# Camera poses as parameters of a fit.


class Moving:
    """Poses of cameras in units of the scene, as parameters of one round of ``steps`` steps.

    turn, shift: learning rates of Adam from the first to the last step, of turns about the scene's centre in
    radians and of shifts in radii of the scene.
    """

    def __init__(self, cameras: Cameras, turn: tuple[float, float], shift: tuple[float, float], steps: int):
        self.poses = poses(cameras, np.zeros(3))
        self.optimizers: dict[Variable, optim.Optimizer] = {
            leaf: optim.adam(optim.cosine(*rate, steps), BETAS)
            for leaf, rate in ((self.poses.rotation, turn), (self.poses.translation, shift))
            if rate[0] > 0
        }

    @property
    def matrices(self) -> Variable:
        return self.poses.matrices

    def found(self, engine: Engine) -> Cameras:
        """The cameras after the steps so far."""
        return self.poses.found(engine.recv)


def with_views(cameras: Cameras, views: np.ndarray) -> Cameras:
    """The cameras with other poses: (N, 4, 4) world to camera."""
    pairs = zip(cameras, views, strict=True)
    return Cameras([replace(c, rotation=view[:3, :3], translation=view[:3, 3]) for c, view in pairs])


def moving_cameras(dataset: Dataset) -> Cameras | None:
    """The cameras whose poses are learned, in units of the scene; None, with a warning, for a single view,
    which says nothing about its own pose."""
    if len(dataset.train.cameras) == 1:
        warnings.warn(
            "one view says nothing about its pose: it stays as it is; give more to refine them", stacklevel=3
        )
        return None
    return unit_cameras(dataset.train.cameras, dataset.center, dataset.radius)


def in_world(dataset: Dataset, cameras: Cameras) -> tuple[Cameras, Similarity]:
    """Learned cameras from units of the scene to the world, and what moves the mesh there with them.

    A rigid motion and a scale of mesh and cameras together change no picture. Those are chosen that bring the
    learned cameras nearest to the given ones.
    """
    cameras = world_cameras(cameras, dataset.center, dataset.radius)
    back = align(cameras, dataset.train.cameras)
    return back.cameras(cameras), back


# What a round of the shape phase does, as numbers.


@dataclass(frozen=True)
class FitRound:
    """A round of the shape phase: one topology, one image size. Pairs: values at the first and last step."""

    subdivisions: int
    """How often the start mesh is subdivided."""
    pixels: int
    """Approximate number of image rows; at most the height of the fit."""
    steps: int
    radius: tuple[float, float]
    """Radius of HardSoftRas in image heights; at least ``Form.least_radius`` pixels are used."""
    rate: tuple[float, float]
    """Learning rate of Adam, in units of the scene's radius."""
    smoothness: float
    """Weight of the Laplacian."""
    spread: float = 0.0
    """The lambda of large steps; 0: gradients averaged with those of neighbours, and Adam."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of further terms of the loss relative to silhouettes, by the names of their options."""
    turn: tuple[float, float] = (0.0, 0.0)
    """Learning rate of the rotations of poses, in radians; 0: fixed."""
    shift: tuple[float, float] = (0.0, 0.0)
    """Learning rate of the translations of poses, in radii of the scene."""
    faces: int = 0
    """Most faces of the round, which the mesh is remeshed to at its start; 0: the start mesh, subdivided."""
    remesh: int = 0
    """Number of steps between two remeshings within the round, a multiple of ten; 0: none."""
    opens: bool = False
    """Whether holes that pictures see through are opened in the mesh after the round."""
    adjusts: bool = False
    """Whether shape and poses are adjusted together after the round, by colours and outlines (``bundle``)."""

    @property
    def moves(self) -> bool:
        """Whether poses are learned."""
        return self.turn[0] > 0 or self.shift[0] > 0


# What a person may change while a fit runs: factors that are data of its graphs, 1 unless they are moved.


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors on a round's learning rates, its radius of HardSoftRas, and its smoothness and colour terms:
    numbers that are part of its graph, or FLOAT leaves of one texel that ``Controls`` sends."""

    rate: Number = 1.0
    radius: Number = 1.0
    smoothness: Number = 1.0
    colour: Number = 1.0


UNCHANGED = Factors()
RANGES = {"rate": (0.05, 5.0), "radius": (0.25, 4.0), "smoothness": (0.02, 50.0), "colour": (0.02, 50.0)}
"""The least and the largest value of each factor."""


@dataclass(eq=False)
class Controls:
    """The factors of a fit as leaves, and their present values, which go to the engine of the present round.

    changes: (steps of the fit so far, name, value) of everything that was set, for the report.

    >>> from dressi.render.fit.graphs.term import Controls
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
        """Send the present values of the factors that a round reads to its engine."""
        for name in names:
            engine.send(self.leaves[name], np.full((1, 1, 1), self.values[name]))
