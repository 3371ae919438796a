"""Stacks of peeled layers, composed front to back: hard, or with silhouettes antialiased.

A stack is what one place of the screen shows: the transparent surfaces, front to back, and the opaque one
behind them.

    hard        one stack, at the centre of each pixel. No derivative by what covers the centre.
    antialias   two more: of what the pixel and the next one to the right (below) show, at the edge that
                passes between their centres (``forms.antialias``), on the other side of it. The whole stack
                is taken, because a surface that ends moves all layers behind it one forward. So layers are
                composed first, and the composed pictures are blended: the result is the mean over the pixel
                of the two composed pictures, exactly.

Where edges of several layers pass between two centres, the one of the first layer counts, and one of another
part of the mesh (``slivers``).

All layers are tiles of one batch: one graph shades them, whatever their number, and one follows their
surfaces to the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, INT, VEC2
from ...ad.ops.image.coordinates import tile_index
from ...ad.ops.pixel.constant import Like
from ...ad.transform.gradient import total
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ...errors import InputError
from ..forms.edges.around_edges import Stored
from ..forms.edges.edge_list import BEYOND, EdgeList, edges_of
from ..forms.edges.seams import Differs, Step
from ..forms.passings import (
    MIDDLE,
    STEPS,
    Passing,
    PassingEdges,
    Sliver,
    Taken,
    blended,
    passings,
    stacked_faces,
    taken_face,
    with_neighbours,
)
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, pixel_centres
from .peel import Peeled, Shade, Transparent, compose, depth_of


@dataclass(frozen=True, eq=False)
class Layered(Transparent):
    """A mesh with transparent faces, hard; images of the batch of the positions.

    All transparent surfaces are tiles of one batch, and so are the opaque ones: they are shaded by one graph
    each, whatever their number.
    """

    peeled: Peeled
    panes: Surface
    """The transparent surfaces, front to back; as tiles of one batch (``stacked``)."""
    solids: Surface
    """The opaque ones behind them, likewise."""

    @property
    def depth(self) -> int:
        """How many surfaces a stack has."""
        return len(self.peeled.faces)

    @property
    def tiles(self) -> tuple[int, int]:
        """How many surfaces ``panes`` and ``solids`` hold."""
        return self.depth - 1, 1

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """All of them, front to back. Differentiable in the positions."""
        faces = self._in_order(self.panes.face, self.solids.face)
        weights = self._in_order(self.panes.weights, self.solids.weights)
        return tuple(Surface(self.mesh.faces, *one) for one in zip(faces, weights, strict=True))

    def _in_order(self, panes: Variable, solids: Variable) -> list[Variable]:
        """Images of all surfaces, from those of the two batches."""
        return [*unstacked(panes, self.depth - 1), solids]

    @cached_property
    def _there(self) -> list[Variable]:
        """FLOAT masks of the surfaces."""
        return [covered(surface.face) for surface in self.surfaces]

    def composed(self, shade: Shade, background: Like | None = None) -> Variable:
        panes = _shaded(self.panes, self.tiles[0], lambda s: shade(s, False))
        solids = _shaded(self.solids, self.tiles[1], lambda s: shade(s, True))
        return self.blend(
            self._in_order(panes[0], solids[0]), background, self._in_order(panes[1], solids[1])
        )

    def blend(
        self,
        colours: Sequence[Variable],
        background: Like | None = None,
        through: Sequence[Variable] | None = None,
    ) -> Variable:
        """One image of the shaded ``surfaces`` over a background (a colour or an image, default black).

        colours: the radiance of each surface, a float image.  through: the transmittance of each, an image of
        that type or FLOAT, 0 for opaque ones; left out, all are opaque.  Differentiable in all, in the
        background and in the positions. Raises InputError.
        """
        count = len(self.surfaces)
        if len(colours) != count or (through is not None and len(through) != count):
            raise InputError(
                f"blending needs a colour and a transmittance of each of {count} surfaces, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        return self._blended(colours, through or [F.constant(0.0)] * count, far)

    def _blended(self, colours: Sequence[Variable], through: Sequence[Variable], far: Like) -> Variable:
        colour, clear = compose(self._there, colours, through)
        return colour + clear * far


@dataclass(frozen=True, eq=False)
class AntialiasedLayers(Layered):
    """Of each stack, ``panes`` hold the transparent surfaces, and ``solids`` the opaque one."""

    passing: tuple[Passing, ...]
    """What passes to the right and below."""
    crossed: tuple[Crossed, ...]
    """Likewise, where two edges pass; empty if the mesh is one part."""

    @property
    def tiles(self) -> tuple[int, int]:
        stacks = 1 + len(self.passing)
        return stacks * (self.depth - 1), stacks

    def _in_order(self, panes: Variable, solids: Variable) -> list[Variable]:
        layers, surfaces = self.depth - 1, []
        transparent = unstacked(panes, self.tiles[0])
        for k, solid in enumerate(unstacked(solids, self.tiles[1])):
            surfaces += [*transparent[k * layers : (k + 1) * layers], solid]
        return surfaces

    def _blended(self, colours: Sequence[Variable], through: Sequence[Variable], far: Like) -> Variable:
        stacks = [slice(k, k + self.depth) for k in range(0, len(colours), self.depth)]
        (colour, clear), *composed = [compose(self._there[k], colours[k], through[k]) for k in stacks]
        taken = [
            Taken(*(F.select(one.found, v, 0.0) for v in stack))
            for one, stack in zip(self.passing, composed, strict=True)
        ]
        centre = colours[: self.depth], through[: self.depth]
        taken += [one.taken(self.peeled, *centre) for one in self.crossed]
        slivers = [one.sliver for one in self.crossed]
        return blended(colour + clear * far, self.passing, taken, far, slivers)


def _shaded(
    surfaces: Surface, count: int, shade: Callable[[Surface], tuple[Variable, Variable]]
) -> list[Variable]:
    """(radiance, transmittance) of ``count`` surfaces that are tiles of one batch, likewise."""
    if count == 1:
        return list(shade(surfaces))
    face, weights = (Variable(x.vtype, x.size, x.batch // count) for x in (surfaces.face, surfaces.weights))
    outputs = shade(Surface(surfaces.faces, face, weights))
    return over_tiles(outputs, [face, weights], [surfaces.face, surfaces.weights], count)


def hard_layers(peeled: Peeled) -> Layered:
    """The hard picture of peeled faces."""
    mesh = replace(peeled.mesh, seen=peeled.seen[0])
    hard = covered(mesh.face)
    panes = _surfaces(mesh, stacked_faces(peeled.layers), layers=len(peeled.layers))
    return Layered(hard, hard, mesh, peeled, panes, _surfaces(mesh, peeled.solid))


def antialiased_layers(
    peeled: Peeled, *, edges: EdgeList | None = None, with_seams: bool = True, at_edges: bool = True
) -> AntialiasedLayers:
    """The hard picture of peeled faces with the silhouettes of all layers antialiased; options of
    ``antialias_form``. Raises InputError."""
    if not at_edges:
        raise InputError(
            "transparent surfaces are blended with colours at the edge; leave out at_edges=False"
        )
    mesh, count = peeled.mesh, len(peeled.faces)
    edges = edges or edges_of(mesh)
    passing = passings([replace(mesh, seen=face) for face in peeled.seen], edges, with_seams)
    slivers: tuple[Crossed, ...] = ()
    if edges.parts is not None:
        lines, pairs = PassingEdges(mesh, edges), zip(passing, STEPS, strict=True)
        passing, slivers = zip(*(crossed(peeled, lines, *pair) for pair in pairs), strict=True)
    shown, face = stacked_faces(peeled.faces), Variable(INT, mesh.size, peeled.solid.batch)
    faces, places = [list(peeled.faces)], []
    for between, step in zip(passing, STEPS, strict=True):
        at_edge, place = taken_face(replace(mesh, seen=face), edges, between, step)
        (taken,) = over_tiles([at_edge], [face], [shown], count)
        faces.append(unstacked(taken, count))
        places.append(place)
    layers = range(count - 1)
    panes = _surfaces(mesh, stacked_faces([stack[k] for stack in faces for k in layers]), places, len(layers))
    solids = _surfaces(mesh, stacked_faces([stack[-1] for stack in faces]), places)
    nearest = replace(mesh, seen=peeled.seen[0])
    hard = covered(nearest.face)
    soft = F.clamp(with_neighbours(hard, passing))
    return AntialiasedLayers(hard, soft, nearest, peeled, panes, solids, passing, slivers)


def _surfaces(mesh: DrawnMesh, faces: Variable, stacks: Sequence[Variable] = (), layers: int = 1) -> Surface:
    """The surfaces of faces at the pixel centres and, of further ``stacks``, at places on the screen: of each
    so many layers."""
    count = (1 + len(stacks)) * layers
    tiles = faces.batch // count
    face = Variable(INT, mesh.size, tiles)
    at = corners(face, mesh.faces)
    centre = barycentric(mesh.position, at, mesh.size)
    if not stacks:
        return Surface(mesh.faces, faces, over_tiles([centre], [face], [faces], count)[0])
    place, beside = Variable(VEC2, mesh.size, tiles), Variable(FLOAT, (1, 1), tiles)
    weights = F.select(beside, barycentric(mesh.position, at, mesh.size, place=place, clamp=True), centre)
    places = stacked([p for p in (pixel_centres(mesh.size), *stacks) for _ in range(layers)])
    further = F.greater_equal(tile_index((1, 1), faces.batch), layers * tiles)
    (weights,) = over_tiles([weights], [face, place, beside], [faces, places, further], count)
    return Surface(mesh.faces, faces, weights)


# Slivers: what is seen between two edges that pass between the same two pixel centres.
#
# Where the outlines of two objects cross on the screen, and one of them is transparent, the strip between
# their edges shows neither what the one pixel shows nor what the other does: both objects, or none of them.
# It is composed of the layers of the two pixels: those of one of them, without the part of the mesh that ends
# on the way to the sliver, or with the part that begins there. So the picture does not jump where one of the
# edges moves over a centre. The layers of a part that begins lie together, behind those that are nearer than
# its first one.

LARGEST = 2**31 - 1


class Crossed(NamedTuple):
    """A sliver between each pixel and the next one along an axis, and what is seen there."""

    sliver: Sliver
    step: Step
    part: Variable
    """INT: the transparent part of the mesh that ends or begins."""
    from_next: Variable
    """FLOAT mask: it does so on the way from the next pixel."""
    apart: Variable
    """FLOAT mask: pixels and their neighbours show different parts; there is no sliver elsewhere."""
    parts: list[Variable]
    """INT: the parts that each pixel shows, by layer."""

    def taken(self, peeled: Peeled, colours: Sequence[Variable], through: Sequence[Variable]) -> Taken:
        """The composed sliver, of the shaded layers at the centre of each pixel and their transmittances.
        Differentiable in both."""
        swapped = [self._swapped(images) for images in (self.parts, _depths(peeled), colours, through)]
        (parts, depths, *shaded), (own_parts, own_depths, *own) = zip(*swapped, strict=True)
        last = len(parts) - 1
        begins = [F.equal(part, self.part) for part in own_parts[:last]]
        nearest = F.constant(BEYOND)
        for here, depth in zip(begins, own_depths, strict=False):
            nearest = F.select(here, F.minimum(nearest, depth), nearest)
        stays = [F.logical_and(F.greater_equal(p, 0), F.not_equal(p, self.part)) for p in parts]
        before = [F.logical_and(s, F.less(z, nearest)) for s, z in zip(stays, depths, strict=True)]
        behind = [F.logical_and(s, F.logical_not(b)) for s, b in zip(stays, before, strict=True)]
        first, clear = compose(before, *shaded)
        second, between = compose(begins, *own)
        third, rest = compose(behind, *shaded)
        some = F.greater(self.sliver.near, 0.0)
        colour, clear = first + clear * (second + between * third), clear * between * rest
        return Taken(F.select(some, colour, 0.0), F.select(some, clear, 0.0))

    def _swapped(self, images: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
        """The images at the pixel from which the part is left out or added to, and at the other one."""
        here, there = [], []
        for image in images:
            # Constant where there is no sliver: what follows is computed on the other blocks of pixels alone.
            a, b = (F.select(self.apart, x, 0) for x in (image, _next(image, self.step)))
            here.append(F.select(self.from_next, b, a))
            there.append(F.select(self.from_next, a, b))
        return here, there


def crossed(peeled: Peeled, lines: PassingEdges, passing: Passing, step: Step) -> tuple[Passing, Crossed]:
    """The sliver behind the edge that passes, and that edge as it borders on the middle between the
    pixels."""
    parts = [lines.part_of_face(face) for face in peeled.faces]
    # Pixels that show other parts have another number.
    number = total([part * pow(31, k, LARGEST) for k, part in enumerate(parts)])
    apart = Stored(Differs(number, steps=STEPS).output).output
    own = [F.select(apart, part, -1) for part in parts]
    following = [F.select(apart, _next(part, step), -1) for part in parts]
    found = F.select(apart, Stored(passing.found).output, 0.0)
    first = F.select(apart, Stored(passing.part).output, -1)
    other, ends = F.constant(-1), F.constant(0.0)
    for shown, others, here in ((following, own, 0.0), (own, following, 1.0)):
        for part in reversed(shown):
            new = F.logical_and(F.greater_equal(part, 0), F.not_equal(part, first))
            new = F.logical_and(new, F.logical_not(_among(part, others)))
            other, ends = F.select(new, part, other), F.select(new, F.constant(here), ends)
    panes = [*own[:-1], *following[:-1]]
    ended = F.not_equal(_among(first, own), _among(first, following))
    one, two = F.logical_and(found, _among(first, panes)), _among(other, panes)
    some = F.select(found, F.logical_and(ended, F.logical_or(one, two)), two)
    some = F.logical_and(some, F.greater_equal(F.minimum(first, other), 0))
    # The edge is one of the other part; it is seen where it lies before what is opaque beyond it.
    limit = depth_of(peeled.mesh, peeled.solid)
    here = F.vec2(0.0, F.select(some, F.select(ends, 0.0, limit), 0.0))
    there = F.vec2(some, F.select(some, F.select(ends, _next(limit, step), 0.0), 0.0))
    edge = lines.nearest(step, [(Stored(here).output, F.shift(Stored(there).output, *step))], [other])
    rest = lines.rest(edge, step)
    # Beyond the border there is no pair.
    both = F.logical_and(covered(edge), some)
    begin = F.select(found, F.select(apart, passing.rest, 0.0), MIDDLE)
    near, far = (F.select(both, of(begin, rest), 0.0) for of in (F.maximum, F.minimum))
    middle = F.maximum(F.minimum(near, MIDDLE), far)
    middle = F.select(F.logical_and(both, found), middle, passing.rest)
    from_next = F.equal(F.less(begin, rest), one)
    part = F.select(one, first, other)
    return passing._replace(rest=middle), Crossed(Sliver(near, far), step, part, from_next, apart, parts)


def _next(image: Variable, step: Step) -> Variable:
    return F.shift(image, -step[0], -step[1])


def _among(part: Variable, parts: Sequence[Variable]) -> Variable:
    """FLOAT mask: a part is one of several."""
    return reduce(F.logical_or, [F.equal(part, one) for one in parts])


def _depths(peeled: Peeled) -> list[Variable]:
    """FLOAT: depths of the layers at the centre of each pixel."""
    return [F.stop_gradient(depth_of(peeled.mesh, face)) for face in peeled.faces]
