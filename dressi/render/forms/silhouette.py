"""The silhouette form of HardSoftRas: soft on both sides of the outline, in one layer.

    coverage = sigmoid(d / sigma)   within r of the outline, d positive over the mesh,
               1 or 0               elsewhere, as the mesh covers the centre of the pixel.

d: signed distance from the pixel centre to the nearest edge of the outline, in image heights like r. Unlike the outer
form, this one must tell the outline from inner contours and hidden edges: an edge counts if the hard raster covers nothing
0.75 pixel beyond its nearest point, and the coverage agrees with the sign (``OutlineDistance``).

Use it where a margin on both sides is needed: covered pixels have a gradient, and holes can open. Its limits: the test
reads single pixels, so the picture jumps where contours meet and where an edge becomes or stops being part of the outline,
and the derivative ignores the jumps. For shapes without inner contours it agrees with finite differences of the rendered
loss within a few percent; with inner contours it may be half of them. Parts and gaps thinner than a pixel have no outline.
Drivers that round corners to a coarse grid give slightly different outlines.
"""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ..surface.screen import DrawnMesh, covered
from .edges.around_edges import EdgeSilhouette, draw_edges
from .edges.edge_list import HIDDEN, EdgeList, OutlineDistance, edges_of
from .edges.sides import edge_sides, seen_ends
from .form import Form, fraction
from .soft_target import band


def silhouette_form(
    mesh: DrawnMesh, radius: Variable, *, sigma: Like | None = None, edges: EdgeList | None = None
) -> EdgeSilhouette:
    """The silhouette of a mesh, soft on both sides of its outline; definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height in (0, 1).  sigma: softness, by default radius / 7.  edges:
    ``edge_list`` of the faces drawn, by default made of their data.  Differentiable in position through the ends of the
    nearest edge, and in sigma. Raises InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    softness = radius * (1 / 7) if sigma is None else fraction("sigma", sigma)
    face = mesh.face
    sides = edge_sides(mesh, edges)
    on_both = F.select(F.equal(sides, HIDDEN), sides, 0)

    def signed(ends: Variable, edge: Variable) -> Variable:
        return OutlineDistance(face, ends, F.lookup(sides, edge)).output

    near = draw_edges(mesh, edges, on_both, radius, lambda ends, edge: F.abs(signed(ends, edge)))
    ends = F.lookup(seen_ends(mesh, edges), near.edge)
    inside = F.greater(signed(ends, near.edge), 0.0)
    hard = covered(face)
    soft = band(F.select(inside, near.distance, -near.distance), radius, softness)
    return EdgeSilhouette(hard, F.select(near.found, soft, hard), mesh, edges, face, near)


def silhouette_target(distance: Variable, radius: Like, layers: int) -> Variable:
    """FLOAT: the coverage above at the default sigma, from the signed distance to the outline (positive inside)."""
    return band(distance, radius, F.mul(radius, 1 / 7))


SILHOUETTE = Form("silhouette", silhouette_form, silhouette_target)
