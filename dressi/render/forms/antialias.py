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

The edges that count are silhouette edges of the nearer surface (of its connected part of the mesh), inner contours included,
at least 45 degrees steep relative to the row (or column) of the pair. Of several, the one next to the farther pixel counts,
where the nearer surface ends (``crossings``). The edges are drawn, not looked up through the triangle at the pixel: at the limb of a smooth mesh the
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
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ...ad.types import INT
from ...errors import InputError
from ..surface.screen import DrawnMesh, Surface, corners, covered, pixel_centres
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
        return (self.mesh.surface(self.mesh.face), *(pair.surface for pair in self.pairs))

    def antialias(self, picture: Variable) -> Variable:
        """The hard ``picture`` (a float image) with its silhouettes blended: pixels take the colours of their neighbours.
        Differentiable in picture and positions."""
        return with_neighbours(picture, [pair.rest for pair in self.pairs])

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
        near, parts, scale, total = shares([pair.rest for pair in self.pairs])
        result = picture * (1.0 - total * scale)
        for k, (share, (dx, dy), step) in enumerate(parts):
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
    hard = covered(mesh.face)
    pairs = tuple(
        _pair(mesh, edges, passing, step)
        for passing, step in zip(passings((mesh,), edges, with_seams), (RIGHT, DOWN), strict=True)
    )
    result = Antialiased(hard, hard, mesh, edges, (pairs[0], pairs[1]))
    return replace(result, silhouette=F.clamp(result.antialias(hard)))


class Passing(NamedTuple):
    """Where something passes between each pixel and the next one along an axis."""

    found: Variable
    """FLOAT mask: an edge or a seam."""
    seam: Variable
    """FLOAT mask: a seam."""
    rest: Variable
    """FLOAT, 2 - x, 0 where nothing passes; differentiable in position."""


def passings(
    layers: Sequence[DrawnMesh], edges: EdgeList, with_seams: bool = True
) -> tuple[Passing, Passing]:
    """What passes between each pixel and the next one to the right, and below: an edge where one of the ``layers`` (one mesh,
    each with the faces that pixels show in that layer) ends, of the first layer that has one; else a seam, likewise."""
    mesh = layers[0]
    ends, sides = seen_ends(mesh, edges), edge_sides(mesh, edges)
    a, b = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(2))
    depths = F.maximum(F.vec2(a.z, b.z), 0.0)
    on_both = F.select(F.equal(sides, HIDDEN), sides, 0)
    reach = F.constant((1 + GRID + OUTWARD) / mesh.size[1])
    fronts = [front(layer) for layer in layers]
    drawn = list(zip(layers, fronts, strict=True))
    seams = _seams(layers, edges) if with_seams else {RIGHT: [], DOWN: []}

    def between(axis: str, step: Step) -> Passing:
        def fragment(edge: Variable) -> tuple[Variable, Variable]:
            own, away, side = (F.lookup(table, edge) for table in (ends, depths, sides))
            first = F.constant(1.0)
            for k, seen in enumerate(fronts):
                place = Crossing(seen, own, away, side, axis).output
                here = F.less(place, BEYOND)
                if ending:
                    part = F.component(ending[k // 4], k % 4)
                    here = F.logical_and(here, F.equal(part, F.to_float(_part_of_edge(edges, edge))))
                # What passes beyond a centre, which rounding by drivers may cause, counts where nothing passes between.
                outside = F.not_equal(place, F.clamp(place))
                depth = (place + GRID) * (0.5 / (1 + 2 * GRID)) + float(k) + len(fronts) * outside
                first = F.select(here, F.minimum(first, depth * (0.5 / len(fronts))), first)
            return first, F.less(first, 1.0)

        ending = [] if edges.parts is None else _packed([_ending(*one, edges, step) for one in drawn])
        edge = rasterize_edges(mesh, edges, F.select(_steep(ends, axis), on_both, HIDDEN), reach, fragment)
        found, by_seam = covered(edge), F.constant(0.0)
        rest = F.select(found, 2.0 - _place(mesh, edges, edge, axis), 0.0)
        for seam, place in seams[step]:
            value = Stored(F.stop_gradient(F.select(seam, 2.0 - place, 0.0))).output
            new = F.logical_and(F.greater(value, 0.0), F.logical_not(found))
            rest = F.select(new, shortcut(value, 2.0 - place), rest)
            found, by_seam = F.logical_or(found, new), F.logical_or(by_seam, new)
        return Passing(found, by_seam, rest)

    return between("x", RIGHT), between("y", DOWN)


def _seams(layers: Sequence[DrawnMesh], edges: EdgeList) -> dict[Step, list[tuple[Variable, Variable]]]:
    """Whether a seam passes between each pixel and the one at a step, FLOAT mask, and where, in each of the layers. They are
    computed as tiles of one batch."""
    mesh = layers[0]
    planes = FacePlanes(mesh.faces, mesh.points.vertex).output
    face = Variable(INT, mesh.size, mesh.face.batch)
    one = replace(mesh, seen=face)
    pixels = seam_pixels(one, planes, (RIGHT, DOWN))
    outputs = []
    for step in (RIGHT, DOWN):
        seam = nearest_seam(one, edges, planes, pixels, (step,), 1.0)
        outputs += [seam.found, seam.place]
    found = over_tiles(outputs, [face], [stacked_faces([layer.face for layer in layers])], len(layers))
    each = [unstacked(image, len(layers)) for image in found]
    return {step: list(zip(*each[2 * k : 2 * k + 2], strict=True)) for k, step in enumerate((RIGHT, DOWN))}


def stacked_faces(faces: Sequence[Variable]) -> Variable:
    """INT images of faces, -1 for none, as the tiles of one batch (``stacked``)."""
    return faces[0] if len(faces) == 1 else stacked([face + 1 for face in faces]) - 1


def _packed(images: Sequence[Variable]) -> list[Variable]:
    """VEC4 each: four FLOAT images together, stored, because a draw reads few images at its own pixel."""
    filled = [*images, *[F.constant(0.0)] * (-len(images) % 4)]
    return [Stored(F.vec4(*filled[k : k + 4])).output for k in range(0, len(filled), 4)]


def _ending(mesh: DrawnMesh, seen: Variable, edges: EdgeList, step: Step) -> Variable:
    """FLOAT: of the surfaces that each pixel and the one at ``step`` show, the part of the mesh that the nearer belongs to. Where
    it ends, an edge of this part passes."""
    following = F.shift(seen, -step[0], -step[1])
    nearer = F.less(seen.y, following.y)
    face = F.select(nearer, mesh.face, F.shift(mesh.face, -step[0], -step[1]))
    assert edges.parts is not None
    part = F.lookup(edges.parts, corners(face, mesh.faces).first)
    return F.to_float(F.select(covered(face), part, -1))


def _part_of_edge(edges: EdgeList, edge: Variable) -> Variable:
    """INT: the part of the mesh that an edge belongs to."""
    assert edges.parts is not None
    return F.lookup(edges.parts, F.component(F.lookup(edges.list, edge), 0))


def _pair(mesh: DrawnMesh, edges: EdgeList, passing: Passing, step: Step) -> Pair:
    """The pair of each pixel with the one at ``step``."""
    giver, face, point = taken(mesh, edges, passing, step)
    background = F.logical_and(passing.found, F.logical_not(covered(giver)))
    return Pair(*passing, surface_at(mesh, face, point), background)


def taken(
    mesh: DrawnMesh, edges: EdgeList, passing: Passing, step: Step
) -> tuple[Variable, Variable, Variable]:
    """What is taken between each pixel and the one at ``step``: INT, the face that the giving pixel shows, -1 for none and
    where nothing passes; INT, the face of its surface at x; VEC2, this place on the screen, differentiable in position."""
    across = _across(passing.rest)
    way = tuple(c / mesh.size[1] for c in step)
    from_next = F.greater(across, 0.0)
    giver = F.select(from_next, F.shift(mesh.face, -step[0], -step[1]), mesh.face)
    giver = F.select(passing.found, giver, -1)
    p = pixel_centres(mesh.size)
    point = p + F.clamp(0.5 - across) * F.constant(way)
    start = F.select(from_next, p + F.constant(way), p)
    lists = mesh.faces, edges.neighbours, mesh.points.vertex
    face = InnerFace(giver, start, F.stop_gradient(point), *lists).output
    return giver, F.select(covered(face), face, giver), point


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


def shares(
    rests: Sequence[Variable],
) -> tuple[Variable, list[tuple[Variable, Step, int]], Variable, Variable]:
    """Of ``Passing.rest`` to the right and below: whether anything passes next to the pixel; shares that it takes, with the
    step to the next pixel of their pair and 1 when it is that pixel, -1 when it is the first; the factor that limits their
    total to 1; the total. Gradients of the shares are 0 where nothing passes, if all that depends on them is chosen by the
    first result."""
    found: list[tuple[Variable, Step, int]] = []
    near, total = F.constant(0.0), F.constant(0.0)
    for own, step in zip(rests, (RIGHT, DOWN), strict=True):
        before = StoredGradient(F.shift(own, *step, "zero")).output
        for rest, side in ((own, -1), (before, 1)):
            share = F.maximum(_across(rest) * -float(side), 0.0)
            found.append((share, step, side))
            near, total = F.logical_or(near, F.greater(rest, 0.0)), total + share
    return near, found, 1.0 / F.maximum(total, 1.0), total


def with_neighbours(picture: Variable, rests: Sequence[Variable]) -> Variable:
    """A hard picture (float image) of which pixels take the colours of their neighbours, by ``Passing.rest`` to the right and
    below. Differentiable in both."""
    near, parts, scale, total = shares(rests)
    result = picture * (1.0 - total * scale)
    for share, (dx, dy), step in parts:
        result = result + F.shift(picture, dx * step, dy * step) * (share * scale)
    return F.select(near, result, picture)


ANTIALIAS = Form("antialias", antialias_form)
