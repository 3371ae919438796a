"""Rasterize, interpolate and antialias: the operations on triangles, and their graphs over Variables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from weakref import ref

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import IVEC2, VEC4, Size, whole
from ..ad.ops.image.draws import Fragment
from ..ad.ops.pixel.vector import vector
from ..errors import GraphError, InputError
from ..render.core.lists import list_data
from ..render.forms.edges.edge_list import EdgeList, edge_list
from ..render.forms.pairs import edges_form
from ..render.surface.projection import finite
from ..render.surface.screen import (
    Corners,
    DrawnMesh,
    barycentric,
    corners,
    covered,
    interpolate,
    shown_faces,
)
from ..render.surface.texturing import barycentric_slopes
from .operation import (
    Description,
    Layout,
    Operation,
    Parts,
    Spec,
    entries,
    image,
    need,
    one_of,
    resolution_of,
    same,
    shape_of,
    with_room,
)

RASTERIZE = Description(
    {
        "pos": "float32 (N, V, 4), vertices in the clip space of OpenGL for each of N images; or (V, 4) with ``ranges``.",
        "tri": "int32 (T, 3), numbers of vertices.",
        "resolution": "(height, width).",
        "ranges": "int32 (N, 2): image n draws the triangles from ``ranges[n, 0]`` on, ``ranges[n, 1]`` of them.",
        "before": "the first output for the layer before: the next layer behind it is drawn.",
        "grad_db": "whether the second output passes gradients.",
    },
    "two float32 (N, height, width, 4), 0 where there is no triangle. The first: (u, v, z/w, triangle + 1); "
    "u and v are the perspective-correct weights of the first and the second vertex. The second: (du/dX, "
    "du/dY, dv/dX, dv/dY) by pixels. The first row is the bottom of the image.",
    "pos, z/w included",
)
INTERPOLATE = Description(
    {
        "attr": "float32 (V, A), or (N, V, A), or (1, V, A) for all images.",
        "rast": "the first output of ``rasterize``.",
        "tri": "int32 (T, 3), the entries of attr at the corners; others than those of the positions will do.",
        "rast_db": "the second output of ``rasterize``.",
        "diff_attrs": '"all" or a list of numbers: the attributes whose derivatives by pixels are wanted, which needs rast_db.',
    },
    "float32 (N, height, width, A), 0 where there is no triangle, and with diff_attrs (N, height, width, 2 "
    "x chosen attributes): dA/dX, dA/dY of each.",
    "attr, rast and rast_db",
)
ANTIALIAS = Description(
    {
        "color": "float32 (N, height, width, C).",
        "rast": "the first output of ``rasterize``.",
        "pos": "as for ``rasterize``.",
        "tri": "as for ``rasterize``.",
    },
    "an array like color. Where an edge passes between two pixels, one takes some of the colour of the "
    "other, as a whole. So this picture jumps where an edge passes the centre of a pixel in a shaded surface. "
    "The gradient of pos has no such gaps: it is that of a picture of many samples a pixel, with the colours "
    "at the edge extrapolated from the pixels on either side. Where colours change much from one pixel to the "
    'next beside an outline, ``wrap`` of ``hard_soft_ras(form="edges")``, which shades the edges, is exact.',
    "color and pos",
)


def rasterize_call(
    pos: Any,
    tri: Any,
    resolution: Sequence[int],
    ranges: Any = None,
    *,
    before: Any = None,
    grad_db: bool = True,
) -> tuple[Rasterize, list[Any]]:
    """The operation of these arguments of ``rasterize``, and its arrays. Raises InputError."""
    operation = Rasterize(
        resolution_of(resolution), ranges is not None, before is not None, grad_db=bool(grad_db)
    )
    return operation, [pos, tri, *(x for x in (ranges, before) if x is not None)]


def interpolate_call(
    attr: Any, rast: Any, tri: Any, rast_db: Any = None, diff_attrs: str | Sequence[int] | None = None
) -> tuple[Interpolate, list[Any]]:
    """The operation of these arguments of ``interpolate``, and its arrays. Raises InputError."""
    chosen = _chosen(diff_attrs, (shape_of(attr) or (0,))[-1])
    if chosen and rast_db is None:
        raise InputError("diff_attrs needs rast_db, the second output of rasterize")
    return Interpolate(chosen), [attr, rast, tri, *([rast_db] if chosen else [])]


def antialias_call(color: Any, rast: Any, pos: Any, tri: Any) -> tuple[Antialias, list[Any]]:
    """The operation of these arguments of ``antialias``, and its arrays."""
    return Antialias(len(shape_of(pos)) == 2), [color, rast, pos, tri]


@dataclass(frozen=True)
class Interpolate(Operation):
    """Inputs: attributes (V, A) or (N or 1, V, A), rast (N, H, W, 4), triangles (T, 3), and with ``chosen``
    rast_db like rast. Outputs: (N, H, W, A), with ``chosen`` also their derivatives by pixels."""

    chosen: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("attr", "rast", "tri", "rast_db")[: 4 if self.chosen else 3]

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        attr, rast, tri, *rest = given
        axes = need("attr", attr, "float32", ("V", "A"), ("N", "V", "A"))
        pixels = need("rast", rast, "float32", ("N", "H", "W", 4))
        need("tri", tri, "int32", ("T", 3))
        same("images", "rast", pixels["N"], "attr", axes.get("N", 1), broadcasts=True)
        main = (*rast.shape[:3], axes["A"])
        if not self.chosen:
            return (main,)
        need("rast_db", rest[0], "float32", rast.shape)
        wrong = [k for k in self.chosen if not 0 <= k < axes["A"]]
        if wrong:
            raise InputError(f"diff_attrs names attribute {wrong[0]}; there are {axes['A']}, counted from 0")
        return main, (*rast.shape[:3], 2 * len(self.chosen))

    def complete(self, arrays: Sequence[Any]) -> list[Any]:
        attr, rast, tri, *rest = arrays
        return [with_room(attr), rast, with_room(tri), *rest]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        attr, rast, tri, *rest = given
        return entries(attr), image(rast), entries(tri), *map(image, rest)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        tables, (rast,), (triangles,), *rest = inputs
        at, found = interpolated(tables, rast, triangles)
        if not self.chosen:
            return (found,)
        return found, slopes(tables, at, rest[0][0], self.chosen)


def _chosen(diff_attrs: object, count: int) -> tuple[int, ...]:
    """The attributes, of ``count``, whose derivatives by pixels are wanted. Raises InputError."""
    if diff_attrs is None:
        return ()
    if isinstance(diff_attrs, str):
        one_of("diff_attrs", diff_attrs, ("all",))
        return tuple(range(count))
    try:
        return tuple(whole(k, "diff_attrs", 0) for k in diff_attrs)  # type: ignore[attr-defined]
    except (GraphError, TypeError):
        raise InputError(
            f"diff_attrs is 'all' or a list of attributes by number, not {diff_attrs!r}"
        ) from None


# Attributes of vertices at every pixel, and how they change from pixel to pixel.


def face_of(rast: Variable) -> Variable:
    """INT: the triangle at every pixel of the first output of rasterize, -1 for none. No derivative."""
    return F.to_int(F.stop_gradient(rast.w) + 0.5) - 1


def interpolated(
    tables: Sequence[Variable], rast: Variable, faces: Variable
) -> tuple[Corners, tuple[Variable, ...]]:
    """The corners and the attributes of the tables at every pixel. Differentiable in the tables, u and v."""
    at = corners(face_of(rast), faces)
    weights = F.vec3(rast.x, rast.y, 1.0 - rast.x - rast.y)
    return at, tuple(interpolate(table, at, weights) for table in tables)


def slopes(
    tables: Sequence[Variable], at: Corners, rast_db: Variable, chosen: Sequence[int]
) -> tuple[Variable, ...]:
    """The derivatives of the chosen attributes by pixels, (dA/dX, dA/dY) of each one after the other, as
    Variables of at most four components. Differentiable in the tables and in rast_db."""
    across = F.vec3(rast_db.x, rast_db.z, -rast_db.x - rast_db.z)
    down = F.vec3(rast_db.y, rast_db.w, -rast_db.y - rast_db.w)
    found: dict[int, tuple[Variable, Variable]] = {}
    scalars: list[Variable] = []
    for number in chosen:
        table, k = divmod(number, 4)
        if table not in found:
            values = tables[table]
            found[table] = (interpolate(values, at, across), interpolate(values, at, down))
        scalars += [v if v.vtype.is_scalar else F.component(v, k) for v in found[table]]
    return packed(scalars)


def packed(scalars: Sequence[Variable]) -> tuple[Variable, ...]:
    """FLOATs as Variables of four components, and the rest."""
    return tuple(vector(scalars[k : k + 4]) for k in range(0, len(scalars), 4))


# Rasterize: the nearest triangle at every pixel, and the layers behind it.


@dataclass(frozen=True)
class Rasterize(Operation):
    """Inputs: positions (N, V, 4), or (V, 4) with ranges; triangles (T, 3); ranges (N, 2) if ``ranged``, the
    layer before (N, H, W, 4) if ``peeled``. Outputs: (u, v, z/w, triangle + 1) and (du/dX, du/dY, dv/dX,
    dv/dY)."""

    resolution: tuple[int, int]
    """(height, width)."""
    ranged: bool = False
    peeled: bool = False
    with_db: bool = True
    """Whether the second output is computed."""
    grad_db: bool = True
    """Whether the second output is differentiable."""

    @property
    def names(self) -> tuple[str, ...]:
        ranges, layer = ("ranges",) * self.ranged, ("the layer before",) * self.peeled
        return ("pos", "tri", *ranges, *layer)

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        pos, tri, *rest = given
        axes = ("V", 4) if self.ranged else ("N", "V", 4)
        batch = need("pos", pos, "float32", axes).get("N", 1)
        need("tri", tri, "int32", ("T", 3))
        if self.ranged:
            batch = need("ranges", rest.pop(0), "int32", ("N", 2))["N"]
        shape = (batch, *self.resolution, 4)
        if self.peeled:
            need("the layer before", rest.pop(0), "float32", shape)
        return (shape, shape) if self.with_db else (shape,)

    def complete(self, arrays: Sequence[Any]) -> list[Any]:
        pos, tri, *rest = arrays
        return [with_room(pos), with_room(tri), *rest]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        pos, tri, *rest = given
        found = [entries(pos), entries(tri)]
        if self.ranged:
            ranges = rest.pop(0)
            found.append(Layout(ranges.shape, (IVEC2,), (1, 1), ranges.shape[0]))
        if self.peeled:
            found.append(image(rest.pop(0)))
        return tuple(found)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        (position,), (triangles,), *rest = inputs
        height, width = self.resolution
        size = (width, height)
        ranges = rest.pop(0)[0] if self.ranged else None
        before = face_of(rest.pop(0)[0]) if self.peeled else None
        face = drawn(position, triangles, size, ranges, before)
        main, db = described(position, triangles, face, size)
        assert main.vtype is VEC4
        if not self.with_db:
            return ((main,),)
        return (main,), (db if self.grad_db else F.stop_gradient(db),)


# From vertices in clip space to (u, v, z/w, triangle + 1) at every pixel, and the slopes of u and v.
#
# Clip space is that of OpenGL, with y up and z from -w to w. The first row of the images is the bottom one,
# so that rows run along y as they do in Vulkan, and only z has to be moved.


def to_vulkan(position: Variable) -> Variable:
    """Clip positions (VEC4 list) of OpenGL as those of Vulkan: z from 0 to w."""
    return F.vec4(position.xy, (position.z + position.w) * 0.5, position.w)


def drawn(
    position: Variable,
    faces: Variable,
    size: Size,
    ranges: Variable | None = None,
    before: Variable | None = None,
) -> Variable:
    """INT: the nearest triangle at every pixel, -1 for none. No derivative.

    ranges: IVEC2 of one texel, a batch of (first, count): each image draws only these triangles.  before:
    INT, the triangle of the layer before: the next one behind it is found, none where that is -1.
    """
    clip, count = to_vulkan(position), faces.count or faces.size[0] * faces.size[1]
    mesh = DrawnMesh(clip, faces, size, count)
    live = shown_faces(faces, mesh.points.vertex, 0)
    if ranges is not None:
        index = F.linear_index(faces.size)
        inside = F.logical_and(F.greater_equal(index, ranges.x), F.less(index, ranges.x + ranges.y))
        live = F.select(inside, live, 0.0)
    behind = None if before is None else _behind(before, clip, faces, size)
    return F.rasterize(clip, faces, size=size, triangles=count, live=live, fragment=behind)


def _behind(before: Variable, clip: Variable, faces: Variable, size: Size) -> Fragment:
    """Keeps fragments behind the triangle ``before``; at equal depths, those with larger numbers."""
    last = _depth(clip, before, faces, size)

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        depth = _depth(clip, face, faces, size)
        tied = F.logical_and(F.equal(depth, last), F.greater(face, before))
        behind = F.logical_or(F.greater(depth, last), tied)
        return depth, F.logical_and(behind, F.logical_and(covered(before), F.not_equal(face, before)))

    return fragment


def _depth(clip: Variable, face: Variable, faces: Variable, size: Size) -> Variable:
    at = corners(face, faces)
    depth = interpolate(F.swizzle(clip, "zw"), at, barycentric(clip, at, size))
    return depth.x / F.select(F.equal(depth.y, 0.0), 1.0, depth.y)


def described(position: Variable, faces: Variable, face: Variable, size: Size) -> tuple[Variable, Variable]:
    """VEC4 (u, v, z/w, triangle + 1) and VEC4 (du/dX, du/dY, dv/dX, dv/dY) by pixels; 0 without a triangle.

    u and v are the perspective-correct weights of the first two corners. Centres covered by the driver just
    outside of the triangle take the nearest point inside. Differentiable in position.
    """
    position = finite(position)
    at = corners(face, faces)
    weights = barycentric(position, at, size, clamp=True)
    place = interpolate(F.swizzle(position, "zw"), at, weights)
    depth = place.x / F.select(F.equal(place.y, 0.0), 1.0, place.y)
    across, down = barycentric_slopes(position, at, size)
    main = F.vec4(weights.xy, depth, F.to_float(face + 1))
    return main, F.vec4(across.x, down.x, across.y, down.y)


# Antialias: silhouettes blended between neighbouring pixels.

KEPT = 8
"""Topologies whose edges are kept."""


@dataclass(frozen=True)
class Antialias(Operation):
    """Inputs: colours (N, H, W, C), rast (N, H, W, 4), positions (N, V, 4) or (V, 4), triangles (T, 3).
    Output: like the colours."""

    ranged: bool = False
    """Whether the images share the positions, and each shows a range of the triangles."""

    names = ("color", "rast", "pos", "tri")

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        color, rast, pos, tri = given
        axes = need("color", color, "float32", ("N", "H", "W", "C"))
        need("rast", rast, "float32", (axes["N"], axes["H"], axes["W"], 4))
        shape = ("V", 4) if self.ranged else ("N", "V", 4)
        batch = need("pos", pos, "float32", shape).get("N", 1)
        same("images", "color", axes["N"], "pos", batch, broadcasts=self.ranged)
        need("tri", tri, "int32", ("T", 3))
        return (color.shape,)

    def complete(self, arrays: Sequence[Any]) -> list[Any]:
        color, rast, pos, tri = arrays
        lists = [pos, tri, *topology(tri, len(pos) if self.ranged else None)]
        return [color, rast, *map(with_room, lists)]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        color, rast, *lists = given
        return image(color), image(rast), *map(entries, lists)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        colours, (rast,), (position,), *tables = inputs
        lists = [table for (table,) in tables]
        return (antialiased(colours, rast, position, *lists),)


_kept: OrderedDict[Any, tuple[Callable[[], Any], tuple[Any, ...]]] = OrderedDict()


def topology(triangles: Any, vertices: int | None = None) -> tuple[Any, ...]:
    """``neighbours`` of triangles, and ``spans`` for a number of vertices. Those of the last few topologies are
    kept.

    The host makes them, and they lie where the triangles do. A tensor of PyTorch is read once while it is not
    changed.
    """
    values, owner = triangles, None
    if hasattr(triangles, "_version"):
        key, owner = (id(triangles), triangles._version), triangles
    else:
        values = triangles if isinstance(triangles, np.ndarray) else triangles.numpy()
        key = blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()
    key = key, type(triangles), getattr(triangles, "device", None), vertices
    known, tables = _kept.get(key, (None, ()))
    if known is None or known() is not owner:
        values = values if owner is None else owner.cpu().numpy()
        tables = (neighbours(values),) + (() if vertices is None else (spans(values, vertices),))
        if not isinstance(triangles, np.ndarray):
            tables = tuple(triangles.new_tensor(table) for table in tables)
        _kept[key] = (lambda: None) if owner is None else ref(owner), tables
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return tables


# Silhouettes of a picture blended between neighbouring pixels: the edges form over given triangles.


def neighbours(triangles: np.ndarray) -> np.ndarray:
    """``EdgeList.neighbours`` of triangles, both (T, 3). Raises InputError."""
    return list_data(edge_list(triangles).neighbours)[: len(triangles)].astype(np.int32)


def spans(triangles: np.ndarray, count: int) -> np.ndarray:
    """(V, 2): the first and the last triangle that use each of ``count`` vertices."""
    number = np.repeat(np.arange(len(triangles)), 3)
    inside = (triangles >= 0) & (triangles < count)
    vertex, number = triangles.reshape(-1)[inside.reshape(-1)], number[inside.reshape(-1)]
    found = np.tile(np.array([len(triangles), -1], np.int32), (count, 1))
    np.minimum.at(found[:, 0], vertex, number)
    np.maximum.at(found[:, 1], vertex, number)
    return found


def of_each_image(position: Variable, spans: Variable, face: Variable) -> Variable:
    """Shared positions with a batch: in each image the vertices of no triangle between the first and the last
    one seen there are dropped, so that only the silhouettes of what the image shows count."""
    last = F.max(face, axes="xy")
    first = F.min(F.select(F.less(face, 0), NEVER, face), axes="xy")
    shown = F.logical_and(F.less_equal(spans.x, last), F.greater_equal(spans.y, first))
    return F.select(shown, position, 0.0)


NEVER = 1 << 30
"""More than the number of any triangle."""


def antialiased(
    colours: Sequence[Variable],
    rast: Variable,
    position: Variable,
    faces: Variable,
    beside: Variable,
    spans: Variable | None = None,
) -> tuple[Variable, ...]:
    """The pictures with their silhouettes blended. beside: ``neighbours``.  spans: of shared positions of which
    each image shows a range. Differentiable in the colours and the positions."""
    face, count = face_of(rast), faces.count or 0
    clip = to_vulkan(position if spans is None else of_each_image(position, spans, face))
    mesh = DrawnMesh(clip, faces, rast.size, count, seen=face)
    # The form reads the neighbours alone.
    form = edges_form(mesh, edges=EdgeList(0, faces, faces, faces, beside, False))
    return tuple(form.blend([colour], colour) for colour in colours)
