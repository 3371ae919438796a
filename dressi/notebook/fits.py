"""Results of fits: the mesh, figures, and the loss of each phase as a curve."""

from __future__ import annotations

import math
from itertools import groupby

from ..render.fit.data.result import FitResult
from .kinds import Raw, html, png, table
from .pictures import mesh_image

WIDTH, HEIGHT = 480, 160
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
POINTS = 400
"""Points of a curve; the steps between them are left out."""


@png.register
def _(value: FitResult) -> bytes | None:
    return png(value.mesh)


@html.register
def _(value: FitResult) -> str:
    last = dict(value.losses)
    steps = value.timing.steps or len(value.losses)
    rows = [("mesh", repr(value.mesh)), ("finished", "yes" if value.finished else "no, stopped")]
    rows += [("steps", f"{steps} in {value.timing.seconds + value.earlier_s:.1f} s")]
    rows += [(f"last loss, {phase}", f"{loss:.4g}") for phase, loss in last.items()]
    if value.quality:
        look = value.quality[-1]
        rows += [("IoU", f"{look.iou:.4f}"), ("PSNR", "-" if look.psnr is None else f"{look.psnr:.1f} dB")]
    side = table(("", ""), rows) + curves(value.losses)
    return f'<div style="display:flex;gap:1em;align-items:flex-start">{mesh_image(value.mesh)}<div>{Raw(side)}</div></div>'


def curves(losses: list[tuple[str, float]]) -> str:
    """The losses of the phases over the steps, logarithmic, as SVG; a phase begins at its own height."""
    finite = [loss for _, loss in losses if math.isfinite(loss) and loss > 0]
    if len(finite) < 2:
        return ""
    low, high = math.log10(min(finite)), math.log10(max(finite))
    parts, first = [], 0
    for k, (phase, group) in enumerate(groupby(losses, key=lambda pair: pair[0])):
        values = [loss for _, loss in group]
        stride = -(-len(losses) // POINTS)
        points = [
            f"{WIDTH * (first + i) / len(losses):.1f},{4 + (HEIGHT - 8) * (high - math.log10(v)) / max(high - low, 1e-9):.1f}"
            for i, v in list(enumerate(values))[::stride]
            if math.isfinite(v) and v > 0
        ]
        colour = COLOURS[k % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(points)}"/>')
        parts.append(
            f'<text x="{WIDTH * first / len(losses):.1f}" y="{HEIGHT + 12 + 12 * (k % 2)}" fill="{colour}">{phase}</text>'
        )
        first += len(values)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 60}" height="{HEIGHT + 28}" font-size="10">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>{"".join(parts)}'
        f'<text x="{WIDTH + 2}" y="10">{max(finite):.2g} loss</text><text x="{WIDTH + 2}" y="{HEIGHT}">{min(finite):.2g}</text></svg>'
    )
