"""Edges of a mesh: the list made once per topology, which of them may be silhouettes, quads around them.

An edge is a silhouette when all faces drawn at it lie on one side of its projection. Distances from outside may be
taken to any superset of the silhouettes: from a point that the mesh does not cover, the way to an edge inside the
mesh leads across its outline, which is nearer. So whatever is in doubt is drawn, on both sides.

None of the Functions has a derivative: they choose an edge, and what depends smoothly on the vertices is computed
from the choice by ordinary Functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ad.graph import Domain, PixelFunction, Variable
from ..ad.types import FLOAT, INT, IVEC2, IVEC3, IVEC4, VEC3, VEC4, Access, Size, list_image, list_size
from ..errors import InputError
from .screen import AREA_MINIMUM, FARTHEST, DrawnMesh, Faces, at_points, common_batch, face_cross
from .soft_faces import squared_distance

HIDDEN = 2
"""The side of an edge that is not drawn."""
INWARD = 0.75
"""How far quads of silhouettes reach over the mesh, in pixels: drivers cover pixel centres differently."""
OUTWARD = 0.5
"""What quads reach beyond the radius, in pixels."""
BEYOND = 2.0
"""A distance that nothing has."""
NOWHERE = 1e30
"""What no face beside an edge rises by."""
LOOK = 0.75
"""How far beyond an edge the mesh must have ended for the edge to be part of the outline, in pixels."""


@dataclass(frozen=True, eq=False)
class EdgeList:
    """The edges of a topology, made by ``edge_list``."""

    count: int
    list: Variable
    """IVEC4 list (a, b, c, d) of vertices, a <= b, ascending: the edge from a to b, the third corner c of the face
    that runs along it from a to b, and d of the one that runs from b to a; -1 where there is none."""
    around: Variable
    """IVEC2 list like ``list``: the first of the faces that meet at the edge, of ``faces``, and how many they are."""
    faces: Variable
    """IVEC3 list: a face's number, its third corner, 1 when it runs along the edge from a to b, else -1."""
    closed: bool
    """Whether faces meet two by two, oriented alike. From outside of such a mesh whatever covers a pixel does so with
    a front face as well: silhouettes may cull the back faces."""


def edge_list(faces: np.ndarray) -> EdgeList:
    """The edges of ``faces`` (F, 3), vertex numbers. Raises InputError.

    An edge of two faces that run along it in opposite directions is one entry. Open edges, those of three faces or
    more, and those of faces that disagree on their orientation have an entry for each face, as if it were alone: they
    are drawn whenever the face is. A face that uses a vertex twice is a line, and is drawn as one.

        faces 0-1-2 and 2-1-3:   (0, 1, 2, -1), (0, 2, -1, 1), (1, 2, 0, 3), (1, 3, 2, -1), (2, 3, -1, 1)
    """
    faces = np.asarray(faces)
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
        raise InputError(f"faces are an array (F, 3) of at least one triangle, not {faces.shape}")
    if faces.min() < 0:
        raise InputError(f"faces use vertex {faces.min()}")
    start, end, third = (faces[:, k].reshape(-1) for k in ([0, 1, 2], [1, 2, 0], [2, 0, 1]))
    number, real = np.repeat(np.arange(len(faces)), 3), start != end
    start, end, third, number = start[real], end[real], third[real], number[real]
    if len(start) == 0:
        raise InputError("no face has an edge: each uses one vertex three times")
    low, high, back = np.minimum(start, end), np.maximum(start, end), start > end
    order = np.lexsort((third, back, high, low))
    low, high, back, third, number = low[order], high[order], back[order], third[order], number[order]
    _, first, uses = np.unique(np.stack([low, high], axis=1), axis=0, return_index=True, return_counts=True)
    around = np.repeat(np.stack([first, uses], axis=1), uses, axis=0)
    pair = first[(uses == 2)]
    pair = pair[back[pair] != back[pair + 1]]  # sorted: the one that runs forward comes first
    edges = np.stack([low, high, np.where(back, -1, third), np.where(back, third, -1)], axis=1)
    edges[pair, 3] = third[pair + 1]
    edges, around = np.delete(edges, pair + 1, axis=0), np.delete(around, pair + 1, axis=0)
    incident = np.stack([number, third, np.where(back, -1, 1)], axis=1)
    return EdgeList(
        len(edges),
        Variable(IVEC4, list_size(len(edges)), name="edges", data=list_image(edges)),
        Variable(IVEC2, list_size(len(edges)), name="around edges", data=list_image(around)),
        Variable(IVEC3, list_size(len(incident)), name="faces at edges", data=list_image(incident)),
        bool((edges[:, 2:] >= 0).all()),
    )


def edges_of(mesh: DrawnMesh) -> EdgeList:
    """``edge_list`` of the data of the faces. Raises InputError when they have none."""
    faces = mesh.faces
    if faces.data is None or faces.batch != 1:
        raise InputError(
            f"this form needs the edges, and {faces} has no data to make them of; give edges=edge_list(faces)"
        )
    return edge_list(faces.data.reshape(-1, 3)[: mesh.face_count])


class EdgeEnds(PixelFunction):
    """Inputs (edges IVEC4 list, vertex VEC3 list): VEC4 list like ``edges``, the two ends on the screen."""

    includes = ("face.glsl",)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        check_edges(self)
        return VEC4, Domain(self.inputs[0].size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        read = "$1(face_texel(e.%s, $size1), tile).xy"
        return f"ivec4 e = $0;\n$y = vec4({read % 'x'}, {read % 'y'});"

    def evaluate(self, at, edges, vertex):
        tile = at_points(at)[2]
        ends = (
            Faces.read_list(vertex, tile, np.broadcast_to(edges[..., i], tile.shape))[..., :2]
            for i in range(2)
        )
        return np.concatenate(list(ends), axis=-1)


def check_edges(f: PixelFunction) -> None:
    """That a Function's inputs are a list of edges and one of vertices. Raises GraphError."""
    edges, vertex = f.inputs
    if edges.vtype is not IVEC4:
        raise f.fail("edges are IVEC4; use edge_list()")
    if vertex.vtype is not VEC3:
        raise f.fail("vertices are VEC3 (x, y, depth); use project()")


class EdgeSides(PixelFunction):
    """Inputs (edges IVEC4 list, vertex VEC3 list): INT list like ``edges``, where the mesh lies beside each edge.

    1 or -1: on the side where face_cross(b - a, x - a) has that sign.  0: on both, or who knows: faces seen edge-on,
    or without area.  HIDDEN: nowhere, or the faces lie on different sides; no silhouette. Faces with a corner that
    cannot be projected, and with ``cull`` 1 those turned away, are not there: the edge is that of the rest.
    """

    fields = ("cull",)
    includes = ("face.glsl", "edge.glsl")

    def __init__(self, edges: Variable, vertex: Variable, cull: int):
        self.cull = cull
        super().__init__(edges, vertex)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        check_edges(self)
        return INT, Domain(self.inputs[0].size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        read = "$1(face_texel(e.%s, $size1), tile)"
        face = "e.{0} < 0 ? EDGE_HIDDEN : edge_face(a, b, $1(face_texel(e.{0}, $size1), tile), {1}.0)"
        return (
            f"ivec4 e = $0;\nvec3 a = {read % 'x'}, b = {read % 'y'};\n"
            f"int first = {face.format('z', self.cull)};\nint second = {face.format('w', -self.cull)};\n"
            "$y = edge_there(a) && edge_there(b) ? edge_side(first, second) : EDGE_HIDDEN;"
        )

    def evaluate(self, at, edges, vertex):
        tile = at_points(at)[2]
        a, b, c, d = (
            Faces.read_list(vertex, tile, np.broadcast_to(edges[..., i], tile.shape)) for i in range(4)
        )
        first = np.where(edges[..., 2] < 0, HIDDEN, _face_side(a, b, c, self.cull))
        second = np.where(edges[..., 3] < 0, HIDDEN, _face_side(a, b, d, -self.cull))
        one = (first == HIDDEN) | (second == HIDDEN)
        both = np.where(first == second, first, np.where(first * second < 0, HIDDEN, 0))
        side = np.where(one, np.minimum(first, second), both)
        return np.where(_there(a) & _there(b), side, HIDDEN)


def _there(v: np.ndarray) -> np.ndarray:
    return (v[..., 2] >= 0) & (np.abs(v[..., :2]) < FARTHEST).all(-1)


def _face_side(a: np.ndarray, b: np.ndarray, c: np.ndarray, facing: int) -> np.ndarray:
    u = b[..., :2] - a[..., :2]
    area = face_cross(u, c[..., :2] - a[..., :2])
    far = np.abs(np.stack([a, b, c])[..., :2]).max(axis=(0, -1))
    doubt = AREA_MINIMUM + 1e-5 * (1 + far) * np.linalg.norm(u, axis=-1)
    side = np.where(np.abs(area) > doubt, np.sign(area), 0)
    gone = ~_there(c)
    if facing:
        gone |= area * facing <= AREA_MINIMUM
    return np.where(gone, HIDDEN, side).astype(np.int64)


class EdgeFront(PixelFunction):
    """Inputs (edges IVEC4, around IVEC2, faces IVEC3, vertex VEC3, all lists): INT list like ``edges``.

    The number of the face in front beside each edge: of those drawn at it, the one that rises fastest toward the
    viewer with the distance to the edge, first of all those that have an area. -1 when none is drawn.
    """

    fields = ("cull",)
    includes = ("face.glsl", "edge.glsl")

    def __init__(self, edges: Variable, around: Variable, faces: Variable, vertex: Variable, cull: int):
        self.cull = cull
        super().__init__(edges, around, faces, vertex)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.SAME_PIXEL, Access.FETCH, Access.FETCH)

    def infer(self):
        edges, around, faces, vertex = self.inputs
        if [edges.vtype, around.vtype, faces.vtype] != [IVEC4, IVEC2, IVEC3] or edges.size != around.size:
            raise self.fail("needs the lists of edge_list()")
        if vertex.vtype is not VEC3:
            raise self.fail("vertices are VEC3 (x, y, depth); use project()")
        return INT, Domain(edges.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        read = "$3(face_texel(%s, $size3), tile)"
        return (
            f"ivec4 e = $0;\nvec3 a = {read % 'e.x'}, b = {read % 'e.y'};\n"
            "float nearest = EDGE_NOWHERE;\n$y = -1;\n"
            "for (int k = $1.x; k < $1.x + $1.y; ++k) {\n"
            "  ivec3 f = $2(face_texel(k, $size2), tile);\n"
            f"  float rise = edge_rise(a, b, {read % 'f.y'}, {self.cull}.0 * float(f.z));\n"
            "  if (rise < nearest) { nearest = rise; $y = f.x; }\n}"
        )

    def evaluate(self, at, edges, around, faces, vertex):
        tile = at_points(at)[2]
        a, b = (Faces.read_list(vertex, tile, np.broadcast_to(edges[..., i], tile.shape)) for i in range(2))
        front, nearest = np.full(tile.shape, -1), np.full(tile.shape, NOWHERE)
        for k in range(int(around[..., 1].max(initial=0))):
            index = np.broadcast_to(around[..., 0] + k, tile.shape)
            face = Faces.read_list(faces, tile, index)
            c = Faces.read_list(vertex, tile, face[..., 1])
            rise = _rise(a, b, c, self.cull * face[..., 2])
            closer = (k < around[..., 1]) & (rise < nearest)
            front, nearest = np.where(closer, face[..., 0], front), np.where(closer, rise, nearest)
        return front


def _rise(a: np.ndarray, b: np.ndarray, c: np.ndarray, facing: np.ndarray) -> np.ndarray:
    u, q = b[..., :2] - a[..., :2], c[..., :2] - a[..., :2]
    area = face_cross(u, q)
    foot = (u * q).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
    height = c[..., 2] - a[..., 2] - foot * (b[..., 2] - a[..., 2])
    flat = np.abs(area) <= AREA_MINIMUM
    rise = np.where(flat, NOWHERE / 2, height / np.maximum(np.abs(area), AREA_MINIMUM))
    gone = ~(_there(a) & _there(b) & _there(c)) | ((facing != 0) & (area * facing <= AREA_MINIMUM))
    return np.where(gone, NOWHERE, rise)


class EdgeQuads(PixelFunction):
    """Inputs (reach FLOAT, ends VEC4 list, sides INT list): six clip-space corners an edge, VEC4 list.

    ends: (a, b) on the screen.  The two triangles cover everything within ``reach`` (image heights) of the edge, ends
    included; on the side where the mesh is only within INWARD pixels. Edges that are HIDDEN collapse.
    """

    fields = ("count", "size")
    includes = ("face.glsl", "edge.glsl")

    def __init__(self, reach: Variable, ends: Variable, sides: Variable, count: int, size: Size):
        self.count, self.size = count, size
        super().__init__(reach, ends, sides)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.FETCH)

    def infer(self):
        reach, ends, sides = self.inputs
        if ends.vtype is not VEC4 or sides.vtype is not INT or ends.size != sides.size:
            raise self.fail("ends are a VEC4 list and sides an INT list of the same size")
        if reach.vtype is not FLOAT or reach.size != (1, 1):
            raise self.fail("the reach is FLOAT 1x1, a fraction of the image height")
        if not 1 <= self.count <= ends.size[0] * ends.size[1]:
            raise self.fail(f"cannot draw {self.count} edges of a list of {ends.size[0] * ends.size[1]}")
        return VEC4, Domain(list_size(6 * self.count), common_batch(self))

    @cached_property
    def glsl(self) -> str:
        width, height = self.size
        return (
            "int index = pixel.y * $size.x + pixel.x;\n"
            f"ivec2 edge = face_texel(min(index / 6, {self.count - 1}), $size1);\n"
            "$y = edge_corner($1(edge, tile), $2(edge, tile), index % 6, $0, "
            f"{INWARD / height!r}, {width / height!r});"
        )

    def evaluate(self, at, reach, ends, sides):
        x, y, tile = at_points(at)
        index = y * self.output.size[0] + x
        edge, corner = np.minimum(index // 6, self.count - 1), index % 6
        ends, side = Faces.read_list(ends, tile, edge), Faces.read_list(sides, tile, edge)
        a, b = ends[..., :2], ends[..., 2:]
        extent = np.linalg.norm(b - a, axis=-1)[..., None]
        along = np.divide(b - a, extent, out=np.zeros_like(a), where=extent > 0)
        along = np.where(extent > 0, along, (1.0, 0.0))
        across = np.stack([-along[..., 1], along[..., 0]], axis=-1)
        reach, inward = np.broadcast_to(reach, x.shape), INWARD / self.size[1]
        right, up = (np.isin(corner, corners)[..., None] for corners in ((1, 2, 4), (2, 4, 5)))
        high = np.where(side < 0, inward, reach)[..., None]
        low = np.where(side > 0, inward, reach)[..., None]
        place = np.where(right, b + along * reach[..., None], a - along * reach[..., None])
        place = place + across * np.where(up, high, -low)
        place = np.where((side == HIDDEN)[..., None], 0.0, place / (self.size[0] / self.size[1], 1.0) * 2 - 1)
        return np.concatenate([place, np.broadcast_to((0.5, 1.0), place.shape)], axis=-1)


class EdgeDistance(PixelFunction):
    """Inputs (face INT, ends VEC4): distance of the pixel centre to the edge from ``ends.xy`` to ``ends.zw``, in image
    heights, and BEYOND where a face covers the pixel (``face`` >= 0).

    Beyond its ends the distance is exactly that to the end, so that edges which meet there tie.
    """

    includes = ("face.glsl",)
    glsl = f"$0 >= 0 ? {BEYOND} : sqrt(face_edge((vec2(pixel) + 0.5) / float($size.y), $1.xy, $1.zw))"

    def infer(self):
        if [x.vtype for x in self.inputs] != [INT, VEC4]:
            raise self.fail("needs an INT face and VEC4 ends of an edge")
        return FLOAT, self.broadcast()

    def evaluate(self, at, face, ends):
        x, y, _ = at_points(at)
        p = (np.stack([x, y], axis=-1) + 0.5) / self.output.size[1]
        return np.where(face >= 0, BEYOND, np.sqrt(squared_distance(p, ends[..., :2], ends[..., 2:])))


class OutlineDistance(PixelFunction):
    """Inputs (face INT, ends VEC4, side INT): signed distance of the pixel centre to the edge from ``ends.xy`` to
    ``ends.zw``, in image heights, positive over the mesh; -BEYOND where the edge is not the outline seen from there.

    side: of ``EdgeSides``; beside the edge it tells the sign, so that the sign does not depend on how a driver covers
    pixels. Near the ends, and where it is 0, the pixel tells: covered or not. The edge is the outline when the mesh has
    ended LOOK beyond its nearest point, and the pixel itself, if farther than that, is covered on the side of the mesh
    alone. Outside of the image things are as at its border.
    """

    includes = ("face.glsl", "edge.glsl")

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL, Access.SAME_PIXEL)

    def infer(self):
        if [x.vtype for x in self.inputs] != [INT, VEC4, INT]:
            raise self.fail("needs an INT face, VEC4 ends of an edge and its INT side")
        face = self.inputs[0]
        return FLOAT, Domain(face.size, common_batch(self))

    glsl = (
        "vec2 p = (vec2(pixel) + 0.5) / float($size.y);\n"
        "float away = sqrt(face_edge(p, $1.xy, $1.zw));\n"
        "bool covered = $0(pixel, tile) >= 0;\n"
        f"vec4 look = edge_look(p, $1, $2, covered, {LOOK} / float($size.y));\n"
        "ivec2 beyond = clamp(ivec2(floor(look.xy * float($size.y))), ivec2(0), $size - 1);\n"
        f"bool outline = $0(beyond, tile) < 0 && (covered == (look.z > 0.0) || away * float($size.y) <= {LOOK});\n"
        f"$y = outline ? look.z * away : {-BEYOND};"
    )

    def evaluate(self, at, face, ends, side):
        x, y, tile = at_points(at)
        width, height = self.output.size
        tile = tile if len(face) > 1 else np.zeros_like(tile)
        p = (np.stack([x, y], axis=-1) + 0.5) / height
        a, b, side = ends[..., :2], ends[..., 2:], np.broadcast_to(side, x.shape)
        away = np.sqrt(squared_distance(p, a, b))
        covered = face[tile, y, x] >= 0
        u, q = b - a, p - a
        t = (q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
        within = (t > 0) & (t < 1) & (np.abs(side) == 1)
        sign = np.where(np.where(within, face_cross(u, q) * side > 0, covered), 1, -1)
        place = np.where((t <= 0)[..., None], a, np.where((t >= 1)[..., None], b, a + t[..., None] * u))
        across = np.stack([-u[..., 1], u[..., 0]], axis=-1) * side[..., None]
        out = np.where(within[..., None], across, (place - p) * sign[..., None])
        out = out / np.maximum(np.linalg.norm(out, axis=-1, keepdims=True), 1e-30)
        look = np.floor((place + out * (LOOK / height)) * height).astype(np.int64)
        look = np.clip(look, 0, (width - 1, height - 1))
        free = face[tile, look[..., 1], look[..., 0]] < 0
        agrees = (covered == (sign > 0)) | (away * height <= LOOK)
        return np.where(free & agrees, sign * away, -BEYOND)
