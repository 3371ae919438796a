"""The surface on which a field on a grid is zero, as a mesh whose vertices are differentiable in the field.

Dual marching cubes (Nielson 2004): where the field changes its sign along edges of a cell, the crossings form
loops around its corners, and each loop has one vertex, the mean of its crossings. Around each edge of the
grid that changes its sign the vertices of the four cells form two faces. Faces are more even than those of
marching cubes, and with weights (FlexiCubes, Shen et al. 2023) vertices reach creases and corners.

The connectivity follows the signs. It is made on the host, of the present values, now and then; between, a
crossing stays on its edge. There is room for a number of faces, so that nothing is built anew.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from itertools import product

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.traversal import leaves
from ...ad.graph.types import FLOAT, IVEC2, IVEC3, VEC3, list_image, list_size
from ...errors import InputError
from ..core.lists import list_leaf, padded
from ..forms.edges.edge_list import EdgeList, edge_list, with_room
from ..mesh import Mesh
from ..mesh.remesh.volume import Grid

CORNERS = np.array([(c & 1, c >> 1 & 1, c >> 2 & 1) for c in range(8)])
"""Of a cell, by number: bit k is the step along axis k."""
EDGES = np.array([(c, c | 1 << k) for k in range(3) for c in range(8) if not c >> k & 1])
"""(12, 2) corners at the ends of the edges of a cell: four along each axis."""
LONGEST = 7
"""Most crossings of a loop."""
WEIGHTS = 20
"""Of a cell: of its eight corners, which move crossings, and of its twelve edges, which move vertices."""
ROOM = 1.5
"""Room for faces, relative to those of the first surface."""


@cache
def loops() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the signs of the corners, bit c that of corner c: how many loops a cell has (256,), the loop of each
    edge (256, 12), -1 where the sign does not change, and the number of the edge in its loop (256, 12).

    On each side of the cell two edges are connected; of four, those beside the same inner corner, which is
    the same for both cells at the side.
    """
    number = {tuple(pair): k for k, pair in enumerate(EDGES.tolist())}
    counts, loop, rank = np.zeros(256, int), np.full((256, 12), -1), np.zeros((256, 12), int)
    for signs in range(256):
        inside = [signs >> c & 1 for c in range(8)]
        crossed = [k for k, (a, b) in enumerate(EDGES) if inside[a] != inside[b]]
        links: dict[int, list[int]] = {k: [] for k in crossed}
        for axis, side in product(range(3), range(2)):
            u, v = (1 << k for k in range(3) if k != axis)
            ring = [side << axis | c for c in (0, u, u | v, v)]
            at = [number[min(a, b), max(a, b)] for a, b in zip(ring, ring[1:] + ring[:1], strict=True)]
            here = [k for k in at if k in links]
            if len(here) == 4 and not inside[ring[0]]:
                here = here[1:] + here[:1]
            # Of four, each pair is the two edges at an inner corner.
            pairs = [(here[3], here[0]), (here[1], here[2])] if len(here) == 4 else [here] if here else []
            for a, b in pairs:
                links[a].append(b)
                links[b].append(a)
        for start in crossed:
            if loop[signs, start] >= 0:
                continue
            edge, place = start, 0
            while loop[signs, edge] < 0:
                loop[signs, edge], rank[signs, edge] = counts[signs], place
                place += 1
                edge = next((k for k in links[edge] if loop[signs, k] < 0), edge)
            counts[signs] += 1
    return counts, loop, rank


def closed(values: np.ndarray, grid: Grid) -> np.ndarray:
    """The field (X, Y, Z) with values on the sides of the grid that are negative, so that its surface is
    closed."""
    values = values.copy()
    for axis in range(3):
        side = np.moveaxis(values, axis, 0)
        side[[0, -1]] = np.minimum(side[[0, -1]], -0.5 * grid.step)
    return values


class Isosurface:
    """The surface of a field (X, Y, Z), positive inside, on a grid: leaves that are data, and the vertices as
    a function of the values.

    values: the first field.  faces: most faces it may ever have, by default ROOM times as many as now.
    weighted: whether vertices have weights.  Values on the sides of the grid count as negative, so that the
    surface is closed. Raises InputError, as ``data`` does, for a field that is not finite, that has no zero,
    or whose surface has too many faces.

    >>> from dressi.render.mesh.remesh.volume import Grid
    >>> grid = Grid(np.full(3, -1.5), 0.5, (7, 7, 7))
    >>> ball = 1 - np.linalg.norm(grid.points(), axis=-1)
    >>> surface = Isosurface(grid, ball)
    >>> surface.position(surface.leaf(ball)).vtype, surface.mesh(ball).is_closed()
    (VEC3, True)
    """

    def __init__(self, grid: Grid, values: np.ndarray, *, faces: int | None = None, weighted: bool = False):
        self.grid, self.weighted = grid, weighted
        if min(grid.shape) < 3:
            raise InputError(f"a grid of {grid.shape} points has no cells inside; give at least (3, 3, 3)")
        made = self._traced(values)
        self.face_count = int(ROOM * len(made.faces)) if faces is None else faces
        self.vertex_count = self.face_count // 2 + 64
        """Entries of the list of vertices. A vertex that no face uses is at the origin of the grid."""
        self._check_room(made)
        self.faces = list_leaf("faces", IVEC3, padded(made.faces, self.face_count))
        """IVEC3 list: those in excess have no area."""
        self._ends, self._at = (
            Variable(vtype, list_size(self.vertex_count), LONGEST, name=name, data=self._image(rows))
            for name, vtype, rows in (
                ("ends of crossings", IVEC2, made.ends),
                ("weights of crossings", IVEC3, made.at),
            )
        )
        self._first = made

    @property
    def cells(self) -> int:
        return int(np.prod(np.array(self.grid.shape) - 1))

    def leaf(self, values: np.ndarray, name: str = "field") -> Variable:
        """FLOAT list of the values, as a parameter. The list of a network's outputs, one for each of
        ``points``, does as well."""
        return list_leaf(name, FLOAT, np.asarray(values, np.float64).reshape(-1))

    @cached_property
    def points(self) -> Variable:
        """VEC3 list: the points of the grid, in the order of ``leaf``: what a network is asked at."""
        return list_leaf("grid points", VEC3, self.grid.points().reshape(-1, 3))

    @cached_property
    def edges(self) -> EdgeList:
        """Edges of the faces, for silhouettes; they follow ``data``."""
        return self._edge_list(self._first.faces)

    def position(
        self, values: Variable, *, weights: Variable | None = None, points: Variable | None = None
    ) -> Variable:
        """VEC3 list of ``vertex_count`` vertices of the present connectivity.

        values: FLOAT list, as ``leaf``.  weights: FLOAT list of WEIGHTS a cell, positive, such as
        ``F.exp`` of a parameter; of a cell x, y, z from entry WEIGHTS * ((x * (Y - 1) + y) * (Z - 1) + z)
        on; all 1 without them.  points: VEC3 list in place of ``self.points``, for a grid that is deformed.
        Differentiable in all of them; a crossing whose ends have come to have one sign rests at an end.
        Raises InputError.

        A crossing of values s, t at points p, q is (s q - t p) / (s - t); a vertex is the weighted mean of
        the crossings of its loop.
        """
        points, ends = self.points if points is None else points, self._ends
        values = F.minimum(values, self._cap)
        s, t = F.lookup(values, ends.x), F.lookup(values, ends.y)
        share = F.greater_equal(ends.x, 0)
        if weights is not None:
            if not self.weighted:
                raise InputError("this surface has no weights; make it with weighted=True")
            s, t = s * F.lookup(weights, self._at.x), t * F.lookup(weights, self._at.y)
            share = share * F.lookup(weights, self._at.z)
        apart = s - t
        place = F.clamp(
            F.select(F.equal(apart, 0.0), 0.5, s / F.select(F.equal(apart, 0.0), 1.0, apart)), 0.0, 1.0
        )
        crossing = F.mix(F.lookup(points, ends.x), F.lookup(points, ends.y), place)
        total = F.sum(share, "n")
        mean = F.sum(crossing * share, "n") / F.select(F.greater(total, 0.0), total, 1.0)
        # Entries in excess lie where no surface is, as 0 may be.
        return F.select(F.greater(total, 0.0), mean, F.constant(tuple(self.grid.origin.tolist())))

    def data(self, values: np.ndarray, *read: Variable) -> dict[Variable, np.ndarray]:
        """What to send, by leaf, for the connectivity of other values, such as what ``recv`` gives of them.

        read: a loss and outputs: leaves that none of them reads are left out, as an engine has none of them.
        Raises InputError.
        """
        made = self._traced(values)
        self._check_room(made)
        found = {
            self.faces: list_image(padded(made.faces, self.face_count)),
            self._ends: self._image(made.ends),
        }
        if self.weighted:
            found[self._at] = self._image(made.at)
        if "edges" in self.__dict__:
            found |= self.edges.data(self._edge_list(made.faces))
        return {leaf: found[leaf] for leaf in leaves(read) if leaf in found} if read else found

    def mesh(self, values: np.ndarray, name: str = "isosurface") -> Mesh:
        """The same surface on the host, in float64, without weights: the meaning of ``position``."""
        made = self._traced(values)
        return Mesh(made.positions(self.grid), made.faces, name=name)

    @cached_property
    def _cap(self) -> Variable:
        """FLOAT list: the largest value that a point may have; below 0 on the sides of the grid."""
        return list_leaf("cap", FLOAT, closed(np.full(self.grid.shape, 3e38), self.grid).reshape(-1))

    def _image(self, rows: np.ndarray) -> np.ndarray:
        """The slots (V, LONGEST, k) of vertices as tiles behind each other, -1 beyond the last one."""
        width, height = list_size(self.vertex_count)
        image = np.full((LONGEST, width * height, rows.shape[2]), -1)
        image[:, : len(rows)] = rows.swapaxes(0, 1)
        return image.reshape(LONGEST, height, width, -1)

    def _edge_list(self, faces: np.ndarray) -> EdgeList:
        # Not told to be closed: where three or more faces meet, which is rare, an edge has an entry for each.
        found = with_room(edge_list(faces), 3 * self.face_count // 2 + 64)
        return replace(found, closed=False)

    def _check_room(self, made: Traced) -> None:
        if len(made.faces) > self.face_count or len(made.ends) > self.vertex_count:
            raise InputError(
                f"the surface has {len(made.faces)} faces, and there is room for {self.face_count}; make it"
                f" with faces={int(ROOM * len(made.faces))}"
            )

    def _traced(self, values: np.ndarray) -> Traced:
        shape = self.grid.shape
        values = np.asarray(values).reshape(-1)[: int(np.prod(shape))]
        if values.size < np.prod(shape):
            raise InputError(f"the field has {values.size} values for a grid of {shape} points")
        if not np.isfinite(values).all():
            first = np.unravel_index(np.argmin(np.isfinite(values)), shape)
            where = ", ".join(map(str, first))
            raise InputError(
                f"the field is {values[~np.isfinite(values)][0]} at grid point ({where}); its loss or"
                " learning rate is too large"
            )
        values = closed(values.reshape(shape), self.grid)
        if not (values > 0).any():
            raise InputError(
                f"the field has no zero inside of its grid, its largest value is {values.max():.3g}: there is"
                " no surface; start from a field that is positive somewhere, such as of a sphere"
            )
        return Traced(values)


class Traced:
    """The connectivity of a field (X, Y, Z), negative on the sides.

    faces: (F, 3).  ends: (V, LONGEST, 2) grid points at the ends of the crossings of each vertex, -1 beyond
    the last one.  at: (V, LONGEST, 3) the numbers of its weights.
    """

    def __init__(self, values: np.ndarray):
        counts, loop, rank = loops()
        self.values, shape = values, np.array(values.shape)
        inside = values > 0
        signs = np.zeros(shape - 1, np.uint8)
        for c, (x, y, z) in enumerate(CORNERS):
            signs |= (
                inside[x : shape[0] - 1 + x, y : shape[1] - 1 + y, z : shape[2] - 1 + z].view(np.uint8) << c
            )
        flat = signs.reshape(-1)
        cells = np.flatnonzero((flat != 0) & (flat != 255))
        own = flat[cells]
        first = np.full(len(flat), -1)
        first[cells] = np.cumsum(counts[own]) - counts[own]
        place = np.stack(np.unravel_index(cells, signs.shape), axis=1)
        strides = np.array([shape[1] * shape[2], shape[2], 1])
        cell, edge = np.nonzero(loop[own] >= 0)
        vertex = first[cells[cell]] + loop[own[cell], edge]
        corner = (place[cell] @ strides)[:, None] + (CORNERS @ strides)[EDGES[edge]]
        slot = rank[own[cell], edge]
        self.ends = np.full((int(counts[own].sum()), LONGEST, 2), -1)
        self.at = np.full((*self.ends.shape[:2], 3), -1)
        self.ends[vertex, slot] = corner
        self.at[vertex, slot, :2] = WEIGHTS * cells[cell, None] + EDGES[edge]
        self.at[vertex, slot, 2] = WEIGHTS * cells[cell] + 8 + edge
        quads = []
        for axis in range(3):
            u, v = (k for k in range(3) if k != axis)
            # Edges of the grid along the axis that change their sign; those on the sides of the grid do not.
            low = np.moveaxis(inside, axis, 0)
            at = np.argwhere(low[:-1] != low[1:])
            starts = np.zeros((len(at), 3), int)
            starts[:, axis], starts[:, u], starts[:, v] = at.T
            out = low[tuple(at.T)]
            ring = []
            for back in ((1, 1), (0, 1), (0, 0), (1, 0)):
                near = starts.copy()
                near[:, u] -= back[0]
                near[:, v] -= back[1]
                number = np.ravel_multi_index(tuple(near.T), signs.shape)
                start = back[0] << u | back[1] << v
                local = int(np.flatnonzero(np.equal(EDGES, (start, start | 1 << axis)).all(1))[0])
                ring.append(first[number] + loop[flat[number], local])
            quad = np.stack(ring, axis=1)
            # u, v, axis turn to the right, but for the second axis.
            turned = out if axis == 1 else ~out
            quad[turned] = quad[turned, ::-1]
            quads.append(quad)
        self.quads = np.concatenate(quads)

    @cached_property
    def faces(self) -> np.ndarray:
        """(F, 3): of the two diagonals of a quad the shorter one."""
        at, q = self._places, self.quads
        one, other = (((at[q[:, i]] - at[q[:, i + 2]]) ** 2).sum(1) for i in (0, 1))
        q = np.where((one <= other)[:, None], q, np.roll(q, -1, axis=1))
        return q[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)

    @cached_property
    def _places(self) -> np.ndarray:
        """(V, 3) in cells."""
        flat, there = self.values.reshape(-1), self.ends[..., 0] >= 0
        s, t = (np.where(there, flat[self.ends[..., k]], (1.0, -1.0)[k]) for k in (0, 1))
        p, q = (
            np.stack(np.unravel_index(np.maximum(self.ends[..., k], 0), self.values.shape), axis=-1)
            for k in (0, 1)
        )
        crossing = p + (s / (s - t))[..., None] * (q - p)
        return (crossing * there[..., None]).sum(1) / there.sum(1, keepdims=True)

    def positions(self, grid: Grid) -> np.ndarray:
        """(V, 3) the vertices."""
        return grid.origin + grid.step * self._places
