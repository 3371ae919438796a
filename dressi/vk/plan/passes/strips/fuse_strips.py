"""Contractions by strips that do not wait for each other share a dispatch: its workgroups are divided among them.

The gradient by the image of one layer and that by the weights of the next need one barrier instead of two, and together they
fill a device that the sums for a few weights leave idle. Narrow devices gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...context import Context
from ...lowering.tiling.chain import is_chain
from ...lowering.tiling.parts import SHARED_BYTES
from ...lowering.tiling.strips import TiledContraction, strips_in
from ...model.device import DeviceModel
from ...substage import Read, SubStage, TiledCompute

MOST = 8
"""Contractions of a dispatch. Each is code of its own in one shader."""
ALIKE = 2.0
"""Times as many sums in registers that one contraction of a dispatch may keep as another."""


def fuse_strips(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; strips at one distance from the start of the schedule are one where the limits allow it, for those wait for
    nothing of each other. Then those that nothing waits for join others that follow, before what reads them."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)
    uses = context.uses
    depth = [0] * len(uses.sub_stages)
    for k in uses.order:
        for later in uses.later[k]:
            depth[later] = max(depth[later], depth[k] + 1)
    last = max(depth, default=0)
    latest = [min((depth[j] - 1 for j in later), default=last) for later in uses.later]
    hosts: list[list[int]] = [[] for _ in range(last + 1)]
    result: list[SubStage | None] = list(uses.sub_stages)

    def joined(k: int, level: int) -> bool:
        """Whether what is left at that distance does the work of another SubStage."""
        s = result[k]
        assert s is not None, "it was not joined before"
        for host in hosts[level]:
            together = _together(result[host], s, context.cost)
            if together is not None and context.limits.violation(together) is None:
                result[host], result[k] = together, None
                latest[host] = min(latest[host], latest[k])
                return True
        return False

    for k, s in enumerate(uses.sub_stages):
        if isinstance(s.work, TiledCompute) and not is_chain(s) and not joined(k, depth[k]):
            hosts[depth[k]].append(k)
    for level in reversed(hosts):
        level[:] = [k for k in level if not any(joined(k, at) for at in range(depth[k] + 1, latest[k] + 1))]
    return [s for s in result if s is not None]


def _together(host: SubStage | None, s: SubStage, model: DeviceModel) -> SubStage | None:
    """Both as one SubStage; None where their workgroups differ in size, need too much memory together, or where those that
    fill the device need different numbers of registers: a shader has as many as its largest branch."""
    assert host is not None
    fs = [*strips_in(host), *strips_in(s)]
    sums = [f.layout.points * f.output.vtype.components for f in fs if _invocations(f) >= model.lanes]
    if len({f.strips.lanes for f in fs}) > 1 or len(fs) > MOST or (sums and max(sums) > ALIKE * min(sums)):
        return None
    if sum(4 * f.shared_words for f in fs) > SHARED_BYTES:
        return None
    reads = {r.variable: r for r in (*host.reads, *s.reads)}
    return replace(
        host,
        functions=host.functions + s.functions,
        replaces={**host.replaces, **s.replaces},
        body=host.body + s.body,
        reads=tuple(Read(v, r.binding, True) for v, r in reads.items()),
        outputs=host.outputs + s.outputs,
    )


def _invocations(f: TiledContraction) -> int:
    return f.layout.groups * f.strips.lanes
