"""Graphs: computed Variables and Programs as boxes and arrows around their results, Programs as listings too."""

from __future__ import annotations

from html import escape

from ..ad import show
from ..ad.graph import Variable
from ..ad.program import Program
from ..render.drawing.picture import Picture
from .kinds import folded, html, svg

MOST = 60
"""Boxes of a graph; the others are counted."""
LINES = 400
"""Lines of a listing."""


@svg.register
def _(value: Variable) -> str | None:
    return None if show_as_picture(value) else show.svg(value, most=MOST)


def show_as_picture(value: Variable) -> bool:
    """Whether this is a leaf that holds an image of floats or integers: it shows its own data."""
    wide, high = value.size
    return (
        value.data is not None and value.count is None and min(wide, high) > 1 and not value.vtype.is_matrix
    )


@svg.register
def _(value: Program) -> str:
    return show.svg(value, most=MOST)


@svg.register
def _(value: Picture) -> str:
    return show.svg(value.colour, most=MOST)


@html.register
def _(value: Program) -> str:
    lines = show.listing(value).splitlines()
    rest = f"\n... and {len(lines) - LINES} more" if len(lines) > LINES else ""
    text = f"<pre>{escape(chr(10).join(lines[:LINES]) + rest)}</pre>"
    outputs = ", ".join(value.outputs) or "no outputs"
    title = f"{len(value.functions)} Functions, {len(value.updates)} updates, {outputs}"
    return show.svg(value, most=MOST) + folded(title, text)
