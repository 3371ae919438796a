"""The covariance of a least-squares solution, (J^T J)^-1, from columns of J that a device computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import GraphError, InputError
from ..graph import Variable
from ..optim.constraints import Constraints
from ..optim.optimizer import names
from . import solver
from .energy import Energy
from .linear import direct
from .linear.vectors import Jacobian, numbers_of, unit_vector

MOST_BYTES = 2**31
"""Bytes of a dense Jacobian up to which it is made."""
RANK = 3e-6
"""Singular values up to this part of the largest, of columns of unit length, are rounding errors of J."""


class Covariance:
    """What a device is asked for: ``columns``, the products J e_k with k in the leaf ``number``.

    energy, parameters, constraints: of the optimisation; the parameters are those that are not frozen.
    """

    def __init__(self, energy: Energy, parameters: Sequence[Variable], constraints: Constraints):
        self.parameters, self.constraints = list(parameters), constraints
        self.unknowns = [u for p in parameters for u in constraints.unknowns[p]]
        energy = solver.on_manifolds(energy, parameters, constraints)
        self.number = direct.counter()
        jacobian = Jacobian(energy.linearized(), self.unknowns)
        self.columns = jacobian.forward(unit_vector(self.unknowns, self.number, False))
        rows = sum(int(np.prod(c.shape)) for c in self.columns)
        self.count = sum(numbers_of(u, False) for u in self.unknowns)
        if 8 * rows * self.count > MOST_BYTES:
            raise GraphError(
                f"the covariance of {self.count} numbers by {rows} residuals takes"
                f" {8e-9 * rows * self.count:.1f} GB as a matrix; freeze parameters that are known, or ask with fewer residuals"
            )

    def of(
        self,
        chosen: Sequence[Variable],
        column: Callable[[int], np.ndarray],
        read: Callable[[Variable], np.ndarray],
    ) -> np.ndarray:
        """The covariance of the numbers of chosen parameters, all others free. column: J e_k as a vector.
        read: present values. Raises InputError that names what the residuals do not determine."""
        labels: list[str] = []
        places: list[int] = []
        owner: list[Variable] = []
        basis: list[np.ndarray] = []
        first = 0
        for u, name in zip(self.unknowns, names(self.unknowns), strict=True):
            numbers = np.arange(int(np.prod(u.shape))).reshape(u.shape)
            p = getattr(u, "parameter", u)
            entries = numbers_like(p, u, numbers)
            held = self.constraints.held(u, read)
            tangents = self.constraints.tangent(p, read)
            width = u.vtype.components
            for k, group in enumerate(entries.reshape(-1, width)):
                places += [first + int(n) for n in group]
                labels += [f"{name}[{int(n)}]" for n in range(k * width, (k + 1) * width)]
                owner += [p] * width
                free = np.eye(width) if tangents is None else tangents[k]
                if held is not None:
                    free = free * ~held.reshape(numbers.size)[group, None]
                basis.append(free[:, np.abs(free).sum(0) > 0])
            first += numbers.size
        jacobian = np.stack([column(k) for k in places], 1).astype(np.float64)
        whole = _solved(jacobian, basis, labels)
        keep = [k for k, p in enumerate(owner) if any(p is c for c in chosen)]
        return whole[np.ix_(keep, keep)]


def numbers_like(p: Variable, u: Variable, numbers: np.ndarray) -> np.ndarray:
    """Those numbers of an unknown that a list has, without its padding."""
    if p.count is None:
        return numbers
    width = u.vtype.components
    return numbers.reshape(p.batch, -1, width)[:, : p.count]


def _solved(jacobian: np.ndarray, basis: Sequence[np.ndarray], labels: list[str]) -> np.ndarray:
    """B (B^T J^T J B)^-1 B^T for a block diagonal B. Raises InputError for a singular system."""
    b = np.zeros((len(labels), sum(one.shape[1] for one in basis)))
    row = col = 0
    for one in basis:
        b[row : row + one.shape[0], col : col + one.shape[1]] = one
        row, col = row + one.shape[0], col + one.shape[1]
    own = jacobian @ b
    scale = np.linalg.norm(own, axis=0)
    unit = own / np.where(scale > 0, scale, 1.0)
    _, singular, right = np.linalg.svd(unit, full_matrices=True)
    singular = np.pad(singular, (0, b.shape[1] - len(singular)))
    null = right[singular <= RANK * max(singular.max(initial=0.0), 1e-30)]
    if len(null):
        part = np.abs(b) @ np.abs(null).max(0)
        order = [k for k in np.argsort(-part, kind="stable") if part[k] > 0.1 * part.max()]
        shown = ", ".join(labels[int(k)] for k in sorted(order[:8])) + (", ..." if len(order) > 8 else "")
        raise InputError(
            f"the residuals do not determine {len(null)} of {b.shape[1]} numbers, so that these have no"
            f" covariance: {shown}; hold them with fixed=, freeze them, or add residuals that do"
        )
    root = b / scale @ right.T / singular
    return root @ root.T
