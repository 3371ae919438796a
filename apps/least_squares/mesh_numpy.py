"""The mesh energies in NumPy, for the reference: written apart from the graphs, as the tests compare both."""

from __future__ import annotations

import numpy as np
from scipy_solver import Term


def rotated(angles: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rz(gamma) Ry(beta) Rx(alpha) v of rows (alpha, beta, gamma) and v."""
    (ca, cb, cg), (sa, sb, sg) = np.cos(angles).T, np.sin(angles).T
    x, y, z = v.T
    y, z = ca * y - sa * z, sa * y + ca * z
    x, z = cb * x + sb * z, -sb * x + cb * z
    x, y = cg * x - sg * y, sg * x + cg * y
    return np.stack([x, y, z], 1)


def arap_mesh(rest, edges, vertices, targets, w_fit=3.0, w_reg=4.0) -> list[Term]:
    """Of unknown positions (V, 3) and angles (V, 3). edges: (E, 2), both ways."""
    i, j = edges.T
    before = rest[i] - rest[j]
    return [
        Term(lambda x: np.sqrt(w_fit) * (x - targets), [(0, vertices)]),
        Term(lambda xi, xj, a: np.sqrt(w_reg) * (xi - xj - rotated(a, before)), [(0, i), (0, j), (1, i)]),
    ]


def cotangent_smoothing(given, wedges, w_fit=1.0, w_reg=1.0, recompute=True) -> list[Term]:
    """Of unknown positions (V, 3). wedges: (E, 4), the last one -1 where there is no face."""
    i, j, k, m = wedges.T

    def cotangent(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        n = np.cross(u, v)
        square = (n * n).sum(1)
        return (u * v).sum(1) / np.sqrt(np.where(square.real > 0, square, 1e-4))

    def weights(xi, xj, xk, xm):
        other = np.where(m >= 0, cotangent(xi - xm, xj - xm), 0.0)
        w = 0.5 * (cotangent(xi - xk, xj - xk) + other)
        return np.sqrt(np.where(w.real > 0, w, 1e-4))[:, None]

    fixed = weights(given[i], given[j], given[k], given[m])

    def smooth(xi, xj, xk, xm):
        return np.sqrt(w_reg) * (weights(xi, xj, xk, xm) if recompute else fixed) * (xj - xi)

    return [
        Term(lambda x: np.sqrt(w_fit) * (x - given), [(0, np.arange(len(given)))]),
        Term(smooth, [(0, i), (0, j), (0, k), (0, m % len(given))]),
    ]


def embedded_deformation(rest, edges, vertices, targets, w_fit=3.0, w_reg=12.0, w_rot=5.0) -> list[Term]:
    """Of unknown positions (V, 3) and frames (V, 9), row by row. edges: (E, 2), both ways."""
    i, j = edges.T
    before = rest[j] - rest[i]

    def affine(xi, xj, frame):
        return np.sqrt(w_reg) * (xj - xi - np.einsum("eij,ej->ei", frame.reshape(-1, 3, 3), before))

    def rigid(frame):
        c = frame.reshape(-1, 3, 3)
        gram = np.einsum("eki,ekj->eij", c, c) - np.eye(3)
        return np.sqrt(w_rot) * gram[:, [0, 0, 1, 0, 1, 2], [1, 2, 2, 0, 1, 2]]

    return [
        Term(lambda x: np.sqrt(w_fit) * (x - targets), [(0, vertices)]),
        Term(affine, [(0, i), (0, j), (1, i)]),
        Term(rigid, [(1, np.arange(len(rest)))]),
    ]


def laplacian(a, w_fit=0.2, w_reg=1.0) -> list[Term]:
    """Of an unknown image (H * W, 1), row by row."""
    number = np.arange(a.size).reshape(a.shape)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    return [
        Term(lambda x: w_fit * (x - a.reshape(-1, 1)), [(0, number.ravel())]),
        *(Term(lambda x, y: w_reg * (x - y), [(0, p.ravel()), (0, q.ravel())]) for p, q in pairs),
    ]
