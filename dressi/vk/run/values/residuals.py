"""What is checked before a least-squares solver starts: residuals that are no numbers stop it with a sentence."""

from __future__ import annotations

import numpy as np

from ....ad.objective import Objective
from ....errors import InputError
from .evaluations import Evaluations


def check_start(objective: Objective, evaluations: Evaluations) -> None:
    """Raises InputError that names the residual and the texel if one is infinite or NaN at the present unknowns."""
    energy = objective.energy
    if energy is None:
        return
    (cost,) = (r.result() for r in evaluations.read([energy.cost()]))
    if np.isfinite(cost).all():
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
