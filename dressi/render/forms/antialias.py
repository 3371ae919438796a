"""The antialias form: analytic antialiasing of silhouettes in screen space (Laine et al. 2020, section 3.6).

The picture is the hard one, except where an edge of the nearer surface passes between the centres of two neighbouring
pixels: one of them takes some of the colour of the other. Let x be the position of the edge between the centres of p
(x = 0) and q (x = 1). Pixel q extends from 1/2 to 3/2 and p from -1/2 to 1/2:

    x < 1/2:  p takes 1/2 - x of the colour of q,        x > 1/2:  q takes x - 1/2 of the colour of p.

So pixels at a vertical or horizontal silhouette get exactly the share of their area that is covered. The edges that count
are silhouette edges of the mesh, inner contours included, at least 45 degrees steep relative to the row (or column) of the
pair. Of several, the one next to the farther pixel counts, where the nearer surface ends (``crossings``). The edges are
drawn, not looked up through the triangle at the pixel: at the limb of a smooth mesh the triangle that owns the silhouette
is thinner than a pixel and covers no centre. A pixel that takes from several neighbours takes one share of each, at most 1
in total: values stay between those of the hard picture.

The derivative by the vertices is that of x, exact while the same edges count; colours have theirs. It reaches one pixel.
Not antialiased are lines where faces intersect, and parts thinner than the distance between two centres. Edges of open
meshes, or of faces that share no vertices, count like silhouettes: between two faces of one surface they mix the colours of
both faces, and nothing that lies behind.
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
from .edges.around_edges import rasterize_edges
from .edges.crossings import GRID, Crossing, front
from .edges.edge_list import BEYOND, HIDDEN, OUTWARD, EdgeList, edges_of
from .edges.sides import edge_sides, ends_of, seen_ends
from .form import Form, Silhouette


@dataclass(frozen=True, eq=False)
class Antialiased(Silhouette):
    """The result of the antialias form; images of the batch of the positions."""

    edges: EdgeList
    across: tuple[Variable, Variable]
    """FLOAT: for the pair of a pixel with its neighbour to the right, and below, 1/2 - x: the share of the
    neighbour's colour that the pixel takes or, if negative, the share of the pixel's colour that the neighbour takes. 0 where no edge passes; differentiable in position."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """One: the nearest face at the pixel centre. Differentiable in position."""
        mesh = self.mesh
        weights = barycentric(mesh.position, corners(mesh.face, mesh.faces), mesh.size)
        return (Surface(mesh.faces, mesh.face, weights),)

    def antialias(self, picture: Variable) -> Variable:
        """The hard ``picture`` (a float image) with its silhouettes blended. Differentiable in picture and positions."""
        return _blended(picture, self.across)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The shaded surface (one float image) before the background (a colour or an image, default black), with
        silhouettes blended. Differentiable in the colour, positions and background. Raises InputError."""
        if len(colours) != 1:
            raise InputError(f"blending needs a colour of the one surface, not {len(colours)}")
        return self.antialias(F.select(self.hard, colours[0], 0.0 if background is None else background))


def antialias_form(mesh: DrawnMesh, *, edges: EdgeList | None = None) -> Antialiased:
    """The hard picture of a mesh with its silhouettes antialiased; definitions at the top of this module.

    edges: ``edge_list`` of the faces drawn, by default made of their data.  Differentiable in position through the ends
    of the edges between two pixels. Raises InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    size, ends, sides = mesh.size, seen_ends(mesh, edges), edge_sides(mesh, edges)
    a, b = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(2))
    depths = F.maximum(F.vec2(a.z, b.z), 0.0)
    on_both = F.select(F.equal(sides, HIDDEN), sides, 0)
    reach = F.constant((1 + GRID + OUTWARD) / size[1])
    seen = front(mesh)

    def between(axis: str) -> Variable:
        def fragment(edge: Variable) -> tuple[Variable, Variable]:
            own, away, side = (F.lookup(table, edge) for table in (ends, depths, sides))
            place = Crossing(seen, own, away, side, axis).output
            return (place + GRID) * (0.5 / (1 + 2 * GRID)), F.less(place, BEYOND)

        return _across(mesh, edges, rasterize_edges(mesh, edges, on_both, reach, fragment), axis)

    hard = covered(mesh.face)
    across = (between("x"), between("y"))
    return Antialiased(hard, F.clamp(_blended(hard, across)), mesh, edges, across)


def _across(mesh: DrawnMesh, edges: EdgeList, edge: Variable, axis: str) -> Variable:
    """1/2 - x of the edge that passes between the pixel and the next one, 0 without an edge."""
    found = covered(edge)
    _, ends = ends_of(mesh, edges, edge)
    a, b = ends.xy, ends.zw
    i, j = (0, 1) if axis == "x" else (1, 0)
    along, offset = b - a, a - pixel_centres(mesh.size)
    slope = F.component(along, i) / F.select(found, F.component(along, j), 1.0)
    place = F.component(offset, i) - F.component(offset, j) * slope
    return F.select(found, 0.5 - place * float(mesh.size[1]), 0.0)


def _blended(picture: Variable, across: tuple[Variable, Variable]) -> Variable:
    shares: list[tuple[Variable, tuple[int, int]]] = []
    for pair, (dx, dy) in zip(across, ((1, 0), (0, 1)), strict=True):
        taken = F.shift(F.maximum(-pair, 0.0), dx, dy, "zero")
        shares += [(F.maximum(pair, 0.0), (-dx, -dy)), (taken, (dx, dy))]
    total = shares[0][0] + shares[1][0] + shares[2][0] + shares[3][0]
    scale = 1.0 / F.maximum(total, 1.0)
    result = picture * (1.0 - total * scale)
    for share, (dx, dy) in shares:
        result = result + F.shift(picture, dx, dy) * (share * scale)
    return result


ANTIALIAS = Form("antialias", antialias_form)
