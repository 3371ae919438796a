"""Stacks of peeled layers, composed front to back: hard, or with silhouettes antialiased.

A stack is what one place of the screen shows: the transparent surfaces, front to back, and the opaque one behind them.

    hard        one stack, at the centre of each pixel. No derivative by what covers the centre.
    antialias   two more: of what the pixel and the next one to the right (below) show, at the edge that passes between
                their centres (``forms.antialias``), on the other side of it. The whole stack is taken, because a surface that
                ends moves all layers behind it one forward. So layers are composed first, and the composed pictures are
                blended: the result is the mean over the pixel of the two composed pictures, exactly.

Where edges of several layers pass between two centres, the one of the first layer counts, and one of another part of the mesh
(``slivers``).

All layers are tiles of one batch: one graph shades them, whatever their number, and one follows their surfaces to the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.coordinates.coordinates import tile_index
from ...ad.ops.pixel.constant import Like
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ...ad.types import FLOAT, INT, VEC2
from ...errors import InputError
from ..forms.edges.edge_list import EdgeList, edges_of
from ..forms.passings import (
    STEPS,
    Passing,
    PassingEdges,
    Taken,
    blended,
    passings,
    stacked_faces,
    taken_face,
    with_neighbours,
)
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, pixel_centres
from .peel import Peeled
from .slivers import Crossed, crossed
from .transparent import Shade, Transparent, compose


@dataclass(frozen=True, eq=False)
class Layered(Transparent):
    """A mesh with transparent faces, hard; images of the batch of the positions.

    All transparent surfaces are tiles of one batch, and so are the opaque ones: they are shaded by one graph each, whatever their
    number.
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
        faces, weights = (
            self._in_order(*(getattr(s, n) for s in (self.panes, self.solids))) for n in ("face", "weights")
        )
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

        colours: the radiance of each surface, a float image.  through: the transmittance of each, an image of that type or
        FLOAT, 0 for opaque ones; left out, all are opaque.  Differentiable in all, in the background and in the
        positions. Raises InputError.
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
        layers, found = self.depth - 1, []
        transparent = unstacked(panes, self.tiles[0])
        for k, solid in enumerate(unstacked(solids, self.tiles[1])):
            found += [*transparent[k * layers : (k + 1) * layers], solid]
        return found

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
    """The hard picture of peeled faces with the silhouettes of all layers antialiased; options of ``antialias_form``. Raises
    InputError."""
    if not at_edges:
        raise InputError(
            "transparent surfaces are blended with colours at the edge; leave out at_edges=False"
        )
    mesh, count = peeled.mesh, len(peeled.faces)
    edges = edges or edges_of(mesh)
    passing = passings([replace(mesh, seen=face) for face in peeled.seen], edges, with_seams)
    slivers: tuple[Crossed, ...] = ()
    if edges.parts is not None:
        lines = PassingEdges(mesh, edges)
        passing, slivers = zip(
            *(crossed(peeled, lines, *one) for one in zip(passing, STEPS, strict=True)), strict=True
        )
    shown, face = stacked_faces(peeled.faces), Variable(INT, mesh.size, peeled.solid.batch)
    faces, places = [list(peeled.faces)], []
    for between, step in zip(passing, STEPS, strict=True):
        at_edge, place = taken_face(replace(mesh, seen=face), edges, between, step)
        (found,) = over_tiles([at_edge], [face], [shown], count)
        faces.append(unstacked(found, count))
        places.append(place)
    layers = range(count - 1)
    panes = _surfaces(mesh, stacked_faces([stack[k] for stack in faces for k in layers]), places, len(layers))
    solids = _surfaces(mesh, stacked_faces([stack[-1] for stack in faces]), places)
    nearest = replace(mesh, seen=peeled.seen[0])
    hard = covered(nearest.face)
    soft = F.clamp(with_neighbours(hard, passing))
    return AntialiasedLayers(hard, soft, nearest, peeled, panes, solids, passing, slivers)


def _surfaces(mesh: DrawnMesh, faces: Variable, stacks: Sequence[Variable] = (), layers: int = 1) -> Surface:
    """The surfaces of faces at the pixel centres and, of further ``stacks``, at places on the screen: of each so many layers."""
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
    found = over_tiles([weights], [face, place, beside], [faces, places, further], count)
    return Surface(mesh.faces, faces, found[0])
