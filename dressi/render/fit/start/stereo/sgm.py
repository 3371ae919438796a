"""Semi-global matching: costs of the planes of a picture, summed along paths on which depth changes little."""

from __future__ import annotations

import numpy as np

STEP, JUMP = 0.1, 0.5
"""P1 and P2: what a change of the depth by one plane, and by more, adds to a path."""


def aggregated(costs: np.ndarray, inside: np.ndarray, step: float = STEP, jump: float = JUMP) -> np.ndarray:
    """(H, W, D) costs (H, W, D) of D planes, summed over the paths from 8 directions (Hirschmüller, 2008).

    Along a path L(p, d) = C(p, d) + min(L(q, d), L(q, d +- 1) + step, min L(q) + jump) - min L(q), where q is the pixel before
    p. inside: (H, W) bool, the pixels on which paths run; costs of others are 0.

    >>> costs = np.ones((1, 3, 3))
    >>> costs[0, 0, 1] = costs[0, 2, 1] = 0
    >>> aggregated(costs, np.ones((1, 3), bool)).argmin(2).tolist()
    [[1, 1, 1]]
    """
    costs = np.ascontiguousarray(costs, np.float32)
    total = np.zeros_like(costs)
    _along(costs, inside, total, (-1, 0, 1), step, jump)
    turned = np.zeros((costs.shape[1], costs.shape[0], costs.shape[2]), np.float32)
    _along(np.ascontiguousarray(costs.swapaxes(0, 1)), inside.T, turned, (0,), step, jump)
    return total + turned.swapaxes(0, 1)


def _along(
    costs: np.ndarray,
    inside: np.ndarray,
    total: np.ndarray,
    slants: tuple[int, ...],
    step: float,
    jump: float,
) -> None:
    """Adds to ``total`` the sums of paths from row to row and back that move so many columns a row."""
    height, width, planes = costs.shape
    for rows in (range(height), range(height - 1, -1, -1)):
        before = np.zeros((len(slants), width, planes), np.float32)
        for row in rows:
            if not inside[row].any():
                before[:] = 0
                continue
            least = before.min(2, keepdims=True)
            path = np.minimum(before, least + np.float32(jump))
            np.minimum(path[:, :, 1:], before[:, :, :-1] + np.float32(step), out=path[:, :, 1:])
            np.minimum(path[:, :, :-1], before[:, :, 1:] + np.float32(step), out=path[:, :, :-1])
            path += costs[row] - least
            path *= inside[row][:, None]
            total[row] += path.sum(0)
            for k, slant in enumerate(slants):
                before[k] = 0
                before[k, max(slant, 0) : width + min(slant, 0)] = path[
                    k, max(-slant, 0) : width + min(-slant, 0)
                ]
