"""Small dispatches that read each other become one, whose workgroup waits for itself between their phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....ad.contract.contraction import SumOfParts
from ....ad.graph import Function, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ..analysis.context import Context, Uses
from ..core.limits import DeviceLimits
from ..core.substage import Binding, Compute, Fragment, Joined, Scatter, SubStage, all_reads
from ..predict.stages import Judge
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


def _together(host: SubStage, guest: SubStage, limits: DeviceLimits, *, drawn: bool) -> Iterable[SubStage]:
    """Both in phases, of workgroups with some of the pixels each where that is possible, and of one. drawn:
    whether subpasses may become phases."""
    if (made := _one_dispatch(host, guest, limits, drawn=drawn)) is None:
        return
    assert isinstance(made.work, Joined)
    parts = made.work.parts
    overwritten = {leaf for p in parts for leaf in p.replaces.values()}
    lanes = 1 << min(LANES, limits.max_workgroup_invocations).bit_length() - 1
    if _own_pixels(parts, {*made.work.inner, *overwritten}):
        most = max(p.domain.tiles for p in parts)
        group = limits.workgroup()
        yield replace(made, work=Joined(parts, group, max(group // most, 1)))
    if made.domain.texels <= MOST:
        yield replace(made, work=Joined(parts, lanes))


def _one_dispatch(
    host: SubStage, guest: SubStage, limits: DeviceLimits, *, drawn: bool, beside: bool = False
) -> SubStage | None:
    """A SubStage of the parts of both. beside: of those that have workgroups of their own."""
    if any(isinstance(s.work, Joined) and s.work.beside != beside for s in (host, guest)):
        return None
    parts = [p for s in (host, guest) for p in (s.work.parts if isinstance(s.work, Joined) else (s,))]
    parts = tuple([p.as_dispatch() if drawn and isinstance(p.work, Fragment) else p for p in parts])
    if not all(isinstance(p.work, Compute) and not (p.work.uses or p.narrow) for p in parts):
        return None
    inside = {v for p in parts for v in p.outputs}
    inner = {r.variable for p in parts for r in p.reads} & inside
    sampled = set[Variable]().union(*map(filtered, parts))
    overwritten = [leaf for p in parts for leaf in p.replaces.values()]
    read_new = any(v in p.replaces for v in inner for p in parts)
    if read_new or not sampled.isdisjoint((*inner, *overwritten)) or len({*overwritten}) < len(overwritten):
        return None
    reads = all_reads((), (r for p in parts for r in p.reads if r.variable not in inside))
    made = SubStage(
        Joined(parts, limits.workgroup(), beside=beside),
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
    return made if limits.violation(made) is None else None


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


# Dispatches that wait for nothing of each other are one, in which each has workgroups of its own.
#
# Between two barriers a wide device starts one dispatch after the other, each of which takes as long as the work
# of a few thousand pixels. Those that run between the same barriers, or may without another one, share a start:
#
#     project the vertices; light of the texels    ->    groups 0 to 15: vertices, groups 16 to 79: texels


def run_side_by_side(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, fewer where dispatches share a start. Not on narrow devices, which start them at once, and
    not on tilers, as above. No chain of SubStages that wait for each other gets longer: those share one that
    can first, or last, run at the same level."""
    result = list(sub_stages)
    if context.incremental or not context.cost.wide or context.cost.tiler:
        return result
    judge = Judge(context.limits, context.cost)
    for which in range(2):
        uses, hosts = Uses(result), dict[int, int]()  # by level
        left: list[SubStage | None] = [*result]
        levels = _levels(uses)[which]
        for k in uses.order:
            host = hosts.setdefault(levels[k], k)
            made = None if host == k else _beside(left[host], result[k], context, judge)
            if made is not None:
                left[host], left[k] = None, made
            before = left[host]
            if made is not None or before is None or not isinstance(before.work, _SHARING):
                hosts[levels[k]] = k
        result = [s for s in left if s is not None]
    return result


_SHARING = Compute, Joined, Fragment
MOST_BESIDE = 16
"""Parts of a dispatch: compilers take long over long shaders."""


def _beside(host: SubStage | None, guest: SubStage, context: Context, judge: Judge) -> SubStage | None:
    """Both side by side, where that is possible and faster. Large ones fill the device by themselves."""
    if host is None or not (isinstance(host.work, _SHARING) and isinstance(guest.work, _SHARING)):
        return None
    if min(host.domain.texels, guest.domain.texels) > context.cost.lanes or not _same_leaves(
        host, guest, context
    ):
        return None
    made = _one_dispatch(host, guest, context.limits, drawn=True, beside=True)
    if made is None or not isinstance(made.work, Joined) or len(made.work.parts) > MOST_BESIDE:
        return None
    if len(made.work.phases) > 1 or made.work.groups > context.limits.max_workgroup_count:
        return None
    return made if judge.seconds(made) < judge.seconds(host) + judge.seconds(guest) else None


def _levels(uses: Uses) -> tuple[list[int], list[int]]:
    """The first and the last level at which each SubStage can run, where no chain may get longer. A scatter
    takes two."""
    own = [2 if isinstance(s.work, Scatter) else 1 for s in uses.sub_stages]
    earliest = [0] * len(own)
    for k in uses.order:
        for n in uses.later[k]:
            earliest[n] = max(earliest[n], earliest[k] + own[k])
    end = max((a + b for a, b in zip(earliest, own, strict=True)), default=0)
    latest = [end - b for b in own]
    for k in reversed(uses.order):
        for n in uses.later[k]:
            latest[k] = min(latest[k], latest[n] - own[k])
    return earliest, latest
