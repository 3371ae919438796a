"""What is checked when a least-squares solver starts: residuals and derivatives that are no numbers stop it with a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.user_code import user_level
from ....ad.least_squares.energy import Energy
from ....ad.least_squares.linear.conjugate_gradient import OUTCOME
from ....ad.least_squares.linear.diagonal import diagonal
from ....ad.least_squares.linear.vectors import Jacobian
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
            raise InputError(
                f"residual {k} of the energy, {residual} (made at {residual.where}), is {_first(values, residual)} when the"
                f" solver starts, and not finite at {bad.sum()} of {bad.size} values; start from other unknowns, or guard"
                " the operation that overflows"
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


def check_derivatives(objective: Objective, evaluations: Evaluations) -> None:
    """After the first step: raises InputError that names the residual, the unknown and the texel if J^T r is infinite or NaN,
    where conjugate gradients end before they begin."""
    energy = objective.energy
    if energy is None or _solved(objective, evaluations):
        return
    moving = [p for p in objective.parameters if p not in objective.frozen]
    for k, (named, residual) in enumerate(zip(energy.residuals, energy.linearized(), strict=True)):
        slopes = evaluations.read(Jacobian([residual], moving).reverse([residual]))
        for p, slope in zip(moving, slopes, strict=True):
            values = slope.result()
            if not np.isfinite(values).all():
                raise InputError(
                    f"the derivative of residual {k} of the energy, {named} (made at {named.where}), by {p} is"
                    f" {_first(values, p)}, although the residual is finite: an operation on its way has no finite slope"
                    " there, such as F.sqrt at 0, or any operation on NaN whose result an F.select leaves out; guard its"
                    " argument, as in F.square(x - F.select(valid, data, 0.0))"
                )


def _first(values: np.ndarray, like: Variable) -> str:
    """The first value that is not finite, and where: "nan at texel (2, 0) of tile 0"."""
    values = values.reshape(like.tiled)
    bad = ~np.isfinite(values)
    tile, y, x = np.argwhere(bad)[0][:3]
    image, channel = divmod(int(tile), like.channels)
    where = f"tile {tile}" if like.channels == 1 else f"channel {channel} of image {image}"
    return f"{values[bad][0]} at texel ({x}, {y}) of {where}"


def _solved(objective: Objective, evaluations: Evaluations) -> bool:
    """Whether the last linear solve came to numbers."""
    numbers = evaluations.read([objective.state[name] for name in OUTCOME])
    return all(np.isfinite(number.result()).all() for number in numbers)


def warn_of_losses(losses: Sequence[float], objective: Objective, evaluations: Evaluations) -> None:
    """Warns when a recorded cost is infinite or NaN, as after such values were sent; or the last linear solve."""
    bad = [k for k, loss in enumerate(losses) if not np.isfinite(loss)]
    if not bad and losses and not _solved(objective, evaluations):
        warnings.warn(
            "the derivative of the residuals was infinite or NaN in the last step, although their cost is finite; the"
            " unknowns stay where they are",
            RuntimeWarning,
            stacklevel=user_level(),
        )
    if bad:
        warnings.warn(
            f"the cost was {losses[bad[0]]} before step {bad[0]}; the unknowns stay where they are until finite values are"
            " sent to the leaves that the residuals read",
            RuntimeWarning,
            stacklevel=user_level(),
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
        numbers = value.result()
        idle = int(np.count_nonzero(numbers == 0.0))
        if idle:
            warnings.warn(
                f"{idle} of the {numbers.size} numbers of {p} change no residual where the solver starts: the"
                " system is singular, and they stay where they are",
                RuntimeWarning,
                stacklevel=user_level(),
            )
