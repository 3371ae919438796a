"""Epilogue fusion: a scatter or a contraction by strips does the work of a reader of its result.

The second shader of a scatter turns accumulators into the table, one texel an invocation. If the table has only one
reader and that works on the same texels, as an optimizer does on its gradient, the shader does that work as well. The
table never becomes an image.

A shader of strips does what follows at each texel that it makes, as a bias and an activation, or a loss. Its own result
becomes an image where others read it too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..bindings import all_reads
from ..context import Context
from ..limits import DeviceLimits
from ..lowering.tiling.strips import strips_in
from ..substage import Scatter, SubStage, TiledCompute, Undecided
from ..uses import put_together
from ..work.accumulators import accumulators_of

LONGEST_END = 1024.0
"""Operations of an invocation of strips after them. They are written out for each of its texels."""


def fuse_epilogues(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; readers of a table become the epilogue of its scatter where they are the only ones, and the first reader
    of a contraction by strips, that works on the same texels, joins it."""
    if context.incremental:
        return list(sub_stages)
    limits, needed, wide = context.limits, {*context.roots, *context.named}, context.cost.wide
    order: list[SubStage | None] = list(sub_stages)
    overwritten = context.uses.overwriter
    readers = {v: set(numbers) for v, numbers in context.uses.readers.items()}
    for k, s in enumerate(sub_stages):
        if isinstance(s.work, TiledCompute):
            _join_strips(k, s, order, readers, needed, limits, loops=wide)
            continue
        scatter = s.scatter
        if scatter is None:
            continue
        table = scatter.output
        banded = len(accumulators_of(scatter).bands(limits.max_storage_buffer_bytes)) > 1
        if banded or table in needed or s.outputs != (table,) or len(readers.get(table, ())) != 1:
            continue
        (reader,) = readers[table]
        alone = order[reader]
        assert alone is not None, "a reader is fused once"
        together = _together(s, table, alone)
        if together is None or limits.violation(together):
            continue
        # The reader may wait for a SubStage that overwrites what the scatter reads.
        sure = not any(r.variable in overwritten for r in s.reads)
        if put_together(order, reader, k, together, sure=sure):
            for read in together.reads:
                readers[read.variable] = readers[read.variable] - {k} | {reader}
    return [s for s in order if s is not None]


def _join_strips(
    k: int,
    s: SubStage,
    order: list[SubStage | None],
    readers: dict[Variable, set[int]],
    needed: Container[Variable],
    limits: DeviceLimits,
    *,
    loops: bool,
) -> None:
    """Puts strips into the place of a reader that they can do the work of. loops: whether it may have any: CPU drivers are slow
    where one is written out for each texel of an invocation, in a dispatch that also overwrites leaves."""
    (table,) = s.outputs
    for reader in sorted(readers.get(table, ())):
        alone = order[reader]
        assert alone is not None, "a reader is fused once"
        if not loops and any(g.iterations for g in alone.body):
            continue
        together = _with_strips(s, table, alone, stored=table in needed or len(readers[table]) > 1)
        if together is None or limits.violation(together):
            continue
        if put_together(order, reader, k, together):  # else the reader waits for another reader
            for read in together.reads:
                readers[read.variable] = readers[read.variable] - {k} | {reader}
            return


def _with_strips(s: SubStage, table: Variable, reader: SubStage, *, stored: bool) -> SubStage | None:
    """Strips with a reader of what they make, None as below, or where that is much for an invocation. stored: whether others read
    it, too."""
    (f,) = strips_in(s)
    together = _beside(s, table, reader)
    work = sum(g.operations * g.output.vtype.components for g in reader.body) * f.layout.points
    if together is None or reader.fused or work > LONGEST_END:
        return None
    outputs = (*s.outputs, *reader.outputs) if stored else reader.outputs
    return replace(together, body=s.body + reader.body, outputs=outputs)


def _together(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    """The scatter with its reader."""
    found = _beside(s, table, reader) if isinstance(s.work, Scatter) else None
    return found and replace(found, work=replace(s.work, epilogue=reader))


def _beside(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    """The SubStage with the reads and outputs of its reader. None if the reader needs other texels, or overwrites what the
    SubStage reads."""
    if (
        not isinstance(reader.work, Undecided)
        or reader.domain != table.domain
        or any(r.elsewhere for r in reader.reads if r.variable is table)
        or any(r.variable in reader.replaces.values() for r in s.reads)
    ):
        return None
    fetched = reader.as_dispatch().reads
    return replace(
        s,
        functions=s.functions + reader.functions,
        reads=all_reads(s.reads, (r for r in fetched if r.variable is not table)),
        outputs=reader.outputs,
        replaces=reader.replaces,
    )
