"""Half-edges of faces, faces around vertices, and sets of edges that can be changed at the same time.

Half-edge 3 f + k runs along face f from corner k to corner k + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rows import connected, distinct


@dataclass(frozen=True)
class HalfEdges:
    """The half-edges of faces (F, 3)."""

    start: np.ndarray
    """(3 F,) the vertex it starts from."""
    end: np.ndarray
    """(3 F,) the vertex it ends in."""
    third: np.ndarray
    """(3 F,) the corner opposite to it."""
    twin: np.ndarray
    """(3 F,) the half-edge of the other face, which runs the other way; -1 at borders, at edges of three faces or more, and
    where two faces disagree on their orientation."""

    @property
    def inner(self) -> np.ndarray:
        """One half-edge of each edge that has a twin."""
        return np.nonzero(self.twin > np.arange(len(self.twin)))[0]

    def valences(self, count: int) -> np.ndarray:
        """(V,) number of half-edges that start at each vertex."""
        return np.bincount(self.start, minlength=count)

    def keys(self, count: int) -> np.ndarray:
        """Sorted numbers of all edges, for ``present``."""
        return distinct(edge_keys(self.start, self.end, count))


def half_edges(faces: np.ndarray, count: int) -> HalfEdges:
    """Of faces (F, 3) of ``count`` vertices."""
    start, end, third = (np.roll(faces, -k, axis=1).reshape(-1) for k in range(3))
    key = edge_keys(start, end, count)
    order = np.argsort(key, kind="stable")
    _, first, uses = np.unique(key[order], return_index=True, return_counts=True)
    one, other = order[first[uses == 2]], order[first[uses == 2] + 1]
    opposite = start[one] != start[other]
    one, other = one[opposite], other[opposite]
    twin = np.full(len(key), -1)
    twin[one], twin[other] = other, one
    return HalfEdges(start, end, third, twin)


def fans(edges: HalfEdges) -> np.ndarray:
    """(3 F,) numbers of the fans of faces, joined by edges, around the vertices that half-edges start from."""
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
        return cls(offsets, np.argsort(start, kind="stable"))

    def around(self, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(row, half-edge): every half-edge from vertices[row], for all rows."""
        begin, size = self.offsets[vertices], self.offsets[vertices + 1] - self.offsets[vertices]
        row = np.repeat(np.arange(len(vertices)), size)
        place = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        return row, self.order[begin[row] + place]


def ranks(cost: np.ndarray) -> np.ndarray:
    """(E,) distinct numbers from 0 on, in ascending order of the cost."""
    found = np.empty(len(cost), dtype=np.int64)
    found[np.argsort(cost, kind="stable")] = np.arange(len(cost))
    return found


def best_in_groups(rank: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """(E,) bool: edges that have the lowest rank in each of their groups (E, K), numbers below ``count``."""
    best = np.full(count, len(rank))
    for group in groups.T:
        np.minimum.at(best, group, rank)
    return (best[groups] == rank[:, None]).all(1)


def best_in_stars(rank: np.ndarray, ends: np.ndarray, faces: np.ndarray, count: int) -> np.ndarray:
    """(E,) bool: edges (E, 2) with the lowest rank of all that share a face of their ends' stars. No two of them touch."""
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
    found = np.zeros(len(half), dtype=bool)
    for faces in layers:
        row = faces.reshape(-1)
        found |= (row[half] != row[after(twin)]) | (row[after(half)] != row[twin])
    return found
