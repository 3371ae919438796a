"""The edges form: what is seen between the centres of neighbouring pixels that show different faces.

The derivative of a loss L of a picture C, seen by pixels of finite size, has two parts,

    dL = sum over pixels p of A(p) . dC(p)  +  integral along edges of A . (C_left - C_right) dn,      A = dL/dC.

Edges are sampled where the rows and columns of pixel centres meet them. Let p and q be two neighbours in a row that
show different faces, and x in [0, 1] the place of the edge between them. The second part is the sum over such pairs of

    w A(x) . (C_p(x) - C_q(x)) dx,       A(x) = (1 - a) A(p) + a A(q),

w the length of the edge that the pair stands for, measured along the column, dx the motion of its middle, a the part of it that
lies in q, and likewise over neighbours in a column. C_p(x) and C_q(x) are the two surfaces at the edge itself. An edge crosses
rows and columns by turns; half of the way between two such places, or the way to the corner between them, belongs to each
(``cells``). So lengths add up whatever the direction, and corners of outlines count where they are.

In the picture, a pixel shows the colours of its neighbours on the areas beyond the same edges: the coverage is exact but for
what the pairs do not see. In the first part every pixel counts once all the same: at the limb of a smooth body colours change
like the root of the distance, and weights that grow with the distance lose 2 to 3 %.

Edges are found by walks over the mesh from either centre to the other (``PairEdges``). A surface ends where its faces turn
away or have no neighbour, or farther where it comes back from behind its own fold. The end that lies in front of the other
surface is the edge. Where none does, the surfaces pass through each other or the near plane cuts one of them, and the
edge is the zero of the difference of their depths. Behind an end a third surface may reach farther, as one ridge looks over
another: it is known from pixels beside the pair, and its end counts. So no outline has to be known beforehand: where two surfaces meet
without sharing vertices there is an end too, and nothing jumps.

There is no radius. The reach is that of the loss (``objectives.losses.pyramid``), and plain photographs are the target. Not
seen is a third surface between two centres that no pixel beside the pair shows either; half as much with twice the pixels (a
picture of twice the size, averaged). What jumps inside of a surface, such as normals of flat faces, moves without a
derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.graph.types import FLOAT, INT, IVEC3, IVEC4, Access
from ...ad.ops.pixel.constant import Like
from ...ad.ops.pixel.kinds import Alias
from ...ad.transform.fused import fused
from ...ad.transform.gradient import total
from ...errors import InputError
from ..core.lists import at_points, read_list
from ..surface.screen import (
    DrawnMesh,
    Faces,
    Surface,
    barycentric,
    common_batch,
    corners,
    covered,
    face_cross,
    is_present,
    pixel_centres,
    present,
)
from .cells import STEEPEST, Extents, Given, Taken
from .edges.around_edges import STEPS, Stored, walk
from .edges.edge_list import EdgeList, edges_of, shared_corners
from .form import Form, Silhouette

Step = tuple[int, int]
BOTH: tuple[Step, Step] = (1, 0), (0, 1)
"""Steps from a pixel to its neighbours to the right and below."""
FAR = 2.0
"""The depth of the background."""
OWN_END, OTHER_END, PASS, OWN_CUT, OTHER_CUT = 0, 3, 6, 7, 8
"""Kinds of edges: a side of the face at the pixel (+ the corner opposite), of that at the neighbour, two faces that
pass through each other, the near plane that cuts the face at the pixel, or that at the neighbour."""
KINDS = 16
FOLDS = 6
"""How many faces behind a fold are looked at, whether they reach farther."""
FARTHER = 1e-3
"""Pixels by which they have to: less may be rounding."""
BESIDE = -1, 1, -2, 2
"""Where the surface of one pixel ends before that of the other, a third one may reach farther. Pixels in so many rows (or
columns) beside the pair are asked whether theirs does: at the outline of a mesh of a fit they know five of six that move
the edge by more than a tenth of a pixel, those in the next rows alone two of three."""
PAST = 1e-3
"""Pixels past an end where a third surface has to be."""
SNAPPED = 1 / 16
"""Pixels: drivers move vertices by up to half as much before they tell which centres a face covers (at least four bits of a
pixel). So a surface that a pixel does not show may end as far behind its centre, where the face is not beside that end."""
FINE = 16
"""Meshes with more faces than one in so many pixels are fine: pixels often show faces that are no neighbours."""
UPRIGHT = 0.5
"""Pixels: edges that cross a row within less are spread over as much. Where they pass from one pixel into the next their
gradient would jump, and second derivatives would not tell how it changes."""
NOISE = 1e-6
"""Depths that part by less than this from one pixel to the next are not told apart in single precision."""
ALONG, MOST = 0.6, 2.5
"""Colours are extrapolated by distances of which this share is measured along the surface, in steps from pixel to pixel, at
most so many; the rest on the screen. Both are right for flat surfaces. Of a colour that changes as the root of the distance
from an outline, as on every rounded surface, pixels lose a sixth: on average, x + 1/2 of each is in the picture. Here as much
is added at the edge, where the distance along the surface, at most 1 + sqrt(2), would add nothing and that on the screen .42."""
TINY = 1e-20


class Pair(NamedTuple):
    """The edge between each pixel and the next one along an axis."""

    step: Step
    found: Variable
    """FLOAT mask."""
    faces: tuple[Variable, Variable]
    """INT: the faces at the edge, of the surface that the pixel shows and of that of the next one; -1 for none."""
    place: Variable
    """FLOAT: x; 0 without an edge. Differentiable in position."""
    moved: Variable
    """FLOAT: x of the middle of the edge, which may lie off the row. Differentiable in position."""
    weight: Variable
    """FLOAT: w, 0 without an edge; no derivative."""
    point: Variable
    """VEC2: x on the screen. Differentiable in position."""
    part: Variable
    """FLOAT in [0, 1]: a."""


@dataclass(frozen=True, eq=False)
class Edged(Silhouette):
    """What the edges form returns; images of the batch of the positions."""

    pairs: tuple[Pair, ...]
    """To the right and below."""
    _shares: Shares

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """The nearest face at the pixel centre; at the edge to the right, the surface of the pixel and that of its
        neighbour; and these below."""
        beside = [self._at_edge(pair, face) for pair in self.pairs for face in pair.faces]
        own = self.mesh.surface(self.mesh.face)
        # What the pixel shows moves by its derivative at the centre alone. It counts once, whatever share of the colour
        # pixels give and take: close to an outline colours change fast, and the shares grow with the distance to it.
        own = replace(own, weights=ScaledGradient(own.weights, self._shares.whole).output)
        return (own, *beside)

    def _at_edge(self, pair: Pair, face: Variable) -> Surface:
        mesh = self.mesh
        weights = barycentric(
            mesh.position, corners(face, mesh.faces), mesh.size, place=pair.point, clamp=True
        )
        return Surface(mesh.faces, face, weights)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The shaded ``surfaces`` (a float image each) before the background (a colour or an image, default black).

        Differentiable in the colours, positions and background. With one colour instead of five, those at edges are
        extrapolated from the pixels: less to shade, and exact where colours change evenly. Raises InputError.
        """
        return self.blend_codes(colours, lambda colour: colour, background)

    def blend_codes(
        self,
        colours: Sequence[Variable],
        code: Callable[[Variable], Variable],
        background: Like | None = None,
    ) -> Variable:
        """``code`` of the blended picture. Edges move by the difference of the codes on both sides, not by that of light times
        the slope of the code at what they mix to: before black sRGB is steep, and an edge would count by how little of the
        surface its pixel has."""
        if len(colours) not in (1, 5):
            raise InputError(
                f"blending needs a colour of the surface, or of each of the five, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        picture = F.select(self.hard, colours[0], far)
        shared, picture = code(self._shares.blend(picture)), code(picture)
        jumps = []
        for k, pair in enumerate(self.pairs):
            if len(colours) == 1:
                sides = self._extrapolated(picture, pair)
            else:
                sides = [
                    code(F.select(covered(face), colour, far))
                    for face, colour in zip(pair.faces, colours[1 + 2 * k : 3 + 2 * k], strict=True)
                ]
            jumps.append(sides[0] - sides[1])
        return moved_edges(shared, self.pairs, jumps)

    def _extrapolated(self, picture: Variable, pair: Pair) -> list[Variable]:
        """The colours of both surfaces at the edge, each from its pixel and the next one behind that shows the same surface;
        where there is none, that of its pixel."""
        (dx, dy), clip = pair.step, self.mesh.position

        def at(image: Variable, k: int) -> Variable:
            return F.shift(image, -k * dx, -k * dy, "zero")

        here = self.mesh.surface(self.mesh.face).interpolate(clip)
        even = F.logical_and(F.logical_and(self.hard, at(self.hard, 1)), 1.0 - pair.found)
        x, sides = F.clamp(pair.place), []
        for face, screen, near, behind in zip(pair.faces, (x, 1.0 - x), (0, 1), (-1, 2), strict=True):
            colour, place = at(picture, near), at(here, near)
            way, step = self._at_edge(pair, face).interpolate(clip) - place, place - at(here, behind)
            along = F.sqrt(F.dot(way, way) / F.maximum(F.dot(step, step), TINY))
            change = (colour - at(picture, behind)) * F.mix(screen, F.minimum(along, MOST), ALONG)
            sides.append(colour + F.select(at(even, min(near, behind)), change, 0.0))
        return sides


def moved_edges(picture: Variable, pairs: Sequence[Pair], jumps: Sequence[Variable]) -> Variable:
    """The picture, with the derivative of edges at which it jumps, from left to right and from top to bottom, by so much."""
    weighed = [F.select(pair.found, jump * pair.weight, 0.0) for pair, jump in zip(pairs, jumps, strict=True)]
    return MovedEdges(picture, *(p.moved for p in pairs), *weighed, *(p.part for p in pairs)).output


class Shares(NamedTuple):
    """What pixels take of their neighbours' colours. No derivatives."""

    near: Variable
    """FLOAT mask: the pixel takes or gives a share."""
    taken: tuple[tuple[Variable, int, int], ...]
    """FLOAT, 0 for none: of the pixel at a step (the result of a ``shift``)."""
    whole: Variable
    """FLOAT: 1 / the sum of all shares of the pixel's colour in the picture."""

    @classmethod
    def of(cls, lines: Variable) -> Shares:
        """By the input of ``Cells``."""
        both, given = Taken(lines).output, Given(lines).output
        taken = [F.component(both, k) for k in range(4)]
        total = taken[0] + taken[1] + taken[2] + taken[3]
        near = F.logical_or(F.greater(total, 0.0), F.greater(given, 0.0))
        more = Stored(F.select(near, 1.0 / F.maximum(1.0 - total + given, 0.25) - 1.0, 0.0)).output
        steps = (-1, 0), (1, 0), (0, -1), (0, 1)
        return cls(near, tuple((share, *step) for share, step in zip(taken, steps, strict=True)), 1.0 + more)

    def blend(self, picture: Variable) -> Variable:
        """The picture with the shares of the neighbours' colours. Differentiable in the picture alone."""
        total = F.constant(0.0)
        for share, _, _ in self.taken:
            total = total + share
        scale, change = 1.0 / F.maximum(total, 1.0), picture * 0.0
        for share, dx, dy in self.taken:
            change = change + (F.shift(picture, dx, dy) - picture) * (share * scale)
        return picture + Stored(F.select(self.near, change, 0.0)).output


def edges_form(mesh: DrawnMesh, *, edges: EdgeList | None = None, crossings: bool = True) -> Edged:
    """The picture of a mesh with a derivative at edges; definitions at the top of this module.

    edges: ``edge_list`` of the faces drawn, by default made of their data.  crossings: whether the edges along which surfaces
    pass through each other count. A single vertex moves such an edge the faster, the less the surfaces are inclined
    to each other. The derivative is right, but holds for no step of an optimizer: a shape that is learned and folds through
    itself ends nearer without.  Differentiable in position through the places of the edges, and in what the surfaces are
    shaded with. Raises InputError, GraphError.
    """
    both = edges_between(mesh, edges or edges_of(mesh), crossings)
    pairs, stored = pairs_of(mesh, [F.swizzle(both, part) for part in ("xy", "zw")])
    hard = covered(mesh.face)
    result = Edged(hard, hard, mesh, pairs, Shares.of(stored))
    there = [covered(face) for face in (mesh.face, *(f for pair in pairs for f in pair.faces))]
    return replace(result, silhouette=result.blend(there))


def edges_between(mesh: DrawnMesh, edges: EdgeList, crossings: bool = True) -> Variable:
    """IVEC4, ``PairEdges`` of what the pixels show."""
    fine = mesh.face_count * FINE > mesh.size[0] * mesh.size[1]
    neighbours = neighbours_of(mesh, edges)
    parted = Parted(mesh.face, joined(mesh, neighbours), divides=not fine).output
    lists = mesh.faces, neighbours, mesh.points.vertex, shared_corners(mesh, edges)
    both = PairEdges(parted, mesh.face, *lists, crossings=crossings).output
    # Of fine meshes, most pairs that show different faces have no edge: what follows runs on those that have one.
    return F.select(F.equal(AnyEdge(both).output, 1), Stored(both).output, -1) if fine else both


class AnyEdge(PixelFunction):
    """Input ``PairEdges``: INT, 1 where there is an edge beside or below the pixel."""

    operations = 2.0
    zero_derivative = True
    footprint, quiet, divides = 1, 0, True
    glsl = "int(max($0.y, $0.w) >= 0)"

    def infer(self):
        if self.inputs[0].vtype is not IVEC4:
            raise self.fail("needs the IVEC4 image of PairEdges")
        return INT, self.inputs[0].domain

    def eval(self, edges):
        return (np.maximum(edges[..., 1], edges[..., 3]) >= 0).astype(np.int64)


class Line(NamedTuple):
    """The line on the screen on which the edge between each pixel and the next one along an axis lies."""

    found: Variable
    faces: tuple[Variable, Variable]
    coefficients: Variable
    """VEC3, as of ``_line``."""
    fall: Variable
    """FLOAT: how the line's function falls per pixel from the pixel to the next one; 1 where none is found."""
    turn: Variable
    """FLOAT: likewise along the other axis, 0."""

    @property
    def place(self) -> Variable:
        """FLOAT: pixels from the centre of the pixel; 0 where none is found."""
        return F.select(self.found, self.coefficients.z / self.fall, 0.0)

    @property
    def drawn(self) -> tuple[Variable, Variable]:
        """The input of ``Cells``."""
        slope = F.clamp(-self.turn / self.fall, -STEEPEST, STEEPEST)
        return F.select(self.found, F.clamp(self.place), -1.0), F.select(self.found, slope, 0.0)


def line_of(mesh: DrawnMesh, edge: Variable, step: Step) -> Line:
    """The line of an edge by its two numbers in ``PairEdges``, IVEC2. Differentiable in position."""
    found, own = covered(edge.y), edge.x
    other, kind = F.select(found, edge.y / KINDS - 1, -1), F.select(found, edge.y % KINDS, -1)
    line = _line(mesh, (own, other), kind, pixel_centres(mesh.size))
    fall, turn = (-F.component(line, s.index(1)) / float(mesh.size[1]) for s in (step, step[::-1]))
    there = F.logical_and(found, F.not_equal(fall, 0.0))
    return Line(there, (own, other), line, F.select(there, fall, 1.0), F.select(there, turn, 0.0))


def pairs_of(mesh: DrawnMesh, edges: Sequence[Variable]) -> tuple[tuple[Pair, ...], Variable]:
    """The edges to the right and below by their numbers in ``PairEdges``, IVEC2 each; and the input of ``Cells``."""
    lines = [line_of(mesh, edge, step) for edge, step in zip(edges, BOTH, strict=True)]
    stored = Stored(F.stop_gradient(F.vec4(*(x for line in lines for x in line.drawn)))).output
    extents = Extents(stored).output
    sides = zip(lines, BOTH, ("xy", "zw"), strict=True)
    return tuple(pair_of(mesh, line, step, F.swizzle(extents, part)) for line, step, part in sides), stored


def pair_of(mesh: DrawnMesh, line: Line, step: Step, extents: Variable) -> Pair:
    """The edge between each pixel and the one at ``step``. extents: VEC2, of ``Extents``."""
    # Without an edge the place, the slope and the extents are 0, and so are the motion, the weight and the part.
    place, below, above = line.place, extents.x, extents.y
    slope = line.turn / line.fall
    # The middle of the edge moves like the whole of it.
    moved = place - slope * ((below - above) / 2.0)
    point = pixel_centres(mesh.size) + F.clamp(place) * F.constant(tuple(c / mesh.size[1] for c in step))
    part = F.clamp(0.5 + (moved - 0.5) / F.maximum(F.abs(slope), UPRIGHT))
    return Pair(step, line.found, line.faces, place, moved, below + above, point, part)


def _line(mesh: DrawnMesh, faces: tuple[Variable, Variable], kind: Variable, p: Variable) -> Variable:
    """VEC3 (u, v, c): the edge between two faces (INT, -1 for none) is where u x + v y + c = 0, (x, y) on the screen relative
    to p. It is twice the area that a point spans with the side of a face, or the difference of the depths of two planes.
    Differentiable in position."""
    parts = [
        _part(
            kind,
            p,
            covered(face),
            *(F.lookup(mesh.points.smooth, c) for c in corners(face, mesh.faces)),
            first=first,
        )
        for face, first in zip(faces, (OWN_END, OTHER_END), strict=True)
    ]
    return parts[0] + parts[1]


@fused
def _part(kind: Variable, p: Variable, there: Variable, *v: Variable, first: int) -> Variable:
    """VEC3: the share of a face in ``_line``, by its corners (VEC4). first: the first kind of ends of this face."""
    rows, z = _relative(p, *v)
    sides = [F.cross(rows[k - 1], rows[k - 2]) for k in range(3)]
    area = F.dot(rows[0], sides[0])
    plane = (sides[0] * z.x + sides[1] * z.y + sides[2] * z.z) / F.select(F.equal(area, 0.0), 1.0, area)
    sign, cut = (-1.0, OWN_CUT) if first == OWN_END else (1.0, OTHER_CUT)
    part = F.select(F.equal(kind, PASS), plane * sign, F.select(F.equal(kind, cut), plane * -sign, 0.0))
    for k in range(3):
        part = F.select(F.equal(kind, first + k), sides[k], part)
    return F.select(there, part, 0.0)


def _relative(p: Variable, *v: Variable) -> tuple[list[Variable], Variable]:
    """Homogeneous corners of a face relative to a place, VEC3 each, and their depths: corners nearer than the near plane have
    no place on the screen."""
    w = [F.select(F.less(c.z, 0.0), c.w, 1.0) for c in v]
    return [F.vec3(c.xy - p * k, k) for c, k in zip(v, w, strict=True)], F.vec3(*(c.z for c in v))


def neighbours_of(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """IVEC3 list, ``EdgeList.neighbours``; -1 where faces that share no vertices have come apart."""
    if edges.joints is None:
        return edges.neighbours
    # The mesh may have more faces than are drawn, and the edges room for more.
    own, found = F.linear_index(edges.neighbours.size), []

    def places(face: Variable) -> list[Variable]:
        corner = F.lookup(mesh.faces, face)
        return [F.lookup(mesh.points.vertex, F.component(corner, k)) for k in range(3)]

    corner = places(own)
    for k in range(3):
        other = F.component(edges.neighbours, k)
        ends = corner[k - 2], corner[k - 1]
        away = [[F.sum_components(F.abs(end - place)) for place in places(other)] for end in ends]
        least = [F.minimum(F.minimum(*three[:2]), three[2]) for three in away]
        found.append(F.select(F.equal(F.maximum(*least), 0.0), other, -1))
    return F.ivec3(*found)


def joined(mesh: DrawnMesh, neighbours: Variable) -> Variable:
    """IVEC3 list like ``neighbours``: those of each face that are turned to the viewer as it is, else -1."""
    corner = [F.lookup(mesh.points.vertex, F.component(mesh.faces, k)) for k in range(3)]
    facing = _facing(*corner)
    beside = [F.component(neighbours, k) for k in range(3)]
    own = F.lookup(facing, F.linear_index(neighbours.size))
    alike = [F.greater(F.lookup(facing, other) * own, 0.0) for other in beside]
    return F.ivec3(*(F.select(same, other, -1) for same, other in zip(alike, beside, strict=True)))


@fused
def _facing(*v: Variable) -> Variable:
    """FLOAT: the sign of the area of a face by its corners, VEC4; 0 where one is missing."""
    rows, _ = _relative(F.constant((0.0, 0.0)), *v)
    area = F.dot(rows[0], F.cross(rows[2], rows[1]))
    there = F.logical_and(F.logical_and(present(v[0]), present(v[1])), present(v[2]))
    return F.select(there, F.sign(area), 0.0)


class Parted(PixelFunction):
    """Inputs (face INT image, joined IVEC3 list): INT, 1 where the pixel and the next one in its row show different faces,
    and not two that are ``joined``, plus 2 where the pixel and the next one in its column do. Nothing lies beyond the
    border."""

    operations, fetches = 12.0, 5.0
    zero_derivative = True
    footprint, quiet = 1, 0
    fields = ("divides",)
    divides: bool
    includes = ("face.glsl",)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH)

    def known_value(self, known):
        return np.array(0) if 0 in known else None

    def infer(self):
        face, beside = self.inputs
        if [face.vtype, beside.vtype] != [INT, IVEC3]:
            raise self.fail("needs an INT image of faces, and IVEC3 neighbours of faces")
        return INT, Domain(face.size, common_batch(self))

    glsl = (
        "int face = $0(pixel, tile);\n"
        "ivec2 last = $size - 1;\n"
        "ivec2 next = ivec2($0(min(pixel + ivec2(1, 0), last), tile), $0(min(pixel + ivec2(0, 1), last), tile));\n"
        "bvec2 parted = notEqual(next, ivec2(face));\n"
        "if (face >= 0 && any(parted)) {\n"
        "  ivec3 beside = $1(face_texel(face, $size1), tile);\n"
        "  for (int k = 0; k < 2; ++k)\n"
        "    if (next[k] >= 0 && any(equal(beside, ivec3(next[k])))) parted[k] = false;\n"
        "}\n"
        "$y = int(parted.x) + 2 * int(parted.y);"
    )

    def evaluate(self, at, face, beside):
        x, y, tile = at_points(at)
        result = np.zeros(x.shape, np.int64)
        for axis in range(2):
            own, other = seen_by(face, x, y, tile, axis)
            meet = (read_list(beside, tile, np.maximum(own, 0)) == other[..., None]).any(-1)
            result += (1 + axis) * ((own != other) & ~(meet & (own >= 0) & (other >= 0)))
        return result


def seen_by(face: np.ndarray, x: np.ndarray, y: np.ndarray, tile: np.ndarray, axis: int) -> list[np.ndarray]:
    """The faces at pixels and at the next ones along an axis; beyond the border that of the pixel."""
    of, (height, width) = tile if len(face) > 1 else np.zeros_like(tile), face.shape[1:]
    return [
        face[of, np.minimum(y + k * axis, height - 1), np.minimum(x + k * (1 - axis), width - 1)]
        for k in (0, 1)
    ]


class PairEdges(Faces):
    """Inputs (parted INT, face INT, and the lists faces IVEC3, neighbours IVEC3, vertex VEC4, corners IVEC3): IVEC4, the
    edges that are seen between the centre of each pixel and that of the next one in the row (first two numbers) and in the
    column: the face of the pixel's surface at the edge, -1 for the background, and

        KINDS (1 + face of the other surface) + kind of the edge,

    both -1 without an edge.  crossings: whether surfaces that pass through each other have one.  parted: ``Parted``.  face: the nearest one at every pixel.  neighbours:
    ``EdgeList.neighbours``.  vertex: ``Projected.vertex``.  corners: the faces with one number for all copies of a vertex.
    """

    operations, fetches = 900.0, 75.0
    zero_derivative = True
    fields = ("crossings",)
    crossings: bool
    includes = ("face.glsl", "inner.glsl", "pairs.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) + (Access.FETCH,) * 5

    def infer(self):
        parted, face, faces, neighbours, vertex, shared = self.inputs
        self.check_lists(faces, vertex)
        if [x.vtype for x in (parted, face, neighbours, shared)] != [INT, INT, IVEC3, IVEC3]:
            raise self.fail("needs two INT images, and IVEC3 neighbours and corners of faces")
        return IVEC4, Domain(face.size, common_batch(self))

    def known_value(self, known):
        return np.full(4, -1) if 0 in known and (np.asarray(known[0]) == 0).all() else None

    @cached_property
    def glsl(self) -> str:
        depth = f"pairs_depth({self.fetch_corners('f', 2, 4)}, "
        return f"""$y = ivec4(-1);
float height = float($size.y);
vec2 p = (vec2(pixel) + 0.5) / height;
for (int axis = 0; axis < 2; ++axis) {{
  if (($0 & 1 << axis) == 0) continue;
  ivec2 next = pixel + ivec2(1 - axis, axis);
  vec2 way = vec2(1 - axis, axis) / height;
  // Of the surfaces of both pixels: the last face of a walk to the other pixel, the side there, -1 at the goal, its place
  // and its depth; the depth at the own pixel; the face and the depth where the other surface ends.
  ivec2 seen = ivec2($1(pixel, tile), $1(next, tile)), last = seen, side = ivec2(-1), beside = seen;
  vec2 place = vec2(1.0, 0.0), end = vec2({FAR!r}), start = end, behind = end;
  ivec3 edge = ivec3(-1);
  int kind = {PASS}, near = -1, third = -1;
  bool passes = false;
  float root = 0.0;
  // 0 to 5: from s = 0 and 1 to the other pixel, to the end of the other surface, and to where both pass through each other.
  // Then from pixels beside the pair to past the end of the surface s that ends in front of the other, and on from there.
  for (int n = 0; n < {6 + 4 * len(BESIDE)}; ++n) {{
    int s = n < 6 ? n & 1 : near;
    if (n == 2) {{
      if (side.x < 0 && last.x == seen.y || side.y < 0 && last.y == seen.x) break;
      if (min(side.x, side.y) >= 0 && place.x <= place.y) {{
        edge = ivec3(last, end.x <= end.y ? side.x : {OTHER_END} + side.y);
        break;
      }}
    }} else if (n == 4) {{
      near = side.y >= 0 && end.y < behind.x ? 1 : side.x >= 0 && end.x < behind.y ? 0 : -1;
      if (near >= 0) {{ n = 5; continue; }}
      kind = end.x < 0.0 ? {OWN_CUT} : end.y < 0.0 ? {OTHER_CUT} : {PASS};
      vec2 g = kind == {OWN_CUT} ? vec2(start.x, end.x)
             : kind == {OTHER_CUT} ? vec2(-end.y, -start.y) : vec2(end.y - start.x, start.y - end.x);
      if (!(g.x - g.y > {NOISE!r} && g.x >= 0.0 && g.y <= 0.0)) break;
      root = g.x / (g.x - g.y);
      passes = true;
    }}
    if ((n == 2 || n == 3) && side[1 - s] < 0) continue;
    if (n == 6 && near < 0) break;
    float from = float(s), to = n < 2 || n > 5 ? 1.0 - from : n < 4 ? place[1 - s] : root, when = 1.0;
    if (n < 2) to += {SNAPPED!r} * (1.0 - 2.0 * from);
    int now = seen[s], before = -1, leaves = -1;
    vec2 here = p + way * from, goal = p + way * to;
    if (n > 5) {{
      from = clamp(place[s] + {PAST!r} * (1.0 - 2.0 * from), 0.0, 1.0);
      here = p + way * from;
      now = third;
      if ((n & 1) == 0) {{
        const int rows[] = int[]{BESIDE};
        int k = (n - 6) / 2;
        ivec2 at = pixel + ivec2(1 - axis, axis) * (k & 1) + ivec2(axis, 1 - axis) * rows[k / 2];
        goal = here;
        here = (vec2(at) + 0.5) / height;
        now = any(lessThan(at, ivec2(0))) || any(greaterThanEqual(at, $size)) ? -1 : $1(at, tile);
        if (any(equal(ivec3(now), ivec3(seen, last[s])))) now = -1;
        third = -1;
      }}
      if (now < 0) continue;
    }}
    int final = now;
    float facing = 0.0;
    for (int k = 0; k < {STEPS} && now >= 0; ++k) {{
      ivec3 f = $2(face_texel(now, $size2), tile);
      float passed;
      ivec2 found = inner_exit({self.fetch_corners("f", 2, 4)}, here, goal, facing, passed);
      if (found.x == 0) break;
      final = now; leaves = found.y; when = passed;
      if (leaves < 0) break;
      int on = $3(face_texel(now, $size3), tile)[leaves];
      if (on == before) break;
      before = now; now = on;
    }}
    // Behind the fold the surface may come back and reach farther, but not as the one that the other pixel shows.
    int folded = final, into = n < 2 && leaves >= 0 ? $3(face_texel(final, $size3), tile)[leaves] : -1;
    ivec2 farthest = ivec2(final, leaves);
    float far = when;
    for (int k = 0; k < {FOLDS} && into >= 0; ++k) {{
      ivec3 f = $2(face_texel(into, $size2), tile), sides = $3(face_texel(into, $size3), tile);
      int entered = sides.x == folded ? 0 : sides.y == folded ? 1 : 2;
      float passed;
      int side = pairs_beyond({self.fetch_corners("f", 2, 4)}, p + way * from, p + way * to, entered, passed);
      if (side < 0 || passed < far - 1.0) break;
      if (passed >= 1.0 || into == seen[1 - s]) {{ farthest = ivec2(final, leaves); far = when; break; }}
      if (passed > far + {FARTHER!r}) {{ farthest = ivec2(into, side); far = passed; }}
      folded = into; into = sides[side];
    }}
    final = farthest.x; leaves = farthest.y; when = far;
    float reached = mix(from, to, when);
    if (n < 2 && reached != clamp(reached, 0.0, 1.0) && leaves >= 0 && seen[1 - s] >= 0
        && $3(face_texel(final, $size3), tile)[leaves] == seen[1 - s]) leaves = -1;
    if (leaves < 0) reached = clamp(reached, 0.0, 1.0);
    if (n > 5) {{
      if ((n & 1) == 0) third = facing != 0.0 && leaves < 0 ? final : -1;
      else if (facing != 0.0 && leaves >= 0) {{
        vec2 there = p + way * reached;
        ivec3 f = $2(face_texel(final, $size2), tile);
        float depth = {depth}there), other = {FAR!r};
        if (beside[1 - s] >= 0) {{
          f = $2(face_texel(beside[1 - s], $size2), tile);
          other = {depth}there);
        }}
        if (depth < other) {{ last[s] = final; side[s] = leaves; place[s] = reached; }}
      }}
      continue;
    }}
    if (n < 2) {{ last[s] = final; side[s] = leaves; place[s] = reached; }} else beside[s] = final;
    if (final < 0 || n > 3) continue;
    ivec3 f = $2(face_texel(final, $size2), tile);
    float depth = {depth}p + way * (n < 2 ? reached : to));
    if (n < 2) end[s] = depth; else behind[s] = depth;
    f = $2(face_texel(seen[s], $size2), tile);
    if (n < 2) start[s] = {depth}p + way * from);
  }}
  if (near >= 0) edge = near == 0 ? ivec3(last.x, beside.y, side.x) : ivec3(beside.x, last.y, {OTHER_END} + side.y);
  if (passes && (kind != {PASS} || {str(self.crossings).lower()})) {{
    edge = ivec3(beside, kind);
    if (kind == {PASS}) {{
      ivec3 a = $5(face_texel(max(beside.x, 0), $size5), tile), b = $5(face_texel(max(beside.y, 0), $size5), tile);
      if (any(equal(a, b)) || any(equal(a, b.yzx)) || any(equal(a, b.zxy))) edge = ivec3(-1);
    }}
  }}
  if (edge.z >= 0) {{ $y[2 * axis] = edge.x; $y[2 * axis + 1] = {KINDS} * (edge.y + 1) + edge.z; }}
}}"""

    def evaluate(self, at, parted, face, faces, neighbours, vertex, shared):
        x, y, tile = at_points(at)
        result = np.full((*x.shape, 4), -1, np.int64)
        flags = np.broadcast_to(parted, x.shape)
        for axis in range(2):
            pairs = np.nonzero(flags & 1 << axis)
            if len(pairs[0]):
                spot = [c[pairs] for c in (x, y, tile)]
                tables = faces, neighbours, vertex, shared
                own, other, kind = _edges_between(face, spot, axis, tables)
                kind = np.where(kind == PASS, kind if self.crossings else -1, kind)
                result[(*pairs, 2 * axis)] = np.where(kind < 0, -1, own)
                result[(*pairs, 2 * axis + 1)] = np.where(kind < 0, -1, KINDS * (other + 1) + kind)
        return result


def _edges_between(
    face: np.ndarray, spot: Sequence[np.ndarray], axis: int, tables: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(own, other, kind) of the pairs of pixels (N,) along an axis; kind -1 for none."""
    (x, y, tile), (faces, neighbours, vertex, shared) = spot, tables
    height, count = face.shape[1], len(x)
    p = (np.stack([x, y], axis=-1) + 0.5) / height
    way = np.array([1 - axis, axis]) / height
    seen = seen_by(face, x, y, tile, axis)

    def walked(s: int, goal: np.ndarray, there: np.ndarray, beyond: bool = False):
        own = np.where(there, seen[s], -1)
        ends = walk(own, p + s * way, p + goal[:, None] * way, tile, faces, neighbours, vertex)
        if beyond:
            ends = _beyond(*ends, seen[1 - s], p + s * way, (1 + SNAPPED) * way * (1 - 2 * s), tile, tables)
        final, leaves, reached = np.where(ends[0] < 0, own, ends[0]), ends[1], s + (goal - s) * ends[2]
        if beyond:
            into = read_list(neighbours, tile, np.maximum(final, 0))[np.arange(count), np.maximum(leaves, 0)]
            met = (reached != np.clip(reached, 0, 1)) & (into == seen[1 - s]) & (into >= 0)
            leaves = np.where(met, -1, leaves)
        return final, leaves, np.where(leaves < 0, np.clip(reached, 0, 1), reached)

    def depth(of: np.ndarray, place: np.ndarray) -> np.ndarray:
        corner = read_list(faces, tile, np.maximum(of, 0))
        v = np.stack([read_list(vertex, tile, corner[:, k]) for k in range(3)])
        return np.where(of < 0, FAR, _depth(v, p + place[:, None] * way))

    every, ends = np.ones(count, bool), np.zeros(count)
    last, side, place = zip(
        *(walked(s, ends + 1 - s + SNAPPED * (1 - 2 * s), every, True) for s in range(2)), strict=True
    )
    end = [depth(last[s], place[s]) for s in range(2)]
    start = [depth(seen[s], ends + s) for s in range(2)]
    same = ((side[0] < 0) & (last[0] == seen[1])) | ((side[1] < 0) & (last[1] == seen[0]))
    gap = (np.minimum(*side) >= 0) & (place[0] <= place[1])
    beside = [walked(s, place[1 - s], side[1 - s] >= 0)[0] for s in range(2)]
    behind = [np.where(side[1 - s] >= 0, depth(beside[s], place[1 - s]), FAR) for s in range(2)]
    by_other = (side[1] >= 0) & (end[1] < behind[0])
    by_own = (side[0] >= 0) & (end[0] < behind[1])
    near = np.where(same | gap, -1, np.where(by_other, 1, np.where(by_own, 0, -1)))
    last, side = _reaching_farther(face, spot, axis, tables, near, (seen, last, side, place, beside), depth)
    kind = np.where(end[0] < 0, OWN_CUT, np.where(end[1] < 0, OTHER_CUT, PASS))
    g = [
        np.choose(kind - PASS, [b - a, a, -b])
        for a, b in zip((start[0], end[0]), (end[1], start[1]), strict=True)
    ]
    passes = (g[0] - g[1] > NOISE) & (g[0] >= 0) & (g[1] <= 0)
    root = np.where(passes, g[0] / np.where(passes, g[0] - g[1], 1.0), 0.0)
    met = [walked(s, root, passes)[0] for s in range(2)]
    corner = [read_list(shared, tile, np.maximum(f, 0)) for f in met]
    meet = (corner[0][:, :, None] == corner[1][:, None]).any((1, 2))
    passes &= (kind != PASS) | ~meet
    cases = [same, gap, by_other, by_own, passes]
    edges = [
        (-1, -1, -1),
        (last[0], last[1], np.where(end[0] <= end[1], side[0], OTHER_END + side[1])),
        (beside[0], last[1], OTHER_END + side[1]),
        (last[0], beside[1], side[0]),
        (met[0], met[1], kind),
    ]
    own, other, kind = (np.select(cases, [np.broadcast_to(e[k], count) for e in edges], -1) for k in range(3))
    return own, other, kind


def _reaching_farther(
    face: np.ndarray, spot: Sequence[np.ndarray], axis: int, tables: tuple[np.ndarray, ...], near: np.ndarray,
    ends: Sequence[Sequence[np.ndarray]], depth: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> list[list[np.ndarray]]:  # fmt: skip
    """[last, side] of ``ends`` (seen, last, side, place, beside), where a surface that a pixel ``BESIDE`` shows reaches farther
    than the surface ``near``, which ends in front of the other; -1 for none."""
    (x, y, tile), (faces, neighbours, vertex, _), height = spot, tables, face.shape[1]
    p, way = (np.stack([x, y], axis=-1) + 0.5) / height, np.array([1 - axis, axis]) / height
    own = np.maximum(near, 0)
    seen, last, side, place, beside = (list(pair) for pair in ends)
    final, leaves, reached = (np.where(own == 1, b, a) for a, b in (last, side, place))
    other, goal = np.where(own == 1, beside[0], beside[1]), 1.0 - own
    for across in BESIDE:
        for along in range(2):
            at = [x + (1 - axis) * along + axis * across, y + axis * along + (1 - axis) * across]
            inside = (at[0] >= 0) & (at[0] < face.shape[2]) & (at[1] >= 0) & (at[1] < height)
            of = tile if len(face) > 1 else np.zeros_like(tile)
            third = face[of, np.clip(at[1], 0, height - 1), np.clip(at[0], 0, face.shape[2] - 1)]
            known = (third == seen[0]) | (third == seen[1]) | (third == final)
            third = np.where(inside & ~known & (near >= 0), third, -1)
            past = np.clip(reached + PAST * (1 - 2 * own), 0, 1)
            start = p + past[:, None] * way
            found, left, _ = walk(
                third, (np.stack(at, axis=-1) + 0.5) / height, start, tile, faces, neighbours, vertex
            )
            third = np.where(left < 0, found, -1)
            found, left, when = walk(third, start, p + goal[:, None] * way, tile, faces, neighbours, vertex)
            there = past + (goal - past) * when
            better = (found >= 0) & (left >= 0) & (depth(found, there) < depth(other, there))
            final, leaves = np.where(better, found, final), np.where(better, left, leaves)
            reached = np.where(better, there, reached)
    return [
        [np.where(near == s, new, pair[s]) for s in range(2)] for pair, new in ((last, final), (side, leaves))
    ]


def _beyond(
    last: np.ndarray, side: np.ndarray, when: np.ndarray, other: np.ndarray, start: np.ndarray, way: np.ndarray,
    tile: np.ndarray, tables: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Ends of walks (``walk``), where the surface comes back behind a fold and reaches farther (``pairs_beyond``). other: what
    the other pixel shows."""
    faces, neighbours, vertex, _ = tables
    far, each, folded = [last, side, when], np.arange(len(last)), last
    into = np.where(
        side >= 0, read_list(neighbours, tile, np.maximum(last, 0))[each, np.maximum(side, 0)], -1
    )
    for _ in range(FOLDS):
        corner, sides = (read_list(table, tile, np.maximum(into, 0)) for table in (faces, neighbours))
        v = np.stack([read_list(vertex, tile, corner[:, k]) for k in range(3)])
        entered = np.where(sides[:, 0] == folded, 0, np.where(sides[:, 1] == folded, 1, 2))
        there = (v[..., 2] >= 0).all(0) & is_present(v).all(0) & (into >= 0)
        u = v[..., :2] - start
        across = face_cross(np.broadcast_to(way, u.shape), u)
        out, passed = np.full(len(last), -1), np.zeros(len(last))
        for k in range(3):
            above, below = across[(k + 1) % 3], across[(k + 2) % 3]
            here = (out < 0) & (k != entered) & (above * below <= 0) & (above != below)
            share = (above / np.where(above == below, 1.0, above - below))[:, None]
            place = (1 - share) * u[(k + 1) % 3] + share * u[(k + 2) % 3]
            passed = np.where(here, (place * way).sum(-1) / (way * way).sum(), passed)
            out = np.where(here, k, out)
        goes = there & (out >= 0) & (passed >= far[2] - 1)
        meets = goes & ((passed >= 1) | (into == other))
        goes &= ~meets
        farther = goes & (passed > far[2] + FARTHER)
        far = [np.where(farther, new, old) for new, old in zip((into, out, passed), far, strict=True)]
        far = [np.where(meets, own, old) for own, old in zip((last, side, when), far, strict=True)]
        folded, into = into, np.where(goes, sides[each, np.maximum(out, 0)], -1)
    return far[0], far[1], far[2]


def _depth(v: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(N,): ``pairs_depth`` of corners (3, N, 4) at places (N, 2)."""
    w, z = np.where(v[..., 2] < 0, v[..., 3], 1.0), v[..., 2]
    u = v[..., :2] - w[..., None] * place
    spans = np.stack([face_cross(u[(k + 1) % 3], u[(k + 2) % 3]) for k in range(3)])
    area = (spans * w).sum(0)
    depth = np.where(area == 0, z[0], (spans * z).sum(0) / np.where(area == 0, 1.0, area))
    low = z.min(0)
    return np.clip(depth, np.where(low < 0, -1.0, low), z.max(0))


class ScaledGradient(Alias):
    """Inputs (x, scale FLOAT): x. Its gradient by x is that of the output times the scale."""

    def vjp(self, gy, i):
        return gy * self.inputs[1] if i == 0 else None

    def jvp(self, tangents):
        return None if tangents[0] is None else tangents[0] * self.inputs[1]


class MovedEdges(Alias):
    """Inputs (picture, x FLOAT, y FLOAT, across, down, part of x FLOAT, part of y FLOAT): the picture. Its derivative by x is
    that of an edge between a pixel and the next one in the row, at which it jumps from right to left by ``across``, and of
    which a ``part`` lies in the next pixel; by y likewise in the column, by ``down``.

        dC(p) += (1 - part) across dx,    dC(p + 1) += part across dx

    Differentiable in the picture, x and y, any number of times.
    """

    def infer(self):
        kinds, kind = [v.vtype for v in self.inputs], self.inputs[0].vtype
        if kinds != [kind, FLOAT, FLOAT, kind, kind, FLOAT, FLOAT]:
            raise self.fail(
                "needs a picture, two FLOAT images of places, two of jumps like the picture and two FLOAT of parts"
            )
        return super().infer()

    def vjp(self, gy, i):
        if i == 0:
            return gy
        if i > 2:
            return None
        part, jump = self.inputs[i + 4], self.inputs[i + 2]
        # Of sums it is one value for all pixels, which would have no next one.
        gy = F.expand(gy, gy.batch, self.output.size)
        following = F.shift(gy, -BOTH[i - 1][0], -BOTH[i - 1][1], "zero")
        met = F.mix(gy, following, part)
        return met * jump if gy.vtype is FLOAT else F.dot(met, jump)

    def jvp(self, tangents):
        parts = [] if tangents[0] is None else [tangents[0]]
        for k, step in enumerate(BOTH):
            moved = tangents[1 + k]
            if moved is not None:
                part, jump = self.inputs[5 + k], self.inputs[3 + k] * moved
                parts += [jump * (1.0 - part), F.shift(jump * part, *step, "zero")]
        return total(parts) if parts else None


EDGES = Form("edges", edges_form, colours=True, exact_inside=True)
FOLDING = replace(EDGES, draw=partial(edges_form, crossings=False))
"""For shapes that are learned: they may fold through themselves."""
