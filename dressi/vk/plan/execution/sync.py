"""Barriers between commands that depend on each other. Plain data and pure functions; Vulkan's numbers, no
device.

Two commands depend on each other when they use the same resource and one of them writes it: a read after a
write, a write after a read, a write after a write. ``synchronize`` puts every command on the first *level*
behind all commands it depends on. Commands of a level run at the same time; between two levels is one
barrier, with the stages and accesses of the dependencies that end behind it.

Worked example, with resources a to d and commands in the order of the plan: 0 writes a; 1 reads a, writes b;
2 writes c; 3 reads b and c. Levels: {0, 2}, {1}, {3}. One barrier after each Stage would be three; here are
two, and 2 does not wait for 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from ....ad.graph import Variable
from ..core.lists import BlockHits, FaceList
from ..core.substage import Binding, ListBlocks, PrimitiveWork, Scatter, SparseWork, Stage, SubStage
from ..glsl.writer import Shaders, ShaderSource, stage_of


class Pipe(IntFlag):
    """Stages of Vulkan's pipeline, as VkPipelineStageFlagBits."""

    INDIRECT = 0x2  # reads the arguments of draws and dispatches
    VERTEX = 0x8
    FRAGMENT = 0x80
    EARLY_TESTS = 0x100
    LATE_TESTS = 0x200
    COLOR = 0x400  # loads, blends and stores attachments
    COMPUTE = 0x800
    TRANSFER = 0x1000
    HOST = 0x4000


class Access(IntFlag):
    """Ways to use memory, as VkAccessFlagBits."""

    INDIRECT_READ = 0x1
    INPUT_ATTACHMENT_READ = 0x10
    SHADER_READ = 0x20
    SHADER_WRITE = 0x40
    COLOR_READ = 0x80
    COLOR_WRITE = 0x100
    DEPTH_READ = 0x200
    DEPTH_WRITE = 0x400
    TRANSFER_READ = 0x800
    TRANSFER_WRITE = 0x1000
    HOST_READ = 0x2000


WRITES = Access.SHADER_WRITE | Access.COLOR_WRITE | Access.DEPTH_WRITE | Access.TRANSFER_WRITE


@dataclass(frozen=True)
class Use:
    """How a command uses a resource: the number of an image, or what stands for a buffer."""

    resource: Hashable
    stages: Pipe
    access: Access

    @cached_property
    def writes(self) -> bool:
        return bool(int(self.access) & int(WRITES))


@dataclass(frozen=True)
class Barrier:
    """What the stages ``before`` have ``written`` can be ``seen`` in the stages ``after``."""

    before: Pipe
    after: Pipe
    written: Access
    seen: Access

    def __str__(self) -> str:
        return f"{_names(self.before)} ({_names(self.written)}) -> {_names(self.after)} ({_names(self.seen)})"


def _names(flags: Pipe | Access) -> str:
    return " | ".join((flag.name or "").lower() for flag in flags) or "-"


class Used(Protocol):
    """A command, as far as synchronization needs it."""

    @property
    def uses(self) -> tuple[Use, ...]:
        """What it does with resources."""
        ...


C = TypeVar("C", bound=Used)


@dataclass(frozen=True)
class Level(Generic[C]):
    """Independent commands behind a barrier; the first level has none, it follows a full one."""

    barrier: Barrier | None
    commands: tuple[C, ...]


def synchronize(commands: Sequence[C], *, in_order: bool = False) -> list[Level[C]]:
    """Commands by levels, and the barriers between them. in_order: no command goes before an earlier one."""
    levels: list[list[C]] = []
    history = _History()
    for command in commands:
        level = 1 + max((history.level(use) for use in command.uses), default=-1)
        if in_order:
            level = max(level, len(levels) - 1)
        while level >= len(levels):
            levels.append([])
        levels[level].append(command)
        history.add(command, level)
    result, history = [], _History()
    for number, level in enumerate(levels):
        pairs = [pair for command in level for pair in history.dependencies(command)]
        result.append(Level(_barrier(pairs) if number else None, tuple(level)))
        for command in level:
            history.add(command, number)
    return result


class _History:
    """By resource, the last command that wrote it and those that have read it since, with their levels."""

    def __init__(self) -> None:
        self._writes: dict[Hashable, tuple[int, list[Use]]] = {}
        self._reads: dict[Hashable, list[tuple[int, Use]]] = {}

    def add(self, command: Used, level: int) -> None:
        """Another command, which depends on none of its own level."""
        written: dict[Hashable, list[Use]] = {}
        for use in command.uses:
            if use.writes:
                written.setdefault(use.resource, []).append(use)
        for resource, uses in written.items():
            self._writes[resource] = level, uses
            self._reads[resource] = []
        for use in command.uses:
            if not use.writes:
                self._reads.setdefault(use.resource, []).append((level, use))

    def level(self, use: Use) -> int:
        """The last level with a command that this use depends on; -1 where there is none."""
        latest = self._writes[use.resource][0] if use.resource in self._writes else -1
        if use.writes:
            latest = max([latest, *(level for level, _ in self._reads.get(use.resource, ()))])
        return latest

    def dependencies(self, command: Used) -> Iterable[tuple[Use, Use]]:
        """(earlier use, use of the command) that must not overlap."""
        for use in command.uses:
            yield from ((earlier, use) for earlier in self._writes.get(use.resource, (0, ()))[1])
            if use.writes:
                yield from ((earlier, use) for _, earlier in self._reads.get(use.resource, ()))


def _barrier(pairs: Iterable[tuple[Use, Use]]) -> Barrier:
    before = after = written = seen = 0
    for earlier, later in pairs:
        before |= int(earlier.stages)
        after |= int(later.stages)
        if earlier.writes:  # a write after a read waits for it, and needs no memory
            written |= int(earlier.access)
            seen |= int(later.access)
    return Barrier(Pipe(before), Pipe(after), Access(written) & WRITES, Access(seen))


# What a Stage is recorded as: its commands, and the images and buffers that each of them uses.


STATUS, ACCUMULATORS = "status", "accumulators"
"""Buffers that all scatters share: what shaders report to the host, and their sums."""


class Part(Enum):
    """Which commands of a Stage: transfers that prepare a dispatch; the render pass or dispatch; the
    resolution of what a scatter added. Or the copy of a leaf that is kept while the step overwrites it, that
    of a new value into its leaf, and the report of shaders to the host."""

    SAVE = "save"
    PREPARE = "prepare"
    WORK = "work"
    RESOLVE = "resolve"
    COPY = "copy"
    REPORT = "report"

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Command:
    """Commands that are recorded together. stage: the number of their Stage. band: the first cell of the band
    of a table that a scatter adds into. copy: (target, source)."""

    part: Part
    uses: tuple[Use, ...]
    stage: int = -1
    band: int = 0
    copy: tuple[Variable, Variable] | None = None

    def name(self, first: int = 0) -> str:
        """For the listing of a plan, with Stages counted from the one with the number ``first``."""
        if self.copy is not None:
            return f"copy {self.copy[1]}"
        stage = f"stage {self.stage - first}" if self.stage >= 0 else ""
        band = f" from cell {self.band}" if self.band else ""
        return f"{stage} {'' if self.part is Part.WORK else self.part.value}{band}".strip()


Numbers = Mapping[Variable, tuple[int, ...]]
"""The images of a Variable, one a plane, by their numbers in the plan."""

REPORT = Command(Part.REPORT, (Use(STATUS, Pipe.HOST, Access.HOST_READ),))
_TESTS = Pipe.EARLY_TESTS | Pipe.LATE_TESTS
_PIPES = {"vertex": Pipe.VERTEX, "fragment": Pipe.FRAGMENT, "compute": Pipe.COMPUTE}
_READ_WRITE = Access.SHADER_READ | Access.SHADER_WRITE


def commands_of(
    stage: Stage,
    number: int,
    images: Numbers,
    depths: Mapping[SubStage, int],
    shaders: Mapping[SubStage, Shaders],
) -> list[Command]:
    """The commands of a Stage in their order."""
    if stage.draws:
        uses = [use for s in stage.sub_stages for use in _work(s, shaders[s], images, depths)]
        return [Command(Part.WORK, tuple(dict.fromkeys(uses)), number)]
    (s,) = stage.sub_stages
    commands = []
    if prepared := tuple(_prepared(s, images)):
        commands.append(Command(Part.PREPARE, prepared, number))
    work = tuple(dict.fromkeys(_work(s, shaders[s], images, depths)))
    resolve = tuple(dict.fromkeys(_resolved(s, shaders[s], images))) if isinstance(s.work, Scatter) else ()
    for band in shaders[s].bands:
        commands.append(Command(Part.WORK, work, number, band))
        if resolve:
            commands.append(Command(Part.RESOLVE, resolve, number, band))
    return commands


def copies_of(copies: Iterable[tuple[Variable, Variable]], images: Numbers, part: Part) -> list[Command]:
    """The commands that copy whole values: (target, source) of each."""
    return [
        Command(
            part,
            (
                *(Use(k, Pipe.TRANSFER, Access.TRANSFER_READ) for k in images[source]),
                *(Use(k, Pipe.TRANSFER, Access.TRANSFER_WRITE) for k in images[target]),
            ),
            copy=(target, source),
        )
        for target, source in copies
    ]


# ---- of a SubStage
def _prepared(s: SubStage, images: Numbers) -> Iterable[Use]:
    """Transfers before a dispatch: an empty list, or the values of images outside of active blocks."""
    work = s.work
    if isinstance(work, ListBlocks):
        yield Use(work.blocks, Pipe.TRANSFER, Access.TRANSFER_WRITE)
    elif isinstance(work, SparseWork) and work.sparse is not None:
        for v in work.sparse.fill:
            yield from (Use(k, Pipe.TRANSFER, Access.TRANSFER_WRITE) for k in images[v])


def _work(s: SubStage, shaders: Shaders, images: Numbers, depths: Mapping[SubStage, int]) -> Iterable[Use]:
    """A subpass or dispatch; of a scatter the part that adds."""
    sources = {part: text for part, text in shaders.sources.items() if not part.startswith("resolve")}
    yield from _reads(sources, s, images)
    (pipe,) = {_PIPES[stage_of(part)] for part in sources} - {Pipe.VERTEX}
    for x in s.work.uses:
        if not isinstance(x, BlockHits):
            yield Use(x, Pipe.INDIRECT, Access.INDIRECT_READ)
        pulls = isinstance(x, FaceList) and isinstance(s.work, PrimitiveWork)
        yield Use(x, Pipe.VERTEX if pulls else pipe, Access.SHADER_READ)
    if s.work.makes is not None:
        yield Use(s.work.makes, pipe, _READ_WRITE)
    resolved = s.resolved if isinstance(s.work, Scatter) else ()
    if isinstance(s.work, Scatter):
        yield from (Use(buffer, pipe, _READ_WRITE) for buffer in (ACCUMULATORS, STATUS))
    if s.draws:
        yield from _attachments(s, images)
    yield from _stores((v for v in s.outputs if v not in (*resolved, *s.colors)), pipe, images)
    if s in depths:
        yield Use(depths[s], _TESTS, Access.DEPTH_READ | Access.DEPTH_WRITE)


def _resolved(s: SubStage, shaders: Shaders, images: Numbers) -> Iterable[Use]:
    """The second shader of a scatter: it empties accumulators into the table, or does the epilogue."""
    sources = {part: text for part, text in shaders.sources.items() if part.startswith("resolve")}
    yield from _reads(sources, s, images)
    (pipe,) = {_PIPES[stage_of(part)] for part in sources} - {Pipe.VERTEX}
    yield Use(ACCUMULATORS, pipe, _READ_WRITE)
    if s.final.draws:
        yield from _attachments(s.final, images)
    yield from _stores((v for v in s.resolved if v not in s.colors), pipe, images)


def _reads(sources: Mapping[str, str], s: SubStage, images: Numbers) -> Iterable[Use]:
    """Textures; input attachments belong to the render pass."""
    attached = {r.variable for r in s.reads if r.binding is Binding.ATTACHMENT}
    for part, text in sources.items():
        read = text.reads if isinstance(text, ShaderSource) else ()
        for v in (v for v in read if v not in attached):
            yield from (Use(k, _PIPES[stage_of(part)], Access.SHADER_READ) for k in images[v])


def _stores(outputs: Iterable[Variable], pipe: Pipe, images: Numbers) -> Iterable[Use]:
    for v in outputs:
        yield from (Use(k, pipe, _READ_WRITE) for k in images[v])


def _attachments(s: SubStage, images: Numbers) -> Iterable[Use]:
    """Attachments of a subpass. A render pass loads and stores its attachments, also those that it only reads."""
    inputs = [r.variable for r in s.reads if r.binding is Binding.ATTACHMENT]
    for v in inputs:
        yield from (Use(k, Pipe.FRAGMENT, Access.INPUT_ATTACHMENT_READ) for k in images[v])
    for v in (*inputs, *s.colors):
        yield from (Use(k, Pipe.COLOR, Access.COLOR_READ | Access.COLOR_WRITE) for k in images[v])
