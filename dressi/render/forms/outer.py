"""The outer form of HardSoftRas: hard inside, a soft margin outside of the outline.

    coverage = 1              where the mesh covers the centre of the pixel,
               f(d / r)       outside, within r of the outline: f(x) = (1 - x)^2, or (1 - x^2)^2 with ``smooth_edge``,
               0              elsewhere,

d: distance from the pixel centre to the nearest possible silhouette edge, in image heights like r. From outside, the
nearest point of any such edge lies on the visible outline, because a hidden point can only be reached across the outline.
So no visibility test is needed and any superset of the silhouettes gives the same image. The distance to a region is
continuous in the region, so coverage outside never jumps, neither where contours meet nor where an edge becomes a
silhouette. f and its slope are 0 at r: a cut there would be a jump.

Drivers disagree about pixel centres on the outline itself, and a centre covered slightly too early would jump to 1. So
distances below a twentieth of a pixel count as 0, and distances from there to a tenth grow twice as fast: the image does
not depend on which of these centres a driver covers.

The slope of (1 - x)^2 reaches the outline: gradients are strong there, and jump where a pixel with a residual becomes covered,
which second derivatives do not see. (1 - x^2)^2 is flat there: ``hvp`` adds up to differences of gradients.

Covered pixels carry no gradient: opening a hole needs another signal. The reach is about 2 r. If mesh and target are
farther apart, start with a larger radius and shrink it; the radius is data, so this needs no new build. A soft margin that
is cut off by the image border pushes the mesh outward: draw ``with_margin`` of r if the target comes near the border.
Faces and edges that cross the near or the far plane are clipped, with gradients through the points of the cut. The line along
which a plane cuts a face is no edge: there the picture ends without a margin. All forms draw nothing beyond the far plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import Size
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..surface.screen import Corners, DrawnMesh, Surface, barycentric, corners, covered
from .edges.around_edges import NearestPoint, draw_edges, face_beside, weights_on_edge
from .edges.edge_list import EdgeList, edge_sides, edges_of
from .form import Form, Silhouette
from .soft_target import falloff

GRID = 0.1
"""Pixels. Vulkan lets a driver round corners to a grid of 1/16 pixel, which moves outlines by up to 0.045 pixel."""


@dataclass(frozen=True, eq=False)
class EdgeSilhouette(Silhouette):
    """What the outer form returns; images of the batch of the positions."""

    edges: EdgeList
    face: Variable
    """INT: the nearest face at the pixel, -1 for none. No derivative."""
    nearest: NearestPoint
    """The nearest point of the possible silhouette edges, within the radius."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """One: where a face covers the pixel, that face at the pixel centre; else, within the radius, the nearest point
        of the edges, on the face in front there. Differentiable in position.

        Attributes that are continuous over the mesh are continuous across the outline. They jump, without a derivative of
        the jump, where a contour inside the outline hides a surface, and in the margin of a face that turns away from the
        viewer: the outline then moves from one of its edges to the others at once.
        """
        mesh = self.mesh
        inside = covered(self.face)
        face = F.select(inside, self.face, face_beside(mesh, self.edges, self.nearest))
        at = corners(face, mesh.faces)
        # Beside the mesh the face may be seen edge-on, where barycentric coordinates are undefined.
        covering = Corners(*(F.select(inside, number, -1) for number in at))
        beside = weights_on_edge(mesh, self.nearest, at)
        weights = F.select(inside, barycentric(mesh.position, covering, mesh.size), beside)
        return (Surface(mesh.faces, face, weights),)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The shaded surface (one float image) over the background (a colour or an image, default black), with the
        silhouette as opacity. Differentiable in the colour, positions and background. Raises InputError."""
        if len(colours) != 1:
            raise InputError(f"blending needs a colour of the one surface, not {len(colours)}")
        return F.mix(0.0 if background is None else background, colours[0], self.silhouette)


def outer_form(
    mesh: DrawnMesh, radius: Variable, *, edges: EdgeList | None = None, smooth_edge: bool = False
) -> EdgeSilhouette:
    """The silhouette of a mesh with a soft margin outside; definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height in (0, 1).  edges: ``edge_list`` of the faces drawn, by default
    made of their data.  smooth_edge: see the top.  Differentiable in position through the ends of the nearest edge, and
    in the radius. Raises InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    return around_edges(mesh, mesh.face, edges, edge_sides(mesh, edges), radius, smooth_edge)


def around_edges(
    mesh: DrawnMesh,
    face: Variable,
    edges: EdgeList,
    sides: Variable,
    radius: Variable,
    smooth_edge: bool = False,
) -> EdgeSilhouette:
    """The outer form around the edges whose ``sides`` are not HIDDEN, with ``face`` as the hard picture."""
    near = draw_edges(mesh, edges, sides, radius, lambda ends, edge: F.less(face, 0))
    hard = covered(face)
    soft = soft_margin(near, radius, mesh.size, smooth_edge)
    return EdgeSilhouette(hard, F.select(hard, 1.0, soft), mesh, edges, face, near)


def soft_margin(near: NearestPoint, radius: Variable, size: Size, smooth_edge: bool = False) -> Variable:
    """FLOAT: f(d / r) of the nearest edge in images of ``size``, 0 without an edge. Differentiable in position."""
    # A centre this near gets 1 whether or not the driver covers it, so that coverage does not jump.
    away = F.minimum(near.distance, F.maximum(2.0 * near.distance - GRID / size[1], 0.0))
    return F.select(near.found, falloff(away, radius, smooth_edge), 0.0)


def outer_target(distance: Variable, radius: Like, layers: int, *, smooth_edge: bool = False) -> Variable:
    """FLOAT: the coverage above, from the signed distance to the outline (positive inside). Differentiable in both."""
    return falloff(F.maximum(-distance, 0.0), radius, smooth_edge)


OUTER = Form(
    "outer",
    outer_form,
    outer_target,
    one_sided=True,
    # With a smaller radius the outline settles too far inside: 0.1 pixel at a radius of 1.5 pixels.
    least_radius=3.0,
    colours=True,
    full_resolution=True,
)
