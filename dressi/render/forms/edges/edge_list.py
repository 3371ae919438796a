"""Edges of a mesh: the edge list of a topology, and quads around possible silhouette edges.

What is drawn has no derivative. It chooses an edge; from that choice is computed whatever depends smoothly on the vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....ad import functional as F
from ....ad.evaluate import known_value
from ....ad.graph import Variable
from ....ad.types import INT, IVEC2, IVEC3, IVEC4, Size
from ....errors import InputError
from ...lists import list_data, list_leaf, padded
from ...mesh.rows import connected, weld
from ...surface.quads import box, direction, on_image, quads
from ...surface.screen import DrawnMesh

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
    parts: Variable | None = None
    """INT list, an entry a vertex: the number of the connected part that it belongs to. None: of one part, or not known."""
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
        if self.parts is not None:
            parts = np.zeros(1, np.int64) if other.parts is None else list_data(other.parts)
            size = self.parts.size
            if len(parts) > size[0] * size[1]:
                raise InputError(f"there is room for {size[0] * size[1]} vertices; make a new graph")
            found[self.parts] = padded(parts, size[0] * size[1]).reshape(self.parts.shape)
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
        _parts(*(np.concatenate([own, link.ravel()]) for own, link in zip((start, end), links, strict=True))),
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


def _parts(start: np.ndarray, end: np.ndarray) -> Variable | None:
    """``EdgeList.parts`` of the ends of all edges."""
    part = connected(start, end, int(max(start.max(), end.max())) + 1)
    return None if (part[start] == part[start[0]]).all() else list_leaf("parts", INT, part)


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
