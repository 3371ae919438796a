"""What values show of themselves in a notebook: ``draw(kind, value)``."""

from __future__ import annotations

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from .ad import show
from .ad.graph import Variable
from .ad.graph.program import Program
from .engines import default_engine
from .errors import DressiError
from .render.cameras.views import turntable
from .render.drawing.draw import draw as draw_views
from .render.drawing.entry import render
from .render.drawing.picture import Picture
from .render.drawing.pixels import Pixels
from .render.fit.data.dataset import FitResult
from .render.io.images import encode_png
from .render.mesh import Mesh
from .vk.plan.core.substage import SubStage
from .vk.plan.execution.plan import Plan
from .vk.run.device.allocator import mib

__all__ = ["draw"]


# The kinds of figures, each with the functions that draw it, by class.


@singledispatch
def svg(value: Any) -> str | None:
    """The figure as SVG; None for classes without one."""
    return None


@singledispatch
def png(value: Any) -> bytes | None:
    """The figure as PNG; None for classes without one."""
    return None


@singledispatch
def html(value: Any) -> str | None:
    """The figure as a part of a page; None for classes without one."""
    return None


def draw(kind: str, value: Any) -> Any:
    """The figure of that kind ("svg", "png" or "html"); None where the class of the value has none."""
    return {"svg": svg, "png": png, "html": html}[kind](value)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table of values, written as text. A cell of HTML is given as ``Raw``."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td {_LEFT}>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_LEFT = 'style="text-align:left;vertical-align:top"'


class Raw(str):
    """Text that is HTML."""


def cell(value: Any) -> str:
    """A value as HTML; lines stay lines."""
    return value if isinstance(value, Raw) else escape(str(value)).replace("\n", "<br>")


def image(data: bytes, text: str) -> str:
    """A PNG as a part of a page.  text: for readers that do not see it."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{b64encode(data).decode()}">'


def folded(title: str, content: str) -> str:
    """A part of a page that opens with a click."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


# Results of fits: the mesh, figures, and the loss of each phase as a curve.

WIDTH, HEIGHT = 480, 160
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
POINTS = 400
"""Points of a curve; the steps between them are left out."""


@png.register
def _(value: FitResult) -> bytes | None:
    mesh, colour = value.mesh, value.directional
    if colour is None:
        return png(mesh)
    cameras = turntable(*mesh.bounding_sphere(), 1, SIZE)
    return encode_png(
        np.clip(draw_views(mesh, cameras, default_engine, 4, shader=colour.shader(mesh))[1][0], 0, 1)
    )


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
    return f'<div style="display:flex;gap:1em;align-items:flex-start">{mesh_image(value)}<div>{Raw(side)}</div></div>'


def curves(losses: list[tuple[str, float]]) -> str:
    """The losses of the phases over the steps, logarithmic, as SVG; a phase begins at its own height."""
    finite = [loss for _, loss in losses if math.isfinite(loss) and loss > 0]
    if len(finite) < 2:
        return ""
    low, high = math.log10(min(finite)), math.log10(max(finite))
    parts, first = [], 0
    for k, (phase, group) in enumerate(groupby(losses, key=lambda pair: pair[0])):
        values = [loss for _, loss in group]
        stride, across = -(-len(losses) // POINTS), WIDTH / len(losses)
        down = (HEIGHT - 8) / max(high - low, 1e-9)
        points = [
            f"{across * (first + i):.1f},{4 + down * (high - math.log10(v)):.1f}"
            for i, v in list(enumerate(values))[::stride]
            if math.isfinite(v) and v > 0
        ]
        colour, x, y = COLOURS[k % len(COLOURS)], across * first, HEIGHT + 12 + 12 * (k % 2)
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(points)}"/>')
        parts.append(f'<text x="{x:.1f}" y="{y}" fill="{colour}">{phase}</text>')
        first += len(values)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 60}" height="{HEIGHT + 28}" font-size="10">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>{"".join(parts)}'
        f'<text x="{WIDTH + 2}" y="10">{max(finite):.2g} loss</text><text x="{WIDTH + 2}" y="{HEIGHT}">{min(finite):.2g}</text></svg>'
    )


# Graphs: computed Variables and Programs as boxes and arrows around their results, Programs as listings too.

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


# Pictures: image leaves, rendered pictures, and meshes, drawn on the default device.

SMALL, LARGE = 128, 1024
"""Pictures with fewer rows are enlarged by whole factors; those with more rows or columns lose some."""
TILES = 8
"""Pictures of a batch that stand side by side."""
SIZE = (320, 240)
"""Pixels of the picture of a mesh."""


def sheet(images: np.ndarray) -> np.ndarray:
    """Pictures (N, H, W, ...) side by side, at most TILES of them, at a size for the eye."""
    row = np.concatenate(list(images[:TILES]), axis=1)
    step = -(-max(row.shape[0], row.shape[1] / TILES) // LARGE)
    row = row[:: int(step), :: int(step)]
    grow = max(SMALL // row.shape[0], 1)
    return row.repeat(grow, axis=0).repeat(grow, axis=1)


def levels(values: np.ndarray) -> np.ndarray:
    """The values themselves where all are in [0, 1], else spread over it; NaN and infinity become 0."""
    values = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(), values.max()
    return values if low >= 0 and high <= 1 else (values - low) / max(high - low, 1e-300)


@png.register
def _(value: Variable) -> bytes | None:
    """An image leaf, by its own data: colours as linear light, one number as grey, two as red and green."""
    if not show_as_picture(value):
        return None
    pixels = levels(np.asarray(value.data))
    if value.vtype.components == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], axis=-1)
    return encode_png(sheet(pixels))


@png.register
def _(value: Pixels) -> bytes:
    colour = value.colour
    return encode_png(np.clip(sheet(colour[None] if colour.ndim == 3 else colour), 0, 1))


@png.register
def _(value: Mesh) -> bytes:
    return encode_png(np.clip(render(value, size=SIZE).colour, 0, 1))


@html.register
def _(value: Mesh) -> str:
    return f"{mesh_image(value)}<p>{cell(repr(value))}</p>"


def mesh_image(value: Mesh | FitResult) -> Raw:
    """A drawn mesh, or that of a fit; where it cannot be drawn, why."""
    mesh = value if isinstance(value, Mesh) else value.mesh
    try:
        return Raw(image(png(value) or b"", repr(mesh)))
    except DressiError as error:
        return Raw(f"<p><i>not drawn: {cell(error)}</i></p>")


# Plans as a table: Stages, their SubStages, what these read and write, and the memory of it.

NAMES = 8
"""Functions of a SubStage that are named."""


@html.register
def _(value: Plan) -> str:
    counts = value.counts
    title = (
        f"{counts['functions']} Functions in {counts['substages']} SubStages in {counts['stages']} Stages,"
        f" {mib(counts['image_bytes'])} of images, {mib(counts['buffer_bytes'])} of accumulators"
    )
    stages = table(("Stage", "SubStage", "Functions", "reads", "writes", "written"), _rows(value))
    slots = enumerate(zip(value.images.slots, value.images.names, strict=True))
    images = table(
        ("image", "format", "size", "bytes", "holds"),
        (
            (k, slot.format, f"{slot.width}x{slot.height}", "-" if slot.passing else mib(slot.bytes), name)
            for k, (slot, name) in slots
        ),
    )
    return f"<p>{title}</p>{stages}{folded(f'{len(value.images.slots)} images', images)}"


def _rows(plan: Plan) -> Iterator[tuple[Any, ...]]:
    """A row for each SubStage; the first of a Stage names it."""
    for when, schedule in zip(("once", "step"), plan.schedules, strict=True):
        for k, stage in enumerate(schedule.stages):
            name = f"{when} {k}: {'render pass' if stage.draws else 'dispatch'}"
            for s in stage.sub_stages:
                written = sum(plan.images.bytes_of(v) for v in s.outputs)
                reads = [f"{r.variable}, {r.binding.value}" for r in s.reads]
                writes = "\n".join(str(v) for v in s.outputs)
                yield name, f"{s.work.name} {s.domain}", _names(s), "\n".join(reads), writes, mib(written)
                name = ""


def _names(s: SubStage) -> str:
    """The Functions of a SubStage, the frequent ones first."""
    found = Counter(type(f).__name__ for f in s.functions).most_common()
    text = ", ".join(name if n == 1 else f"{n} {name}" for name, n in found[:NAMES])
    return text + (f" and {len(found) - NAMES} kinds more" if len(found) > NAMES else "")
