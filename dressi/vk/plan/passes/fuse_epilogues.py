"""A table that only one SubStage reads, texel by texel, never becomes an image.

A scatter ends with a dispatch that turns its accumulators into the table, one texel an invocation. Where the only
reader works on the same texels, an optimizer on its gradient for example, it does that work right there.
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
    """The SubStages, with the only readers of tables as epilogues of their scatters."""
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
        assert alone is not None, "the reader of a table is absorbed once"
        together = _together(s, table, alone)
        if together is None or limits.violation(together):
            continue
        order[reader], order[k] = together, None
        if any(r.variable in overwritten for r in s.reads) and not Uses(_left(order)).can_run:
            order[reader], order[k] = alone, s  # it waits for somebody who overwrites what the scatter reads
            continue
        for read in together.reads:
            readers[read.variable] = readers[read.variable] - {k} | {reader}
    return _left(order)


def _left(order: dict[int, SubStage | None]) -> list[SubStage]:
    return [s for s in order.values() if s is not None]


def _together(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    """The scatter and its reader, None where the reader needs more than its own texel or spoils what is read."""
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
