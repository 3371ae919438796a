"""The silhouette form of HardSoftRas: soft on both sides of the outline, in one layer.

    coverage = sigmoid(d / sigma)   within r of the outline, d positive over the mesh,
               1 or 0               elsewhere, as the mesh covers the centre of the pixel.

d: signed distance of the pixel centre to the nearest edge of the outline, in image heights, as r. Unlike in the outer
form the edges of the outline have to be told from contours inside of it and from hidden ones: an edge counts when the
hard raster covers nothing three quarters of a pixel beyond its nearest point, and what it covers agrees with the sign
(``OutlineDistance``).

An option where a margin on both sides is wanted: covered pixels have a gradient here, and holes can open. Its
limits: that test is one of single pixels, so the picture jumps where contours meet and where an edge becomes or stops
being part of the outline, and the derivative does not know of the jumps. It is that of the picture drawn again, within a few
percent, for shapes without contours inside of their outline; with them it may be half of it. Parts thinner than a pixel
and gaps narrower than one have no outline. Drivers that place corners on a coarse grid see slightly other outlines.
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
