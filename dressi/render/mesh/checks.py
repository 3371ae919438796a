"""Defects of a mesh as a surface: inverted faces and self-intersections."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .mesh import Mesh
from .queries import crossings, overlapping_boxes, projected_areas

_LEAN = np.array([[0.9341, 0.2785, 0.2232], [-0.3357, 0.8993, 0.2805], [-0.1226, -0.3370, 0.9335]])
"""A rotation that no mesh is aligned with, so that rays along its last axis hardly ever hit an edge."""


@dataclass(frozen=True)
class SurfaceReport:
    """faces: their number.  closed: every edge has two faces with consistent orientation.  handles: of all
    components together, 0 for spheres and 1 for a torus; None for a mesh that is not closed.

    volume: signed, in cubes of the mesh's unit; positive when normals point outward.  inside_out: number of
    faces whose back is seen from outside; None for a mesh that is not closed.  self_intersecting: share in
    [0, 1] of faces that another face cuts or touches, other than along edges and vertices that they share.

    >>> from dressi.render.mesh.primitives import cube
    >>> report = check_surface(cube())
    >>> report.closed, report.handles, report.volume
    (True, 0, 8.0)
    """

    faces: int
    closed: bool
    handles: int | None
    volume: float
    inside_out: int | None
    self_intersecting: float

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)


def check_surface(mesh: Mesh) -> SurfaceReport:
    """All checks of a mesh.

    >>> from dressi.render.mesh.primitives import torus
    >>> check_surface(torus(8, 6)).handles
    1
    """
    closed = mesh.is_closed()
    pairs = intersecting_faces(mesh)
    return SurfaceReport(
        faces=len(mesh.faces),
        closed=closed,
        handles=int(mesh.parts().max()) + 1 - mesh.euler_characteristic() // 2 if closed else None,
        volume=float(mesh.signed_volume()),
        inside_out=int((winding_in_front(mesh) < 0).sum()) if closed else None,
        self_intersecting=len(np.unique(pairs)) / len(mesh.faces),
    )


def winding_in_front(mesh: Mesh) -> np.ndarray:
    """(F,) winding number of a closed surface around a point just in front of each face's centre.

    0 is outside: the face is correctly oriented. 1 or more is inside another part of the surface; below 0
    this part is inside out. Counted along a ray, +1 where it leaves the surface and -1 where it enters.
    """
    corners = mesh.positions[mesh.faces] @ _LEAN.T
    middle = corners.mean(1)
    line, face, height, turn = crossings(middle[:, :2], corners)
    beyond = np.zeros(len(corners), dtype=np.int64)
    ahead = (line != face) & (height > middle[line, 2])
    np.add.at(beyond, line[ahead], turn[ahead])
    # The ray starts in front of a face whose normal points along it, else behind the face, where the number
    # is one more.
    return beyond - (projected_areas(corners) < 0)


def intersecting_faces(mesh: Mesh, among: np.ndarray | None = None) -> np.ndarray:
    """(P, 2) pairs of faces that cut or touch each other, other than along edges and vertices that they
    share; of which one is ``among`` (F,) bool, if given.

    Two faces meet where an edge of one meets the other. The signs of the deciding volumes are exact: those
    that rounding could change are recomputed in rational numbers. Faces of one plane are not compared.
    """
    corners = mesh.positions[mesh.faces]
    pairs = overlapping_boxes(corners.min(1), corners.max(1), among)
    shared = (mesh.faces[pairs[:, 0], :, None] == mesh.faces[pairs[:, 1], None, :]).sum((1, 2))
    pairs = pairs[shared < 2]
    meet = np.zeros(len(pairs), dtype=bool)
    for first, second in ((0, 1), (1, 0)):
        triangle = mesh.faces[pairs[:, second]]
        for k in range(3):
            edge = mesh.faces[pairs[:, first]][:, [k, (k + 1) % 3]]
            # An edge that ends in a shared vertex meets the other face there, and again only in its plane.
            apart = (edge[:, :, None] != triangle[:, None, :]).all((1, 2))
            todo = np.nonzero(apart & ~meet)[0]
            meet[todo] = _edge_meets(mesh.positions, edge[todo], triangle[todo])
    return pairs[meet]


def _edge_meets(positions: np.ndarray, edge: np.ndarray, triangle: np.ndarray) -> np.ndarray:
    """(P,) bool: edges (P, 2) meet triangles (P, 3), borders included, unless they lie in their plane."""
    a, b, c = triangle.T
    p, q = edge.T
    low, high = (_side(positions, np.stack([a, b, c, end], axis=1)) for end in (p, q))
    meets = (low * high <= 0) & (low != high)
    rows = np.nonzero(meets)[0]
    turns = [_side(positions, np.stack([p, q, x, y], axis=1)[rows]) for x, y in ((a, b), (b, c), (c, a))]
    meets[rows] = (np.min(turns, axis=0) >= 0) | (np.max(turns, axis=0) <= 0)
    return meets


def _side(positions: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(P,) exact signs of the volumes of the tetrahedra points (P, 4)."""
    a, b, c, d = (positions[points[:, k]] for k in range(4))
    u, v, w = a - d, b - d, c - d
    volume = np.einsum("pi,pi->p", u, np.cross(v, w))
    # Shewchuk (1997), orient3d: the error is below 7.8e-16 times the sum of the absolute products.
    y, z = np.abs(v), np.abs(w)
    products = y[:, [1, 2, 0]] * z[:, [2, 0, 1]] + y[:, [2, 0, 1]] * z[:, [1, 2, 0]]
    size = np.einsum("pi,pi->p", np.abs(u), products)
    sign = np.sign(volume).astype(np.int64)
    for i in np.nonzero(np.abs(volume) <= 1e-15 * size)[0]:
        sign[i] = _exact_side(positions[points[i]])
    return sign


def _exact_side(points: np.ndarray) -> int:
    a, b, c, d = np.array([[Fraction(float(x)) for x in point] for point in points])
    # The cross product of NumPy is exact in rational numbers, too.
    volume = (a - d) @ np.cross(b - d, c - d)
    return (volume > 0) - (volume < 0)
