"""The lists of a mesh that a round of the shape phase optimises: for one topology, or with room for others.

With room, the counts of faces and vertices are data like the lists themselves, so that a remeshed mesh needs no new build.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad.graph import Variable
from ....ad.optim.schedules import Number
from ....ad.types import FLOAT, IVEC3, VEC3, list_image
from ...forms.edges.edge_list import EdgeList, edge_list, with_room
from ...lists import list_leaf, padded
from ...mesh import Mesh
from ...objectives.regularizers import Adjacency, adjacency, laplacian_loss
from ...objectives.sparse import Room

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
        """FLOAT 1x1: the squared Laplacian of a list of vertices times a weight, scaled so that the same shape has the same
        value at every subdivision."""
        return laplacian_loss(moved, self.neighbours) * (weight * self.vertices**2)


class SpareLists(Lists):
    """Lists for closed meshes of at most ``faces`` faces. Faces in excess have no area and are not drawn; vertices in excess
    have no faces and get no gradient."""

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
        """What to send for another mesh, by leaf, but for its positions. Raises InputError where there is no room."""
        found = {self.face_list: list_image(padded(mesh.faces, self.faces)), self.used: self._used(mesh)}
        edges = self.edges.data(self._edges(mesh))
        return {**found, **edges, **self.neighbours.data(self._neighbours(mesh))}

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
