"""The outer form of HardSoftRas: hard inside, a soft margin outside of the outline.

    coverage = 1              where the mesh covers the centre of the pixel,
               f(d / r)       outside, within r of the outline: f(x) = (1 - x)^2,
               0              elsewhere,

d: distance of the pixel centre to the nearest edge that may be a silhouette, in image heights, as r. Seen from
outside, the nearest point of any such edge lies on the visible outline by itself: a hidden part can only be reached
across the outline. So nothing has to be tested for visibility, any superset of the silhouettes gives the same image,
and because the distance to a region is continuous in the region, coverage outside never jumps: not where contours
meet, nor where an edge becomes a silhouette. f is 0 with its slope at r; a cut there would be a jump.

Drivers disagree about centres on the very outline, and a centre that is covered a little early would jump to 1. So
distances below a twentieth of a pixel count as 0, and those up to a tenth make up for it, growing twice as fast:
whatever the driver covers, the image is the same.

Pixels that are covered carry no gradient: a hole that has to open needs another signal. The reach is about 2 r; with
more between mesh and target, start with a larger radius and shrink it, it is data. What the border of the image cuts
off the soft margin pushes the mesh outward: draw ``with_margin`` of r where the target comes near. Faces and edges that
reach in front of the near plane are clipped, and gradients pass through the points where they meet it. The line along
which the plane cuts a face is no edge: where it is in view the picture ends there without a margin.
"""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ..surface.screen import DrawnMesh, covered
from .edges.around_edges import EdgeSilhouette, draw_edges
from .edges.edge_list import EdgeDistance, EdgeList, edges_of
from .edges.sides import edge_sides
from .form import Form
from .soft_target import falloff

GRID = 0.1
"""In pixels. Vulkan lets a driver round corners to a grid of 1/16 pixel, by which outlines move by up to 0.045 pixel."""


def outer_form(mesh: DrawnMesh, radius: Variable, *, edges: EdgeList | None = None) -> EdgeSilhouette:
    """The silhouette of a mesh with a soft margin outside; definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height in (0, 1).  edges: ``edge_list`` of the faces drawn, by default
    made of their data.  Differentiable in position through the ends of the nearest edge, and in the radius. Raises
    InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    return around_edges(mesh, mesh.face, edges, edge_sides(mesh, edges), radius)


def around_edges(
    mesh: DrawnMesh, face: Variable, edges: EdgeList, sides: Variable, radius: Variable
) -> EdgeSilhouette:
    """The outer form around the edges whose ``sides`` are not HIDDEN, with ``face`` as the hard picture."""
    near = draw_edges(mesh, edges, sides, radius, lambda ends, _: EdgeDistance(face, ends).output)
    hard = covered(face)
    # Whether a driver covers a pixel this near or leaves it out, it is 1: no jump where its coverage ends.
    away = F.minimum(near.distance, F.maximum(2.0 * near.distance - GRID / mesh.size[1], 0.0))
    soft = F.select(near.found, falloff(away, radius), 0.0)
    return EdgeSilhouette(hard, F.select(hard, 1.0, soft), mesh, edges, face, near)


def outer_target(distance: Variable, radius: Like, layers: int) -> Variable:
    """FLOAT: the coverage above, from the signed distance to the outline (positive inside). Differentiable in both."""
    return falloff(F.maximum(-distance, 0.0), radius)


OUTER = Form(
    "outer",
    outer_form,
    outer_target,
    one_sided=True,
    # With less the outline settles too far inside, a tenth of a pixel at one and a half.
    least_radius=3.0,
    colours=True,
    full_resolution=True,
)
