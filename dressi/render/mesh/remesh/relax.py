"""Slides vertices over the surface, towards the middle of their neighbours."""

from __future__ import annotations

import numpy as np

from ..rows import unit
from .edges import HalfEdges, Stars, half_edges
from .layers import Layers

STEP = 0.6
"""How far a vertex moves towards the middle of its neighbours."""
TURN = 0.5
"""Least cosine between the normals of a face before and after."""
TRIES = 4


def relax(layers: Layers) -> None:
    """Move every free vertex in its tangent plane towards the weighted mean of its neighbours, and put it on the face of
    its star that lies there.

    All rows of a vertex become the same combination of the corners of that face. Weights are areas over squared target
    lengths, so that faces become as large as the targets ask for. Vertices on seams and fixed ones stay, and so do those
    that would turn a face by more than 60 degrees.
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
    spoke, weights = _landing(edges, points, normals, move, layers.count)
    free = (spoke >= 0) & ~layers.fixed
    for k in range(1, len(layers.faces)):
        free &= layers.wedges(k) == 1
    for _ in range(TRIES):
        new = _combined(points, faces, spoke, weights, free, np.arange(layers.count))
        bad = _turned(new, faces, cross)
        if not bad.any():
            break
        free[faces[bad]] = False
    else:
        return
    for k, own in enumerate(layers.faces):
        layers.values[k] = _combined(layers.values[k], own, spoke, weights, free, layers.owners(k))


def _landing(
    edges: HalfEdges, points: np.ndarray, normals: np.ndarray, move: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(V,) the half-edge, from the vertex, of the face on which it lands, -1 for none; (V, 3) weights of its corners."""
    vertex, half = Stars.of(edges.start, count).around(np.arange(count))
    u, w = points[edges.end[half]] - points[vertex], points[edges.third[half]] - points[vertex]
    n, q = normals[vertex], move[vertex]
    area = (n * np.cross(u, w)).sum(1)
    second = (n * np.cross(q, w)).sum(1) / np.where(area > 0, area, 1.0)
    third = (n * np.cross(u, q)).sum(1) / np.where(area > 0, area, 1.0)
    weights = np.stack([1 - second - third, second, third], axis=1)
    inside = np.where(area > 0, weights.min(1), -np.inf)
    spoke, found = np.full(count, -1), np.zeros((count, 3))
    order = np.argsort(inside, kind="stable")
    spoke[vertex[order]], found[vertex[order]] = half[order], weights[order]
    worst = np.full(count, -np.inf)
    worst[vertex[order]] = inside[order]
    spoke[worst < -1e-6] = -1
    found = np.maximum(found, 0)
    return spoke, found / np.maximum(found.sum(1, keepdims=True), 1e-30)


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
    found = values.copy()
    found[rows] = np.einsum("vk,vkc->vc", weights[vertex[rows]], values[corners])
    return found


def _turned(points: np.ndarray, faces: np.ndarray, before: np.ndarray) -> np.ndarray:
    a, b, c = (points[faces[:, k]] for k in range(3))
    cross = np.cross(b - a, c - a)
    size = np.linalg.norm(cross, axis=1) * np.linalg.norm(before, axis=1)
    return ((cross * before).sum(1) <= TURN * size) & (size > 0)
