"""What is checked before a least-squares solver starts: residuals that are no numbers stop it with a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ....ad.least_squares.energy import Energy
from ....ad.least_squares.linear.diagonal import diagonal
from ....ad.objective import Objective
from ....ad.ops.pixel.compare import Select
from ....ad.traversal import topological_order
from ....errors import InputError
from .evaluations import Evaluations

SMALLEST = 1e-30
"""A cost below this may be zero only because squares are too small for 32 bits."""


def check_start(objective: Objective, evaluations: Evaluations) -> None:
    """Raises InputError that names the residual and the texel if one is infinite or NaN at the present unknowns."""
    energy, loss = objective.energy, objective.loss
    if energy is None or loss is None:
        return
    (cost,) = (r.result() for r in evaluations.read([loss]))
    if np.isfinite(cost).all():
        if cost.item() < SMALLEST:
            _check_underflow(energy, evaluations)
        return
    for k, residual in enumerate(energy.residuals):
        (values,) = (r.result() for r in evaluations.read([residual]))
        bad = ~np.isfinite(values)
        if bad.any():
            values, bad = (v.reshape(residual.shape) for v in (values, bad))
            tile, y, x = np.argwhere(bad)[0][:3]
            raise InputError(
                f"residual {k} of the energy, {residual} (made at {residual.where}), is {values[bad][0]} at texel"
                f" ({x}, {y}) of tile {tile} when the solver starts, and not finite at {bad.sum()} of {bad.size} values;"
                " start from other unknowns, or guard the operation that overflows"
            )
    raise InputError(
        f"the cost of the energy is {cost.item()} when the solver starts, although all residuals are finite: their squares"
        " overflow; scale the residuals"
    )


def _check_underflow(energy: Energy, evaluations: Evaluations) -> None:
    """Raises InputError if the cost is zero although residuals are not."""
    for k, (residual, value) in enumerate(
        zip(energy.residuals, evaluations.read(energy.residuals), strict=True)
    ):
        largest = float(np.abs(value.result()).max())
        if largest > 0.0:
            raise InputError(
                f"the squares of the residuals vanish in 32 bits: the largest value of residual {k} of the energy,"
                f" {residual}, is {largest:.2g}; scale the residuals"
            )


def warn_of_losses(losses: Sequence[float]) -> None:
    """Warns when a recorded cost is infinite or NaN, as after such values were sent."""
    bad = [k for k, loss in enumerate(losses) if not np.isfinite(loss)]
    if bad:
        warnings.warn(
            f"the cost was {losses[bad[0]]} before step {bad[0]}; the unknowns stay where they are until finite values are"
            " sent to the leaves that the residuals read",
            RuntimeWarning,
            stacklevel=4,
        )


def warn_of_idle(objective: Objective, evaluations: Evaluations) -> None:
    """Warns of unknowns that no residual reads at the start, if no residual has a mask."""
    energy = objective.energy
    if energy is None or any(isinstance(f, Select) for f in topological_order(energy.residuals)):
        return
    moving = [p for p in objective.parameters if p not in objective.frozen]
    squares, rest = diagonal(energy.residuals, moving)
    if rest:
        return
    for p, value in zip(moving, evaluations.read(squares), strict=True):
        numbers = p.as_given(value.result())
        idle = int(np.count_nonzero(numbers == 0.0))
        if idle:
            warnings.warn(
                f"{idle} of the {numbers.size} numbers of {p} change no residual where the solver starts: the"
                " system is singular, and they stay where they are",
                RuntimeWarning,
                stacklevel=5,
            )
