"""What the images of a plan are: format, size, and what each is used for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Flag
from functools import cached_property

from ....ad.graph import Variable
from ..core.limits import DeviceLimits, Tiling
from ..core.substage import Binding, Range, SparseWork, Stage, SubStage
from ..glsl.writer import Shaders


class Usage(Flag):
    """What an image is used for, as VkImageUsageFlagBits, or that it is a range of a storage buffer."""

    SOURCE = 0x1
    TARGET = 0x2
    SAMPLED = 0x4
    STORAGE = 0x8
    COLOR = 0x10
    DEPTH = 0x20
    INPUT = 0x80
    RANGE = 1 << 31  # none of Vulkan's

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
    Usage.RANGE: "range of a storage buffer",
}
NOTHING = Usage(0)
SHADERS = Usage.COLOR | Usage.INPUT | Usage.SAMPLED | Usage.STORAGE
"""All that shaders of a plan use an image for."""
ANY = SHADERS | Usage.SOURCE | Usage.TARGET
"""Every use but as a depth attachment: of images that outlive a plan, which later plans may use otherwise."""
_BOUND = {
    "texture": Usage.SAMPLED,
    "attachment": Usage.INPUT,
    "storage": Usage.STORAGE,
    "load": Usage.STORAGE,
}


@dataclass(frozen=True)
class ImageSlot:
    """One VkImage: components, kind of number, size in texels and use. A range is one line of words."""

    components: int  # 1, 2 or 4
    is_int: bool
    width: int
    height: int
    usage: Usage = ANY
    half: bool = False  # 16-bit floats
    passing: bool = False  # attachments of one render pass alone, on a device that needs no memory for them

    @property
    def depth(self) -> bool:
        """Whether it is the depth of a raster."""
        return Usage.DEPTH in self.usage

    @property
    def in_buffer(self) -> bool:
        """Whether it is a range of a storage buffer."""
        return Usage.RANGE in self.usage

    @property
    def format(self) -> str:
        """The name of its VkFormat, without the prefix."""
        if self.depth:
            return "D32_SFLOAT"
        bits = 16 if self.half else 32
        channels = "".join(f"{channel}{bits}" for channel in "RGBA"[: self.components])
        return f"{channels}_{'SINT' if self.is_int else 'SFLOAT'}"

    @property
    def bytes(self) -> int:
        return (2 if self.half else 4) * self.components * self.width * self.height


def usages(
    shaders: Mapping[SubStage, Shaders],
    copies: Iterable[tuple[Variable, Variable]],
    shared: Iterable[Variable],
) -> dict[Variable, Usage]:
    """What a plan uses the image of each Variable for.

    copies: (leaf, new value) at the end of a step. shared: leaves and outputs, whose images outlive the plan.
    """
    used: dict[Variable, Usage] = {}

    def add(v: Variable, usage: Usage) -> None:
        used[v] = used.get(v, NOTHING) | usage

    for s, made in shaders.items():
        for resource in made.resources:
            if resource.variable is not None and resource.kind != "range":
                add(resource.variable, _BOUND[resource.kind])
        for v in s.colors:
            add(v, Usage.COLOR)
        if isinstance(s.work, SparseWork) and s.work.sparse is not None:
            for v in s.work.sparse.fill:
                add(v, Usage.TARGET)
    for leaf, new in copies:
        add(leaf, Usage.TARGET)
        add(new, Usage.SOURCE)
    used.update(dict.fromkeys(shared, ANY))
    return used


# Which images exist, and which Variables share one because they never live at the same time.
#
# Images of different formats or sizes never share memory. On the benchmarks' plans at 1024x1024 that would
# save nothing for silhouettes and 6 to 18 % for the face form and textures, for a layout transition of every
# aliased image in every step.


MARGIN, STEP = 8, 16
"""Texels more along a side of a roomy image, which is a multiple of ``STEP``."""
ROOM = 1.1
"""Times as many texels as a value has that a roomy image may have."""


@dataclass(frozen=True, eq=False)
class Images:
    """The images of a plan.

    slots: all of them. by_schedule: the slot number of each plane of each Variable that a schedule stores or
    reads; a transient may have another slot in another schedule. passing: for each schedule, the attachments
    that only later subpasses of their Stage read, so that they need not be stored. depths: the slots of
    rasters, and of the scatters that draw the same triangles again. ranges: for each schedule, of the values
    that lie in storage buffers there; their slots are ranges. A schedule may draw what another dispatches.
    """

    slots: tuple[ImageSlot, ...]
    by_schedule: tuple[dict[Variable, tuple[int, ...]], ...]
    passing: tuple[frozenset[Variable], ...]
    depths: dict[SubStage, int]
    ranges: tuple[dict[Variable, Range], ...]

    @cached_property
    def of(self) -> dict[Variable, tuple[int, ...]]:
        """Slot numbers of all schedules; where they differ, of the first."""
        return {v: numbers for of in reversed(self.by_schedule) for v, numbers in of.items()}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each slot is called in messages and debuggers: the first Variable that lies in it."""
        names = dict.fromkeys(self.depths.values(), "depth")
        for v, numbers in self.of.items():
            for k in numbers:
                names.setdefault(k, str(v))
        return tuple(names.get(k, f"image {k}") for k in range(len(self.slots)))

    def bytes_of(self, v: Variable) -> int:
        """Bytes of all planes of a Variable; 0 where it is not stored."""
        held = next((ranges[v] for ranges in self.ranges if v in ranges), None)
        if held is not None:
            return 4 * held.components * len(v.vtype.planes) * v.domain.texels
        return sum(self.slots[k].bytes for k in self.of.get(v, ()))

    @property
    def bytes(self) -> int:
        """Memory of all images, of depths too."""
        return sum(slot.bytes for slot in self.slots if not slot.passing)


def slot_of(variable: Variable, limits: DeviceLimits, *, half: bool = False) -> ImageSlot:
    """What one plane of a Variable needs, for any use. half: in 16-bit floats."""
    tiling = limits.tiling(variable)
    components = limits.channels(variable.vtype)
    return ImageSlot(components, variable.vtype.is_int, tiling.width, tiling.height, half=half)


def slot_of_range(held: Range, limits: DeviceLimits) -> ImageSlot:
    """A range as a line of words, so that values of different formats can share it."""
    return ImageSlot(1, True, held.words * limits.tiling(held.members[0]).texels, 1, Usage.RANGE)


class _Free:
    """Free slots of one kind by what they have been used for, the one freed last at the end."""

    def __init__(self) -> None:
        self.count = 0
        self._of: dict[Usage, list[tuple[int, int]]] = {}

    def add(self, number: int, used: Usage) -> None:
        self.count += 1
        self._of.setdefault(used, []).append((self.count, number))

    def take(self, usage: Usage) -> int | None:
        """The slot whose uses grow least, storage images apart from attachments where possible: drivers
        compress attachments, but few compress storage images. None if there is none."""

        def growth(own: Usage) -> tuple[bool, int, int]:
            mixed = (Usage.STORAGE in own) != (Usage.STORAGE in usage)
            return mixed, (usage & ~own).value.bit_count(), -self._of[own][-1][0]

        own = min(self._of, key=growth, default=None)
        if own is None:
            return None
        _, number = self._of[own].pop()
        if not self._of[own]:
            del self._of[own]
        return number


Free = dict[ImageSlot, _Free]


class _Slots:
    """The slots so far. Those that several Variables share are used for what each of them is."""

    def __init__(self) -> None:
        self.kinds: list[ImageSlot] = []  # without their usage
        self.usage: list[Usage] = []

    def new(self, kind: ImageSlot, usage: Usage) -> int:
        self.kinds.append(kind if kind.in_buffer else replace(kind, usage=NOTHING))
        self.usage.append(usage)
        return len(self.kinds) - 1

    def range(self, kind: ImageSlot, free: Free) -> int:
        """The smallest free range that is long enough and at most twice as long, or a new one: a small value
        that lives long would keep a long range from large ones."""
        long_enough = [k for k in free if k.in_buffer and kind.width <= k.width <= 2 * kind.width]
        fitting = sorted(long_enough, key=lambda k: k.width)
        for k in fitting:
            number = free[k].take(Usage.RANGE)
            if number is not None:
                return number
        return self.new(kind, Usage.RANGE)

    def image(self, kind: ImageSlot, usage: Usage, free: Free) -> int:
        """A free slot of the kind, or a new one."""
        number = free[kind].take(usage) if kind in free else None
        if number is None:
            return self.new(kind, usage)
        self.usage[number] |= usage
        return number

    def release(self, number: int, kind: ImageSlot, free: Free) -> None:
        """Let others take a slot."""
        free.setdefault(kind, _Free()).add(number, self.usage[number])

    def finished(self) -> tuple[ImageSlot, ...]:
        return tuple(replace(kind, usage=usage) for kind, usage in zip(self.kinds, self.usage, strict=True))


def assign_images(
    schedules: Iterable[tuple[Stage, ...]],
    persistent: Iterable[Variable],
    replaces: Mapping[Variable, Variable],
    usage: Mapping[Variable, Usage],
    limits: DeviceLimits,
    *,
    share: bool = True,
    saving: bool = False,
) -> Images:
    """A slot for every plane that is stored.

    persistent: Variables with images of their own. replaces: new values written in place into the images of
    leaves. The others take a free slot of their kind from the Stage that makes them to the last that reads
    them. Transients of one schedule are dead while another runs, so schedules share their slots. share: False
    gives every value its own. saving: images and ranges have room for values of a few texels more along a
    side, and for what the images of other plans are used for, so that these share them.
    """
    schedules = tuple(schedules)
    sub_stages = [s for stages in schedules for stage in stages for s in stage.sub_stages]
    narrow = frozenset[Variable]().union(*(s.narrow for s in sub_stages))
    all_ranges = tuple(
        {v: held for stage in stages for s in stage.sub_stages for v, held in s.ranges.items()}
        for stages in schedules
    )
    slots = _Slots()
    lasting = _lasting(schedules, persistent, replaces, all_ranges, usage, narrow, limits, slots)
    transient: dict[int, ImageSlot] = {}
    by_schedule, passing = [], []
    depths: dict[SubStage, int] = {}
    shared_depths: dict[tuple[ImageSlot, int], int] = {}
    for stages, ranges, own in zip(schedules, all_ranges, lasting, strict=True):
        of = dict(own)
        by_schedule.append(of)
        passing.append(_passing(stages, of))
        roomy = _roomy(sub_stages, ranges, usage, limits) if saving else {}
        free: Free = {}
        for number, kind in transient.items():
            slots.release(number, kind, free)
        ending = _ending(stages)
        for k, stage in enumerate(stages):
            for n, s in enumerate(s for s in stage.sub_stages if s.has_depth):
                tiling = limits.tiling(s.domain)
                size = tiling.width, tiling.height
                kind = ImageSlot(1, False, *size, Usage.DEPTH, passing=limits.lazy_images)
                if not share or (kind, n) not in shared_depths:  # render passes share one a raster
                    shared_depths[kind, n] = slots.new(kind, Usage.DEPTH)
                depths[s] = shared_depths[kind, n]
            for v in (v for s in stage.sub_stages for v in s.outputs):
                if v in of:
                    continue
                if v in ranges:
                    kind = roomy.get(v) or slot_of_range(ranges[v], limits)
                    number = slots.range(kind, free if share else {})
                    transient[number] = slots.kinds[number]
                    of |= dict.fromkeys(ranges[v].members, (number,))
                    continue
                kind = replace(roomy.get(v) or slot_of(v, limits, half=v in narrow), usage=NOTHING)
                uses = usage.get(v, NOTHING) | (SHADERS if saving and v not in narrow else NOTHING)
                if limits.lazy_images and v in passing[-1]:
                    kind = replace(kind, passing=True)
                of[v] = tuple(slots.image(kind, uses, free if share else {}) for _ in v.vtype.planes)
                transient |= dict.fromkeys(of[v], kind)
            for v in ending.get(k, ()):
                if v in ranges and v is not ranges[v].members[0]:
                    continue  # it lies in the slot of the first member, and ends with it
                for number in of.get(v, ()):
                    if number in transient:
                        slots.release(number, transient[number], free)
    return Images(slots.finished(), tuple(by_schedule), tuple(passing), depths, all_ranges)


def _lasting(
    schedules: Sequence[tuple[Stage, ...]],
    persistent: Iterable[Variable],
    replaces: Mapping[Variable, Variable],
    all_ranges: Sequence[Mapping[Variable, Range]],
    usage: Mapping[Variable, Usage],
    narrow: Collection[Variable],
    limits: DeviceLimits,
    slots: _Slots,
) -> list[dict[Variable, tuple[int, ...]]]:
    """The slots of ``persistent`` by schedule: one image for all, but ranges of a schedule's own where it has
    the value in one. A schedule that does not touch such a value has none."""
    lasting: list[dict[Variable, tuple[int, ...]]] = [{} for _ in schedules]
    touched = [{v for stage in stages for v in stage.variables} for stages in schedules]
    for v in dict.fromkeys(persistent):
        if v in replaces:
            continue
        in_range = [v in ranges for ranges in all_ranges]
        for of, ranges in zip(lasting, all_ranges, strict=True):
            if v in ranges and v not in of:
                number = slots.new(slot_of_range(ranges[v], limits), Usage.RANGE)
                of |= dict.fromkeys(ranges[v].members, (number,))
        rest = [
            of
            for of, ranged, own in zip(lasting, in_range, touched, strict=True)
            if not ranged and (v in own or not any(in_range))
        ]
        if rest:
            kind, uses = slot_of(v, limits, half=v in narrow), usage.get(v, NOTHING)
            numbers = tuple(slots.new(kind, uses) for _ in v.vtype.planes)
            for of in rest:
                of[v] = numbers
    for of in lasting:
        of.update((v, of[leaf]) for v, leaf in replaces.items())
    return lasting


def _roomy(
    sub_stages: Iterable[SubStage],
    ranges: Mapping[Variable, Range],
    usage: Mapping[Variable, Usage],
    limits: DeviceLimits,
) -> dict[Variable, ImageSlot]:
    """Slots that are a few texels larger along both sides, so that values which differ by the margin of a
    kernel share them, of this plan or of others that run in turns: of values in ranges, and in images of
    which only their own texels are read and written. Not where no value differs by so little, where that is
    much more, or more than devices have.

    1024 x 1024 texels, and 1026 x 1026 with the margin of 3 x 3 weights:    1040 x 1040
    """
    sampled = {r.variable for s in sub_stages if s.samplers for r in s.reads}
    copied = {v for v, uses in usage.items() if uses & (Usage.SOURCE | Usage.TARGET)}
    made = {v for s in sub_stages for v in s.outputs if not s.narrow}
    sizes: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for v in {v for s in sub_stages for v in (*s.outputs, *(r.variable for r in s.reads))}:
        tiling = limits.tiling(v)
        sizes.setdefault(_rounded(tiling), set()).add((tiling.width, tiling.height))
    kinds = {}
    for v in made.difference(sampled, copied).union(ranges):
        tiling = limits.tiling(ranges[v].members[0] if v in ranges else v)
        width, height = _rounded(tiling)
        too_wide = width > min(limits.max_image_dimension, limits.max_framebuffer_width)
        too_high = height > min(limits.max_image_dimension, limits.max_framebuffer_height)
        alone = len(sizes.get((width, height), ())) < 2
        if alone or too_wide or too_high or width * height > ROOM * tiling.texels:
            continue
        if v in ranges:
            kind = slot_of_range(ranges[v], limits)
            kinds[v] = replace(kind, width=kind.width // tiling.texels * width * height)
        else:
            kinds[v] = replace(slot_of(v, limits), width=width, height=height)
    return kinds


def _rounded(tiling: Tiling) -> tuple[int, int]:
    width, height = (-(-(extent + MARGIN) // STEP) * STEP for extent in (tiling.width, tiling.height))
    return width, height


def _ending(stages: Sequence[Stage]) -> dict[int, list[Variable]]:
    """By Stage, what no later Stage uses."""
    last: dict[Variable, int] = {}
    for k, stage in enumerate(stages):
        for s in stage.sub_stages:
            last.update((r.variable, k) for r in s.reads)
            last.update((v, max(k, last.get(v, k))) for v in s.outputs)
    ending: dict[int, list[Variable]] = {}
    for v, k in last.items():
        ending.setdefault(k, []).append(v)
    return ending


def _passing(stages: Sequence[Stage], lasting: Collection[Variable]) -> frozenset[Variable]:
    """What a render pass writes and only its own subpasses read, as attachments."""
    written: set[Variable] = set()
    read_elsewhere: set[Variable] = set()
    for stage in stages:
        inside = {v for s in stage.sub_stages for v in s.outputs} if stage.draws else set()
        written |= inside
        for read in (read for s in stage.sub_stages for read in s.reads):
            if read.binding is not Binding.ATTACHMENT or read.variable not in inside:
                read_elsewhere.add(read.variable)
    return frozenset(written - read_elsewhere - set(lasting))
