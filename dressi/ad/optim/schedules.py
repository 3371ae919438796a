"""Schedules: functions from the step counter to a learning rate or a weight, computed on the device.

Every number of a schedule may be a FLOAT Variable of one texel instead. Then it is data: ``send`` changes it
without a new plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from ...errors import GraphError
from .. import functional as F
from ..graph import Domain, Variable, as_variable
from ..graph.types import FLOAT

__all__ = [
    "Rate", "Schedule", "constant", "cosine", "exponential", "joined", "linear", "piecewise", "rate_at",
    "warm_up",
]  # fmt: skip

Schedule = Callable[[Variable], Variable]
"""From the step counter (FLOAT, one texel; 0 in the first step) to a FLOAT of one texel."""

Number = float | Variable
Rate = float | Variable | Schedule


def rate_at(rate: Rate, step: Variable, what: str = "a rate or weight", least: float = -math.inf) -> Any:
    """The value of a rate in a step: a number, or a FLOAT Variable of one texel.

    rate: a number, a FLOAT Variable of one texel, or a schedule. step: the step counter, FLOAT, or INT as
    ``optim.clock`` makes it. what, least: its name and smallest value, for errors. Raises GraphError.

    >>> evaluate(optim.rate_at(optim.linear(0.0, 1.0, 4), Variable.of(3))).item()
    0.75
    """
    check_rate(rate, what, least)
    if callable(rate) and not isinstance(rate, Variable):
        rate = rate(F.to_float(step) if step.vtype.is_int else step)
        check_rate(rate, f"what a schedule gives, {what},", least)
    return rate


def check_rate(rate: Any, what: str = "a rate or weight", least: float = -math.inf) -> None:
    """Raises GraphError unless the rate is a number, a FLOAT Variable of one texel, or a schedule. what,
    least: as for ``check_number``."""
    if isinstance(rate, Variable) or not callable(rate):
        check_number(rate, what, least, "a number, a FLOAT Variable of one texel, or a schedule")


def check_number(
    value: Any,
    what: str,
    least: float = -math.inf,
    kinds: str = "a number or a FLOAT Variable of one texel",
    *,
    above: bool = False,
) -> None:
    """Raises GraphError unless the value is a finite number of at least ``least``, or a FLOAT Variable of one
    texel. what: its name. above: whether the least value itself is refused, too. Of a Variable the value is
    checked that it holds when it is given."""
    known = value
    if isinstance(value, Variable):
        if value.vtype is not FLOAT or value.domain != Domain((1, 1), 1):
            raise GraphError(f"{what} is {kinds}, not {value}")
        known = value.data if value.is_leaf else F.constant_value(value)
        if known is None:
            return
        known = known.item()
    elif not is_finite(value):
        raise GraphError(f"{what} is {kinds}, finite, not {value!r}")
    if known < least or (above and known == least):
        raise GraphError(f"{what} is {'above' if above else 'at least'} {least:g}, not {known:g}")


def check_constant(value: Any, what: str, least: float, below: float = math.inf) -> None:
    """Raises GraphError unless the value is a number of at least ``least`` and below ``below``, and no
    Variable. what: its name."""
    if not is_finite(value) or not least <= value < below:
        ends = f"lies in [{least:g}, {below:g})"
        if below == math.inf:
            ends = f"is a finite number of at least {least:g}"
        raise GraphError(f"{what} {ends}, not {value!r}")


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number, and neither a truth value nor a Variable."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def constant(value: Number) -> Schedule:
    """A schedule that is always ``value``, a number or a FLOAT Variable of one texel. Raises GraphError.

    >>> evaluate(optim.constant(0.5)(Variable.of(3.0))).item()
    0.5
    """
    check_number(value, "the value of a schedule")
    return lambda step: as_variable(value)


def exponential(start: Number, factor: Number, steps: Number = 1.0) -> Schedule:
    """The schedule start * factor ** (step / steps): every ``steps`` steps multiply the rate by the factor.

    start, factor, steps: numbers or FLOAT Variables of one texel; factor > 0. Raises GraphError.

    >>> evaluate(optim.exponential(8.0, 0.5, 10.0)(Variable.of(20.0))).round(4).item()
    2.0
    """
    check_number(start, "the start of a schedule")
    check_number(factor, "the factor of an exponential schedule", 0.0, above=True)
    _check_length(steps)
    power = F.log2(factor) if isinstance(factor, Variable) else math.log2(factor)
    return lambda step: F.exp2(step * (power / steps)) * start


def linear(start: Number, end: Number, steps: Number) -> Schedule:
    """A linear schedule from start to end in ``steps`` steps, then end.

    start, end, steps: numbers or FLOAT Variables of one texel; steps > 0. Raises GraphError.

    >>> [evaluate(optim.linear(1.0, 0.0, 4)(Variable.of(step))).item() for step in (0.0, 1.0, 9.0)]
    [1.0, 0.75, 0.0]
    """
    _check_ends(start, end, steps)
    return lambda step: F.min(step * (1.0 / steps), 1.0) * (end - start) + start


def cosine(start: Number, end: Number, steps: Number) -> Schedule:
    """A schedule from start to end along half a cosine in ``steps`` steps, then end.

    start, end, steps: numbers or FLOAT Variables of one texel; steps > 0. Raises GraphError.

    >>> evaluate(optim.cosine(1.0, 0.0, 4)(Variable.of(2.0))).round(4).item()
    0.5
    """
    _check_ends(start, end, steps)
    half = 0.5 * (start - end)
    return lambda step: F.cos(F.min(step * (1.0 / steps), 1.0) * math.pi) * half + (end + half)


def piecewise(pieces: Sequence[tuple[Number, Number]]) -> Schedule:
    """A schedule of constant pieces.

    pieces: [(first step, value), ...] with increasing steps, numbers or FLOAT Variables of one texel. Before
    the first step the first value holds. Raises GraphError if the steps decrease.

    >>> evaluate(optim.piecewise([(0, 1.0), (10, 0.5)])(Variable.of(10.0))).item()
    0.5
    """
    return joined([(first, constant(value)) for first, value in pieces])


def joined(pieces: Sequence[tuple[Number, Schedule]]) -> Schedule:
    """Schedules one after the other, each counting from its own first step.

    pieces: [(first step, schedule), ...] with increasing steps; first steps are numbers or FLOAT Variables of
    one texel. Before the first step the first schedule holds, at 0. Raises GraphError if the steps decrease.

    >>> both = optim.joined([(0, optim.constant(1.0)), (10, optim.linear(1.0, 0.0, 4))])
    >>> evaluate(both(Variable.of(11.0))).item()
    0.75
    """
    for first, _ in pieces:
        check_number(first, "the first step of a piece")
    starts = [first for first, _ in pieces if not isinstance(first, Variable)]
    if not pieces or starts != sorted(starts):
        raise GraphError("a schedule of pieces takes (first step, value) pairs, first steps in rising order")

    def schedule(step: Variable) -> Variable:
        first, piece = pieces[0]
        value = piece(F.max(step - first, 0.0))
        for first, piece in pieces[1:]:
            value = F.select(F.less(step, first), value, piece(F.max(step - first, 0.0)))
        return value

    return schedule


def warm_up(rate: Number | Schedule, steps: Number) -> Schedule:
    """A rate that grows linearly to its full value in ``steps`` steps, beginning with 1 / steps of it.

    rate: a number, a FLOAT Variable of one texel, or a schedule. steps > 0. Raises GraphError.

    >>> evaluate(optim.warm_up(1.0, 4)(Variable.of(0.0))).item()
    0.25
    """
    check_rate(rate)
    _check_length(steps)
    return lambda step: F.min((step + 1.0) * (1.0 / steps), 1.0) * rate_at(rate, step)


def _check_ends(start: Number, end: Number, steps: Number) -> None:
    check_number(start, "the start of a schedule")
    check_number(end, "the end of a schedule")
    _check_length(steps)


def _check_length(steps: Number) -> None:
    check_number(steps, "the number of steps of a schedule", 0.0, above=True)
