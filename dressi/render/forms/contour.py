"""The contour form of HardSoftRas: a soft margin around every surface, over whatever lies behind it.

    picture(p) = f(d / r) C(q) + (1 - f(d / r)) B(p),      f(x) = (1 - x)^2

B(p): the hard picture, a face or the background, blended at seams.  q: the nearest point, at distance d < r from the pixel centre p, of all
possible silhouette edges that count at p.  C(q): the surface in front there. An edge counts over the background, and
where it lies in front of the surface that p shows: the depth of the edge at q is less than that of the plane of the face
seen at p, extended to q. The plane, not the depth at p, keeps slanted floors from counting what they hide.

Where p shows the background this is the outer form. The contour form does the same at contours inside the outline, where
one part of the mesh hides another: their derivative reaches as far and is as exact. No visibility test is needed. Were
the nearest point q that counts hidden by a surface, then this surface would end between q and p, at a contour that is
nearer to p and lies in front of B too. That holds up to the curvature of B within r.

C(q) is not the colour on the contour but that of the surface a little inside, at

    q + (q - p) s,      s = INWARD / (1 + INWARD d / DEEPEST),

found by a walk over the mesh from the edge. When a face turns away, the contour passes from one of its edges to the others
at once, and the colour on the contour jumps, as where a textured ball rotates. At that moment the face has no width on the
screen, and the colour inside does not jump. At d = 0 the margin has the colour that the surface has where it covers p, so
the picture does not jump either when the surface moves over p. As in the outer form, distances below a twentieth of a
pixel count as 0.

Seams are lines on which faces pass through each other, or the near plane cuts them (``edges.seams``). They are no edges of
the mesh, and the depth does not jump there, so they have no margin that reaches r. Instead each of the two pixels on
whose way a seam passes takes a share of the surface on the other side. At x < 1/2 pixels from p to the seam

    B(p) = (1/2 + x) A(p) + (1/2 - x) D(seam),

A: the surface at p; D: that on the other side, at the seam. Where the seam moves over p the two change places, at 1/2 each.

Measured pictures have no margins. Compared with a photograph, colours and depths have their minimum about 0.3 r inside of
the true contour (0.33, 0.62, 0.91 and 1.5 pixels at r = 1, 2, 3 and 5): end such a fit with the antialias form, whose
minimum is off by at most 0.03 pixels. Masks have ``Picture.soft_target``; pictures drawn by this form have no such error.

The picture jumps, without a derivative of the jump, where two contours that do not belong to one surface are equally near,
and in margins around the point at which a seam ends at a contour. The more pixels a radius has, the more there are of these: of
coarse meshes with large radii single directions, such as a rotation that hardly moves the outline, can lose most of their
derivative. Creases are no contours: what jumps there though the surface goes on, such as normals of faces (``smooth=False``), split
normals or materials, moves without a derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, pixel_centres
from .edges.around_edges import (
    NearestPoint,
    Stored,
    Walk,
    draw_edges,
    edge_depths,
    face_beside,
    face_planes,
    in_front,
)
from .edges.edge_list import EdgeList, edge_sides, edges_of
from .edges.seams import DOWN, LEFT, RIGHT, UP, Seam, nearest_seam, seam_pixels, surface_at
from .form import Form, Silhouette
from .outer import outer_target, soft_margin

AROUND = RIGHT, DOWN, LEFT, UP
"""The neighbours to which a seam is looked for."""
INWARD = 0.5
"""How far inside the contour the colour of the margin is taken, relative to the distance from the contour, near it."""
DEEPEST = 1.0
"""Pixels. It is never taken farther inside than this: other parts of the surface, of other colours, may be near."""


@dataclass(frozen=True, eq=False)
class Contours(Silhouette):
    """The result of the contour form; images of the batch of the positions."""

    nearest: NearestPoint
    """The nearest point of the edges that count, within the radius."""
    seam: Seam | None
    """The nearest line on which faces pass through each other, or the near plane cuts them, at most half a pixel away."""
    front: Surface
    """The surface of the soft margin."""
    margin: Variable
    """FLOAT in [0, 1]: the opacity of the soft margin over the hard picture, 0 without an edge. Differentiable in position."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """The soft margin, on the face in front at the contour; the nearest face at the pixel centre; and, unless the form
        was drawn without seams, the surface on the other side of the nearest seam. Differentiable in position."""
        mesh, seam = self.mesh, self.seam
        own = self.front, mesh.surface(mesh.face)
        return own if seam is None else (*own, surface_at(mesh, seam.faces[1], seam.point))

    @property
    def seen(self) -> Surface:
        """The nearest face at the pixel centre, without the margin."""
        return self.surfaces[1]

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The margin over the hard surface over the background (a colour or an image, default black).

        colours: of the ``surfaces``, a float image each.  Differentiable in the colours, positions and background.
        Raises InputError.
        """
        if len(colours) != len(self.surfaces):
            beyond = "" if self.seam is None else ", one of what lies beyond seams"
            raise InputError(
                f"blending needs a colour of the margin and one of the surface{beyond}, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        behind = F.select(self.hard, colours[1], far)
        if self.seam is not None:
            found = self.seam.found
            share = Stored(F.select(found, F.maximum(0.5 - self.seam.place, 0.0), 0.0)).output
            beyond = F.select(covered(self.seam.faces[1]), colours[2], far)
            behind = F.mix(behind, Stored(F.select(found, beyond, 0.0)).output, share)
        margin = Stored(F.select(self.nearest.found, colours[0], 0.0)).output
        return F.mix(behind, margin, self.margin)


def contour_form(
    mesh: DrawnMesh, radius: Variable, *, edges: EdgeList | None = None, seams: bool = True
) -> Contours:
    """A mesh with a soft margin around its contours; definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height in (0, 1).  edges: ``edge_list`` of the faces drawn, by default
    made of their data.  seams: False saves about a fifth of a step, and is right where no faces pass through each
    other and none meets the near plane.  Differentiable in position through the ends of the nearest edge, and in the radius. Raises
    InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    face, sides = mesh.face, edge_sides(mesh, edges)
    planes = face_planes(mesh.faces, mesh.points.vertex)
    depths = edge_depths(mesh, edges, sides)

    def counts(ends: Variable, edge: Variable) -> Variable:
        return in_front(mesh.size, face, planes, ends, F.lookup(depths, edge))

    near = draw_edges(mesh, edges, sides, radius, counts)
    hard, margin = covered(face), soft_margin(near, radius, mesh.size)
    front, seam = inner_surface(mesh, edges, near, face_beside(mesh, edges, near)), None
    if seams:
        # After the margin, so that the two run on blocks of pixels of their own.
        hidden = Stored(margin * F.sum_components(F.stop_gradient(front.weights))).output
        pixels = seam_pixels(mesh, edges, planes, AROUND, hidden)
        seam = nearest_seam(mesh, edges, planes, pixels, AROUND, 0.5)
    return Contours(hard, F.select(hard, 1.0, margin), mesh, near, seam, front, margin)


def inner_surface(mesh: DrawnMesh, edges: EdgeList, near: NearestPoint, beside: Variable) -> Surface:
    """The surface of the soft margin, slightly inside of the contour. beside: INT, a face at the nearest edge."""
    outward = near.point - pixel_centres(mesh.size)
    share = INWARD / (1.0 + near.distance * (INWARD * mesh.size[1] / DEEPEST))
    goal = F.select(near.found, near.point + outward * share, 0.0)
    lists = mesh.faces, edges.neighbours
    places = F.stop_gradient(near.point), F.stop_gradient(goal)
    face = Walk(beside, *places, *lists, mesh.points.vertex).output.x
    weights = barycentric(mesh.position, corners(face, mesh.faces), mesh.size, place=goal, clamp=True)
    # A face seen edge-on shows the mean of its corners.
    flat = F.select(covered(face), 1 / 3, 0.0)
    weights = F.select(F.greater(F.sum_components(weights), 0.0), weights, flat)
    return Surface(mesh.faces, face, weights)


CONTOUR = Form(
    "contour",
    contour_form,
    outer_target,
    one_sided=True,
    least_radius=3.0,
    colours=True,
    exact_inside=True,
    full_resolution=True,
)
