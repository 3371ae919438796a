"""Several meshes in one picture: one list of positions and one of faces, drawn together and ordered by one depth.

A part is a mesh at a place: a list of vertices, its faces, and a matrix that carries it into the world. Parts that share
a list of vertices are instances of one mesh: the gradient by that list is the sum of theirs.

    scene = join([Part(body, body_faces), Part(wheel, wheel_faces), Part(wheel, wheel_faces)], matrices)
    drawn = hard_soft_ras(scene.to_clip(views), scene.faces, size=size, radius=0.02, face_count=scene.face_count)
    colour = scene.of_part(colours, drawn.surfaces[0].face)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import INT, IVEC3, MAT4, VEC3, list_size
from ...errors import InputError
from ..lists import as_list, list_leaf
from .projection import LARGEST


class Part(NamedTuple):
    """A mesh in a scene.

    >>> Part(list_leaf("positions", VEC3, np.eye(3)), np.array([[0, 1, 2]])).faces.tolist()
    [[0, 1, 2]]
    """

    position: Variable
    """VEC3 list, batch 1: vertices in coordinates of the part's own."""
    faces: np.ndarray
    """(F, 3): numbers of its vertices."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Parts joined by ``join``. Vertices and faces are numbered part by part, in their order.

    >>> cube = primitives.cube()
    >>> join([Part(cube.positions, cube.faces), Part(cube.positions + 3, cube.faces)]).face_start
    (0, 12, 24)
    """

    parts: tuple[Part, ...]
    position: Variable
    """VEC3 list: all vertices in the world, batch of the matrices; zeros for NaN or infinite ones. Differentiable in
    the positions and matrices of the parts."""
    there: Variable
    """FLOAT list mask like ``position``: the vertex is finite. No derivative."""
    faces: Variable
    """IVEC3 list: all faces, with data."""
    face_count: int
    face_part: Variable
    """INT list like ``faces``: the number of the part that each face belongs to."""
    vertex_start: tuple[int, ...]
    """The first vertex of each part, and at the end how many there are."""
    face_start: tuple[int, ...]
    """The first face of each part, and at the end how many there are."""

    def to_clip(self, views: Variable) -> Variable:
        """VEC4 list, batch N: clip positions in N views, zeros for dropped vertices.

        views: MAT4 1x1, batch N (world to clip). Differentiable in views and whatever ``position`` is.
        """
        batch = max(views.batch, self.position.batch)
        place = F.vec4(self.position, 1.0)
        clip = F.matmul(views, place if place.batch == batch else F.expand(place, batch))
        return F.select(self.there, clip, 0.0)

    def part(self, face: Variable) -> Variable:
        """INT: the number of the part that each face of an image belongs to, -1 for none."""
        return F.select(F.less(face, 0), -1, F.lookup(self.face_part, face))

    def of_part(self, table: Variable, face: Variable) -> Variable:
        """The entry of ``table`` (a list of FLOAT or vectors, one entry a part) for the part at each pixel, 0 for none.

        face: INT image of faces.  Differentiable in the table.
        """
        return F.lookup(table, self.part(face))

    def attribute(self, tables: Sequence[Variable]) -> Variable:
        """One list of an attribute of all vertices, from one list a part; differentiable. Raises InputError."""
        if len(tables) != len(self.parts):
            raise InputError(f"{len(self.parts)} parts need a list of the attribute each, not {len(tables)}")
        return _joined(tables, self.vertex_start)


def join(parts: Sequence[Part], matrices: Variable | None = None) -> Scene:
    """The parts as one mesh.

    matrices: MAT4 list, one entry a part (its own coordinates to the world), batch 1 or N; none for all in the world
    already. Differentiable in the positions, each instance adding to those it shares, and in the matrices. Raises
    InputError when there is no part, when a list, a face or the matrices do not fit.

    >>> cube = primitives.cube()
    >>> join([Part(cube.positions, cube.faces)]).face_count
    12
    """
    parts = tuple(parts)
    for k, part in enumerate(parts):
        if not isinstance(part, tuple):
            raise InputError(
                f"part {k} of a scene is a Part(positions, faces), not {type(part).__name__}; of a mesh join"
                " Part(mesh.positions, mesh.faces), and give its colours, uvs and material to render()"
            )
    parts = tuple(
        Part(
            p.position if isinstance(p.position, Variable) else as_list("positions", VEC3, p.position),
            np.asarray(p.faces),
        )
        for p in parts
    )
    if not parts:
        raise InputError("a scene needs at least one part")
    for k, part in enumerate(parts):
        _check(k, part)
    if matrices is not None and (matrices.vtype is not MAT4 or matrices.size != list_size(len(parts))):
        raise InputError(f"{len(parts)} parts need a MAT4 list of as many matrices, not {matrices}")
    vertices = np.cumsum([0] + [int(p.faces.max()) + 1 for p in parts])
    counts = np.array([len(p.faces) for p in parts])
    own = _joined([p.position for p in parts], tuple(vertices.tolist()))
    there = F.less(F.sum_components(F.abs(own)), LARGEST)
    # A matrix times NaN would spoil the gradient by the matrix.
    own = F.select(there, own, 0.0)
    if matrices is not None:
        part = list_leaf("part of each vertex", INT, np.repeat(np.arange(len(parts)), np.diff(vertices)))
        place = F.vec4(own, 1.0)
        if matrices.batch > 1:
            place = F.expand(place, matrices.batch)
        own = F.matmul(F.lookup(matrices, part), place).xyz
    faces = np.concatenate([p.faces + start for p, start in zip(parts, vertices, strict=False)])
    return Scene(
        parts,
        own,
        there,
        list_leaf("faces", IVEC3, faces),
        len(faces),
        list_leaf("part of each face", INT, np.repeat(np.arange(len(parts)), counts)),
        tuple(vertices.tolist()),
        tuple(np.cumsum([0, *counts]).tolist()),
    )


def _check(k: int, part: Part) -> None:
    position, faces = part
    if position.vtype is not VEC3 or position.batch != 1:
        raise InputError(f"positions of part {k} are a VEC3 list of batch 1, not {position}")
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0 or faces.dtype.kind not in "iu":
        raise InputError(f"faces of part {k} are numbers (F, 3) of at least one triangle, not {faces.shape}")
    held = position.size[0] * position.size[1]
    if faces.min() < 0 or faces.max() >= held:
        raise InputError(f"faces of part {k} use vertices {faces.min()} to {faces.max()} of {held}")


def _joined(tables: Sequence[Variable], start: tuple[int, ...]) -> Variable:
    """Lists one after the other. One that is used by several parts is read once: its gradient is one sum."""
    total = None
    for table in dict.fromkeys(tables):
        index = np.full(start[-1], -1)
        for k, other in enumerate(tables):
            if other is table:
                index[start[k] : start[k + 1]] = np.arange(start[k + 1] - start[k])
        # Padding at the end of the last row reads nothing.
        width, height = list_size(len(index))
        padded = np.full(width * height, -1)
        padded[: len(index)] = index
        numbers = Variable(
            INT, (width, height), name="vertices of parts", data=padded.reshape(1, height, width)
        )
        values = F.lookup(table, numbers)
        total = values if total is None else total + values
    assert total is not None
    return total
