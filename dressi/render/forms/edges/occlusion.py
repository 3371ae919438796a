"""Which edges lie in front of the surface that a pixel shows: planes of faces and depths of edges.

No result has a derivative. They choose an edge; from that choice is computed whatever depends smoothly on the vertices.
"""

from __future__ import annotations

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.transform.fused import fused
from ....ad.types import Size
from ...surface.screen import DrawnMesh, pixel_centres
from .edge_list import EdgeList
from .point_distance import place_on

SLACK = 0.1
"""Pixels. An edge counts up to this far on the side of its mesh: Vulkan lets drivers round corners to a grid of 1/16."""
TOLERANCE = 2e-6
"""Relative rounding error of depths in single precision. An edge that is this little in front does not count."""


def face_planes(faces: Variable, vertex: Variable) -> Variable:
    """VEC3 list like ``faces`` (IVEC3): the plane of each face on the screen.  vertex: ``Projected.vertex``.

    The plane (u, v, c) has the depth u x + v y + c at (x, y), also beyond the face, because z / w is affine on the screen.
    Zeros for a face that is seen edge-on: nothing lies in front of it.
    """
    return _plane(*(F.lookup(vertex, F.component(faces, i)) for i in range(3)))


@fused
def _plane(a: Variable, b: Variable, c: Variable) -> Variable:
    # Relative to a corner, differences of depths keep their precision.
    normal = F.cross(b.xyz - a.xyz, c.xyz - a.xyz)
    slope = -normal.xy / _nonzero(normal.z)
    near = F.select(F.not_equal(normal.z, 0.0), F.vec3(slope, a.z - F.dot(slope, a.xy)), 0.0)
    # Corners in front of the near plane are homogeneous.
    rows = [F.vec3(v.xy, F.select(F.less(v.z, 0.0), v.w, 1.0)) for v in (a, b, c)]
    sides = [F.cross(rows[k - 2], rows[k - 1]) for k in range(3)]
    area = F.dot(rows[0], sides[0])
    cut = (sides[0] * a.z + sides[1] * b.z + sides[2] * c.z) / _nonzero(area)
    cut = F.select(F.not_equal(area, 0.0), cut, 0.0)
    return F.select(F.less(F.minimum(F.minimum(a.z, b.z), c.z), 0.0), cut, near)


def _nonzero(x: Variable) -> Variable:
    return F.select(F.not_equal(x, 0.0), x, 1.0)


def depth_at(plane: Variable, point: Variable) -> Variable:
    """FLOAT: the depth of a plane (``face_planes``) at a place on the screen, VEC2."""
    return F.dot(plane.xy, point) + plane.z


def edge_depths(mesh: DrawnMesh, edges: EdgeList, sides: Variable) -> Variable:
    """VEC3 list like ``edges.list``: the depths of the two ends, 0 for one nearer than the near plane, 1 for one beyond the far
    plane, and the side of the mesh (``edge_sides``). No derivative."""
    a, b = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(2))
    return F.vec3(F.clamp(a.z), F.clamp(b.z), F.to_float(sides))


def in_front(size: Size, face: Variable, planes: Variable, ends: Variable, depths: Variable) -> Variable:
    """FLOAT mask: whether the edge from ``ends.xy`` to ``ends.zw`` counts at the pixels of an image of ``size``.

    face: INT, the nearest face at the pixel, -1 for none.  planes: ``face_planes``.  depths: VEC3, ``edge_depths``.  Let q
    be the nearest point of the edge. The edge counts if its depth at q is less than that of the plane of the face there,
    and the pixel lies on the side of the edge where the mesh is not, or at most SLACK pixels on the other. Over the
    background every edge counts.
    """
    p, side, plane = pixel_centres(size), depths.z, F.lookup(planes, face)
    along, offset = ends.zw - ends.xy, p - ends.xy
    across = (along.y * offset.x - along.x * offset.y) * side
    inside = F.logical_and(F.equal(F.abs(side), 1.0), F.greater(across, F.length(along) * (SLACK / size[1])))
    place = place_on(p, ends.xy, ends.zw)
    behind = depth_at(plane, F.mix(ends.xy, ends.zw, place)) - F.sum_components(F.abs(plane)) * TOLERANCE
    counts = F.logical_and(F.logical_not(inside), F.less(F.mix(depths.x, depths.y, place), behind))
    return F.logical_or(F.less(face, 0), counts)
