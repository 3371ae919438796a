"""Splits edges at their midpoints."""

from __future__ import annotations

import numpy as np

from .edges import after, best_in_groups, half_edges, ranks
from .layers import Layers

PASSES = 12
LONG = 4 / 3
"""Edges longer than this times their target are split (Botsch and Kobbelt 2004): both halves are then nearer to it."""


def split_long(layers: Layers, most_faces: int) -> None:
    """Split edges longer than LONG times the target length, relative longest first, as long as there are at most
    ``most_faces`` faces. Borders are kept."""
    for _ in range(PASSES):
        edges = half_edges(layers.faces[0], layers.count)
        half = edges.inner
        a, b = edges.start[half], edges.end[half]
        length = np.linalg.norm(layers.positions[a] - layers.positions[b], axis=1)
        ratio = length / np.minimum(layers.target[a], layers.target[b])
        long = ratio > LONG
        half, ratio = half[long], ratio[long]
        best = best_in_groups(
            ranks(-ratio), np.stack([half, edges.twin[half]], axis=1) // 3, len(layers.faces[0])
        )
        half = half[best][np.argsort(-ratio[best])]
        half = half[: max(most_faces - len(layers.faces[0]), 0) // 2]
        if len(half) == 0:
            break
        split(layers, half, edges.twin[half])


def split(layers: Layers, half: np.ndarray, twin: np.ndarray) -> None:
    """Split edges, given by both half-edges, of which no two share a face. New vertices come behind the others.

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
