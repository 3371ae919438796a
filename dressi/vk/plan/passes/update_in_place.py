"""Updates in place: a new value is written into the image of the leaf it replaces, where nobody needs the old one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ....ad.graph import Variable
from ..limits import DeviceLimits
from ..substage import Mode, SubStage


def update_in_place(
    sub_stages: list[SubStage], updates: Sequence[tuple[Variable, Variable]], limits: DeviceLimits
) -> tuple[list[SubStage], list[tuple[Variable, Variable]]]:
    """SubStages that overwrite leaves, and the updates left over, which must be copied at the end of a step.

    A SubStage that overwrites becomes a dispatch: a compute shader may load and store the same texel of a storage
    image, a fragment shader may not read the attachment it writes. It must read the leaf at its own pixel only,
    and everybody else who reads the leaf must be able to run before it.
    """
    places = [_Place(s, limits) for s in sub_stages]
    copies: list[tuple[Variable, Variable]] = []
    claimed: set[Variable] = set()
    order = _Order(sub_stages)
    for leaf, new in updates:
        k = order.maker.get(new)
        readers = order.readers.get(leaf, [])
        if (
            k is None
            or new in claimed
            or not places[k].overwritable(leaf, new)
            or any(r != k and order.reaches(k, r) for r in readers)
        ):
            copies.append((leaf, new))
            continue
        claimed.add(new)
        places[k].replaces[new] = leaf
        for r in readers:
            if r != k:
                order.after[r].add(k)
    return [p.dispatch() if p.replaces else s for p, s in zip(places, sub_stages, strict=True)], copies


def prefer_dispatches(
    sub_stages: Sequence[SubStage], limits: DeviceLimits, *, everywhere: bool
) -> list[SubStage]:
    """The same work as dispatches: that over lists, and ``everywhere`` on devices whose fragments are slow."""
    places = [(s, _Place(s, limits)) for s in sub_stages if s.mode is Mode.FRAGMENT]
    better = {s: p for s, p in places if (everywhere or s.over_list) and p.fits}
    return [better[s].dispatch() if s in better else s for s in sub_stages]


class _Place:
    """A SubStage that may become a dispatch over the leaves in ``replaces``."""

    def __init__(self, s: SubStage, limits: DeviceLimits):
        self.s, self.limits = s, limits
        self.replaces: dict[Variable, Variable] = {}

    def overwritable(self, leaf: Variable, new: Variable) -> bool:
        alike = (leaf.domain, leaf.vtype) == (new.domain, new.vtype)
        return self.fits and alike and leaf not in self._read_elsewhere

    @cached_property
    def fits(self) -> bool:
        """Whether it may be a dispatch; its images stay as many, whatever it overwrites."""
        return self.s.mode in (Mode.FRAGMENT, Mode.COMPUTE) and not self.limits.violation(self.dispatch())

    @cached_property
    def _read_elsewhere(self) -> set[Variable]:
        """What it reads at other pixels than its own."""
        return {r.variable for r in self.s.reads if r.elsewhere}

    def dispatch(self) -> SubStage:
        return replace(self.s.as_dispatch(), replaces=self.replaces)


class _Order:
    """Which SubStages must run after which."""

    def __init__(self, sub_stages: list[SubStage]):
        self.maker = {v: k for k, s in enumerate(sub_stages) for v in s.outputs}
        self.after: list[set[int]] = [set() for _ in sub_stages]
        self.readers: dict[Variable, list[int]] = {}
        for k, s in enumerate(sub_stages):
            for read in s.reads:
                self.readers.setdefault(read.variable, []).append(k)
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
