"""Curves of an optimisation, drawn small."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .widgets import ACCENT, FAINT, INK, RAISED, Box, Pen

POINTS = 240
"""Points of a curve that are drawn at most."""


def paint_curve(pen: Pen, box: Box, name: str, curve: Sequence[tuple[int, float]], last: int) -> None:
    """A curve of (step, value) from step 0 to ``last``, with its last value. Losses are on a logarithmic scale: curves
    that span more than a factor of ten, all positive."""
    left, top, right, bottom = box
    pen.box(box, RAISED)
    shown = [(step, value) for step, value in curve if math.isfinite(value)]
    pen.text((left + 7, top + 10), name, FAINT, 11.0)
    if not shown:
        return
    pen.text((right - 7, top + 10), label(shown[-1][1]), INK, 11.0, anchor="rm")
    stride = max(len(shown) // POINTS, 1)
    values = [value for _, value in shown]
    bent = min(values) > 0 and max(values) > 10 * min(values)
    height = (lambda v: math.log(v)) if bent else (lambda v: v)
    low, high = height(min(values)), height(max(values))
    span, steps = (high - low) or 1.0, max(last, shown[-1][0], 1)
    points = [
        (
            left + 7 + (right - left - 14) * step / steps,
            bottom - 7 - (bottom - top - 30) * (height(value) - low) / span,
        )
        for step, value in [*shown[::stride], shown[-1]]
    ]
    pen.line(points, ACCENT, 1.5)


def label(value: float) -> str:
    """A value in four digits."""
    return f"{value:.2e}" if value and not 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"
