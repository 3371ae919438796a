"""The reference of the programs of this folder: sparse Levenberg-Marquardt in float64 by SciPy, with the trust region of Ceres.

An energy is a list of terms. A term is a NumPy function of a few blocks of the unknowns, evaluated for all its edges at once.
Its derivatives are exact: each scalar of a block gets an imaginary part (complex steps), in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

STEP = 1e-30
"""Of the complex differences: so small that squares of it vanish."""


class Term(NamedTuple):
    """residual: a function of one array (E, C) for each block that returns (E, R), analytic in them. blocks: the number of an
    unknown and the (E,) entries of it that the function reads. kernel: rho and its derivative by s = |r|^2 of each edge; the
    cost is 1/2 rho."""

    residual: Callable[..., np.ndarray]
    blocks: Sequence[tuple[int, np.ndarray]]
    kernel: tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]] | None = None


class Solution(NamedTuple):
    """unknowns: as given.  costs: before the first and after each step.  seconds: CPU time at each of the costs."""

    unknowns: list[np.ndarray]
    costs: list[float]
    seconds: list[float]

    def seconds_within(self, relative: float, optimum: float) -> float | None:
        """CPU seconds until the cost is at most (1 + relative) times the optimum; None if it never is."""
        enough = (s for s, c in zip(self.seconds, self.costs, strict=True) if c <= (1 + relative) * optimum)
        return next(enough, None)


class SparseEnergy(Protocol):
    """Residuals as a vector function of the unknowns, and their sparse Jacobian. weighed: the cost of residuals, and the roots of
    their weights."""

    def residuals(self, x: np.ndarray) -> np.ndarray: ...

    def jacobian(self, x: np.ndarray) -> sparse.csr_array: ...

    def weighed(self, r: np.ndarray) -> tuple[float, np.ndarray]: ...


class Energy:
    """Residuals and sparse Jacobian of terms over unknowns: arrays (V, C), flattened one after another into one vector."""

    def __init__(self, terms: Sequence[Term], unknowns: Sequence[np.ndarray]):
        self.terms, self.shapes = terms, [x.shape for x in unknowns]
        self.offsets = np.cumsum([0, *(x.size for x in unknowns)])

    def blocks(self, x: np.ndarray, term: Term) -> list[np.ndarray]:
        parts = [x[a:b].reshape(shape) for a, b, shape in zip(self.offsets, self.offsets[1:], self.shapes)]
        return [parts[unknown][entries] for unknown, entries in term.blocks]

    def residuals(self, x: np.ndarray) -> np.ndarray:
        parts = [term.residual(*self.blocks(x, term)).ravel() for term in self.terms]
        self._counts = [part.size for part in parts]
        return np.concatenate(parts)

    def weighed(self, r: np.ndarray) -> tuple[float, np.ndarray]:
        cost, roots, first = 0.0, np.ones_like(r), 0
        for term, count in zip(self.terms, self._counts, strict=True):
            own = r[first : first + count].reshape(len(term.blocks[0][1]), -1)
            squares = np.sum(own**2, 1)
            cost += 0.5 * float(np.sum(squares if term.kernel is None else term.kernel[0](squares)))
            if term.kernel is not None:
                weights = np.sqrt(term.kernel[1](squares))
                roots[first : first + count] = np.repeat(weights, own.shape[1])
            first += count
        return cost, roots

    def jacobian(self, x: np.ndarray) -> sparse.csr_array:
        rows, columns, values, first = [], [], [], 0
        for term in self.terms:
            given = self.blocks(x, term)
            for k, (unknown, entries) in enumerate(term.blocks):
                width = given[k].shape[1]
                for c in range(width):
                    moved = list(given)
                    moved[k] = given[k].astype(complex)
                    moved[k][:, c] += STEP * 1j
                    slope = term.residual(*moved).imag / STEP
                    row = first + np.arange(slope.size).reshape(slope.shape)
                    column = self.offsets[unknown] + entries[:, None] * width + c
                    rows.append(row.ravel())
                    columns.append(np.broadcast_to(column, row.shape).ravel())
                    values.append(slope.ravel())
            first += len(given[0]) * term.residual(*given).shape[1]
        where = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_array((np.concatenate(values), where), shape=(first, self.offsets[-1]))


def levenberg_marquardt(
    terms: Sequence[Term] | SparseEnergy,
    start: Sequence[np.ndarray],
    *,
    steps: int = 200,
    tolerance: float = 1e-14,
) -> Solution:
    """Minimises half the sum of squares with Ceres's rules: radius 1e4, least decrease 1e-3, diagonal in 1e-6 .. 1e32.

    terms: or an energy of another kind. steps: the largest number of accepted ones. tolerance: relative decrease of the cost at which it ends.
    """
    energy = Energy(terms, start) if isinstance(terms, Sequence) else terms
    begun = time.process_time()
    x = np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in start])
    r = energy.residuals(x)
    cost, roots = energy.weighed(r)
    costs, seconds = [cost], [0.0]
    radius, shrink = 1e4, 2.0
    while len(costs) <= steps and radius > 1e-32:
        jacobian = sparse.diags_array(roots) @ energy.jacobian(x)
        normal, slope = (jacobian.T @ jacobian).tocsc(), jacobian.T @ (roots * r)
        damping = sparse.diags_array(np.clip(normal.diagonal(), 1e-6, 1e32), format="csc")
        while radius > 1e-32:
            move = -solve(normal + damping / radius, slope)
            found = energy.residuals(x + move)
            cost, further = energy.weighed(found)
            expected = -float(slope @ move + 0.5 * move @ (normal @ move))
            ratio = (costs[-1] - cost) / expected if expected > 0 else -1.0
            if ratio > 1e-3:
                break
            if expected <= tolerance * costs[-1]:
                radius = 0.0
            radius, shrink = radius / shrink, 2 * shrink
        if radius <= 1e-32:
            break
        radius, shrink = min(radius / max(1 / 3, 1 - (2 * ratio - 1) ** 3), 1e16), 2.0
        x, r, roots = x + move, found, further
        costs.append(cost)
        seconds.append(time.process_time() - begun)
        if costs[-2] - cost <= tolerance * cost:
            break
    ends = np.cumsum([np.size(v) for v in start])[:-1]
    parts = [part.reshape(np.shape(v)) for part, v in zip(np.split(x, ends), start, strict=True)]
    return Solution(parts, costs, seconds)


def solve(matrix: sparse.csc_array, b: np.ndarray) -> np.ndarray:
    """The solution of a symmetric positive definite system."""
    symmetric = {"SymmetricMode": True}
    return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric).solve(b)
