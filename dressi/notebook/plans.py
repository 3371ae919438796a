"""Plans as a table: Stages, their SubStages, what these read and write, and the memory of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..vk.plan.plan import Plan
from ..vk.plan.substage import SubStage
from .kinds import folded, html, memory, table

NAMES = 8
"""Functions of a SubStage that are named."""


@html.register
def _(value: Plan) -> str:
    counts = value.counts
    title = (
        f"{counts['functions']} Functions in {counts['substages']} SubStages in {counts['stages']} Stages,"
        f" {memory(counts['image_bytes'])} of images, {memory(counts['buffer_bytes'])} of accumulators"
    )
    stages = table(("Stage", "SubStage", "Functions", "reads", "writes", "written"), _rows(value))
    slots = enumerate(zip(value.images.slots, value.images.names, strict=True))
    images = table(
        ("image", "format", "size", "bytes", "holds"),
        (
            (
                k,
                slot.format,
                f"{slot.width}x{slot.height}",
                "-" if slot.passing else memory(slot.bytes),
                name,
            )
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
                yield (
                    name,
                    f"{s.work.name} {s.domain}",
                    _names(s),
                    "\n".join(reads),
                    writes,
                    memory(written),
                )
                name = ""


def _names(s: SubStage) -> str:
    """The Functions of a SubStage, the frequent ones first."""
    found = Counter(type(f).__name__ for f in s.functions).most_common()
    text = ", ".join(name if n == 1 else f"{n} {name}" for name, n in found[:NAMES])
    return text + (f" and {len(found) - NAMES} kinds more" if len(found) > NAMES else "")
