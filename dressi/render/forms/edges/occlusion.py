"""Which edges lie in front of the surface that a pixel shows: planes of faces, and distances to the edges in front.

None of the Functions has a derivative. They choose an edge; ordinary Functions compute from that choice whatever depends
smoothly on the vertices.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.types import FLOAT, INT, VEC3, VEC4, Access
from ...lists import at_points, read_list
from ...surface.screen import DrawnMesh, Faces, common_batch, face_cross
from .edge_list import BEYOND, EdgeList
from .point_distance import squared_distance

SLACK = 0.1
"""Pixels. An edge counts up to this far on the side of its mesh: Vulkan lets drivers round corners to a grid of 1/16."""
TOLERANCE = 2e-6
"""Relative rounding error of depths in single precision. An edge that is this little in front does not count."""


class FacePlanes(Faces):
    """Inputs (faces IVEC3 list, vertex VEC4 list): VEC3 list like ``faces``, the plane of each face on the screen.

    The plane (u, v, c) has the depth u x + v y + c at (x, y), also beyond the face, because z / w is affine on the screen.
    Zeros for a face that is seen edge-on: nothing lies in front of it.
    """

    operations, fetches = 90.0, 3.0
    no_derivative = (
        "only tells what lies in front; the depth of a surface is an attribute that is interpolated"
    )
    includes = ("face.glsl", "occlusion.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        return VEC3, Domain(faces.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        return f"ivec3 f = $0;\n$y = face_plane({self.fetch_corners('f', 0, 1)});"

    def evaluate(self, at, faces, vertex):
        tile = at_points(at)[2]
        v = np.stack([read_list(vertex, tile, np.broadcast_to(faces[..., i], tile.shape)) for i in range(3)])
        weight = np.where(v[..., 2] < 0, v[..., 3], 1.0)
        x, y, z = v[..., 0], v[..., 1], v[..., 2]
        rows = np.stack([x, y, weight], axis=-1)
        sides = [np.cross(rows[(k + 1) % 3], rows[(k + 2) % 3]) for k in range(3)]
        plane = sum(z[k][..., None] * sides[k] for k in range(3))
        area = (rows[0] * sides[0]).sum(-1)[..., None]
        with np.errstate(all="ignore"):
            found = plane / area
        return np.where(np.isfinite(found).all(-1, keepdims=True) & (area != 0), found, 0.0)


def edge_depths(mesh: DrawnMesh, edges: EdgeList, sides: Variable) -> Variable:
    """VEC3 list like ``edges.list``: the depths of the two ends, 0 for one nearer than the near plane, and the side of the
    mesh (``EdgeSides``). No derivative."""
    a, b = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(2))
    return F.vec3(F.maximum(a.z, 0.0), F.maximum(b.z, 0.0), F.to_float(sides))


class OccludingDistance(PixelFunction):
    """Inputs (face INT, planes VEC3 list, ends VEC4, depths VEC3): distance of the pixel centre to the edge from ``ends.xy``
    to ``ends.zw``, in image heights, and BEYOND where the edge does not count.

    face: the nearest face at the pixel, -1 for none.  planes: ``FacePlanes``.  depths: ``edge_depths``.  Let q be the
    nearest point of the edge. The edge counts if its depth at q is less than that of the plane of the face there, and
    the pixel lies on the side of the edge where the mesh is not, or at most SLACK pixels on the other. Over the background
    every edge counts.
    """

    operations, fetches = 70.0, 1.0
    no_derivative = "chooses an edge; compute the distance from the ends of the edge chosen"
    includes = ("face.glsl", "occlusion.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.SAME_PIXEL, Access.SAME_PIXEL)

    def infer(self):
        if [x.vtype for x in self.inputs] != [INT, VEC3, VEC4, VEC3]:
            raise self.fail("needs an INT face, VEC3 planes of faces, VEC4 ends of an edge and VEC3 depths")
        return FLOAT, Domain(self.inputs[0].size, common_batch(self))

    glsl = (
        "vec2 p = (vec2(pixel) + 0.5) / float($size.y);\n"
        "int face = $0;\n"
        f"$y = face < 0 || edge_in_front(p, $2, $3, $1(face_texel(face, $size1), tile), {SLACK} / float($size.y),"
        f" {TOLERANCE}) ? sqrt(face_edge(p, $2.xy, $2.zw)) : {BEYOND};"
    )

    def evaluate(self, at, face, planes, ends, depths):
        x, y, tile = at_points(at)
        height = self.output.size[1]
        p = (np.stack([x, y], axis=-1) + 0.5) / height
        a, b, side = ends[..., :2], ends[..., 2:], depths[..., 2]
        face = np.broadcast_to(face, x.shape)
        plane = read_list(planes, tile, face)
        u, q = b - a, p - a
        t = (q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
        t = np.clip(t, 0, 1)
        inside = face_cross(u, q) * side > SLACK / height * np.linalg.norm(u, axis=-1)
        inside &= np.abs(side) == 1
        own = (1 - t) * depths[..., 0] + t * depths[..., 1]
        behind = (plane[..., :2] * (a + t[..., None] * u)).sum(-1) + plane[..., 2]
        counts = ~inside & (own < behind - TOLERANCE * np.abs(plane).sum(-1))
        away = np.sqrt(squared_distance(p, a, b))
        return np.where((face < 0) | counts, away, BEYOND)
