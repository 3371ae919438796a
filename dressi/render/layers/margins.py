"""Pictures of peeled layers by the forms with a soft margin: the margin is one more layer of the pixel.

    picture(p) = f(d / r) P(p, q) + (1 - f(d / r)) P(p),      f(x) = (1 - x)^2

P(p): the layers at the pixel centre p, composed.  q: the nearest point, at distance d < r, of the possible
silhouette edges that count at p.  P(p, q): the same layers and, among them at the depth of the edge, those
that its surface has beside q: the front and the back where a closed surface turns away, one at a border, and
the opaque surface alone where it is opaque.

Which edges count is what the forms differ in:

    outer      where p shows nothing, every edge.
    contour    edges in front of the opaque surface that p shows, from the side on which their mesh is not,
               unless a layer of p goes on to q: the plane of its face has the depth of the edge there.

So the picture is continuous where a surface moves over a pixel centre: just beside the outline the margin
shows the layers that come there. Where nothing is transparent, both are the forms of opaque meshes
(``forms.outer``, ``forms.contour``).

Lines on which surfaces pass through each other have no derivative here; the antialias form gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.transform.tiles import stacked, unstacked
from ...errors import InputError
from ..forms.antialias import ANTIALIAS
from ..forms.contour import CONTOUR, inner_surface
from ..forms.edges.around_edges import (
    NearestPoint,
    Stored,
    depth_at,
    draw_edges,
    edge_depths,
    face_beside,
    face_planes,
    in_front,
    place_on,
)
from ..forms.edges.edge_list import EdgeList, edge_sides, edges_of
from ..forms.form import HARD, Form
from ..forms.outer import OUTER, soft_margin
from ..forms.passings import packed, stacked_faces
from ..surface.screen import DrawnMesh, Surface, covered, pixel_centres
from .peel import Peeled, compose, peel
from .stacks import Layered, antialiased_layers, hard_layers

MEETS = 2e-5
"""Relative difference of depths up to which a face goes on to an edge."""
SHEETS = 2
"""How many surfaces the margin shows at most: the front and the back of a closed one."""


@dataclass(frozen=True, eq=False)
class Margined(Layered):
    """Peeled layers with a soft margin. The ``surfaces`` are those at the centre of the pixel, and behind
    them the two of the margin."""

    margin: Variable
    """FLOAT in [0, 1]: f, 0 without an edge. Differentiable in the positions."""
    found: Variable
    """FLOAT mask: there is a margin."""
    before: tuple[Variable, ...]
    """FLOAT masks: which of the transparent layers of the pixel lie before the margin."""

    @property
    def tiles(self) -> tuple[int, int]:
        return self.depth - 1 + SHEETS, 2

    def _in_order(self, panes: Variable, solids: Variable) -> list[Variable]:
        *layers, first, second = unstacked(panes, self.tiles[0])
        solid, edge = unstacked(solids, self.tiles[1])
        _, opaque = unstacked(self.solids.face, self.tiles[1])
        return [*layers, solid, F.select(covered(opaque), edge, first), second]

    def _blended(self, colours: Sequence[Variable], through: Sequence[Variable], far: Like) -> Variable:
        there, own = self._there[: self.depth], (colours[: self.depth], through[: self.depth])
        hard, clear = compose(there, *own)
        picture = hard + clear * far
        nearer = [F.logical_and(*pair) for pair in zip(there, self.before, strict=False)]
        farther = [F.logical_and(t, F.logical_not(n)) for t, n in zip(there, nearer, strict=False)]
        first, before = compose(nearer, *own)
        second, within = compose(self._there[self.depth :], colours[self.depth :], through[self.depth :])
        third, behind = compose([*farther, there[-1]], *own)
        passed = first + before * (second + within * (third + behind * far))
        return F.mix(picture, Stored(F.select(self.found, passed, 0.0)).output, self.margin)


def outer_layers(peeled: Peeled, radius: Variable, *, edges: EdgeList | None = None) -> Margined:
    """Peeled faces with a soft margin outside of all of them; arguments of ``outer_form``."""
    return _margined(peeled, radius, edges, lambda lines, ends, edge: F.less(peeled.seen[0], 0))


def contour_layers(
    peeled: Peeled, radius: Variable, *, edges: EdgeList | None = None, seams: bool = False
) -> Margined:
    """Peeled faces with a soft margin around each surface, over what lies behind it; arguments of
    ``contour_form``. Raises InputError for seams."""
    if seams:
        raise InputError(
            "the contour form blends no lines on which transparent surfaces pass through each other;"
            " leave out seams, or take form='antialias'"
        )
    layers = packed([F.to_float(face) for face in peeled.layers])

    def counts(lines: _Lines, ends: Variable, edge: Variable) -> Variable:
        row, size = F.lookup(lines.depths, edge), peeled.mesh.size
        counted = in_front(size, peeled.solid, lines.planes, ends, row)
        place = place_on(pixel_centres(size), ends.xy, ends.zw)
        depth, point = F.mix(row.x, row.y, place), F.mix(ends.xy, ends.zw, place)
        for k in range(len(peeled.layers)):
            face = F.to_int(F.component(layers[k // 4], k % 4))
            plane = F.lookup(lines.planes, face)
            apart = F.abs(depth_at(plane, point) - depth)
            goes_on = F.less_equal(apart, MEETS * F.sum_components(F.abs(plane)))
            counted = F.select(F.logical_and(covered(face), goes_on), 0.0, counted)
        return counted

    return _margined(peeled, radius, edges, counts)


@dataclass(frozen=True, eq=False)
class _Lines:
    """The possible silhouette edges of a mesh, and the planes of its faces."""

    mesh: DrawnMesh
    edges: EdgeList

    @cached_property
    def sides(self) -> Variable:
        return edge_sides(self.mesh, self.edges)

    @cached_property
    def depths(self) -> Variable:
        return edge_depths(self.mesh, self.edges, self.sides)

    @cached_property
    def planes(self) -> Variable:
        return face_planes(self.mesh.faces, self.mesh.points.vertex)


def _margined(
    peeled: Peeled,
    radius: Variable,
    edges: EdgeList | None,
    counts: Callable[[_Lines, Variable, Variable], Variable],
) -> Margined:
    """counts(lines, ends, edge): as for ``draw_edges``, whether an edge counts."""
    hard = hard_layers(peeled)
    mesh, lines = peeled.mesh, _Lines(peeled.mesh, edges or edges_of(peeled.mesh))
    near = draw_edges(mesh, lines.edges, lines.sides, radius, lambda *edge: counts(lines, *edge))
    row, place = F.lookup(lines.depths, near.edge), F.stop_gradient(near.place)
    depth, point = F.mix(row.x, row.y, place), F.stop_gradient(near.point)
    before = [F.less(depth_at(F.lookup(lines.planes, face), point), depth) for face in peeled.layers]
    front = face_beside(mesh, lines.edges, near)
    sheets = [inner_surface(mesh, lines.edges, near, face) for face in (front, _behind(lines, near, front))]
    clear = [F.select(F.greater_equal(sheet.face, peeled.opaque), sheet.face, -1) for sheet in sheets]
    opaque = F.select(F.less(sheets[0].face, peeled.opaque), sheets[0].face, -1)
    margin = soft_margin(near, radius, mesh.size)
    soft = F.select(hard.hard, 1.0, margin)

    def surfaces(faces: Sequence[Variable], weights: Sequence[Variable]) -> Surface:
        return Surface(mesh.faces, stacked_faces(faces), stacked(weights))

    own = unstacked(hard.panes.weights, len(peeled.layers))
    panes = surfaces([*peeled.layers, *clear], [*own, *(sheet.weights for sheet in sheets)])
    solids = surfaces([peeled.solid, opaque], [hard.solids.weights, sheets[0].weights])
    return Margined(hard.hard, soft, hard.mesh, peeled, panes, solids, margin, near.found, tuple(before))


def _behind(lines: _Lines, near: NearestPoint, front: Variable) -> Variable:
    """INT: the face behind that in front at the nearest edge, if the surface folds there; else -1."""
    edge, listed = near.edge, lines.edges
    first = F.lookup(listed.around, edge).x
    both = F.lookup(listed.faces, first).x + F.lookup(listed.faces, first + 1).x
    corners = F.lookup(listed.list, edge)
    folds = F.logical_and(covered(corners.z), covered(corners.w))
    folds = F.logical_and(folds, F.not_equal(F.lookup(lines.sides, edge), 0))
    shown = near.found if lines.mesh.cull == "none" else F.constant(0.0)
    return F.select(F.logical_and(shown, folds), both - front, -1)


# Peeled layers, drawn by a form.

LAYERED: dict[Form, Callable[..., Layered]] = {
    HARD: hard_layers, ANTIALIAS: antialiased_layers, OUTER: outer_layers, CONTOUR: contour_layers,
}  # fmt: skip
"""How the forms draw peeled faces."""


def draw_layers(form: Form, mesh: DrawnMesh, opaque: int, layers: int = 4, **options: Any) -> Layered:
    """The picture of a mesh whose faces from number ``opaque`` on are transparent.

    form: one of ``LAYERED``; not that of faces, whose layers are soft faces already, each half transparent
    along the edges that it shares with the next, nor edges, which knows the nearest surface alone.  layers: of transparent faces, ``peel``.  options: of the
    form. Differentiable in the positions: through the surfaces, and as the form is through the silhouettes of
    every layer. Raises InputError.
    """
    check_layered(form)
    return LAYERED[form](peel(mesh, opaque, layers), **options)


def check_layered(form: Form, node: str = "") -> None:
    """Raises InputError for a form that draws no layers. node: the name of a transparent one, if any."""
    if form not in LAYERED:
        able = ", ".join(f"'{other.name}'" for other in LAYERED)
        what = f"node '{node}' is transparent, and the" if node else "the"
        raise InputError(f"{what} {form.name} form draws no layers of transparent surfaces; take form={able}")
