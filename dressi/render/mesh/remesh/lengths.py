"""Target lengths of edges: shorter where the surface bends and where more detail is asked for, for a number of faces."""

from __future__ import annotations

import numpy as np

from ..shape import Shape

COARSEST = 3.0
"""Largest target length, relative to the one that is the same everywhere."""
FINEST = 0.4
"""Least target length, likewise."""
GROWTH = 0.3
"""Largest difference of the target lengths at the ends of an edge, relative to its length."""
SMOOTHINGS, TRIES = 2, 3
MEAN = 0.93
"""Root mean square of the lengths after remeshing, relative to their targets: collapses begin at 4/5, splits at 4/3."""


def uniform_length(area: float, faces: int) -> float:
    """The edge of equilateral triangles of which so many have this area."""
    return float(np.sqrt(4 / np.sqrt(3) * area / max(faces, 1)))


def target_lengths(
    shape: Shape, faces: int, detail: np.ndarray | None = None, *, bending: float = 1.0
) -> np.ndarray:
    """(V,) target lengths with which the surface gets about so many faces.

    A chord of length L deviates from a surface of curvature k by k L^2 / 8, so an even deviation asks for L ~ 1 / sqrt(k)
    (Dunyach et al. 2013). bending: 0 ignores curvature, 1 follows it.  detail: (V,) factors on the density of faces, such as
    the remaining error, about 1 in the mean. Lengths lie between FINEST and COARSEST times the uniform one and change by at most
    GROWTH times the distance.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> ball = icosphere(3)
    >>> lengths = target_lengths(ball, len(ball.faces))
    >>> bool(abs(lengths / ball.edge_lengths().mean() - 1).max() < 0.2)
    True
    """
    area = shape.face_areas()
    around = np.zeros(len(shape.positions))
    for corner in shape.faces.T:
        np.add.at(around, corner, area / 3)
    edges = shape.edges()
    lengths = shape.edge_lengths()
    same = uniform_length(area.sum(), faces)
    density = np.ones(len(around)) if detail is None else np.maximum(detail, 1e-6)
    if bending > 0:
        bend = curvatures(shape, edges, lengths)
        # Flat parts have no scale of their own: there the extent of the shape bounds the radius of curvature.
        floor = 1.0 / max(float(np.linalg.norm(np.ptp(shape.positions, axis=0))), 1e-30)
        density = density * np.maximum(bend, floor) ** bending
    density, goal = density / density.mean(), float(faces)
    for _ in range(TRIES):
        wanted = graded(_for_count(density, around, same, goal), edges, lengths)
        # Grading shortens edges: ask for fewer faces.
        goal *= min(faces / _count(around, wanted), 1.0)
    return wanted


def _count(around: np.ndarray, wanted: np.ndarray) -> float:
    """Number of faces of a surface with these target lengths (V,). around: (V,) areas."""
    return float((around / (np.sqrt(3) / 4 * (MEAN * wanted) ** 2)).sum())


def _for_count(density: np.ndarray, around: np.ndarray, same: float, faces: float) -> np.ndarray:
    """Lengths ~ 1 / sqrt(density), between their bounds, that give so many faces: bisection of their scale."""
    low, high = -6.0, 6.0
    while True:
        scale = float(np.exp(0.5 * (low + high)))
        wanted = np.clip(scale * same / np.sqrt(density), FINEST * same, COARSEST * same)
        if high - low < 1e-3:
            return wanted
        low, high = (
            (0.5 * (low + high), high) if _count(around, wanted) > faces else (low, 0.5 * (low + high))
        )


def curvatures(shape: Shape, edges: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(V,) how fast the normal turns along the edges at a vertex, in 1 over lengths, smoothed over neighbours."""
    normals = shape.vertex_normals()
    turn = np.linalg.norm(normals[edges[:, 0]] - normals[edges[:, 1]], axis=1) / np.maximum(lengths, 1e-30)
    total, weight = np.zeros(len(normals)), np.zeros(len(normals))
    for end in edges.T:
        np.add.at(total, end, turn**2 * lengths)
        np.add.at(weight, end, lengths)
    bend = total / np.maximum(weight, 1e-30)
    averaging = shape.averaging()
    for _ in range(SMOOTHINGS):
        bend = 0.5 * (bend + averaging @ bend)
    return np.sqrt(bend)


def graded(wanted: np.ndarray, edges: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(V,) the largest lengths below ``wanted`` (V,) that change along edges by at most GROWTH times their length."""
    found = wanted.copy()
    for _ in range(len(wanted)):
        limit = found.copy()
        for one, other in (edges.T, edges.T[::-1]):
            np.minimum.at(limit, one, found[other] + GROWTH * lengths)
        if np.array_equal(limit, found):
            break
        found = limit
    return found
