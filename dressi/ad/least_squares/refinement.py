"""The last digits of a least-squares solution: iterative refinement with residuals in 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..graph.evaluation import evaluate
from ..graph.traversal import leaves
from ..optim.constraints import Constraints
from .energy import Energy
from .linear.vectors import Jacobian
from .solver import GaussNewton, LeastSquares, rasters

HALVINGS = 10
ROUNDED = 1e-14
"""The part of a cost in 64 bits that its rounding may add."""
FORCING = 1e-4
"""The part of a residual at which a linear solve ends: 32 bits seldom give more, and the next step mends it."""


class Refinement:
    """Steps of Gauss-Newton whose gradient and cost the host computes in 64 bits, as ``evaluate`` does. A device
    solves J^T J d = -J^T r in 32 bits: its errors are parts of d, and d falls from step to step.

    procedure: what a device runs for one linear solve. given: leaves for J^T r, one for each unknown.
    changes: the leaves that then hold d. Raises GraphError for what has no such step.
    """

    def __init__(
        self, energy: Energy, solver: LeastSquares, unknowns: Sequence[Variable], constraints: Constraints
    ):
        if constraints.moving or constraints.limited(unknowns):
            raise GraphError(
                'refine and precision="double" take unknowns without bounds, fixed entries and manifolds; freeze parameters'
                " that are to stay, and write a manifold into the residuals"
            )
        if drawn := rasters(energy.residuals):
            raise GraphError(
                'refine and precision="double" compute residuals in 64 bits on the host, which draws nothing;'
                f" {drawn[0].output} is drawn, so leave it to the steps of the solver in 32 bits"
            )
        kind = GaussNewton(
            solver.iterations, 0.0, forcing=FORCING, reset=solver.reset, preconditioner=solver.preconditioner,
            line_search=0,
        )  # fmt: skip
        self.unknowns = list(unknowns)
        self.given = [Variable(x.vtype, x.size, x.batch, channels=x.channels) for x in unknowns]
        self.state = kind.states(self.unknowns)
        plain = Constraints(self.unknowns)
        self.procedure = kind.procedure(
            energy, self.unknowns, self.unknowns, self.state, [], plain, given=self.given
        )
        self.changes = [self.state[name] for name in self.state if name.endswith(".change")]
        residuals = energy.linearized()
        self._values = [energy.cost(), *Jacobian(residuals, self.unknowns).reverse(residuals)]

    def of(
        self,
        steps: int,
        tolerance: float,
        read: Callable[[Variable], np.ndarray],
        solved: Callable[[Mapping[Variable, np.ndarray]], list[np.ndarray]],
    ) -> list[np.ndarray]:
        """The unknowns in 64 bits after so many steps, or when one is shorter than this part of them. read:
        present values of leaves. solved: ``changes`` for values that are sent."""
        known = {v: _exact(v, read(v)) for v in leaves(self._values)}
        x = [read(v).astype(np.float64) for v in self.unknowns]
        cost, slopes = self._at(known, x)
        for _ in range(steps):
            scale = max(float(np.abs(g).max()) for g in slopes)
            if scale == 0.0:
                break
            # Of size 1: what is left of a gradient may be below what 32 bits can hold.
            sent = {**dict(zip(self.given, (g / scale for g in slopes))), **dict(zip(self.unknowns, x))}
            change = [scale * d.astype(np.float64) for d in solved(sent)]
            for _ in range(HALVINGS + 1):
                moved = [v + d for v, d in zip(x, change, strict=True)]
                tried, steeper = self._at(known, moved)
                if tried <= cost * (1.0 + ROUNDED):
                    break
                change = [0.5 * d for d in change]
            else:
                break  # nothing lowers the cost any more
            x, cost, slopes = moved, tried, steeper
            if _length(change) <= tolerance * _length(x):
                break
        return x

    def _at(self, known: Mapping[Variable, np.ndarray], x: Sequence[np.ndarray]) -> tuple[float, list]:
        """The cost and J^T r."""
        cost, *slopes = evaluate(self._values, {**known, **dict(zip(self.unknowns, x, strict=True))})
        return float(cost.item()), slopes


def _exact(leaf: Variable, present: np.ndarray) -> np.ndarray:
    """The data of a leaf in 64 bits if it is what the device holds, else what the device holds."""
    present, data = leaf.conform(present), leaf.data
    return data if data is not None and np.array_equal(data.astype(np.float32), present) else present


def _length(x: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.vdot(v, v) for v in x)))
