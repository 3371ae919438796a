"""Passes that put the work of two SubStages into one shader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..analysis.context import Context, put_together
from ..core.accumulators import accumulators_of
from ..core.limits import DeviceLimits
from ..core.substage import ONE, Binding, Read, Scatter, SubStage, TiledCompute, Undecided, all_reads
from ..lowering.register_tiles import tiled_in

# Epilogue fusion: a scatter or a contraction by register tiles does the work of a reader of its result.
#
# The second shader of a scatter turns accumulators into the table, one texel an invocation. If the table has
# only one reader and that works on the same texels, as an optimizer does on its gradient, the shader does
# that work as well. The table never becomes an image.
#
# A shader of register tiles does what follows at each texel that it makes, as a bias and an activation, or a
# loss. Its own result becomes an image where others read it too.

LONGEST_END = 1024.0
"""Operations of an invocation of register tiles after them. They are written out for each of its texels."""


def fuse_epilogues(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; readers of a table become the epilogue of its scatter where they are the only ones, and
    the first reader of a contraction by register tiles, that works on the same texels, joins it."""
    if context.incremental:
        return list(sub_stages)
    limits, needed = context.limits, {*context.roots, *context.named}
    order: list[SubStage | None] = list(sub_stages)
    readers = {v: set(numbers) for v, numbers in context.uses.readers.items()}
    for k, s in enumerate(sub_stages):
        tiled = isinstance(s.work, TiledCompute)
        scatter = s.scatter
        if not tiled and (scatter is None or s.outputs != (scatter.output,)):
            continue
        (table,) = s.outputs
        stored = table in needed or len(readers.get(table, ())) != 1
        if scatter is not None:
            banded = len(accumulators_of(scatter).bands(limits.max_storage_buffer_bytes)) > 1
            if stored or banded:
                continue
        for reader in sorted(readers.get(table, ())):
            alone = order[reader]
            assert alone is not None, "a reader is fused once"
            if tiled:
                together = _with_tiles(s, table, alone, stored=stored, loops=context.cost.wide)
            else:
                together = _with_epilogue(s, table, alone)
            if together is None or limits.violation(together):
                continue
            # The reader may wait for a SubStage that overwrites what is read here, or for another reader.
            sure = not tiled and not any(r.variable in context.uses.overwriter for r in s.reads)
            if put_together(order, reader, k, together, sure=sure):
                for read in together.reads:
                    readers[read.variable] = readers[read.variable] - {k} | {reader}
                break
    return [s for s in order if s is not None]


def _with_tiles(
    s: SubStage, table: Variable, reader: SubStage, *, stored: bool, loops: bool
) -> SubStage | None:
    """Register tiles with a reader of what they make, None as below, or where that is much for an invocation.
    stored: whether others read it, too. loops: whether the reader may have any: CPU drivers are slow where
    one is written out for each texel of an invocation, in a dispatch that also overwrites leaves."""
    (f,) = tiled_in(s)
    work = sum(g.operations * g.output.vtype.components for g in reader.body) * f.layout.points
    if reader.fused or work > LONGEST_END or (not loops and any(g.iterations for g in reader.body)):
        return None
    together = _beside(s, table, reader)
    outputs = (*s.outputs, *reader.outputs) if stored else reader.outputs
    return together and replace(together, body=s.body + reader.body, outputs=outputs)


def _with_epilogue(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    together = _beside(s, table, reader) if isinstance(s.work, Scatter) else None
    return together and replace(together, work=replace(s.work, epilogue=reader))


def _beside(s: SubStage, table: Variable, reader: SubStage) -> SubStage | None:
    """With reads and outputs of its reader. None if that needs other texels or overwrites what is read."""
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


# Horizontal fusion: work on a single texel joins a larger dispatch.
#
# A pass over one texel costs as much as a pass over thousands. If no other SubStage of the step reads the
# result, as with the new value of a step counter, the first invocation of another dispatch computes it; work
# on one texel of each tile is done by the first invocation of each tile, so that one problem and many have
# the same passes. The result gets an image of its own: other SubStages can still read the old value, and a
# copy at the end of the step replaces it.


def fuse_horizontally(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; others do what is over one texel, or one a tile, and read by no SubStage."""
    if context.incremental:
        return list(sub_stages)
    limits, read = context.limits, context.uses.readers
    result: list[SubStage | None] = list(sub_stages)
    for number, small in enumerate(sub_stages):
        if result[number] is not small or small.domain.size != ONE.size:
            continue  # it took another one in, or is larger
        if not isinstance(small.work, Undecided) or any(v in read for v in small.outputs):
            continue
        needed = {r.variable for r in small.reads}
        for k in reversed(range(len(result))):
            host = result[k]
            if host is None or host is small:
                continue
            if not needed.isdisjoint(host.outputs):
                break
            together = _together(host, small, limits)
            if (
                together is not None
                and needed.isdisjoint(host.replaces.values())
                and not limits.violation(together.as_dispatch())
                and put_together(result, k, number, together)
            ):
                break
    return [s for s in result if s is not None]


def _together(host: SubStage, small: SubStage, limits: DeviceLimits) -> SubStage | None:
    """Both as one SubStage. None unless the host has to be a dispatch: it overwrites leaves, or is too
    large."""
    if not isinstance(host.work, Undecided) or not (host.replaces or limits.violation(host.as_subpass())):
        return None
    if small.domain.tiles != 1 and small.domain[1:] != host.domain[1:]:
        return None  # as many tiles, of other channels, would be read by wrong numbers
    # One invocation reads them, not that of their own pixel.
    fetched = [Read(r.variable, Binding.TEXTURE, True) for r in small.reads]
    return replace(
        host,
        functions=host.functions + small.functions,
        reads=all_reads(host.reads, fetched),
        outputs=host.outputs + small.outputs,
        work=Undecided((*host.fused, replace(small, replaces={}))),
    )
