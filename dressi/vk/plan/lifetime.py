"""Which images exist, and which Variables share one because they never live at the same time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from functools import cached_property

from ...ad.graph import Function, Variable
from .limits import DeviceLimits
from .substage import Binding, Stage, SubStage


class Usage(Flag):
    """What an image is used for; by the names of VkImageUsageFlagBits."""

    COLOR = auto()
    INPUT = auto()
    SAMPLED = auto()
    STORAGE = auto()
    SOURCE = auto()
    TARGET = auto()
    DEPTH = auto()

    @property
    def words(self) -> str:
        """For messages: "colour attachment and storage image"."""
        return " and ".join(_WORDS[usage] for usage in self)


_WORDS = {
    Usage.COLOR: "colour attachment",
    Usage.INPUT: "input attachment",
    Usage.SAMPLED: "sampled image",
    Usage.STORAGE: "storage image",
    Usage.SOURCE: "source of copies",
    Usage.TARGET: "target of copies",
    Usage.DEPTH: "depth attachment",
}


@dataclass(frozen=True)
class ImageSlot:
    """One VkImage: format by scalars and kind of number, size in texels."""

    components: int  # 1, 2 or 4
    is_int: bool
    width: int
    height: int
    depth: bool = False  # of a raster
    lasting: bool = False  # a depth that a scatter tests later, in another run perhaps
    passing: bool = (
        False  # nothing but attachments of one render pass, on a device that needs no memory for them
    )

    @property
    def bytes(self) -> int:
        return 4 * self.components * self.width * self.height


def slot_of(variable: Variable, limits: DeviceLimits) -> ImageSlot:
    """What one plane of a Variable needs."""
    tiling = limits.tiling(variable)
    components = {1: 1, 2: 2, 3: 4, 4: 4}[variable.vtype.planes[0]]
    return ImageSlot(components, variable.vtype.is_int, tiling.width, tiling.height)


@dataclass(frozen=True, eq=False)
class Images:
    """``slots``: all images; ``by_schedule``: the slot number of each plane of each Variable that a schedule stores
    or reads. A transient may have other slots in another schedule.  ``passing``: for each schedule, the attachments
    that only later subpasses of their Stage read, which need not be stored.  ``depths``: the slots of
    rasters, and of scatters that draw them again."""

    slots: tuple[ImageSlot, ...]
    by_schedule: tuple[dict[Variable, tuple[int, ...]], ...]
    passing: tuple[frozenset[Variable], ...]
    depths: dict[SubStage, int]

    @cached_property
    def of(self) -> dict[Variable, tuple[int, ...]]:
        """Of all schedules; where they differ, of the first."""
        return {v: numbers for of in reversed(self.by_schedule) for v, numbers in of.items()}

    @property
    def bytes(self) -> int:
        """Memory of all images, of depths too."""
        return sum(slot.bytes for slot in self.slots if not slot.passing)


def assign_images(
    schedules: Iterable[tuple[Stage, ...]],
    persistent: Iterable[Variable],
    replaces: dict[Variable, Variable],
    limits: DeviceLimits,
    *,
    share: bool = True,
) -> Images:
    """Slots for everything stored. Persistent Variables have images of their own; a new value written in place has
    its leaf's; the others take a free slot of their kind from the Stage that makes them to the last that reads
    them. Transients of one schedule are dead while another runs, so schedules share their slots."""
    slots: list[ImageSlot] = []
    lasting: dict[Variable, tuple[int, ...]] = {}

    def new(kind: ImageSlot) -> int:
        slots.append(kind)
        return len(slots) - 1

    for v in dict.fromkeys(persistent):
        if v not in replaces:
            lasting[v] = tuple(new(slot_of(v, limits)) for _ in v.vtype.planes)
    for v, leaf in replaces.items():
        lasting[v] = lasting[leaf]
    transient: dict[int, ImageSlot] = {}
    by_schedule, passing = [], []
    depths: dict[SubStage, int] = {}
    depth_slots: dict[tuple[ImageSlot, int], int] = {}
    for stages in schedules:
        of = dict(lasting)
        by_schedule.append(of)
        passing.append(_passing(stages, of))
        free: dict[ImageSlot, list[int]] = {}
        for number, kind in transient.items():
            free.setdefault(kind, []).append(number)
        last: dict[Variable, int] = {}
        for k, stage in enumerate(stages):
            for s in stage.sub_stages:
                last.update((r.variable, k) for r in s.reads)
                last.update((v, max(k, last.get(v, k))) for v in s.outputs)
        ending: dict[int, list[Variable]] = {}
        for v, k in last.items():
            ending.setdefault(k, []).append(v)
        lasting_depths: dict[Function, int] = {
            s.drawn: 0 for stage in stages for s in stage.sub_stages if s.drawn is not None
        }
        for k, stage in enumerate(stages):
            for n, s in enumerate(s for s in stage.sub_stages if s.has_depth):
                # One for each raster of a render pass; other render passes have the same.
                tiling = limits.tiling(s.domain)
                kind = ImageSlot(
                    1, False, tiling.width, tiling.height, depth=True, passing=limits.lazy_images
                )
                if s.functions[0] in lasting_depths:
                    depths[s] = lasting_depths[s.functions[0]] = new(
                        replace(kind, lasting=True, passing=False)
                    )
                    continue
                if not share or (kind, n) not in depth_slots:
                    depth_slots[kind, n] = new(kind)
                depths[s] = depth_slots[kind, n]
            for s in stage.sub_stages:
                if s.drawn is not None:
                    depths[s] = lasting_depths[s.drawn]
                for v in s.outputs:
                    if v in of:
                        continue
                    kind = slot_of(v, limits)
                    if limits.lazy_images and v in passing[-1]:
                        kind = replace(kind, passing=True)
                    numbers = []
                    for _ in v.vtype.planes:
                        pool = free.setdefault(kind, [])
                        if pool and share:
                            numbers.append(pool.pop())
                        else:
                            numbers.append(new(kind))
                            transient[numbers[-1]] = kind
                    of[v] = tuple(numbers)
            for v in ending.get(k, ()):
                for number in of.get(v, ()):
                    if number in transient:
                        free.setdefault(transient[number], []).append(number)
    return Images(tuple(slots), tuple(by_schedule), tuple(passing), depths)


def _passing(stages: Sequence[Stage], lasting: Collection[Variable]) -> frozenset[Variable]:
    """What a render pass writes and only its own subpasses read, as attachments."""
    found: set[Variable] = set()
    read_elsewhere: set[Variable] = set()
    for stage in stages:
        inside = {v for s in stage.sub_stages for v in s.outputs} if stage.draws else set()
        found |= inside
        for read in (read for s in stage.sub_stages for read in s.reads):
            if read.binding is not Binding.ATTACHMENT or read.variable not in inside:
                read_elsewhere.add(read.variable)
    return frozenset(found - read_elsewhere - set(lasting))
