"""Flips edges towards a Delaunay triangulation of the surface."""

from __future__ import annotations

import numpy as np

from .edges import after, best_in_groups, edge_keys, half_edges, on_seam, present, ranks
from .layers import Layers

PASSES = 6
FLATTEST = 0.9
"""Least cosine between the two faces of an edge that is flipped, and between the new faces and their mean."""


def flip_edges(layers: Layers) -> None:
    """Flip edges whose opposite angles sum to more than 180 degrees (the intrinsic Delaunay criterion).

    Seams, borders and creases stay. No vertex falls below three faces, and no edge is made twice.
    """
    for _ in range(PASSES):
        edges = half_edges(layers.faces[0], layers.count)
        half = edges.inner
        half = half[~on_seam(layers.faces[1:], half, edges.twin[half])]
        twin = edges.twin[half]
        a, b, c, d = edges.start[half], edges.end[half], edges.third[half], edges.third[twin]
        excess = _excess(layers.positions, a, b, c, d)
        valence = edges.valences(layers.count)
        keys = edge_keys(c, d, layers.count)
        good = (excess > 1e-6) & (valence[a] > 3) & (valence[b] > 3) & (c != d)
        good &= ~present(keys, edges.keys(layers.count)) & _flat(layers.positions, a, b, c, d)
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
    """Flip edges, given by both half-edges, of which no two share a face: a-b-c and b-a-d become a-d-c and d-b-c."""
    face, other = half // 3, twin // 3
    for faces in layers.faces:
        row = faces.reshape(-1)
        a, b = row[half], row[after(half)]
        c, d = row[after(after(half))], row[after(after(twin))]
        faces[face], faces[other] = np.stack([a, d, c], axis=1), np.stack([d, b, c], axis=1)


def _excess(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(E,) the angles at c and d together, minus pi."""
    return (
        _angle(points[a] - points[c], points[b] - points[c])
        + _angle(points[a] - points[d], points[b] - points[d])
        - np.pi
    )


def _angle(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.arctan2(np.linalg.norm(np.cross(u, v), axis=1), (u * v).sum(1))


def _flat(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(E,) bool: the old faces a-b-c and b-a-d, and the new ones, have nearly one normal."""
    old = [_normal(points, a, b, c), _normal(points, b, a, d)]
    new = [_normal(points, a, d, c), _normal(points, d, b, c)]
    mean = old[0] + old[1]
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-30)
    cosines = [(old[0] * old[1]).sum(1), *((normal * mean).sum(1) for normal in new)]
    return np.min(cosines, axis=0) > FLATTEST


def _normal(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    cross = np.cross(points[b] - points[a], points[c] - points[a])
    return cross / np.maximum(np.linalg.norm(cross, axis=1, keepdims=True), 1e-30)
