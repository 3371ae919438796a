"""Small dispatches that read each other become one, whose workgroup waits for itself between their phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....ad.contract.contraction import SumOfParts
from ....ad.graph import Function, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ..analysis.context import Context
from ..core.limits import DeviceLimits
from ..core.substage import Binding, Compute, Fragment, Joined, SubStage, all_reads
from ..predict.judge import Judge
from .storage import filtered

# Small dispatches in a row are one: the phases of one workgroup.
#
# A dispatch and the barrier before it cost a wide device as much as thousands of operations of each lane. The
# levels of a pyramid from 32x32 texels on, an optimizer and its clocks, sums in several steps keep a device
# waiting for itself. One workgroup does them in turns, with a barrier of its own between two of them, which costs
# a tenth; its invocations share the texels of each. That pays where a phase has few more texels than a workgroup
# has invocations.
#
# Phases that read each other at their own pixels alone, in any tiles, need not fit one workgroup: each has some
# of the pixels. So parts of long sums and the sum of the parts share a dispatch of many workgroups.
#
#     pixels 0 1 2 3 of four parts and their sum    ->    group 0: pixels 0 1, group 1: pixels 2 3

MOST, LANES = 10_000, 1024
"""Of one workgroup: texels of the largest phase, and invocations."""


def join_dispatches(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, fewer where joining dispatches that depend on each other is predicted to be faster. Not on
    narrow devices, which run the invocations of a workgroup one after the other. On tilers subpasses stay draws:
    what they hand on stays on the chip."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)
    limits, uses = context.limits, context.uses
    judge = Judge(limits, context.cost)
    result: list[SubStage | None] = list(sub_stages)
    after = [set(later) for later in uses.later]
    before: list[list[int]] = [[] for _ in result]
    for k in reversed(uses.order):
        for later in after[k]:
            before[later].append(k)
    place = list(range(len(result)))  # where the work of a SubStage is now

    def held(k: int) -> int:
        while place[k] != k:
            k = place[k]
        return k

    def between(host: int, guest: int) -> bool:
        """Whether something else waits for the host, and the guest for it."""
        direct = {held(n) for n in after[host]} - {guest}
        return guest in reached(list(direct), lambda k: {held(n) for n in after[k]})

    for guest in uses.order:
        for host in dict.fromkeys(map(held, before[guest])):
            s, t = result[host], result[guest]
            if host == guest or s is None or t is None or not _same_leaves(s, t, context):
                continue
            apart = judge.seconds(s) + judge.seconds(t)
            ways = _together(s, t, limits, drawn=not context.cost.tiler)
            made = next((x for x in ways if judge.seconds(x) < apart), None)
            if made is not None and not between(host, guest):
                result[host], result[guest], place[host] = None, made, guest
                after[guest] |= after[host] - {guest}
    return [s for s in result if s is not None]


def _same_leaves(s: SubStage, t: SubStage, context: Context) -> bool:
    """Whether both run in every step, or after the same leaves were sent."""
    moving = {leaf for leaf, _ in context.updates}
    leaves, others = (context.dependencies.read_by([x]) for x in (s, t))
    return leaves == others or not (moving.isdisjoint(leaves) or moving.isdisjoint(others))


def _parts(s: SubStage) -> tuple[SubStage, ...]:
    return s.work.parts if isinstance(s.work, Joined) else (s,)


def _together(host: SubStage, guest: SubStage, limits: DeviceLimits, *, drawn: bool) -> Iterable[SubStage]:
    """Both in phases, of workgroups with some of the pixels each where that is possible, and of one. drawn:
    whether subpasses may become phases."""
    parts = (*_parts(host), *_parts(guest))
    parts = tuple([p.as_dispatch() if drawn and isinstance(p.work, Fragment) else p for p in parts])
    if not all(isinstance(p.work, Compute) and not (p.work.uses or p.narrow) for p in parts):
        return
    inside = {v for p in parts for v in p.outputs}
    inner = {r.variable for p in parts for r in p.reads} & inside
    sampled = set[Variable]().union(*map(filtered, parts))
    overwritten = [leaf for p in parts for leaf in p.replaces.values()]
    read_new = any(v in p.replaces for v in inner for p in parts)
    if read_new or not sampled.isdisjoint((*inner, *overwritten)) or len({*overwritten}) < len(overwritten):
        return
    reads = all_reads((), (r for p in parts for r in p.reads if r.variable not in inside))
    made = SubStage(
        Joined(parts),
        max((p.domain for p in parts), key=lambda d: d.texels),
        tuple(f for p in parts for f in p.functions),
        tuple(f for p in parts for f in dict.fromkeys(p.everything)),
        tuple(r.by(Binding.TEXTURE) if r.binding is Binding.ATTACHMENT else r for r in reads),
        tuple(v for p in parts for v in p.outputs),
        {new: leaf for p in parts for new, leaf in p.replaces.items()},
        {v: part for p in parts for v, part in p.channels.items()},
        ranges={v: held for p in parts for v, held in p.ranges.items()},
        contracted=frozenset[Function]().union(*(p.contracted for p in parts)),
    )
    if limits.violation(made) is not None:
        return
    lanes = 1 << min(LANES, limits.max_workgroup_invocations).bit_length() - 1
    if _own_pixels(parts, {*inner, *overwritten}):
        most = max(p.domain.tiles for p in parts)
        group = limits.workgroup()
        yield replace(made, work=Joined(parts, group, max(group // most, 1)))
    if made.domain.texels <= MOST:
        yield replace(made, work=Joined(parts, lanes))


def _own_pixels(parts: Sequence[SubStage], shared: set[Variable]) -> bool:
    """Whether phases over the same pixels read what they share at their own one alone."""
    if len({p.domain.size for p in parts}) > 1 or any(p.fused for p in parts):
        return False
    for p in parts:
        stored = {r.variable for r in p.reads}
        for f in p.body:
            for x, maker, access, _ in f.edges:
                v = p.channels[x][0] if x in p.channels else x
                own = access is Access.SAME_PIXEL or isinstance(f, SumOfParts)
                computed = access is not Access.SAME_PIXEL and maker is not None and v not in stored
                if computed or (v in shared and not own):
                    return False
    return True
