"""Overlapped tiling: contractions that read each other share a dispatch, and what is between them is never stored.

The third answer of rematerialization, beside storing a value and computing it again wherever it is read: once for each block of
the reader, with a margin as wide as the reader's kernel. Invocations make it in registers, or the workgroup in memory that it
shares. The predictor decides between both and a dispatch for each contraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....ad.graph import Variable
from ...context import Context
from ...limits import DeviceLimits
from ...lowering.tiling.chain import is_chain
from ...lowering.tiling.strips import strips_in
from ...model.device import DeviceModel
from ...predict.strips import strips_seconds
from ...substage import SubStage, TiledCompute, all_reads
from ...uses import put_together
from .divide import made_by, soonest

MOST = 6
"""Contractions of a chain."""


def overlap_tiles(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, fewer where a contraction by strips makes again what the ones before it made for it."""
    if context.incremental:
        return list(sub_stages)
    uses, limits, model = context.uses, context.limits, context.cost
    found: list[SubStage | None] = list(uses.sub_stages)
    alone: dict[SubStage, float] = {}
    for k in uses.order:
        s = found[k]
        v = None if s is None else made_by(s)
        readers = () if v is None else uses.readers.get(v, ())
        if s is None or v is None or v in context.fixed or v in context.given or len(readers) != 1:
            continue
        (reader,) = readers
        t = found[reader]
        assert t is not None, "only what makes one value is taken away"
        together = joined(s, t, v)
        best = None if together is None else soonest(together, limits, model)
        if best is None:
            continue
        for each in (s, t):
            if each not in alone:
                alone[each] = alone_seconds(each, limits, model)
        if best[0] >= alone[s] + alone[t]:
            continue
        alone[best[1]] = best[0]
        put_together(found, reader, k, best[1])
    return [s for s in found if s is not None]


def alone_seconds(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> float:
    """What a dispatch takes by itself, however it is divided."""
    held = None if is_chain(s) or len(strips_in(s)) > 1 else soonest(s, limits, model)
    seconds = strips_seconds(s, limits, model)
    return seconds if held is None else min(seconds, held[0])


def joined(s: SubStage, t: SubStage, v: Variable) -> SubStage | None:
    """The dispatch of ``t`` that makes the value ``v`` of ``s`` itself; None where it cannot."""
    if not isinstance(t.work, TiledCompute):
        return None
    fs = [*strips_in(s), *strips_in(t)]
    beside = len(strips_in(t)) > 1 and not is_chain(t)
    elsewhere = any(v in g.inputs for others in strips_in(t).values() for g in others)
    overwritten = not {r.variable for r in s.reads}.isdisjoint(t.replaces.values())
    if beside or elsewhere or overwritten or len(fs) > MOST or any(f.strips.tree for f in fs):
        return None
    return replace(
        t,
        functions=s.functions + t.functions,
        body=s.body + tuple(f for f in t.body if f not in s.body),
        reads=all_reads(s.reads, (r for r in t.reads if r.variable is not v)),
    )
