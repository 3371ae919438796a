"""Edges of a mesh: the edge list of a topology, and quads around possible silhouette edges.

None of the Functions has a derivative. They choose an edge; ordinary Functions compute from that choice whatever depends
smoothly on the vertices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.types import FLOAT, INT, IVEC2, IVEC3, IVEC4, VEC4, Access, Size, list_size
from ....errors import InputError
from ...lists import at_points, list_data, list_leaf, padded, read_list
from ...surface.screen import DrawnMesh, common_batch

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


class EdgeQuads(PixelFunction):
    """Inputs (reach FLOAT, ends VEC4 list, sides INT list): six clip-space corners an edge, VEC4 list.

    ends: (a, b) on the screen.  The two triangles cover all points within ``reach`` (image heights) of the edge, ends
    included, but only INWARD pixels on the side of the mesh. HIDDEN edges collapse.
    """

    operations, fetches = 66.0, 1.0
    no_derivative = "makes triangles to be drawn, and what they cover has no derivative"
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
        ends, side = read_list(ends, tile, edge), read_list(sides, tile, edge)
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
