"""What passes between the centres of neighbouring pixels, and what the pixels take there (``antialias``).

Places between two centres are kept as ``rest``, 2 - x, so that 0 means that nothing passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.graph.types import FLOAT, INT, VEC2, VEC4, Access
from ...ad.ops.pixel.constant import Like
from ...ad.ops.pixel.kinds import shortcut
from ...ad.transform.fused import fused
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ..surface.screen import DrawnMesh, common_batch, corners, covered, pixel_centres
from .edges.around_edges import Stored, StoredGradient, Walk, face_planes, rasterize_edges
from .edges.edge_list import BEYOND, HIDDEN, OUTWARD, EdgeList, edge_sides, ends_of, seen_ends
from .edges.seams import DOWN, RIGHT, Step, nearest_seam, seam_pixels

STEPS = RIGHT, DOWN
MIDDLE = 1.5
"""``rest`` of the place where two pixels meet."""


class Passing(NamedTuple):
    """Where something passes between each pixel and the next one along an axis."""

    found: Variable
    """FLOAT mask: an edge or a seam."""
    seam: Variable
    """FLOAT mask: a seam."""
    rest: Variable
    """FLOAT, 2 - x, 0 where nothing passes; differentiable in position."""
    part: Variable
    """INT: the part of the mesh that the edge belongs to; without one, that of the nearer of the two surfaces, -1 for none. -1 for a
    seam, or where all is one part."""


class Sliver(NamedTuple):
    """What is seen between two edges that pass between the same two centres."""

    near: Variable
    """``Passing.rest`` of the first edge, seen from the pixel; 0 without a sliver."""
    far: Variable
    """Of the second one."""


class Taken(NamedTuple):
    """What two neighbouring pixels take of something that is seen between their centres; images that are 0 where nothing is."""

    colour: Variable
    clear: Variable
    """How much of the background is seen through it."""


@dataclass(frozen=True, eq=False)
class PassingEdges:
    """Finds the edges of a mesh that pass between neighbouring pixels."""

    mesh: DrawnMesh
    edges: EdgeList

    @cached_property
    def _lists(self) -> tuple[Variable, Variable, Variable]:
        """The ends of all edges, their depths and sides."""
        a, b = (F.lookup(self.mesh.points.vertex, F.component(self.edges.list, i)) for i in range(2))
        depths = F.clamp(F.vec2(a.z, b.z))
        return seen_ends(self.mesh, self.edges), depths, edge_sides(self.mesh, self.edges)

    def nearest(
        self, step: Step, shown: Sequence[tuple[Variable, Variable]], parts: Sequence[Variable] | None
    ) -> Variable:
        """INT: the edge that passes between each pixel and the one at ``step``, -1 for none.

        shown: what the two show in each layer (``Crossing``); an edge of the first layer that has one counts.  parts: INT for
        each layer, the part of the mesh whose edges count there; None: all.
        """
        axis = "x" if step == RIGHT else "y"
        ends, depths, sides = self._lists
        wanted = None if parts is None else packed([F.to_float(part) for part in parts])

        def fragment(edge: Variable) -> tuple[Variable, Variable]:
            own, away, side = (F.lookup(table, edge) for table in (ends, depths, sides))
            first = F.constant(1.0)
            for k, (here, there) in enumerate(shown):
                place = Crossing(here, there, own, away, side, axis).output
                counts = F.less(place, BEYOND)
                if wanted is not None:
                    part = F.component(wanted[k // 4], k % 4)
                    counts = F.logical_and(counts, F.equal(part, F.to_float(self.part(edge))))
                # What passes beyond a centre, which rounding by drivers may cause, counts where nothing passes between.
                outside = F.not_equal(place, F.clamp(place))
                depth = (place + GRID) * (0.5 / (1 + 2 * GRID)) + float(k) + len(shown) * outside
                first = F.select(counts, F.minimum(first, depth * (0.5 / len(shown))), first)
            return first, F.less(first, 1.0)

        reach = F.constant((1 + GRID + OUTWARD) / self.mesh.size[1])
        on_both = F.select(F.equal(sides, HIDDEN), sides, 0)
        drawn = F.select(_steep(ends, axis), on_both, HIDDEN)
        return rasterize_edges(self.mesh, self.edges, drawn, reach, fragment)

    def part(self, edge: Variable) -> Variable:
        """INT: the part of the mesh that an edge belongs to."""
        assert self.edges.parts is not None
        return F.lookup(self.edges.parts, F.component(F.lookup(self.edges.list, edge), 0))

    def part_of_face(self, face: Variable) -> Variable:
        """INT: the part that a face belongs to, -1 without a face."""
        assert self.edges.parts is not None
        part = F.lookup(self.edges.parts, corners(face, self.mesh.faces).first)
        return F.select(covered(face), part, -1)

    def rest(self, edge: Variable, step: Step) -> Variable:
        """``Passing.rest`` of an edge that passes between each pixel and the one at ``step``. Differentiable in position."""
        found = covered(edge)
        _, ends = ends_of(self.mesh, self.edges, edge)
        a, b = ends.xy, ends.zw
        i, j = (0, 1) if step == RIGHT else (1, 0)
        along, offset = b - a, a - pixel_centres(self.mesh.size)
        slope = F.component(along, i) / F.select(found, F.component(along, j), 1.0)
        place = F.component(offset, i) - F.component(offset, j) * slope
        return F.select(found, 2.0 - place * float(self.mesh.size[1]), 0.0)


def passings(
    layers: Sequence[DrawnMesh], edges: EdgeList, with_seams: bool = True
) -> tuple[Passing, Passing]:
    """What passes between each pixel and the next one to the right, and below: an edge where one of the ``layers`` (one mesh,
    each with the faces that pixels show in that layer) ends, of the first layer that has one; else a seam, likewise."""
    lines = PassingEdges(layers[0], edges)
    fronts = [front(layer) for layer in layers]
    seams = _seams(layers, edges) if with_seams else {RIGHT: [], DOWN: []}

    def between(step: Step) -> Passing:
        ending = [_ending(lines, *one, step) for one in zip(layers, fronts, strict=True)]
        edge = lines.nearest(step, [(one, one) for one in fronts], None if edges.parts is None else ending)
        found, by_seam, rest = covered(edge), F.constant(0.0), lines.rest(edge, step)
        part = ending[0] if edges.parts is None else F.select(found, lines.part(edge), ending[0])
        for seam, place in seams[step]:
            value = Stored(F.stop_gradient(F.select(seam, 2.0 - place, 0.0))).output
            new = F.logical_and(F.greater(value, 0.0), F.logical_not(found))
            rest = F.select(new, shortcut(value, 2.0 - place), rest)
            found, by_seam = F.logical_or(found, new), F.logical_or(by_seam, new)
        return Passing(found, by_seam, rest, F.select(by_seam, -1, part))

    return between(RIGHT), between(DOWN)


def _ending(lines: PassingEdges, mesh: DrawnMesh, seen: Variable, step: Step) -> Variable:
    """INT: of the surfaces that each pixel and the one at ``step`` show, the part of the mesh that the nearer belongs to. Where
    it ends, an edge of this part passes."""
    if lines.edges.parts is None:
        return F.constant(-1)
    following = F.shift(seen, -step[0], -step[1])
    nearer = F.less(seen.y, following.y)
    return lines.part_of_face(F.select(nearer, mesh.face, F.shift(mesh.face, -step[0], -step[1])))


def _seams(layers: Sequence[DrawnMesh], edges: EdgeList) -> dict[Step, list[tuple[Variable, Variable]]]:
    """Whether a seam passes between each pixel and the one at a step, FLOAT mask, and where, in each of the layers. They are
    computed as tiles of one batch."""
    mesh = layers[0]
    planes = face_planes(mesh.faces, mesh.points.vertex)
    face = Variable(INT, mesh.size, mesh.face.batch)
    one = replace(mesh, seen=face)
    pixels = seam_pixels(one, edges, planes, STEPS)
    outputs = []
    for step in STEPS:
        seam = nearest_seam(one, edges, planes, pixels, (step,), 1.0)
        outputs += [seam.found, seam.place]
    found = over_tiles(outputs, [face], [stacked_faces([layer.face for layer in layers])], len(layers))
    each = [unstacked(image, len(layers)) for image in found]
    return {step: list(zip(*each[2 * k : 2 * k + 2], strict=True)) for k, step in enumerate(STEPS)}


def stacked_faces(faces: Sequence[Variable]) -> Variable:
    """INT images of faces, -1 for none, as the tiles of one batch (``stacked``)."""
    return faces[0] if len(faces) == 1 else stacked([face + 1 for face in faces]) - 1


def packed(images: Sequence[Variable]) -> list[Variable]:
    """VEC4 each: four FLOAT images together, stored, because a draw reads few images at its own pixel."""
    filled = [*images, *[F.constant(0.0)] * (-len(images) % 4)]
    return [Stored(F.vec4(*filled[k : k + 4])).output for k in range(0, len(filled), 4)]


def _steep(ends: Variable, axis: str) -> Variable:
    """FLOAT list: which edges may be as steep as 45 degrees relative to the axis; the rest is rounding."""
    along = F.abs(ends.zw - ends.xy)
    size = (along.x, along.y) if axis == "x" else (along.y, along.x)
    return F.greater_equal(size[1], size[0] * 0.999)


def taken_face(mesh: DrawnMesh, edges: EdgeList, passing: Passing, step: Step) -> tuple[Variable, Variable]:
    """What is taken between each pixel and the one at ``step``: INT, the face of the surface that the giving pixel shows, at x; -1
    for none and where nothing passes; VEC2, this place on the screen, differentiable in position."""
    across = _across(passing.rest)
    way = tuple(c / mesh.size[1] for c in step)
    from_next = F.greater(across, 0.0)
    giver = F.select(from_next, F.shift(mesh.face, -step[0], -step[1]), mesh.face)
    giver = F.select(passing.found, giver, -1)
    p = pixel_centres(mesh.size)
    point = p + F.clamp(0.5 - across) * F.constant(way)
    start = F.select(from_next, p + F.constant(way), p)
    lists = mesh.faces, edges.neighbours, mesh.points.vertex
    face = Walk(giver, start, F.stop_gradient(point), *lists).output.x
    return F.select(covered(face), face, giver), point


def _across(rest: Variable) -> Variable:
    """FLOAT, 1/2 - x: the share of the neighbour's surface that the pixel takes or, if negative, the share of the pixel's
    surface that the neighbour takes. 0 where nothing passes."""
    return F.select(F.greater(rest, 0.0), rest - MIDDLE, 0.0)


Shares = tuple[Variable, list[tuple[Variable, Step, int]], Variable, Variable]


def _shares(rests: Sequence[Variable], slivers: Sequence[Sliver] = ()) -> Shares:
    """Of ``Passing.rest`` to the right and below: whether anything passes next to the pixel; shares that it takes, with the
    step to the next pixel of their pair and 1 when it is that pixel, -1 when it is the first; the factor that limits their
    total to 1; the total. Gradients of the shares are 0 where nothing passes, if all that depends on them is chosen by the
    first result."""
    found: list[tuple[Variable, Step, int]] = []
    near, total = F.constant(0.0), F.constant(0.0)
    for own, step in zip(rests, STEPS, strict=True):
        for rest, side in ((own, -1), (_before(own, step), 1)):
            found.append((F.maximum(_across(rest) * -float(side), 0.0), step, side))
            near = F.logical_or(near, F.greater(rest, 0.0))
    for (first, last), step in zip(slivers, STEPS, strict=False):
        for rests, side in (((first, last), -1), ((_before(first, step), _before(last, step)), 1)):
            near = F.logical_or(near, F.greater(rests[0], 0.0))
            # Of the pixel, what lies before the middle; of the next one, what lies behind it.
            begin, end = (F.maximum((rest - MIDDLE) * -float(side), 0.0) for rest in rests)
            found.append(((begin - end) * -float(side), step, side))
    for share, _, _ in found:
        total = total + share
    return near, found, 1.0 / F.maximum(total, 1.0), total


def _before(image: Variable, step: Step) -> Variable:
    """The image at the pixel before, 0 beyond the border."""
    return StoredGradient(F.shift(image, *step, "zero")).output


def blended(
    picture: Variable,
    passing: Sequence[Passing],
    taken: Sequence[Taken],
    background: Like,
    slivers: Sequence[Sliver] = (),
) -> Variable:
    """A hard picture (float image) of which pixels take parts of what is seen between their centres and those of their neighbours.

    taken: to the right and below, and, likewise, of the ``slivers``.  Differentiable in all.
    """
    near, parts, scale, total = _shares([one.rest for one in passing], slivers)
    result = picture * (1.0 - total * scale)
    for k, (share, (dx, dy), side) in enumerate(parts):
        colour, clear = (Stored(v).output for v in taken[k // 2])
        if side > 0:
            colour, clear = (F.shift(v, dx, dy, "zero") for v in (colour, clear))
        result = result + (colour + clear * background) * (share * scale)
    return F.select(near, result, picture)


def with_neighbours(picture: Variable, passing: Sequence[Passing]) -> Variable:
    """A hard picture (float image) of which pixels take the colours of their neighbours. Differentiable in it and positions."""
    near, parts, scale, total = _shares([one.rest for one in passing])
    result = picture * (1.0 - total * scale)
    for share, (dx, dy), side in parts:
        result = result + F.shift(picture, dx * side, dy * side) * (share * scale)
    return F.select(near, result, picture)


# Where silhouettes pass between the centres of neighbouring pixels.

GRID = 1 / 16
"""Pixels. Vulkan lets a driver round corners to a grid of this width, so that coverage of a centre may start this early."""


class Crossing(PixelFunction):
    """Inputs (first VEC2, second VEC2, ends VEC4, depths VEC2, side INT): FLOAT, where an edge passes between the centre of the pixel
    and that of the next one along ``axis`` ("x": to the right, "y": below): pixels from the centre of the farther of the
    two, in [-GRID, 1 + GRID], or BEYOND when it does not count.

    first, second: (number of the face, its depth), (-1, BEYOND) for none; of the pixel in the first image, of the next one in the
    second.  ends: (a, b) of the edge on the screen, with ``depths``.  side: of ``edge_sides``.  It counts when the faces of the two pixels differ, the pixel on the side of
    the mesh is the nearer one, the edge lies in front of the other, and is at least as steep as 45 degrees: of an edge
    of exactly 45 degrees "x" takes both, "y" none. (Laine et al. 2020, section 3.6.)
    """

    operations, fetches = 38.0, 2.0
    no_derivative = "chooses an edge; compute what depends on the vertices from the ends of the edge chosen"
    fields = ("axis",)
    axis: str
    includes = ("face.glsl", "edge.glsl", "crossing.glsl")

    @cached_property
    def access(self):
        return (Access.FETCH,) * 2 + (Access.SAME_PIXEL,) * 3

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC2, VEC2, VEC4, VEC2, INT]:
            raise self.fail(
                "needs two VEC2 (face, depth), VEC4 ends and VEC2 depths of an edge, and its INT side"
            )
        if self.axis not in ("x", "y"):
            raise self.fail(f"the axis is x or y, not {self.axis!r}")
        return FLOAT, Domain(self.inputs[0].size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        step, axis = ("ivec2(1, 0)", 0) if self.axis == "x" else ("ivec2(0, 1)", 1)
        # Beyond the border the neighbour is the pixel itself: no edge passes between them.
        return (
            f"vec2 next = $1(min(pixel + {step}, $size - 1), tile);\n"
            "$y = crossing_place(vec2(pixel) + 0.5, $2, $3, $4, $0(pixel, tile), next, "
            f"{axis}, float($size.y), {GRID!r});"
        )

    def evaluate(self, at, first, second, ends, depths, side):
        x, y, tile = (c for c in np.broadcast_arrays(at.x, at.y, at.tile))
        one, two = (tile if len(image) > 1 else np.zeros_like(tile) for image in (first, second))
        width, height = self.output.size
        right, down = (1, 0) if self.axis == "x" else (0, 1)
        here = first[one, y, x]
        then = second[two, np.minimum(y + down, height - 1), np.minimum(x + right, width - 1)]
        p = np.stack([x, y], axis=-1) + 0.5
        a, b = ends[..., :2] * height - p, ends[..., 2:] * height - p
        if self.axis == "y":
            a, b = a[..., ::-1], b[..., ::-1]
        u = b - a
        steep = np.abs(u[..., 1]) >= np.abs(u[..., 0])
        if self.axis == "y":
            steep = np.abs(u[..., 1]) > np.abs(u[..., 0])
        passes = (a[..., 1] * b[..., 1] <= 0) & (u[..., 1] != 0) & steep
        along = -a[..., 1] / np.where(passes, u[..., 1], 1.0)
        place = a[..., 0] + along * u[..., 0]
        between = (place >= -GRID) & (place <= 1 + GRID)
        down = side * (u[..., 1] if self.axis == "y" else -u[..., 1]) > 0
        before = np.where(side == 0, here[..., 1] < then[..., 1], down)
        near, far = (
            np.where(before, p, q) for p, q in ((here[..., 1], then[..., 1]), (then[..., 1], here[..., 1]))
        )
        depth = (1 - along) * depths[..., 0] + along * depths[..., 1]
        counts = (
            (side != HIDDEN)
            & (here[..., 0] != then[..., 0])
            & passes
            & between
            & (near < far)
            & (depth <= far)
        )
        return np.where(counts, np.where(before, 1 - place, place), BEYOND)


def front(mesh: DrawnMesh) -> Variable:
    """VEC2: the number of the nearest face and its depth at the pixel centre, (-1, BEYOND) where there is none. No derivative.
    The depth of a face seen edge-on is clamped to its corners: its area is rounding error."""
    places = [F.lookup(mesh.points.vertex, number) for number in corners(mesh.face, mesh.faces)]
    return _front(mesh.face, pixel_centres(mesh.size), *places)


@fused
def _front(face: Variable, p: Variable, *v: Variable) -> Variable:
    """VEC2: ``front`` at the place p (VEC2), by the corners of the face, VEC4."""
    # Homogeneous, because corners nearer than the near plane have no place on the screen.
    w, z = F.vec3(*(F.select(F.less(c.z, 0.0), c.w, 1.0) for c in v)), F.vec3(*(c.z for c in v))
    x, y = (F.vec3(*(F.component(c, i) for c in v)) - w * F.component(p, i) for i in range(2))
    areas = F.cross(y, x)
    area = F.dot(areas, w)
    depth = F.dot(areas, z) / F.select(F.equal(area, 0.0), 1.0, area)
    depth = F.minimum(F.maximum(depth, F.maximum(-F.max_component(-z), 0.0)), F.max_component(z))
    return F.select(F.less(face, 0), (-1.0, BEYOND), F.vec2(F.to_float(face), depth))
