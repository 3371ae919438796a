"""Shared by the forms that draw edges: the nearest edge at every pixel, the distance to it, and the face there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.draws.fragment import Fragment
from ...surface.screen import (
    Corners,
    DrawnMesh,
    covered,
    culling,
    pixel_centres,
)
from .edge_list import HIDDEN, OUTWARD, EdgeList, edge_quads
from .point_distance import edge_distance, place_on, point_distance
from .sides import EdgeFront, ends_of, seen_ends


class NearestPoint(NamedTuple):
    """The nearest point of all drawn edges, at every pixel within the radius of one."""

    edge: Variable
    """INT: the edge, -1 for none. No derivative."""
    found: Variable
    """FLOAT mask: an edge was found."""
    ends: Variable
    """IVEC2: the two vertices of the edge, -1 for none."""
    place: Variable
    """FLOAT in [0, 1]: position of the point along the visible part of the edge, on the screen; differentiable."""
    point: Variable
    """VEC2: the point on the screen; differentiable."""
    distance: Variable
    """FLOAT: distance from the pixel centre to the point, in image heights; differentiable. Undefined without an edge."""
    copies: Variable | None = None
    """IVEC2: the vertices that the other face at the edge has at ``ends``, if these are others (``EdgeList.joints``)."""


def rasterize_edges(
    mesh: DrawnMesh, edges: EdgeList, sides: Variable, reach: Variable, fragment: Fragment
) -> Variable:
    """INT: the edge of the winning fragment at each pixel, -1 for none. Draws the edges whose ``sides`` are not HIDDEN; their
    fragments cover all points within ``reach`` (FLOAT 1x1, image heights)."""
    quads = edge_quads(reach, seen_ends(mesh, edges), sides, edges.count, mesh.size)
    return F.rasterize(
        quads,
        size=mesh.size,
        triangles=2 * edges.count,
        triangles_per_face=2,
        live=F.not_equal(sides, HIDDEN),
        fragment=fragment,
        disjoint=True,
    )


def draw_edges(
    mesh: DrawnMesh,
    edges: EdgeList,
    sides: Variable,
    radius: Variable,
    counts: Callable[[Variable, Variable], Variable],
) -> NearestPoint:
    """The nearest of the edges whose ``sides`` are not HIDDEN, within the radius.

    counts(ends, edge): FLOAT mask, whether edge number ``edge``, with its ends (a, b) on the screen, counts at the pixel.
    """
    size, ends = mesh.size, seen_ends(mesh, edges)

    def fragment(edge: Variable) -> tuple[Variable, Variable]:
        own = F.lookup(ends, edge)
        away = edge_distance(size, own)
        return away, F.logical_and(counts(own, edge), F.less_equal(away, radius))

    nearest = rasterize_edges(mesh, edges, sides, radius + OUTWARD / size[1], fragment)
    pair, at = ends_of(mesh, edges, nearest)
    a, b = at.xy, at.zw
    centres = pixel_centres(size)
    place = place_on(centres, a, b)
    point, away = F.mix(a, b, place), point_distance(centres, a, b, place)
    copies = None
    if edges.joints is not None:
        other = F.lookup(edges.joints, nearest)
        copies = F.select(F.logical_and(covered(nearest), F.not_equal(other.z, 0)), other.xy, pair)
    return NearestPoint(nearest, covered(nearest), pair, place, point, away, copies)


def face_beside(mesh: DrawnMesh, edges: EdgeList, near: NearestPoint) -> Variable:
    """INT: the number of the face in front beside the nearest edge, -1 without an edge."""
    lists = edges.list, seen_ends(mesh, edges), edges.around, edges.faces
    front = EdgeFront(*lists, mesh.points.vertex, culling(mesh.cull)).output
    return F.select(near.found, F.lookup(front, near.edge), -1)


def weights_on_edge(mesh: DrawnMesh, near: NearestPoint, at: Corners) -> Variable:
    """VEC3: perspective-correct weights of the corners ``at`` of a face at the nearest point of one of its edges.
    Differentiable in position."""
    a, b = (F.lookup(mesh.position, F.component(near.ends, i)) for i in range(2))
    (w, moved), (other, back) = _reached(a, b), _reached(b, a)
    # Weights divided by w are linear on the screen.
    start, end = (1.0 - near.place) * other, near.place * w
    total = start + end
    end = F.select(F.greater(total, 0.0), end / total, 0.0)
    end = moved + end * (1.0 - moved - back)  # along the whole edge

    def is_end(corner: Variable, i: int) -> Variable:
        own, *others = (F.component(e, i) for e in (near.ends, near.copies) if e is not None)
        return (
            F.equal(corner, own)
            if not others
            else F.logical_or(F.equal(corner, own), F.equal(corner, others[0]))
        )

    def weight(corner: Variable) -> Variable:
        return F.select(is_end(corner, 0), 1.0 - end, F.select(is_end(corner, 1), end, 0.0))

    # A face that uses a vertex twice is a line; each vertex counts once.
    first, second, third = at
    again = (F.equal(second, first), F.logical_or(F.equal(third, first), F.equal(third, second)))
    rest = [F.select(known, 0.0, weight(c)) for known, c in zip(again, at[1:], strict=True)]
    return F.select(near.found, F.vec3(weight(first), *rest), 0.0)


def _reached(a: Variable, b: Variable) -> tuple[Variable, Variable]:
    """w of the end a after clipping at the near or the far plane, and how far clipping moved it toward b, as a fraction of the
    edge."""
    far = F.greater(a.z, a.w)
    outside, other = (
        F.select(far, v.w - v.z, v.z) for v in (a, b)
    )  # how far inside of the plane, below 0 beyond it
    cut = F.logical_and(F.less(outside, 0.0), F.greater_equal(other, 0.0))
    moved = F.select(cut, outside / F.select(cut, outside - other, 1.0), 0.0)
    return a.w + moved * (b.w - a.w), moved
