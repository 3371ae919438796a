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
off the soft margin pushes the mesh outward: draw ``with_margin`` of r where the target comes near. Faces that reach in
front of the near plane or behind the viewer are dropped whole, as by ``rasterize_hard``: what is left has an open
border there, so keep the near plane in front of the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.types import Size
from .edges import OUTWARD, EdgeDistance, EdgeList, EdgeQuads, EdgeSides
from .screen import Projected, covered, culling, pixel_centres, project, rasterize_hard
from .silhouette import Silhouette, falloff

GRID = 0.1
"""In pixels. Vulkan lets a driver round corners to a grid of 1/16 pixel, by which outlines move by up to 0.045 pixel."""


@dataclass(frozen=True, eq=False)
class OuterSilhouette(Silhouette):
    """What the outer form returns; images of the batch of the positions."""

    face: Variable
    """INT: the nearest face at the pixel, -1 for none. No derivative."""
    nearest: Variable
    """INT: the nearest edge within the radius, -1 for none and where a face covers the pixel. No derivative."""
    distance: Variable
    """FLOAT: to that edge, in image heights; differentiable. Without meaning where there is none."""


def outer_form(
    position: Variable,
    faces: Variable,
    edges: EdgeList,
    *,
    size: Size,
    radius: Variable,
    face_count: int,
    cull: str = "none",
) -> OuterSilhouette:
    """The silhouette of a mesh with a soft margin outside; definitions at the top of this module.

    position: VEC4 list in clip space, batch N (views).  faces: IVEC3 list, the first ``face_count`` are drawn.
    edges: ``edge_list`` of these faces.  radius: FLOAT 1x1, a fraction of the image height in (0, 1).  Differentiable
    in position through the ends of the nearest edge, and in the radius. Raises GraphError.
    """
    points = project(position, size)
    face = rasterize_hard(position, faces, size=size, face_count=face_count, cull=cull)
    sides = EdgeSides(edges.list, points.vertex, culling(cull)).output
    return around_edges(points, face, edges, sides, size, radius)


def around_edges(
    points: Projected, face: Variable, edges: EdgeList, sides: Variable, size: Size, radius: Variable
) -> OuterSilhouette:
    """The outer form around the edges whose ``sides`` are not HIDDEN, with ``face`` as the hard picture."""
    ends = F.vec4(*(F.lookup(points.vertex, F.component(edges.list, i)).xy for i in range(2)))
    quads = EdgeQuads(radius + OUTWARD / size[1], ends, sides, edges.count, size).output

    def fragment(edge: Variable) -> tuple[Variable, Variable]:
        distance = EdgeDistance(face, F.lookup(ends, edge)).output
        return distance, F.less_equal(distance, radius)

    nearest = F.rasterize(
        quads, size=size, triangles=2 * edges.count, triangles_per_face=2, fragment=fragment, disjoint=True
    )
    found = covered(nearest)
    # Without an edge the ends are number -1: they read zeros, and nothing is added to any vertex.
    pair = F.select(found, F.lookup(edges.list, nearest).xy, -1)
    a, b = F.lookup(points.screen, pair.x), F.lookup(points.screen, pair.y)
    centres = pixel_centres(size)
    along, offset = b - a, centres - a
    # The place on the edge, t, is held fixed: inside the edge moving it changes nothing to first order.
    t = F.stop_gradient(F.dot(offset, along) / F.maximum(F.dot(along, along), 1e-30))
    distance = F.length(centres - F.mix(a, b, F.clamp(t)))
    hard = covered(face)
    # Whether a driver covers a pixel this near or leaves it out, it is 1: no jump where its coverage ends.
    away = F.minimum(distance, F.maximum(2.0 * distance - GRID / size[1], 0.0))
    soft = F.select(found, falloff(away, radius), 0.0)
    return OuterSilhouette(hard, F.select(hard, 1.0, soft), face, nearest, distance)
