"""Normals of faces and of vertices."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import IVEC3, VEC3
from ..lists import as_list
from .screen import Corners


def flat_normal(position: Variable, at: Corners) -> Variable:
    """VEC3: unit normal of the face at each pixel, outward for counter-clockwise corners; 0 where there is none.

    position: VEC3 list. Differentiable in position.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> flat_normal(Variable.of(np.eye(3), VEC3), at).shape
    (1, 32, 32, 3)
    """
    a, b, c = (F.lookup(position, index) for index in at)
    return F.normalize(F.cross(b - a, c - a))


def vertex_normals(position: Variable, faces: Variable) -> Variable:
    """VEC3 list like ``position``: unit normals, the faces around a vertex weighted by their areas.

    position: VEC3 list.  faces: IVEC3 list. Vertices without faces get 0. Differentiable in position.

    >>> cube = primitives.cube()
    >>> vertex_normals(cube.positions, cube.faces).shape
    (1, 1, 8, 3)
    """
    position, faces = as_list("positions", VEC3, position), as_list("faces", IVEC3, faces)
    numbers = [F.component(faces, i) for i in range(3)]
    a, b, c = (F.lookup(position, index) for index in numbers)
    # Entries that fill up the list are (0, 0, 0): their cross product is 0.
    normal = F.cross(b - a, c - a)
    parts = [F.scatter_add(normal, index, position.size, position.batch) for index in numbers]
    return F.normalize(parts[0] + parts[1] + parts[2])
