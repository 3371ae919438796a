"""Edges of a mesh: the edge list of a topology, and quads around possible silhouette edges.

What is drawn has no derivative. It chooses an edge; from that choice is computed whatever depends smoothly on the vertices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.graph.evaluation import known_value
from ....ad.graph.types import INT, IVEC2, IVEC3, IVEC4, VEC4, Access, Size
from ....ad.ops.pixel.kinds import shortcut
from ....ad.transform.fused import fused
from ....errors import InputError
from ...core.lists import at_points, list_data, list_leaf, padded, read_list
from ...mesh.rows import connected, weld
from ...surface.projection import FARTHEST, box, direction, on_image, quads
from ...surface.screen import (
    AREA_MINIMUM,
    DrawnMesh,
    common_batch,
    covered,
    culling,
    face_cross,
    is_present,
    present,
    spanned,
)

HIDDEN = 2
"""The side of an edge that is not drawn."""
INWARD = 0.75
"""How far the quad of a silhouette edge extends over the mesh, in pixels. Drivers differ in the pixel centres they cover."""
OUTWARD = 0.5
"""How far a quad extends beyond the radius, in pixels."""
BEYOND = 2.0
"""Stands for "no edge": larger than every distance on the screen."""


@dataclass(frozen=True, eq=False)
class EdgeList:
    """The edges of a topology, made by ``edge_list``."""

    count: int
    list: Variable
    """IVEC4 list (a, b, c, d) of vertices, a <= b, ascending: the edge from a to b, the third corner c of the face
    that runs along it from a to b, and d of the one that runs from b to a; -1 where there is none."""
    around: Variable
    """IVEC2 list like ``list``: the index in ``faces`` of the first face at the edge, and how many faces meet there."""
    faces: Variable
    """IVEC3 list: a face's number, its third corner, 1 when it runs along the edge from a to b, else -1."""
    neighbours: Variable
    """IVEC3 list like ``faces`` of the mesh: the faces across the sides opposite to its three corners, -1 where a side
    does not have exactly two faces of consistent orientation."""
    closed: bool
    """Whether every edge has exactly two faces with consistent orientation. Seen from outside, such a mesh covers a pixel
    always with a front face too, so that silhouettes may cull the back faces."""
    joints: Variable | None = None
    """IVEC3 list like ``list``, for faces that meet without sharing vertices: (a', b', which). The other face at the edge has the
    copies a' and b' of the vertices a and b. Each of the two has an entry; which: 1 for that with the vertices of the face at c,
    -1 for that with those of the face at d, 0 for edges that have no copies. While the copies lie at one place the first entry
    stands for both; where they come apart, each is an open edge. None: faces that meet share their vertices."""
    corners: Variable | None = None
    """IVEC3 list like the faces of the mesh: their corners, with one number for all copies of a vertex. None as ``joints``."""

    def data(self, other: EdgeList) -> dict[Variable, np.ndarray]:
        """Data to send, by leaf, for the edges of another mesh with the same room (``with_room``). Raises InputError."""
        found = {}
        if len(self._leaves) != len(other._leaves):
            raise InputError("faces share their vertices in one mesh and not in the other; make a new graph")
        for mine, new in zip(self._leaves, other._leaves, strict=True):
            if mine.shape != new.shape or self.closed > other.closed or new.data is None:
                raise InputError(
                    f"there is room for {mine.shape[1:3]} {mine.name}, not {new.shape[1:3]}; make a new graph"
                )
            found[mine] = new.data
        return found

    @property
    def _leaves(self) -> tuple[Variable, ...]:
        joined = () if self.joints is None or self.corners is None else (self.joints, self.corners)
        return self.list, self.around, self.faces, self.neighbours, *joined


def edge_list(faces: np.ndarray, positions: np.ndarray | None = None) -> EdgeList:
    """The edges of ``faces`` (F, 3), vertex numbers. Raises InputError.

    An edge whose two faces traverse it in opposite directions is one entry. Open edges, edges of three or more faces,
    and edges of faces with inconsistent orientation have one entry for each face, as if the face were alone: they are
    drawn whenever the face is. A face that uses a vertex twice is a line and is drawn as one.

        faces 0-1-2 and 2-1-3:   (0, 1, 2, -1), (0, 2, -1, 1), (1, 2, 0, 3), (1, 3, 2, -1), (2, 3, -1, 1)

    positions: (V, k), or (V,) numbers of places. Two open edges whose ends are equal as float32, and that their faces traverse in
    opposite directions, are then one edge (``EdgeList.joints``): triangles that share no vertices are drawn as one surface.

    >>> edge_list(primitives.cube().faces).count
    18
    """
    faces = np.asarray(faces)
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
        raise InputError(f"faces are an array (F, 3) of at least one triangle, not {faces.shape}")
    if faces.min() < 0:
        raise InputError(f"faces use vertex {faces.min()}")
    start, end, third = (faces[:, k].reshape(-1) for k in ([0, 1, 2], [1, 2, 0], [2, 0, 1]))
    number, real = np.repeat(np.arange(len(faces)), 3), start != end
    opposite = np.tile([2, 0, 1], len(faces))
    start, end, third, number, opposite = (x[real] for x in (start, end, third, number, opposite))
    if len(start) == 0:
        raise InputError("no face has an edge: each uses one vertex three times")
    low, high, back = np.minimum(start, end), np.maximum(start, end), start > end
    first, second = _meeting(start, end, number, None if positions is None else vertex_places(positions))
    # Both get the ends of the first, which runs along the edge from the first end to the second.
    low[first], high[first], back[first] = start[first], end[first], False
    low[second], high[second], back[second] = start[first], end[first], True
    links = np.stack([start[first], end[first]]), np.stack([end[second], start[second]])
    copies = np.zeros((len(start), 3), int)
    copies[first, :2], copies[first, 2], copies[second, 2] = links[1].T, 1, -1
    order = np.lexsort((third, back, high, low))
    low, high, back, third, number, opposite, copies = (
        x[order] for x in (low, high, back, third, number, opposite, copies)
    )
    _, first, uses = np.unique(np.stack([low, high], axis=1), axis=0, return_index=True, return_counts=True)
    around = np.repeat(np.stack([first, uses], axis=1), uses, axis=0)
    pair = first[(uses == 2)]
    pair = pair[back[pair] != back[pair + 1]]  # sorted: the face that runs forward comes first
    edges = np.stack([low, high, np.where(back, -1, third), np.where(back, third, -1)], axis=1)
    edges[pair, 3] = third[pair + 1]
    neighbours = np.full((len(faces), 3), -1)
    for own, other in ((pair, pair + 1), (pair + 1, pair)):
        neighbours[number[own], opposite[own]] = number[other]
    joint = pair[copies[pair, 2] > 0]
    edges[joint + 1] = edges[joint]
    edges[joint + 1, :2], copies[joint + 1, :2] = copies[joint, :2], edges[joint, :2]
    gone = np.setdiff1d(pair, joint) + 1
    edges, around, copies = (np.delete(table, gone, axis=0) for table in (edges, around, copies))
    incident = np.stack([number, third, np.where(back, -1, 1)], axis=1)
    joined: tuple[Variable, ...] = ()
    if len(joint):
        same = connected(links[0].ravel(), links[1].ravel(), int(faces.max()) + 1)
        least = np.unique(same, return_index=True)[1]
        joined = list_leaf("joints", IVEC3, copies), list_leaf("corners", IVEC3, least[same][faces])
    return EdgeList(
        len(edges),
        list_leaf("edges", IVEC4, edges),
        list_leaf("around edges", IVEC2, around),
        list_leaf("faces at edges", IVEC3, incident),
        list_leaf("neighbours", IVEC3, neighbours),
        bool((edges[:, 2:] >= 0).all()) and not joined,
        *joined,
    )


def vertex_places(positions: np.ndarray) -> np.ndarray:
    """(V,) numbers, equal for vertices whose positions (V, k) are equal as float32; numbers (V,) as they are."""
    positions = np.asarray(positions)
    return positions if positions.ndim == 1 else weld(positions, np.arange(len(positions)))[1]


def _meeting(
    start: np.ndarray, end: np.ndarray, number: np.ndarray, places: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of sides of faces, by their number: both are open, they lie at one place, and no third one does. start, end, number:
    (S,) of the sides of faces, the last those of the faces."""
    none = np.zeros(0, int)
    if places is None:
        return none, none
    if len(places) <= (last := max(start.max(), end.max())):
        raise InputError(
            f"faces use vertex {last}, and positions are of {len(places)} vertices; give those of all vertices"
        )
    own = np.stack([np.minimum(start, end), np.maximum(start, end)], axis=1)
    inverse, uses = np.unique(own, axis=0, return_inverse=True, return_counts=True)[1:]
    a, b = places[start], places[end]
    open_ = np.nonzero((uses[inverse.reshape(-1)] == 1) & (a != b))[0]
    if not len(open_):
        return none, none
    at = np.stack([np.minimum(a, b), np.maximum(a, b)], axis=1)[open_]
    inverse, uses = np.unique(at, axis=0, return_inverse=True, return_counts=True)[1:]
    inverse = inverse.reshape(-1)
    order = np.argsort(inverse, kind="stable")
    two = open_[order[uses[inverse[order]] == 2]].reshape(-1, 2)
    two = two[(a[two[:, 0]] == b[two[:, 1]]) & (number[two[:, 0]] != number[two[:, 1]])]
    return two[:, 0], two[:, 1]


def with_room(edges: EdgeList, count: int) -> EdgeList:
    """The edge list with room for ``count`` edges. Entries in excess have no faces and are never drawn.

    For another mesh, ``EdgeList.data`` of its own edge list with the same room is sent. Raises InputError if
    there are more edges.

    >>> with_room(edge_list(primitives.cube().faces), 30).count
    30
    """
    if edges.count > count:
        raise InputError(
            f"the mesh has {edges.count} edges, and there is room for {count}; make a new graph for it"
        )
    rows = [list_data(leaf) for leaf in (edges.list, edges.around, edges.faces)]
    table = padded(rows[0][: edges.count], count)
    table[edges.count :, 2:] = -1
    around = padded(rows[1][: edges.count], count)
    # An edge has two faces on a closed mesh, and at least one elsewhere.
    incident = padded(rows[2][: 2 * count], max(2 * count, len(rows[2])))
    sides = list_data(edges.neighbours)
    across = np.full((max(2 * count // 3, len(sides)), 3), -1)
    across[: len(sides)] = sides
    joined: tuple[Variable, ...] = ()
    if edges.joints is not None and edges.corners is not None:
        corners = padded(list_data(edges.corners), len(across))
        joints = padded(list_data(edges.joints)[: edges.count], count)
        joined = list_leaf("joints", IVEC3, joints), list_leaf("corners", IVEC3, corners)
    return EdgeList(
        count,
        list_leaf("edges", IVEC4, table),
        list_leaf("around edges", IVEC2, around),
        list_leaf("faces at edges", IVEC3, incident),
        list_leaf("neighbours", IVEC3, across),
        edges.closed,
        None,
        *joined,
    )


def edges_of(mesh: DrawnMesh) -> EdgeList:
    """``edge_list`` of the data of the faces, and of the positions by the data of what they are computed from, where that is known.
    Raises InputError when the faces have none."""
    faces = mesh.faces
    if faces.data is None or faces.batch != 1:
        raise InputError(
            f"this form needs the edges, and {faces} has no data to make them of; give edges=edge_list(faces)"
        )
    clip = known_value(mesh.clip)
    rows = None if clip is None else clip.reshape(len(clip), -1, 4).swapaxes(0, 1).reshape(-1, 4 * len(clip))
    return edge_list(faces.data.reshape(-1, 3)[: mesh.face_count], rows)


def shared_corners(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """IVEC3 list: the corners of the faces, with one number for all copies of a vertex."""
    return mesh.faces if edges.corners is None else edges.corners


def edge_quads(reach: Variable, ends: Variable, sides: Variable, count: int, size: Size) -> Variable:
    """VEC4 list: six clip-space corners an edge.

    ends: (a, b) on the screen, VEC4 list.  sides: ``edge_sides``.  The two triangles cover all points within ``reach`` (FLOAT
    1x1, image heights) of the edge, ends included, but only INWARD pixels on the side of the mesh. HIDDEN edges collapse.
    """
    at = quads(count)
    own, side, inward = F.lookup(ends, at.number), F.lookup(sides, at.number), INWARD / size[1]
    high, low = F.select(F.less(side, 0), inward, reach), F.select(F.greater(side, 0), inward, reach)
    along = direction(own.zw - own.xy)
    place = box(at, own.xy, own.zw, along, behind=reach, ahead=reach, low=low, high=high)
    drawn = on_image(place, (size[0] / size[1], 1.0))
    # A point inside the view: for one outside of it drivers would start to clip.
    return F.select(F.equal(side, HIDDEN), (0.0, 0.0, 0.5, 1.0), drawn)


# Edges between projected vertices, clipped at the near and the far plane, with a derivative through the clipping.


def segment(vertex: Variable, first: Variable, second: Variable, far: bool = True) -> Variable:
    """VEC4: the ends (a, b) on the screen of the edge from vertex ``first`` to ``second`` (INT) of a list (``Projected``).

    An end nearer than the near plane is replaced by the point where the edge meets that plane, at z = 0: in clip space
    a + z_a / (z_a - z_b) (b - a). One beyond the far plane, at depth 1, is replaced likewise: depths are linear on the screen.
    Zeros for missing ends, and if both ends are nearer or both beyond. far: False leaves ends beyond the far plane where they
    are. Differentiable.
    """
    return segment_ends(F.lookup(vertex, first), F.lookup(vertex, second), far=far)


@fused
def segment_ends(a: Variable, b: Variable, *, far: bool = True) -> Variable:
    """``segment`` of two projected vertices, VEC4."""
    first, second = _near_end(a, b), _near_end(b, a)
    if not far:
        return F.vec4(first, second)
    depths = F.maximum(a.z, 0.0), F.maximum(b.z, 0.0)
    return F.vec4(_far_end(first, second, *depths), _far_end(second, first, *depths[::-1]))


def _far_end(a: Variable, b: Variable, depth: Variable, other: Variable) -> Variable:
    """VEC2: the end a, or the point at depth 1 on the way to b."""
    beyond = F.greater(depth, 1.0)
    cut = F.logical_and(beyond, F.less_equal(other, 1.0))
    moved = (depth - 1.0) / F.select(cut, depth - other, 1.0)
    return F.select(cut, F.mix(a, b, moved), F.select(beyond, 0.0, a))


def _near_end(a: Variable, b: Variable) -> Variable:
    """VEC2: the end at vertex a, or the point on the near plane. Ends that are not clipped divide by 1."""
    front = F.less(a.z, 0.0)
    cut = F.logical_and(front, F.logical_and(F.greater_equal(b.z, 0.0), F.greater(b.w, 0.0)))
    moved = a.z / F.select(cut, a.z - b.z * b.w, 1.0)
    start, end = F.vec3(a.xy, a.w), F.vec3(b.xy * b.w, b.w)
    place = start + (end - start) * moved
    return F.select(cut, place.xy / F.select(cut, place.z, 1.0), F.select(front, 0.0, a.xy))


# How a view sees the edges of a mesh: their ends clipped at the near and the far plane, the side of the mesh, the front face beside them.
#
# An edge is a silhouette if all faces drawn at it lie on one side of its projection. Distances from outside may be taken to
# any superset of the silhouettes: from a point that the mesh does not cover, the way to an edge inside the mesh crosses the
# outline, which is nearer. So an edge in doubt is drawn, on both sides.
#
# The side does not depend on where a face ends: the part of the face beyond the near plane lies on the side given by the
# sign of the homogeneous area, wherever the third corner is.

APART = 1 / 16
"""Pixels. Copies of a vertex that are farther apart do not lie at one place; drivers round corners to a grid of this width."""
NOWHERE = 1e30
"""Sentinel slope of a missing face."""


def seen_ends(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """VEC4 list like ``edges.list``: the ends (a, b) of the edges on the screen. No derivative."""
    return segment(mesh.points.vertex, edges.list.x, edges.list.y)


def ends_of(mesh: DrawnMesh, edges: EdgeList, edge: Variable) -> tuple[Variable, Variable]:
    """IVEC2 and VEC4: the two vertices of edge number ``edge`` (INT) at each pixel, and its ends on the screen, which are
    differentiable in position. Without an edge (-1) the vertices are -1, so that no vertex gets a gradient."""
    pair = F.select(covered(edge), F.lookup(edges.list, edge).xy, -1)
    moving = segment(mesh.points.smooth, pair.x, pair.y)
    if edges.joints is not None:
        # Either face moves the edge as the other does.
        other = F.select(covered(edge), F.lookup(edges.joints, edge).xy, -1)
        both = F.lookup(F.equal(_joined(mesh, edges), 1.0), edge)
        moving = F.mix(moving, segment(mesh.points.smooth, other.x, other.y), 0.5 * both)
    return pair, shortcut(F.lookup(seen_ends(mesh, edges), edge), moving)


def _joined(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """FLOAT list: 1 and -1 for the two entries of an edge whose ends have copies (``EdgeList.joints``) that lie at one place, 2 and -2
    where they are apart; 0 for other edges. No derivative."""
    assert edges.joints is not None
    copies = segment(mesh.points.vertex, edges.joints.x, edges.joints.y)
    away = F.max_component(F.abs(seen_ends(mesh, edges) - copies))
    return F.to_float(edges.joints.z) * (1.0 + F.greater(away, APART / mesh.size[1]))


def edge_sides(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """INT list like ``edges.list``: where the mesh lies beside each edge. No derivative.

    1 or -1: on the side where face_cross(b - a, x - a) has that sign.  0: on both, or undecided: faces seen edge-on,
    or without area.  HIDDEN: no face is drawn, or faces lie on both sides; no silhouette. Faces with a missing corner,
    and, where those turned away are culled, these, do not count.
    """
    ends, cull = seen_ends(mesh, edges), culling(mesh.cull)
    a, b, c, d = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(4))
    if edges.joints is None:
        return F.to_int(_side(ends, a, b, c, d, cull=cull))
    # A face whose vertices lie elsewhere is not at the edge, like one that is missing; of two entries at one place one is drawn.
    joined = _joined(mesh, edges)
    c, d = (F.select(F.equal(joined, apart), 0.0, corner) for apart, corner in ((-2.0, c), (2.0, d)))
    side = F.to_int(_side(ends, a, b, c, d, cull=cull))
    return F.select(F.equal(joined, -1.0), HIDDEN, side)


@fused
def _side(ends: Variable, a: Variable, b: Variable, c: Variable, d: Variable, *, cull: int) -> Variable:
    """FLOAT: ``edge_sides`` of an edge from a to b, by the third corners of its faces."""
    first, second = _face_side(ends, c, cull), _face_side(ends, d, -cull)
    one = F.equal(F.maximum(first, second), HIDDEN)
    both = F.select(F.equal(first, second), first, F.select(F.less(first * second, 0.0), HIDDEN, 0.0))
    side = F.select(one, F.minimum(first, second), both)
    usable = F.less(F.max_component(F.abs(ends)), FARTHEST)
    between = F.logical_and(F.greater_equal(F.maximum(a.z, b.z), 0.0), F.less_equal(F.minimum(a.z, b.z), 1.0))
    seen = F.logical_and(F.logical_and(present(a), present(b)), F.logical_and(usable, between))
    return F.select(seen, side, HIDDEN)


def _face_side(ends: Variable, c: Variable, facing: int) -> Variable:
    """FLOAT: where a face lies beside an edge, by its third corner; facing: the sign of its area if turned to the viewer, 0
    where both sides are drawn."""
    w = F.select(F.less(c.z, 0.0), c.w, 1.0)
    u = ends.zw - ends.xy
    area = spanned(u, c.xy - ends.xy * w)
    far = F.maximum(F.max_component(F.abs(ends)) * F.abs(w), F.max_component(F.abs(c.xy)))
    # Below this the sign may be rounding; such a face is as good as a line.
    doubt = AREA_MINIMUM + 1e-5 * (F.abs(w) + far) * F.length(u)
    shown = present(c)
    if facing:
        shown = F.logical_and(shown, F.greater(area * float(facing), AREA_MINIMUM))
    return F.select(shown, F.select(F.greater(F.abs(area), doubt), F.sign(area), 0.0), float(HIDDEN))


def _seen(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> np.ndarray:
    near = (np.abs(ends) < FARTHEST).all(-1)
    between = (np.maximum(a[..., 2], b[..., 2]) >= 0) & (np.minimum(a[..., 2], b[..., 2]) <= 1)
    return is_present(a) & is_present(b) & between & near


def _spanned(ends: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(area, w, offset of the corner from the first end) of faces at edges, times w for a corner nearer than the near plane."""
    w = np.where(c[..., 2] < 0, c[..., 3], 1.0)
    offset = c[..., :2] - w[..., None] * ends[..., :2]
    return face_cross(ends[..., 2:] - ends[..., :2], offset), w, offset


class EdgeFront(PixelFunction):
    """Inputs (edges IVEC4, ends VEC4, around IVEC2, faces IVEC3, vertex VEC4, all lists): INT list like ``edges``.

    The number of the front face beside each edge: of the faces drawn at it, preferably those with an area, the one whose
    depth falls fastest with the distance to the edge. -1 if none is drawn.
    """

    operations, fetches = 191.0, math.inf
    zero_derivative = True
    ranges = 2
    fields = ("cull",)
    cull: int
    includes = ("face.glsl", "edge.glsl")

    @property
    def iterations(self) -> int:
        around = self.inputs[2].data
        return 2 if around is None else int(around[..., 1].max(initial=0))  # faces at an edge

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) * 3 + (Access.FETCH,) * 2

    def infer(self):
        edges, ends, around, *_ = self.inputs
        kinds = [x.vtype for x in self.inputs]
        if kinds != [IVEC4, VEC4, IVEC2, IVEC3, VEC4] or not edges.size == ends.size == around.size:
            raise self.fail("needs the lists of edge_list(), seen_ends() and project()")
        return INT, Domain(edges.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        read = "$4(face_texel(%s, $size4), tile)"
        return (
            f"ivec4 e = $0;\nvec4 a = {read % 'e.x'}, b = {read % 'e.y'}, ends = $1;\n"
            "vec2 depths = clamp(vec2(a.z, b.z), 0.0, 1.0);\n"
            "float nearest = EDGE_NOWHERE;\n$y = -1;\n"
            "if (edge_seen(a, b, ends)) for (int k = $2.x; k < $2.x + $2.y; ++k) {\n"
            "  ivec3 f = $3(face_texel(k, $size3), tile);\n"
            f"  float rise = edge_rise(ends, depths, {read % 'f.y'}, {self.cull}.0 * float(f.z));\n"
            "  if (rise < nearest) { nearest = rise; $y = f.x; }\n}"
        )

    def evaluate(self, at, edges, ends, around, faces, vertex):
        tile = at_points(at)[2]
        a, b = (read_list(vertex, tile, np.broadcast_to(edges[..., i], tile.shape)) for i in range(2))
        front, nearest = np.full(tile.shape, -1), np.full(tile.shape, NOWHERE)
        depths = np.clip(a[..., 2], 0, 1), np.clip(b[..., 2], 0, 1)
        for k in range(int(around[..., 1].max(initial=0))):
            index = np.broadcast_to(around[..., 0] + k, tile.shape)
            face = read_list(faces, tile, index)
            c = read_list(vertex, tile, face[..., 1])
            rise = _rise(ends, depths, c, self.cull * face[..., 2])
            closer = (k < around[..., 1]) & (rise < nearest) & _seen(a, b, ends)
            front, nearest = np.where(closer, face[..., 0], front), np.where(closer, rise, nearest)
        return front


def _rise(
    ends: np.ndarray, depths: tuple[np.ndarray, np.ndarray], c: np.ndarray, facing: np.ndarray
) -> np.ndarray:
    area, w, offset = _spanned(ends, c)
    u = ends[..., 2:] - ends[..., :2]
    foot = (u * offset).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
    height = c[..., 2] - w * depths[0] - foot * (depths[1] - depths[0])
    flat = np.abs(area) <= AREA_MINIMUM
    rise = np.where(flat, NOWHERE / 2, height / np.maximum(np.abs(area), AREA_MINIMUM))
    gone = ~is_present(c) | ((facing != 0) & (area * facing <= AREA_MINIMUM))
    return np.where(gone, NOWHERE, rise)
