"""Seams: lines on the screen on which two faces pass through each other, or where the near plane cuts a face.

Neither is an edge of the mesh. Let p and q be the centres of two neighbouring pixels that show different faces A and B,
and D_A, D_B the depths of the planes of these faces, which are affine on the screen. The seam lies where g = 0,

    A passes through B:              g = D_B - D_A,
    the near plane cuts A:           g = D_A            (q shows what lies behind),
    the near plane cuts B:           g = -D_B           (p shows what lies behind),

with g(p) > 0 > g(q), at x = g(p) / (g(p) - g(q)) of the way from p to q. So its place depends on the vertices of
both faces, which give the derivative. Each surface must reach the seam: a walk over the mesh leads from the face at the
centre to the face at the seam, whose plane counts, and ends at borders and folds. Two walks that end on one face, or on
faces that share a vertex, meet on one surface: no seam. As for edges between pixels, a pair of neighbours in a row counts
when the seam is at least 45 degrees steep, and a pair in a column otherwise.

Exact are the pictures that take the surface on the other side at the seam, with a share of 1/2 - x: where the seam moves over
a centre, the pixel has 1/2 of either surface before and after.
"""

from __future__ import annotations

from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.pixel.shortcut import shortcut
from ...surface.screen import (
    Corners,
    DrawnMesh,
    Surface,
    barycentric,
    corners,
    covered,
    pixel_centres,
    pixel_rays,
)
from .edge_list import EdgeList, shared_corners
from .seam_faces import OTHER_CUT, OWN_CUT, Differs, SeamFaces, SeamPairs, Step

RIGHT, DOWN, LEFT, UP = (1, 0), (0, 1), (-1, 0), (0, -1)
"""Steps from a pixel to its neighbours."""


class Seam(NamedTuple):
    """The nearest seam between a pixel and its neighbours."""

    found: Variable
    """FLOAT mask."""
    faces: tuple[Variable, Variable]
    """INT: the faces at the seam of the surfaces that the pixel and the neighbour show, -1 for the background."""
    place: Variable
    """FLOAT in [0, 1]: pixels from the centre of the pixel to the seam on the way to the neighbour; differentiable in
    position."""
    point: Variable
    """VEC2: the place on the screen; differentiable in position."""


def seam_pixels(
    mesh: DrawnMesh,
    edges: EdgeList,
    planes: Variable,
    steps: tuple[Step, ...],
    hidden: Variable | None = None,
) -> Variable:
    """INT: 0 where a seam may pass between the centre of the pixel and those of its neighbours at ``steps``, else -1.

    planes: ``face_planes``.  hidden: FLOAT, 1 where seams are not looked for.
    """
    # First what costs little: where all pixels of a block show one face, the planes are not looked at.
    differs = Differs(mesh.face, steps=steps).output
    looked = differs if hidden is None else F.logical_and(differs, F.less(hidden, 1.0))
    found = SeamPairs(
        F.to_int(looked) - 1, mesh.face, planes, shared_corners(mesh, edges), steps=steps
    ).output
    return F.to_int(found) - 1


def nearest_seam(
    mesh: DrawnMesh,
    edges: EdgeList,
    planes: Variable,
    pixels: Variable,
    steps: tuple[Step, ...],
    reach: float,
) -> Seam:
    """The nearest seam at most ``reach`` pixels from each of the ``seam_pixels`` on the way to the neighbours at ``steps``."""
    lists = mesh.face, planes, mesh.faces, edges.neighbours, mesh.points.vertex, shared_corners(mesh, edges)
    seam = SeamFaces(pixels, *lists, steps=steps, reach=reach).output
    own, other, number, kind = (F.component(seam, i) for i in range(4))
    found, height = covered(number), float(mesh.size[1])
    step = F.constant(tuple(c / height for c in steps[0]))
    for k, s in enumerate(steps[1:], 1):
        step = F.select(F.equal(number, k), tuple(c / height for c in s), step)
    p = pixel_centres(mesh.size)
    # The near plane has the depth 0 everywhere, like the plane of no face.
    one = F.select(F.equal(kind, OTHER_CUT), -1, own)
    two = F.select(F.equal(kind, OWN_CUT), -1, other)
    g = F.select(covered(two), F.lookup(planes, two), 0.0) - F.select(
        covered(one), F.lookup(planes, one), 0.0
    )
    fall = -F.dot(g.xy, step)
    place = (F.dot(g.xy, p) + g.z) / F.select(F.equal(fall, 0.0), 1.0, fall)
    place = F.clamp(shortcut(place, _exact(mesh, one, two, p, step)))  # 0 without faces
    return Seam(found, (own, other), place, p + step * place)


def _exact(mesh: DrawnMesh, one: Variable, two: Variable, p: Variable, step: Variable) -> Variable:
    """FLOAT: x of the seam between two faces, the near plane for -1, on the way from p along ``step``. Differentiable in
    position."""
    faces = corners(one, mesh.faces), corners(two, mesh.faces)
    start, end = (plane_depth(mesh, faces[1], s) - plane_depth(mesh, faces[0], s) for s in (p, p + step))
    fall = start - end
    return start / F.select(F.equal(fall, 0.0), 1.0, fall)


def plane_depth(mesh: DrawnMesh, at: Corners, place: Variable) -> Variable:
    """FLOAT: the depth of the plane of a face at a place on the screen, 0 without a face. Differentiable in position."""
    x, y, w, ray = pixel_rays(mesh.position, at, mesh.size, place)
    areas = F.cross(x - w * ray.x, y - w * ray.y)
    table = F.component(mesh.position, 2)
    z = F.vec3(*(F.lookup(table, i) for i in at))
    over = F.dot(areas, w)
    return F.select(F.not_equal(over, 0.0), F.dot(areas, z) / F.select(F.equal(over, 0.0), 1.0, over), 0.0)


def surface_at(mesh: DrawnMesh, face: Variable, place: Variable) -> Surface:
    """The surface of a face at a place on the screen, or the point of the face next to it."""
    weights = barycentric(mesh.position, corners(face, mesh.faces), mesh.size, place=place, clamp=True)
    return Surface(mesh.faces, face, weights)
