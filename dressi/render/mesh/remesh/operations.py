"""A round of remeshing: splits, collapses and flips of edges that do not touch, and slides of vertices.

Half-edge 3 f + k runs along face f from corner k to corner k + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..mesh import Mesh
from ..queries import to_faces
from ..rows import connected, distinct, drop_unused, ordered, ranges, unit


@dataclass(frozen=True)
class HalfEdges:
    """The half-edges of faces (F, 3) of ``count`` vertices."""

    count: int
    start: np.ndarray
    """(3 F,) the vertex it starts from."""
    end: np.ndarray
    """(3 F,) the vertex it ends in."""
    third: np.ndarray
    """(3 F,) the corner opposite to it."""
    twin: np.ndarray
    """(3 F,) the half-edge of the other face, which runs the other way; -1 at borders, at edges of three
    faces or more, and where two faces disagree on their orientation."""
    keys: np.ndarray
    """Sorted numbers of all edges, for ``present``."""

    @property
    def inner(self) -> np.ndarray:
        """One half-edge of each edge that has a twin."""
        return np.nonzero(self.twin > np.arange(len(self.twin)))[0]

    @property
    def valences(self) -> np.ndarray:
        """(V,) number of half-edges that start at each vertex."""
        return np.diff(self.stars.offsets)

    @cached_property
    def stars(self) -> Stars:
        """The half-edges by the vertices that they start from."""
        return Stars.of(self.start, self.count)


def half_edges(faces: np.ndarray, count: int) -> HalfEdges:
    """The half edges of faces (F, 3) of ``count`` vertices."""
    start, end, third = (np.roll(faces, -k, axis=1).reshape(-1) for k in range(3))
    key = edge_keys(start, end, count)
    order = ordered(key)
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    pairs = first[np.diff(first, append=len(key)) == 2]
    one, other = order[pairs], order[pairs + 1]
    opposite = start[one] != start[other]
    one, other = one[opposite], other[opposite]
    twin = np.full(len(key), -1)
    twin[one], twin[other] = other, one
    return HalfEdges(count, start, end, third, twin, key[first])


def fans(edges: HalfEdges) -> np.ndarray:
    """(3 F,) numbers of the fans of faces around the vertices that half-edges start from."""
    # The next half-edge around the same vertex.
    here = np.nonzero(edges.twin >= 0)[0]
    return connected(here, after(edges.twin[here]), len(edges.twin))


def after(half: np.ndarray) -> np.ndarray:
    """The next half-edges of the same faces."""
    return half - half % 3 + (half + 1) % 3


def edge_keys(a: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
    """One number for each unordered pair of vertices."""
    return np.minimum(a, b) * count + np.maximum(a, b)


def present(keys: np.ndarray, sorted_keys: np.ndarray) -> np.ndarray:
    """Which keys are among ``sorted_keys``."""
    place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return sorted_keys[place] == keys


@dataclass(frozen=True)
class Stars:
    """The half-edges that start at each vertex, in compressed rows."""

    offsets: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, start: np.ndarray, count: int) -> Stars:
        offsets = np.concatenate([[0], np.cumsum(np.bincount(start, minlength=count))])
        return cls(offsets, ordered(start))

    def around(self, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(row, half-edge): every half-edge from vertices[row], for all rows."""
        row, place = ranges(self.offsets[vertices], self.offsets[vertices + 1] - self.offsets[vertices])
        return row, self.order[place]


def ranks(cost: np.ndarray) -> np.ndarray:
    """(E,) distinct numbers from 0 on, in ascending order of the cost."""
    rank, bits = np.empty(len(cost), dtype=np.int64), cost.astype(np.float64).view(np.uint64)
    # Floats are in the order of their bits if the sign is flipped, and of negative ones all bits.
    sign = np.uint64(1 << 63)
    rank[ordered(np.where(bits >= sign, ~bits, bits | sign))] = np.arange(len(cost))
    return rank


def best_in_groups(rank: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """(E,) bool: edges that have the lowest rank in each of their groups (E, K), numbers below ``count``."""
    best = np.full(count, len(rank))
    for group in groups.T:
        np.minimum.at(best, group, rank)
    return (best[groups] == rank[:, None]).all(1)


def best_in_stars(rank: np.ndarray, ends: np.ndarray, faces: np.ndarray, count: int) -> np.ndarray:
    """(E,) bool: edges (E, 2) of the lowest rank among those that share a face of their ends' stars. None
    touch."""
    vertex = np.full(count, len(rank))
    for end in ends.T:
        np.minimum.at(vertex, end, rank)
    face = vertex[faces].min(1)
    near = np.full(count, len(rank))
    for corner in faces.T:
        np.minimum.at(near, corner, face)
    return (near[ends] == rank[:, None]).all(1)


def on_seam(layers: list[np.ndarray], half: np.ndarray, twin: np.ndarray) -> np.ndarray:
    """(E,) bool: the two faces at the edge have different rows in one of the layers of faces (F, 3)."""
    differs = np.zeros(len(half), dtype=bool)
    for faces in layers:
        row = faces.reshape(-1)
        differs |= (row[half] != row[after(twin)]) | (row[after(half)] != row[twin])
    return differs


# The mesh that remeshing works on: positions, fields of the vertices, UVs and colours as layers of rows and
# faces.
#
# Each layer has rows of values and, like ``Mesh``, faces that refer to them. Layer 0 holds what belongs to
# vertices: the position, the target length of edges, then all fields. Further layers hold UVs and colours,
# which may differ between the faces at a vertex; such a vertex lies on a seam. Operations only ever replace
# rows by convex combinations of rows of one face, of all layers alike. So every attribute that is a linear
# function of the position stays one exactly.

_CARRIED = ("uvs", "colors", "second_uvs")


@dataclass
class Layers:
    """A mesh in the middle of remeshing."""

    values: list[np.ndarray]
    """Rows (N_k, C_k) of each layer."""
    faces: list[np.ndarray]
    """(F, 3) row numbers of each layer."""
    fixed: np.ndarray
    """(V,) bool: vertices that are neither moved nor removed, such as those on borders."""

    @property
    def positions(self) -> np.ndarray:
        """(V, 3)."""
        return self.values[0][:, :3]

    @property
    def target(self) -> np.ndarray:
        """(V,) the length that edges at each vertex should have."""
        return self.values[0][:, 3]

    @property
    def count(self) -> int:
        """Number of vertices."""
        return len(self.values[0])

    def owners(self, layer: int) -> np.ndarray:
        """(N_k,) the vertex of each row of a layer, -1 for rows that no face uses."""
        owners = np.full(len(self.values[layer]), -1)
        owners[self.faces[layer].reshape(-1)] = self.faces[0].reshape(-1)
        return owners

    def wedges(self, layer: int) -> np.ndarray:
        """(V,) number of rows that each vertex has in a layer: 1 off seams."""
        owners = self.owners(layer)
        return np.bincount(owners[owners >= 0], minlength=self.count)

    def compact(self) -> None:
        """Remove the rows that no face uses."""
        self.fixed = drop_unused(self.fixed, self.faces[0])[0]
        for k, (values, faces) in enumerate(zip(self.values, self.faces, strict=True)):
            self.values[k], self.faces[k] = drop_unused(values, faces)


def to_layers(mesh: Mesh, target: np.ndarray, fields: Mapping[str, np.ndarray]) -> Layers:
    """target: (V,).  fields: (V,) or (V, C) by name."""
    columns = [
        np.reshape(rows, (len(mesh.positions), -1)) for rows in (mesh.positions, target, *fields.values())
    ]
    values, faces = [np.concatenate(columns, axis=1, dtype=np.float64)], [mesh.faces.copy()]
    for what, _, rows, own in mesh.lists():
        if what in _CARRIED:
            # Two vertices never share a row, so that a change at one leaves the other alone.
            pairs, number = np.unique(mesh.faces * len(rows) + own, return_inverse=True)
            values.append(rows[pairs % len(rows)])
            faces.append(number.reshape(-1, 3))
    # Vertices on borders and on edges of three faces, and those where several fans of faces touch.
    count = len(mesh.positions)
    edges = half_edges(mesh.faces, count)
    around = distinct(edges.start * len(edges.start) + fans(edges)) // max(len(edges.start), 1)
    fixed = np.bincount(around, minlength=count) > 1
    alone = edges.twin < 0
    fixed[edges.start[alone]] = fixed[edges.end[alone]] = True
    return Layers(values, faces, fixed)


def from_layers(
    layers: Layers, mesh: Mesh, fields: Mapping[str, np.ndarray]
) -> tuple[Mesh, dict[str, np.ndarray]]:
    """The mesh, with name, texture and colour factor of ``mesh``, and the fields in their own shapes."""
    stale = dict.fromkeys(("normals", "normal_faces", "file_tangents", "file_tangent_faces"))
    parts = {"positions": layers.positions.copy(), "faces": layers.faces[0]}
    given = [(what, index) for what, index, *_ in mesh.lists() if what in _CARRIED]
    for (what, index), values, faces in zip(given, layers.values[1:], layers.faces[1:], strict=True):
        parts |= {what: values, index: faces}
    moved, column = {}, 4
    for name, field in fields.items():
        shape = np.shape(field)[1:]
        width = int(np.prod(shape))
        moved[name] = layers.values[0][:, column : column + width].reshape(-1, *shape)
        column += width
    return replace(mesh, **stale, **parts), moved


def _ratios(layers: Layers) -> tuple[HalfEdges, np.ndarray, np.ndarray]:
    """The half-edges, one of each edge with a twin, and its length over the shorter target at its ends."""
    edges = half_edges(layers.faces[0], layers.count)
    half = edges.inner
    a, b = edges.start[half], edges.end[half]
    length = np.linalg.norm(layers.positions[a] - layers.positions[b], axis=1)
    return edges, half, length / np.minimum(layers.target[a], layers.target[b])


# Splits edges at their midpoints.

SPLIT_PASSES = 12
LONG = 4 / 3
"""Edges longer than this times their target are split (Botsch and Kobbelt 2004): halves are nearer to it."""


def split_long(layers: Layers, most_faces: int) -> None:
    """Split edges longer than LONG times the target length, relative longest first, as long as there are at
    most ``most_faces`` faces. Borders are kept."""
    for _ in range(SPLIT_PASSES):
        edges, half, ratio = _ratios(layers)
        half, ratio = half[ratio > LONG], ratio[ratio > LONG]
        faces = np.stack([half, edges.twin[half]], axis=1) // 3
        best = best_in_groups(ranks(-ratio), faces, len(layers.faces[0]))
        half = half[best][np.argsort(-ratio[best])]
        half = half[: max(most_faces - len(layers.faces[0]), 0) // 2]
        if len(half) == 0:
            break
        split(layers, half, edges.twin[half])


def split(layers: Layers, half: np.ndarray, twin: np.ndarray) -> None:
    """Split edges, given by both half-edges, of which no two share a face. New vertices come behind the
    others.

    a-b-c and b-a-d with the midpoint m:   a-m-c, m-b-c, b-m-d, m-a-d
    """
    both = np.concatenate([half, twin])
    face, corner = both // 3, both % 3
    for k, (values, faces) in enumerate(zip(layers.values, layers.faces, strict=True)):
        row = faces.reshape(-1)
        ends = np.stack([row[half], row[after(half)]], axis=1)
        others = np.stack([row[after(twin)], row[twin]], axis=1)
        apart = (ends != others).any(1)
        middle = len(values) + np.arange(len(half))
        second = np.where(apart, len(values) + len(half) + np.cumsum(apart) - 1, middle)
        new = [values, values[ends].mean(1), values[others[apart]].mean(1)]
        middles = np.concatenate([middle, second])
        added = faces[face]
        added[np.arange(len(both)), corner] = middles
        faces[face, (corner + 1) % 3] = middles
        layers.values[k], layers.faces[k] = np.concatenate(new), np.concatenate([faces, added])
    layers.fixed = np.concatenate([layers.fixed, np.zeros(len(half), dtype=bool)])


# Collapses short edges without changing the topology or folding the surface.

COLLAPSE_PASSES = 12
SHORT = 4 / 5
"""Edges shorter than this times their target are collapsed."""
TURN = 0.5
"""Least cosine between the normals of a face before and after a collapse."""
FLATTEST = 0.05
"""Least quality (``_quality``) of a face after a collapse, unless it was lower before."""
LOST = 0.3
"""Farthest from the new surface that a vertex which is removed or moved may have lain, in target lengths. The planes of the
faces at the tip of a needle hardly tell how short it becomes. A tenth keeps more of a needle, and edges of hulls, too, that
pictures from other sides do not show: it costs a duck from six sides .003 of overlap."""
VALENCE = 9
"""Largest number of faces at a vertex after a collapse."""
PLACES = np.array([0.5, 0.0, 1.0])
"""Where on the edge the vertex that remains may lie."""


def collapse_short(layers: Layers) -> None:
    """Collapse edges shorter than SHORT times the target length, relative shortest first.

    The remaining vertex lies at the midpoint or at an end, wherever it is nearest to the planes of the faces
    around. An edge stays if its collapse would change the topology, fold the surface over, make an edge too
    long or a face needle-thin, move a fixed vertex, or tear a seam.
    """
    refused = np.zeros(0, dtype=np.int64)
    for _ in range(COLLAPSE_PASSES):
        edges, half, ratio = _ratios(layers)
        half, ratio = half[ratio < SHORT], ratio[ratio < SHORT]
        keep = ~np.isin(edge_keys(edges.start[half], edges.end[half], layers.count), refused)
        half, ratio, stays = _allowed(layers, edges, half[keep], ratio[keep])
        if len(half) == 0:
            break
        ends = np.stack([edges.start[half], edges.end[half]], axis=1)
        best = best_in_stars(ranks(ratio), ends, layers.faces[0], layers.count)
        half, ends = half[best], ends[best]
        place = _places(layers, edges, half, stays[best])
        bad = place < 0
        refused = np.concatenate([refused, edge_keys(ends[bad, 0], ends[bad, 1], layers.count)])
        collapse(layers, half[~bad], edges.twin[half[~bad]], PLACES[place[~bad]])
    layers.compact()


def collapse(layers: Layers, half: np.ndarray, twin: np.ndarray, place: np.ndarray) -> None:
    """Collapse edges, given by both half-edges, whose stars are apart. place: (E,) in [0, 1], where from
    start to end the start comes to lie. No face uses the end afterwards."""
    weight = np.concatenate([place, place])[:, None]
    for k, (values, faces) in enumerate(zip(layers.values, layers.faces, strict=True)):
        row = faces.reshape(-1)
        stay = np.concatenate([row[half], row[after(twin)]])
        gone = np.concatenate([row[after(half)], row[twin]])
        moved = (1 - weight) * values[stay] + weight * values[gone]
        number = np.arange(len(values))
        number[gone] = stay
        values[stay] = moved
        layers.faces[k] = number[faces]
    dead = np.zeros(len(layers.faces[0]), dtype=bool)
    dead[np.concatenate([half, twin]) // 3] = True
    layers.faces = [faces[~dead] for faces in layers.faces]


def _allowed(
    layers: Layers, edges: HalfEdges, half: np.ndarray, ratio: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The half-edges whose end may be removed, their ratios, and whether their start stays in place."""
    # Turned so that the end is the one that is free.
    free, other = (_free(layers, edges, one) for one in (half, edges.twin[half]))
    half = np.where(free, half, edges.twin[half])
    stays = ~(free & other)
    twin = edges.twin[half]
    a, b, c, d = edges.start[half], edges.end[half], edges.third[half], edges.third[twin]
    valence = edges.valences
    good = (free | other) & (valence[c] > 3) & (valence[d] > 3)
    good &= valence[a] + valence[b] - 4 <= VALENCE
    good &= _common(edges, half) == 2
    return half[good], ratio[good], stays[good]


def _free(layers: Layers, edges: HalfEdges, half: np.ndarray) -> np.ndarray:
    """(E,) bool: all rows of the end of the edge, in every layer, have one partner each at its start."""
    twin = edges.twin[half]
    found = ~layers.fixed[edges.end[half]]
    for k in range(1, len(layers.faces)):
        row, wedges = layers.faces[k].reshape(-1), layers.wedges(k)[edges.end[half]]
        apart = row[half] != row[after(twin)]
        found &= (apart == (row[after(half)] != row[twin])) & (wedges == 1 + apart)
    return found


def _common(edges: HalfEdges, half: np.ndarray) -> np.ndarray:
    """(E,) number of vertices that are neighbours of both ends: two for an edge that can collapse."""
    row, spoke = edges.stars.around(edges.start[half])
    key = edge_keys(edges.end[spoke], edges.end[half][row], edges.count)
    shared = present(key, edges.keys) & (edges.end[spoke] != edges.end[half][row])
    return np.bincount(row[shared], minlength=len(half))


def _places(layers: Layers, edges: HalfEdges, half: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """(E,) the best of PLACES, -1 where none is allowed."""
    points, target = layers.positions, layers.target
    a, b = edges.start[half], edges.end[half]
    (first, spoke), (second, other) = edges.stars.around(a), edges.stars.around(b)
    row, spoke = np.concatenate([first, second]), np.concatenate([spoke, other])
    # Each face of both stars, seen from the end that moves: x, then y and z counter-clockwise.
    x, y, z = points[edges.start[spoke]], points[edges.end[spoke]], points[edges.third[spoke]]
    cross = np.cross(y - x, z - x)
    area = np.linalg.norm(cross, axis=1)
    normal = cross / np.maximum(area, 1e-30)[:, None]
    corner = np.stack([edges.end[spoke], edges.third[spoke]], axis=1)
    dies = (corner == a[row][:, None]).any(1) | (corner == b[row][:, None]).any(1)
    quality = _quality(x, y, z)
    before = np.maximum(np.linalg.norm(y - x, axis=1), np.linalg.norm(z - x, axis=1))
    length = np.linalg.norm(points[a] - points[b], axis=1)
    cost = np.full((len(half), len(PLACES)), np.inf)
    for k, place in enumerate(PLACES):
        new = (1 - place) * points[a] + place * points[b]
        p = new[row]
        turned = np.cross(y - p, z - p)
        size = np.linalg.norm(turned, axis=1)
        bad = (turned * normal).sum(1) <= TURN * size
        bad |= _quality(p, y, z) < np.minimum(FLATTEST, quality)
        most = LONG * np.minimum(target[corner].min(1), target[a][row])
        reach = np.maximum(np.linalg.norm(y - p, axis=1), np.linalg.norm(z - p, axis=1))
        bad |= reach > np.maximum(most, before)
        wrong = np.bincount(row[bad & ~dies], minlength=len(half)) > 0
        away = np.bincount(row, area * ((p - x) * normal).sum(1) ** 2, len(half))
        away += 1e-3 * np.bincount(row, area, len(half)) * ((place - 0.5) * length) ** 2
        wrong |= stays & (place > 0)
        for gone in [b] if place == 0 else [a] if place == 1 else [a, b]:
            lost = np.full(len(half), np.inf)
            near = ~dies & ~wrong[row]
            there = to_faces(points[gone[row[near]]], np.stack([p, y, z], axis=1)[near])
            np.minimum.at(lost, row[near], there)
            wrong |= lost > LOST * target[gone]
        cost[:, k] = np.where(wrong, np.inf, away)
    best = np.argmin(cost, axis=1)
    return np.where(np.isfinite(cost[np.arange(len(half)), best]), best, -1)


def _quality(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(F,) in [0, 1]: 1 for an equilateral triangle, 0 for one without area."""
    u, v, w = y - x, z - y, x - z
    area = np.linalg.norm(np.cross(u, w), axis=1)
    return 2 * np.sqrt(3) * area / np.maximum((u * u + v * v + w * w).sum(1), 1e-30)


# Flips edges towards a Delaunay triangulation of the surface.

FLIP_PASSES = 6
FLATTEST_FLIPPED = 0.9
"""Least cosine between the two faces of an edge that is flipped, and between the new faces and their mean."""


def flip_edges(layers: Layers) -> None:
    """Flip edges whose opposite angles sum to more than 180 degrees (the intrinsic Delaunay criterion).

    Seams, borders and creases stay. No vertex falls below three faces, and no edge is made twice.
    """
    for _ in range(FLIP_PASSES):
        edges = half_edges(layers.faces[0], layers.count)
        half = edges.inner
        half = half[~on_seam(layers.faces[1:], half, edges.twin[half])]
        twin = edges.twin[half]
        a, b, c, d = edges.start[half], edges.end[half], edges.third[half], edges.third[twin]
        excess = _excess(layers.positions, a, b, c, d)
        valence = edges.valences
        keys = edge_keys(c, d, layers.count)
        good = (excess > 1e-6) & (valence[a] > 3) & (valence[b] > 3) & (c != d)
        good &= ~present(keys, edges.keys) & _flat(layers.positions, a, b, c, d)
        half, twin, excess, keys = half[good], twin[good], excess[good], keys[good]
        a, b = a[good], b[good]
        # No face, no end and no new edge twice.
        groups = [half // 3, twin // 3, len(layers.faces[0]) + a, len(layers.faces[0]) + b]
        _, number = np.unique(keys, return_inverse=True)
        groups.append(len(layers.faces[0]) + layers.count + number)
        count = len(layers.faces[0]) + layers.count + len(keys)
        best = best_in_groups(ranks(-excess), np.stack(groups, axis=1), count)
        if not best.any():
            break
        flip(layers, half[best], twin[best])


def flip(layers: Layers, half: np.ndarray, twin: np.ndarray) -> None:
    """Flip edges, given by both half-edges, of which no two share a face: a-b-c and b-a-d become a-d-c and
    d-b-c."""
    face, other = half // 3, twin // 3
    for faces in layers.faces:
        row = faces.reshape(-1)
        a, b = row[half], row[after(half)]
        c, d = row[after(after(half))], row[after(after(twin))]
        faces[face], faces[other] = np.stack([a, d, c], axis=1), np.stack([d, b, c], axis=1)


def _excess(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(E,) the angles at c and d together, minus pi."""

    def angle(at: np.ndarray) -> np.ndarray:
        u, v = points[a] - points[at], points[b] - points[at]
        return np.arctan2(np.linalg.norm(np.cross(u, v), axis=1), (u * v).sum(1))

    return angle(c) + angle(d) - np.pi


def _flat(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(E,) bool: the old faces a-b-c and b-a-d, and the new ones, have nearly one normal."""

    def normal(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return unit(np.cross(points[b] - points[a], points[c] - points[a]))

    one, other = normal(a, b, c), normal(b, a, d)
    mean = unit(one + other)
    cosines = [(one * other).sum(1), (normal(a, d, c) * mean).sum(1), (normal(d, b, c) * mean).sum(1)]
    return np.min(cosines, axis=0) > FLATTEST_FLIPPED


# Slides vertices over the surface, towards the middle of their neighbours.

STEP = 0.6
"""How far a vertex moves towards the middle of its neighbours."""
TURN_OF_RELAXED = 0.5
"""Least cosine between the normals of a face before and after."""
TRIES = 4


def relax(layers: Layers) -> None:
    """Move every free vertex in its tangent plane towards the weighted mean of its neighbours, and put it on
    the face of its star that lies there.

    All rows of a vertex become the same combination of the corners of that face. Weights are areas over
    squared target lengths, so that faces become as large as the targets ask for. Vertices on seams and fixed
    ones stay, and so do those that would turn a face by more than 60 degrees or leave their place far from
    the surface.
    """
    edges = half_edges(layers.faces[0], layers.count)
    points, faces = layers.positions.copy(), layers.faces[0]
    cross = np.cross(points[faces[:, 1]] - points[faces[:, 0]], points[faces[:, 2]] - points[faces[:, 0]])
    normals = np.zeros_like(points)
    for corner in faces.T:
        np.add.at(normals, corner, cross)
    normals = unit(normals)
    weight = np.linalg.norm(cross, axis=1) / (layers.target[faces] ** 2).mean(1)
    share = np.repeat(weight, 3)
    total, middle = np.zeros(layers.count), np.zeros_like(points)
    np.add.at(total, edges.start, 2 * share)
    np.add.at(middle, edges.start, share[:, None] * (points[edges.end] + points[edges.third]))
    move = STEP * (middle / np.maximum(total, 1e-30)[:, None] - points)
    move -= (move * normals).sum(1, keepdims=True) * normals
    spoke, weights = _landing(edges, points, normals, move)
    free = (spoke >= 0) & ~layers.fixed
    for k in range(1, len(layers.faces)):
        free &= layers.wedges(k) == 1
    corners = faces.reshape(-1)
    for _ in range(TRIES):
        moved = _combined(points, faces, spoke, weights, free, np.arange(layers.count))
        left = np.full(layers.count, np.inf)
        np.minimum.at(left, corners, to_faces(points[corners], np.repeat(moved[faces], 3, axis=0)))
        free &= left <= LOST * layers.target
        a, b, c = _combined(points, faces, spoke, weights, free, np.arange(layers.count))[faces.T]
        turned = np.cross(b - a, c - a)
        size = np.linalg.norm(turned, axis=1) * np.linalg.norm(cross, axis=1)
        bad = ((turned * cross).sum(1) <= TURN_OF_RELAXED * size) & (size > 0)
        if not bad.any():
            break
        free[faces[bad]] = False
    else:
        return
    for k, own in enumerate(layers.faces):
        layers.values[k] = _combined(layers.values[k], own, spoke, weights, free, layers.owners(k))


def _landing(
    edges: HalfEdges, points: np.ndarray, normals: np.ndarray, move: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(V,) the half-edge at the vertex of the face on which it lands, -1 for none; (V, 3) weights there."""
    vertex, half = edges.stars.around(np.arange(edges.count))
    u, w = points[edges.end[half]] - points[vertex], points[edges.third[half]] - points[vertex]
    n, q = normals[vertex], move[vertex]
    area = (n * np.cross(u, w)).sum(1)
    second = (n * np.cross(q, w)).sum(1) / np.where(area > 0, area, 1.0)
    third = (n * np.cross(u, q)).sum(1) / np.where(area > 0, area, 1.0)
    weights = np.stack([1 - second - third, second, third], axis=1)
    inside = np.where(area > 0, weights.min(1), -np.inf)
    # Of the faces around a vertex, the last in this order is the one that it lands on, or comes nearest to.
    order = np.argsort(inside, kind="stable")
    best = np.full(edges.count, -1)
    best[vertex[order]] = order
    there = (best >= 0) & (inside[best] >= -1e-6)
    shares = np.maximum(weights[best], 0)
    return np.where(there, half[best], -1), shares / np.maximum(shares.sum(1, keepdims=True), 1e-30)


def _combined(
    values: np.ndarray,
    faces: np.ndarray,
    spoke: np.ndarray,
    weights: np.ndarray,
    free: np.ndarray,
    vertex: np.ndarray,
) -> np.ndarray:
    """The rows with those of free vertices replaced. vertex: of each row, -1 for rows out of use."""
    rows = np.nonzero((vertex >= 0) & free[vertex])[0]
    at = spoke[vertex[rows]]
    corners = np.stack([faces[at // 3, (at + k) % 3] for k in range(3)], axis=1)
    values = values.copy()
    values[rows] = np.einsum("vk,vkc->vc", weights[vertex[rows]], values[corners])
    return values
