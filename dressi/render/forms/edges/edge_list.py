"""Edges of a mesh: the edge list of a topology, and quads around possible silhouette edges.

What is drawn has no derivative. It chooses an edge; from that choice is computed whatever depends smoothly on the vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import INT, IVEC2, IVEC3, IVEC4, Size
from ....errors import InputError
from ...lists import list_data, list_leaf, padded
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

    def data(self, other: EdgeList) -> dict[Variable, np.ndarray]:
        """Data to send, by leaf, for the edges of another mesh with the same room (``with_room``). Raises InputError."""
        found = {}
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
        return self.list, self.around, self.faces, self.neighbours


def edge_list(faces: np.ndarray) -> EdgeList:
    """The edges of ``faces`` (F, 3), vertex numbers. Raises InputError.

    An edge whose two faces traverse it in opposite directions is one entry. Open edges, edges of three or more faces,
    and edges of faces with inconsistent orientation have one entry for each face, as if the face were alone: they are
    drawn whenever the face is. A face that uses a vertex twice is a line and is drawn as one.

        faces 0-1-2 and 2-1-3:   (0, 1, 2, -1), (0, 2, -1, 1), (1, 2, 0, 3), (1, 3, 2, -1), (2, 3, -1, 1)

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
    order = np.lexsort((third, back, high, low))
    low, high, back, third, number, opposite = (x[order] for x in (low, high, back, third, number, opposite))
    _, first, uses = np.unique(np.stack([low, high], axis=1), axis=0, return_index=True, return_counts=True)
    around = np.repeat(np.stack([first, uses], axis=1), uses, axis=0)
    pair = first[(uses == 2)]
    pair = pair[back[pair] != back[pair + 1]]  # sorted: the face that runs forward comes first
    edges = np.stack([low, high, np.where(back, -1, third), np.where(back, third, -1)], axis=1)
    edges[pair, 3] = third[pair + 1]
    neighbours = np.full((len(faces), 3), -1)
    for own, other in ((pair, pair + 1), (pair + 1, pair)):
        neighbours[number[own], opposite[own]] = number[other]
    edges, around = np.delete(edges, pair + 1, axis=0), np.delete(around, pair + 1, axis=0)
    incident = np.stack([number, third, np.where(back, -1, 1)], axis=1)
    return EdgeList(
        len(edges),
        list_leaf("edges", IVEC4, edges),
        list_leaf("around edges", IVEC2, around),
        list_leaf("faces at edges", IVEC3, incident),
        list_leaf("neighbours", IVEC3, neighbours),
        bool((edges[:, 2:] >= 0).all()),
        _parts(low, high),
    )


def _parts(start: np.ndarray, end: np.ndarray) -> Variable | None:
    """``EdgeList.parts`` of the ends of all edges."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    count = int(end.max()) + 1
    part = connected_components(coo_array((np.ones(len(start)), (start, end)), shape=(count, count)), False)[
        1
    ]
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
    return EdgeList(
        count,
        list_leaf("edges", IVEC4, table),
        list_leaf("around edges", IVEC2, around),
        list_leaf("faces at edges", IVEC3, incident),
        list_leaf("neighbours", IVEC3, across),
        edges.closed,
    )


def edges_of(mesh: DrawnMesh) -> EdgeList:
    """``edge_list`` of the data of the faces. Raises InputError when they have none."""
    faces = mesh.faces
    if faces.data is None or faces.batch != 1:
        raise InputError(
            f"this form needs the edges, and {faces} has no data to make them of; give edges=edge_list(faces)"
        )
    return edge_list(faces.data.reshape(-1, 3)[: mesh.face_count])


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
