"""Stacks of peeled layers with the derivative of pictures of many samples a pixel (``forms.pairs``).

What the edges form does with the colours of two surfaces, layers do with two composed stacks: that of a pixel and that of the
next one, both shaded at the edge between them. The edge is that of the first layer that has one: there the stacks begin to
differ, and a surface that ends moves all layers behind it one forward.

Where the outlines of two surfaces cross on the screen, two edges may lie between two centres. Then three stacks are seen, and
both edges count, each with the jump from one stack to the next:

    C_p | C_middle    at the nearer edge,        C_middle | C_q    at the farther one.

The middle shows both surfaces, or none of them. It is composed of the layers of one pixel that reach it, and of those of the other
one that end before they come to the first. Of three edges the first layer's counts, and the one that is farthest from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT
from ...ad.ops.pixel.constant import Like
from ...ad.transform.tiles import over_tiles, unstacked
from ...errors import InputError
from ..forms.edges.around_edges import WHOLE, Walk
from ..forms.edges.edge_list import BEYOND, EdgeList, edges_of
from ..forms.form import HARD, Form
from ..forms.pairs import (
    EDGES,
    KINDS,
    OTHER_END,
    OWN_END,
    Pair,
    Shares,
    edges_between,
    moved_edges,
    neighbours_of,
    pairs_of,
)
from ..surface.screen import DrawnMesh, covered, pixel_centres
from .stacks import Layered, Peeled, compose, depth_of, hard_layers, peel, stacked_faces, stacks_of

APART = 0.02
"""Pixels. Edges that are nearer to each other than this are one: the front and the back of a surface end at one."""


class Ends(NamedTuple):
    """Of the layers of a pixel on the way to the next one, or of the next one on the way to the pixel; without derivative."""

    faces: list[Variable]
    """INT: of the surface of each layer, the last face on the way."""
    sides: list[Variable]
    """INT: the corner opposite to the side where the surface ends, -1 if it does not."""
    places: list[Variable]
    """FLOAT: where it ends, in pixels from the pixel."""


Shaded = tuple[Sequence[Variable], Sequence[Variable]]
"""Radiance and transmittance of the layers of a stack."""


class Second(NamedTuple):
    """A second edge between each pixel and the next one along an axis, and what is seen between both edges."""

    pair: Pair
    farther: Variable
    """FLOAT mask: it is farther from the pixel than the first one."""
    own: Variable
    """FLOAT mask: what is seen is the stack of the pixel with changes, else that of the next one."""
    stays: list[Variable]
    """FLOAT masks: which of its layers are there."""
    added: list[Variable]
    """FLOAT masks: which layers of the other stack are there too; together, behind those nearer than their first."""
    depths: list[Variable]
    """FLOAT: of the layers of the stack."""
    nearest: Variable
    """FLOAT: the least depth of those added."""

    def composed(self, own: Shaded, other: Shaded) -> tuple[Variable, Variable]:
        """Colour and transmittance of what is seen, from the stacks of the pixel and of the next one."""
        two = [[F.select(self.own, a, b) for a, b in zip(*pair, strict=True)] for pair in zip(own, other)]
        more = [[F.select(self.own, b, a) for a, b in zip(*pair, strict=True)] for pair in zip(own, other)]
        before = [
            F.logical_and(s, F.less(z, self.nearest)) for s, z in zip(self.stays, self.depths, strict=True)
        ]
        behind = [F.logical_and(s, F.logical_not(b)) for s, b in zip(self.stays, before, strict=True)]
        first, clear = compose(before, *two)
        second, between = compose(self.added, *more)
        third, rest = compose(behind, *two)
        return first + clear * (second + between * third), clear * between * rest


@dataclass(frozen=True, eq=False)
class EdgedLayers(Layered):
    """``stacks``: that at the centre of the pixel; and, at the edges to the right and below, its own and that of the next pixel.
    Only those at the centre have a gradient: those at edges say by how much the picture jumps."""

    pairs: tuple[Pair, ...]
    """To the right and below; the faces are those of the layer that has the edge."""
    seconds: tuple[Second, ...]
    """Likewise."""
    shares: Shares

    def _blended(self, colours: Sequence[Variable], through: Sequence[Variable], far: Like) -> Variable:
        stacks = [slice(k, k + self.depth) for k in range(0, len(colours), self.depth)]
        shaded = [(colours[k], through[k]) for k in stacks]
        composed = [compose(self._there[k], *own) for k, own in zip(stacks, shaded, strict=True)]
        picture, *sides = [colour + clear * far for colour, clear in composed]
        nearer, farther = [], []
        for k, second in enumerate(self.seconds):
            colour, clear = second.composed(*shaded[1 + 2 * k : 3 + 2 * k])
            own, other = sides[2 * k : 2 * k + 2]
            middle = F.select(second.pair.found, colour + clear * far, other)
            steps = own - middle, middle - other
            last = F.logical_and(second.pair.found, F.logical_not(second.farther))
            nearer.append(F.select(last, steps[1], steps[0]))
            farther.append(F.select(second.farther, steps[1], steps[0]))
        picture = moved_edges(self.shares.blend(picture), self.pairs, nearer)
        return moved_edges(picture, [second.pair for second in self.seconds], farther)


def edged_layers(peeled: Peeled, *, edges: EdgeList | None = None) -> EdgedLayers:
    """The picture of peeled faces with the derivative at edges of all layers; definitions at the top of this module."""
    mesh, count = peeled.mesh, len(peeled.faces)
    edges = edges or edges_of(mesh)
    face, shown = Variable(INT, mesh.size, peeled.solid.batch), stacked_faces(peeled.faces)

    def of_layers(outputs: Sequence[Variable], faces: Variable) -> list[list[Variable]]:
        """Images of each layer, of which the outputs are those of one that shows ``face``."""
        return [unstacked(batch, count) for batch in over_tiles(outputs, [face], [faces], count)]

    (layers,) = of_layers([edges_between(replace(mesh, seen=face), edges)], stacked_faces(peeled.seen))
    lists = mesh.faces, neighbours_of(mesh, edges), mesh.points.vertex
    p = pixel_centres(mesh.size)
    nearest = []
    for part in ("xy", "zw"):
        edge = F.ivec2(-1, -1)
        for layer in reversed([F.swizzle(layer, part) for layer in layers]):
            edge = F.select(covered(layer.y), layer, edge)
        nearest.append(edge)
    pairs, stored = pairs_of(mesh, nearest)
    faces, places, ends = [], [], []
    for pair in pairs:
        q, point = p + F.constant(tuple(c / mesh.size[1] for c in pair.step)), F.stop_gradient(pair.point)
        for start, goal, own in ((p, q, face), (q, p, _next(face, pair.step))):
            own = F.select(pair.found, own, -1)
            at_edge, whole = (Walk(own, start, to, *lists).output for to in (point, goal))
            at_edge = F.select(covered(at_edge.x), at_edge.x, own)
            way = F.to_float(whole.z) * (1 / WHOLE)
            found = of_layers([at_edge, whole.x, whole.y, way if start is p else 1.0 - way], shown)
            faces.append(found[0])
            places.append(pair.point)
            ends.append(Ends(*found[1:]))
    both = [(pair, *ends[2 * k : 2 * k + 2]) for k, pair in enumerate(pairs)]
    others, _ = pairs_of(mesh, [_farthest(*one) for one in both])
    seconds = tuple(_second(peeled, other, *one) for other, one in zip(others, both, strict=True))
    shares = Shares.of(stored)
    stacks = stacks_of(mesh, [peeled.faces], scale=shares.whole), stacks_of(mesh, faces, places)
    front = replace(mesh, seen=peeled.seen[0])
    hard = covered(front.face)
    result = EdgedLayers(hard, hard, front, peeled, stacks, pairs, seconds, shares)
    return replace(result, silhouette=result.blend([F.constant(1.0)] * len(result.surfaces)))


def _farthest(pair: Pair, own: Ends, other: Ends) -> Variable:
    """IVEC2, as of ``PairEdges``: the end that is farthest from the edge of a pair, of the layers of the pixel and of the next one;
    -1 for none."""
    first, most, edge = F.stop_gradient(pair.place), F.constant(APART), F.ivec2(-1, -1)
    for ends, kind in ((own, OWN_END), (other, OTHER_END)):
        for face, side, place in zip(*ends, strict=True):
            away = F.select(covered(side), F.abs(place - first), 0.0)
            found = (face, side + kind) if ends is own else (-1, (face + 1) * KINDS + side + kind)
            edge = F.select(F.greater(away, most), F.ivec2(*found), edge)
            most = F.maximum(away, most)
    return edge


def _second(peeled: Peeled, second: Pair, pair: Pair, own: Ends, other: Ends) -> Second:
    first, place = (F.stop_gradient(one.place) for one in (pair, second))
    middle = (first + place) * 0.5
    here = [F.greater(end, middle) for end in own.places]
    there = [F.less(end, middle) for end in other.places]
    # What lies behind an opaque surface is known to the pixel that does not show it.
    by_own = here[-1]

    def chosen(a: Sequence[Variable], b: Sequence[Variable]) -> list[Variable]:
        return [F.select(by_own, *two) for two in zip(a, b, strict=True)]

    own_depths = [F.stop_gradient(depth_of(peeled.mesh, face)) for face in peeled.faces]
    depths = own_depths, [_next(depth, pair.step) for depth in own_depths]
    shown = [covered(face) for face in chosen(own.faces, other.faces)]
    reach = [*chosen(here[:-1], there[:-1]), second.found]
    stays = [F.logical_and(*two) for two in zip(shown, reach, strict=True)]
    ending = [covered(side) for side in chosen(other.sides, own.sides)]
    added = [F.logical_and(*two) for two in zip(ending, chosen(there, here), strict=True)]
    added = [F.select(second.found, one, 0.0) for one in added]
    nearest = F.constant(BEYOND)
    for one, depth in zip(added, chosen(*depths[::-1]), strict=True):
        nearest = F.select(one, F.minimum(nearest, depth), nearest)
    return Second(second, F.greater(place, first), by_own, stays, added, chosen(*depths), nearest)


def _next(image: Variable, step: tuple[int, int]) -> Variable:
    return F.shift(image, -step[0], -step[1])


# Peeled layers, drawn by a form.

LAYERED: dict[Form, Callable[..., Layered]] = {HARD: hard_layers, EDGES: edged_layers}
"""How the forms draw peeled faces."""


def draw_layers(form: Form, mesh: DrawnMesh, opaque: int, layers: int = 4, **options: Any) -> Layered:
    """The picture of a mesh whose faces from number ``opaque`` on are transparent.

    form: one of ``LAYERED``.  layers: of transparent faces, ``peel``.  options: of the form. Differentiable in the positions:
    through the surfaces, and as the form is through the edges of every layer. Raises InputError.
    """
    check_layered(form)
    return LAYERED[form](peel(mesh, opaque, layers), **options)


def check_layered(form: Form, node: str = "") -> None:
    """Raises InputError for a form that draws no layers. node: the name of a transparent one, if any."""
    if form not in LAYERED:
        able = ", ".join(f"'{other.name}'" for other in LAYERED)
        what = f"node '{node}' is transparent, and the" if node else "the"
        raise InputError(f"{what} {form.name} form draws no layers of transparent surfaces; take form={able}")
