"""Updates in place: a new value is written into the image of the leaf it replaces, where nobody needs the old one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ad.graph import Variable
from .limits import DeviceLimits
from .substage import Binding, Mode, Read, SubStage


def update_in_place(
    sub_stages: list[SubStage], updates: Sequence[tuple[Variable, Variable]], limits: DeviceLimits
) -> tuple[list[SubStage], list[tuple[Variable, Variable]]]:
    """SubStages that overwrite leaves, and the updates left over, which must be copied at the end of a step.

    A SubStage that overwrites becomes a dispatch: a compute shader may load and store the same texel of a storage
    image, a fragment shader may not read the attachment it writes. It must read the leaf at its own pixel only,
    and everybody else who reads the leaf must be able to run before it.
    """
    sub_stages = list(sub_stages)
    copies: list[tuple[Variable, Variable]] = []
    claimed: set[Variable] = set()
    order = _Order(sub_stages)
    for leaf, new in updates:
        k = order.maker.get(new)
        readers = [n for n, s in enumerate(sub_stages) if any(r.variable is leaf for r in s.reads)]
        if (
            k is None
            or new in claimed
            or not _overwritable(sub_stages[k], leaf, new, limits)
            or any(r != k and order.reaches(k, r) for r in readers)
        ):
            copies.append((leaf, new))
            continue
        claimed.add(new)
        sub_stages[k] = _as_dispatch(sub_stages[k], leaf, new)
        for r in readers:
            if r != k:
                order.after[r].add(k)
    return sub_stages, copies


def _overwritable(s: SubStage, leaf: Variable, new: Variable, limits: DeviceLimits) -> bool:
    if s.mode not in (Mode.FRAGMENT, Mode.COMPUTE) or (leaf.domain, leaf.vtype) != (new.domain, new.vtype):
        return False
    own = [r for r in s.reads if r.variable is leaf]
    if own and any(
        x is leaf and access.name != "SAME_PIXEL"
        for f in s.functions
        for x, access in zip(f.inputs, f.access, strict=True)
    ):
        return False
    return limits.violation(_as_dispatch(s, leaf, new)) is None


def _as_dispatch(s: SubStage, leaf: Variable, new: Variable) -> SubStage:
    reads = tuple(Read(r.variable, Binding.TEXTURE) for r in s.reads)
    return replace(s, mode=Mode.COMPUTE, reads=reads, replaces={**s.replaces, new: leaf})


class _Order:
    """Which SubStages must run after which."""

    def __init__(self, sub_stages: list[SubStage]):
        self.maker = {v: k for k, s in enumerate(sub_stages) for v in s.outputs}
        self.after: list[set[int]] = [set() for _ in sub_stages]
        for k, s in enumerate(sub_stages):
            for read in s.reads:
                if read.variable in self.maker:
                    self.after[self.maker[read.variable]].add(k)

    def reaches(self, start: int, goal: int) -> bool:
        seen, stack = {start}, [start]
        while stack:
            for n in self.after[stack.pop()]:
                if n == goal:
                    return True
                if n not in seen:
                    seen.add(n)
                    stack.append(n)
        return False
