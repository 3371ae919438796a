"""Collapses short edges without changing the topology or folding the surface."""

from __future__ import annotations

import numpy as np

from .edges import (
    HalfEdges,
    Stars,
    after,
    best_in_stars,
    edge_keys,
    half_edges,
    present,
    ranks,
)
from .layers import Layers
from .split import LONG

PASSES = 12
SHORT = 4 / 5
"""Edges shorter than this times their target are collapsed."""
TURN = 0.5
"""Least cosine between the normals of a face before and after a collapse."""
FLATTEST = 0.05
"""Least quality (``_quality``) of a face after a collapse, unless it was lower before."""
VALENCE = 9
"""Largest number of faces at a vertex after a collapse."""
PLACES = np.array([0.5, 0.0, 1.0])
"""Where on the edge the vertex that remains may lie."""


def collapse_short(layers: Layers) -> None:
    """Collapse edges shorter than SHORT times the target length, relative shortest first.

    The remaining vertex lies at the midpoint or at an end, wherever it is nearest to the planes of the faces around. An
    edge stays if its collapse would change the topology, fold the surface over, make an edge too long or a face needle-thin,
    move a fixed vertex, or tear a seam.
    """
    refused = np.zeros(0, dtype=np.int64)
    for _ in range(PASSES):
        edges = half_edges(layers.faces[0], layers.count)
        half = edges.inner
        a, b = edges.start[half], edges.end[half]
        length = np.linalg.norm(layers.positions[a] - layers.positions[b], axis=1)
        ratio = length / np.minimum(layers.target[a], layers.target[b])
        short = ratio < SHORT
        short[short] = ~np.isin(edge_keys(a[short], b[short], layers.count), refused)
        half, ratio, stays = _allowed(layers, edges, half[short], ratio[short])
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
    """Collapse edges, given by both half-edges, whose stars are apart. place: (E,) in [0, 1], where from start to end the
    start comes to lie. No face uses the end afterwards."""
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
    """The half-edges whose end may be removed, their ratios, and whether their start must stay where it is."""
    # Turned so that the end is the one that is free.
    free, other = (_free(layers, edges, one) for one in (half, edges.twin[half]))
    half = np.where(free, half, edges.twin[half])
    stays = ~(free & other)
    twin = edges.twin[half]
    a, b, c, d = edges.start[half], edges.end[half], edges.third[half], edges.third[twin]
    valence = edges.valences(layers.count)
    good = (free | other) & (valence[c] > 3) & (valence[d] > 3)
    good &= valence[a] + valence[b] - 4 <= VALENCE
    good &= _common(layers, edges, half) == 2
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


def _common(layers: Layers, edges: HalfEdges, half: np.ndarray) -> np.ndarray:
    """(E,) number of vertices that are neighbours of both ends: two for an edge that can collapse."""
    stars = Stars.of(edges.start, layers.count)
    row, spoke = stars.around(edges.start[half])
    key = edge_keys(edges.end[spoke], edges.end[half][row], layers.count)
    shared = present(key, edges.keys(layers.count)) & (edges.end[spoke] != edges.end[half][row])
    return np.bincount(row[shared], minlength=len(half))


def _places(layers: Layers, edges: HalfEdges, half: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """(E,) the best of PLACES, -1 where none is allowed."""
    points, target = layers.positions, layers.target
    a, b = edges.start[half], edges.end[half]
    stars = Stars.of(edges.start, layers.count)
    (first, spoke), (second, other) = stars.around(a), stars.around(b)
    row, spoke = np.concatenate([first, second]), np.concatenate([spoke, other])
    # Each face of both stars, seen from the end that moves: x, then y and z counter-clockwise.
    x, y, z = points[edges.start[spoke]], points[edges.end[spoke]], points[edges.third[spoke]]
    cross = np.cross(y - x, z - x)
    area = np.linalg.norm(cross, axis=1)
    normal = cross / np.maximum(area, 1e-30)[:, None]
    corner = np.stack([edges.end[spoke], edges.third[spoke]], axis=1)
    dies = (corner == a[row][:, None]).any(1) | (corner == b[row][:, None]).any(1)
    quality = _quality(x, y, z)
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
        bad |= reach > np.maximum(
            most, np.maximum(np.linalg.norm(y - x, axis=1), np.linalg.norm(z - x, axis=1))
        )
        wrong = np.bincount(row[bad & ~dies], minlength=len(half)) > 0
        away = np.bincount(row, area * ((p - x) * normal).sum(1) ** 2, len(half))
        away += 1e-3 * np.bincount(row, area, len(half)) * ((place - 0.5) * length) ** 2
        cost[:, k] = np.where(wrong | (stays & (place > 0)), np.inf, away)
    best = np.argmin(cost, axis=1)
    return np.where(np.isfinite(cost[np.arange(len(half)), best]), best, -1)


def _quality(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(F,) in [0, 1]: 1 for an equilateral triangle, 0 for one without area."""
    u, v, w = y - x, z - y, x - z
    area = np.linalg.norm(np.cross(u, w), axis=1)
    return 2 * np.sqrt(3) * area / np.maximum((u * u + v * v + w * w).sum(1), 1e-30)
