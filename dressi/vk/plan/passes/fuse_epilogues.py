"""Epilogue fusion: a scatter does the work of the only reader of its table.

The second shader of a scatter turns accumulators into the table, one texel an invocation. If the table has only one
reader and that works on the same texels, as an optimizer does on its gradient, the shader does that work as well. The
table never becomes an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..context import Context
from ..glsl.fixed_point import accumulators_of
from ..substage import Scatter, SubStage, Undecided
from ..uses import Uses


def fuse_epilogues(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; readers of a table become the epilogue of its scatter where they are the only ones."""
    if context.incremental:
        return list(sub_stages)
    limits, needed = context.limits, {*context.roots, *context.named}
    order: dict[int, SubStage | None] = dict(enumerate(sub_stages))
    overwritten = context.uses.overwriter
    readers = {v: set(numbers) for v, numbers in context.uses.readers.items()}
    for k, s in enumerate(sub_stages):
        scatter = s.scatter
        if scatter is None:
            continue
        table = scatter.output
        banded = len(accumulators_of(scatter).bands(limits)) > 1
        if banded or table in needed or s.outputs != (table,) or len(readers.get(table, ())) != 1:
            continue
        (reader,) = readers[table]
        alone = order[reader]
        assert alone is not None, "a reader is fused once"
        together = _together(s, table, alone)
        if together is None or limits.violation(together):
            continue
        order[reader], order[k] = together, None
        if any(r.variable in overwritten for r in s.reads) and not Uses(_left(order)).can_run:
            order[reader], order[k] = (
                alone,
                s,
            )  # a cycle: the reader waits for a SubStage that overwrites what the scatter reads
            continue
        for read in together.reads:
            readers[read.variable] = readers[read.variable] - {k} | {reader}
    return _left(order)


def _left(order: dict[int, SubStage | None]) -> list[SubStage]:
    return [s for s in order.values() if s is not None]


def _together(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    """The scatter with its reader. None if the reader needs other texels, or overwrites what the scatter reads."""
    known = {r.variable for r in s.reads}
    if (
        not isinstance(s.work, Scatter)
        or not isinstance(reader.work, Undecided)
        or reader.domain != table.domain
        or any(r.elsewhere for r in reader.reads if r.variable is table)
        or not known.isdisjoint(reader.replaces.values())
    ):
        return None
    fetched = reader.as_dispatch().reads
    more = [r for r in fetched if r.variable is not table and r.variable not in known]
    elsewhere = {r.variable for r in reader.reads if r.elsewhere}
    reads = [replace(r, elsewhere=r.elsewhere or r.variable in elsewhere) for r in s.reads]
    return replace(
        s,
        functions=s.functions + reader.functions,
        reads=(*reads, *more),
        outputs=reader.outputs,
        replaces=reader.replaces,
        work=replace(s.work, epilogue=reader),
    )
