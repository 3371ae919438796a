"""The antialias form: analytic antialiasing of silhouettes in screen space (Laine et al. 2020, section 3.6).

The picture is the hard one, except where an edge of the nearer surface passes between the centres of two neighbouring
pixels: one of them takes some of the colour on the other side. Let x be the position of the edge between the centres of p
(x = 0) and q (x = 1). Pixel q extends from 1/2 to 3/2 and p from -1/2 to 1/2:

    x < 1/2:  p takes 1/2 - x of the surface that q shows,    x > 1/2:  q takes x - 1/2 of the surface that p shows,

at the edge: of the nearer surface the point on the edge, of the farther one the point behind it. A walk over the mesh leads
there from the centre of the pixel that shows the surface. So pixels at a vertical or horizontal silhouette get exactly the
share of their area that is covered, and shading does not jump where the edge moves over a centre: there both pixels have
1/2 of either surface at the centre. (Laine et al. take the colour of the other pixel as a whole; ``blend`` with one colour
does that. It jumps by the difference of the shading between two pixels, which loses 5 to 20 % of the derivative.)

The edges that count are silhouette edges of the mesh, inner contours included, at least 45 degrees steep relative to the
row (or column) of the pair. Of several, the one next to the farther pixel counts, where the nearer surface ends
(``crossings``). The edges are drawn, not looked up through the triangle at the pixel: at the limb of a smooth mesh the
triangle that owns the silhouette is thinner than a pixel and covers no centre. Where no edge passes, the lines count on which
faces pass through each other or the near plane cuts them (``seams``). A pixel that takes from several neighbours takes one
share of each, at most 1 in total: values stay between those of the surfaces.

The derivative by the vertices is that of x and of the point at the edge, exact while the same edges count; colours have
theirs. It reaches one pixel. Not antialiased are parts thinner than the distance between two centres. Edges of open
meshes, or of faces that share no vertices, count like silhouettes: between two faces of one surface they mix the colours of
both faces, and nothing that lies behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.ops.pixel.shortcut import shortcut
from ...errors import InputError
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, pixel_centres
from .edges.around_edges import rasterize_edges
from .edges.crossings import GRID, Crossing, front
from .edges.edge_list import BEYOND, HIDDEN, OUTWARD, EdgeList, edges_of
from .edges.inner import InnerFace
from .edges.occlusion import FacePlanes
from .edges.seam_faces import Step
from .edges.seams import DOWN, RIGHT, nearest_seam, seam_pixels, surface_at
from .edges.sides import edge_sides, ends_of, seen_ends
from .edges.stored import Stored, StoredGradient
from .form import Form, Silhouette


class Pair(NamedTuple):
    """What passes between each pixel and the next one along an axis."""

    found: Variable
    """FLOAT mask: an edge or a seam."""
    seam: Variable
    """FLOAT mask: a seam."""
    rest: Variable
    """FLOAT, 2 - x, 0 where nothing passes; differentiable in position."""
    surface: Surface
    """The surface that is taken, at x. Differentiable in position."""
    background: Variable
    """FLOAT mask: the background is taken."""

    @property
    def across(self) -> Variable:
        """FLOAT, 1/2 - x: the share of the neighbour's surface that the pixel takes or, if negative, the share of the pixel's
        surface that the neighbour takes. 0 where nothing passes; differentiable in position."""
        return _across(self.rest)


@dataclass(frozen=True, eq=False)
class Antialiased(Silhouette):
    """The result of the antialias form; images of the batch of the positions."""

    edges: EdgeList
    pairs: tuple[Pair, Pair]
    """Of each pixel with its neighbour to the right, and below."""

    @property
    def across(self) -> tuple[Variable, Variable]:
        """FLOAT: ``Pair.across`` of the two pairs."""
        return self.pairs[0].across, self.pairs[1].across

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """Three: the nearest face at the pixel centre, and what is taken between the pixel and the next one to the right, and
        below. Differentiable in position."""
        mesh = self.mesh
        weights = barycentric(mesh.position, corners(mesh.face, mesh.faces), mesh.size)
        return (Surface(mesh.faces, mesh.face, weights), *(pair.surface for pair in self.pairs))

    def antialias(self, picture: Variable) -> Variable:
        """The hard ``picture`` (a float image) with its silhouettes blended: pixels take the colours of their neighbours.
        Differentiable in picture and positions."""
        near, shares, scale, total = _shares(self.pairs)
        result = picture * (1.0 - total * scale)
        for share, (dx, dy), step in shares:
            result = result + F.shift(picture, dx * step, dy * step) * (share * scale)
        return F.select(near, result, picture)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The shaded ``surfaces`` (a float image each) before the background (a colour or an image, default black), with
        silhouettes blended. With the colour of the first one alone, pixels take colours of whole pixels. Differentiable in the
        colours, positions and background. Raises InputError."""
        if len(colours) not in (1, 3):
            raise InputError(
                f"blending needs a colour of the surface, or one of each of the three surfaces, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        picture = F.select(self.hard, colours[0], far)
        if len(colours) == 1:
            return self.antialias(picture)
        near, shares, scale, total = _shares(self.pairs)
        result = picture * (1.0 - total * scale)
        for k, (share, (dx, dy), step) in enumerate(shares):
            pair = self.pairs[k // 2]
            # A shader may have a colour where there is no surface.
            shown = F.logical_and(pair.found, F.logical_not(pair.background))
            taken = Stored(F.select(shown, colours[1 + k // 2], 0.0)).output
            behind = Stored(pair.background).output
            if step > 0:
                taken, behind = (F.shift(v, dx, dy, "zero") for v in (taken, behind))
            result = result + (taken + behind * far) * (share * scale)
        return F.select(near, result, picture)


def antialias_form(mesh: DrawnMesh, *, edges: EdgeList | None = None, with_seams: bool = True) -> Antialiased:
    """The hard picture of a mesh with its silhouettes antialiased; definitions at the top of this module.

    edges: ``edge_list`` of the faces drawn, by default made of their data.  with_seams: whether the lines on which faces pass
    through each other, or the near plane cuts them, are antialiased too.  Differentiable in position through the ends
    of the edges between two pixels. Raises InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    size, ends, sides = mesh.size, seen_ends(mesh, edges), edge_sides(mesh, edges)
    a, b = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(2))
    depths = F.maximum(F.vec2(a.z, b.z), 0.0)
    on_both = F.select(F.equal(sides, HIDDEN), sides, 0)
    reach = F.constant((1 + GRID + OUTWARD) / size[1])
    seen = front(mesh)
    planes, seams = None, None
    if with_seams:
        planes = FacePlanes(mesh.faces, mesh.points.vertex).output
        seams = seam_pixels(mesh, planes, (RIGHT, DOWN))

    def between(axis: str, step: Step) -> Pair:
        def fragment(edge: Variable) -> tuple[Variable, Variable]:
            own, away, side = (F.lookup(table, edge) for table in (ends, depths, sides))
            place = Crossing(seen, own, away, side, axis).output
            return (place + GRID) * (0.5 / (1 + 2 * GRID)), F.less(place, BEYOND)

        edge = rasterize_edges(mesh, edges, F.select(_steep(ends, axis), on_both, HIDDEN), reach, fragment)
        found, by_seam = covered(edge), F.constant(0.0)
        rest = F.select(found, 2.0 - _place(mesh, edges, edge, axis), 0.0)
        if planes is not None and seams is not None:
            seam = nearest_seam(mesh, edges, planes, seams, (step,), 1.0)
            value = Stored(F.stop_gradient(F.select(seam.found, 2.0 - seam.place, 0.0))).output
            by_seam = F.logical_and(F.greater(value, 0.0), F.logical_not(found))
            rest = F.select(by_seam, shortcut(value, 2.0 - seam.place), rest)
            found = F.logical_or(found, by_seam)
        return _pair(mesh, edges, found, by_seam, rest, step)

    hard = covered(mesh.face)
    pairs = between("x", RIGHT), between("y", DOWN)
    result = Antialiased(hard, hard, mesh, edges, pairs)
    return replace(result, silhouette=F.clamp(result.antialias(hard)))


def _pair(
    mesh: DrawnMesh, edges: EdgeList, found: Variable, seam: Variable, rest: Variable, step: Step
) -> Pair:
    """The pair of each pixel with the one at ``step``, by 2 - x."""
    across = _across(rest)
    way = tuple(c / mesh.size[1] for c in step)
    from_next = F.greater(across, 0.0)
    giver = F.select(from_next, F.shift(mesh.face, -step[0], -step[1]), mesh.face)
    giver = F.select(found, giver, -1)
    p = pixel_centres(mesh.size)
    point = p + F.clamp(0.5 - across) * F.constant(way)
    start = F.select(from_next, p + F.constant(way), p)
    lists = mesh.faces, edges.neighbours, mesh.points.vertex
    face = InnerFace(giver, start, F.stop_gradient(point), *lists).output
    face = F.select(covered(face), face, giver)
    background = F.logical_and(found, F.logical_not(covered(giver)))
    return Pair(found, seam, rest, surface_at(mesh, face, point), background)


def _place(mesh: DrawnMesh, edges: EdgeList, edge: Variable, axis: str) -> Variable:
    """x of the edge that passes between the pixel and the next one, 0 without an edge."""
    found = covered(edge)
    _, ends = ends_of(mesh, edges, edge)
    a, b = ends.xy, ends.zw
    i, j = (0, 1) if axis == "x" else (1, 0)
    along, offset = b - a, a - pixel_centres(mesh.size)
    slope = F.component(along, i) / F.select(found, F.component(along, j), 1.0)
    place = F.component(offset, i) - F.component(offset, j) * slope
    return F.select(found, place * float(mesh.size[1]), 0.0)


def _steep(ends: Variable, axis: str) -> Variable:
    """FLOAT list: which edges may be as steep as 45 degrees relative to the axis; the rest is rounding."""
    along = F.abs(ends.zw - ends.xy)
    size = (along.x, along.y) if axis == "x" else (along.y, along.x)
    return F.greater_equal(size[1], size[0] * 0.999)


def _across(rest: Variable) -> Variable:
    """1/2 - x where something passes, else 0."""
    return F.select(F.greater(rest, 0.0), rest - 1.5, 0.0)


def _shares(
    pairs: Sequence[Pair],
) -> tuple[Variable, list[tuple[Variable, Step, int]], Variable, Variable]:
    """Whether anything passes next to the pixel; shares that it takes, with the step to the next pixel of their pair and 1
    when it is that pixel, -1 when it is the first; the factor that limits their total to 1; the total. Gradients of the
    shares are 0 where nothing passes, if all that depends on them is chosen by the first result."""
    shares: list[tuple[Variable, Step, int]] = []
    near, total = F.constant(0.0), F.constant(0.0)
    for pair, step in zip(pairs, (RIGHT, DOWN), strict=True):
        before = StoredGradient(F.shift(pair.rest, *step, "zero")).output
        for rest, side in ((pair.rest, -1), (before, 1)):
            share = F.maximum(_across(rest) * -float(side), 0.0)
            shares.append((share, step, side))
            near, total = F.logical_or(near, F.greater(rest, 0.0)), total + share
    return near, shares, 1.0 / F.maximum(total, 1.0), total


ANTIALIAS = Form("antialias", antialias_form)
