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

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property
from typing import Generic, Protocol, TypeVar


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
    found, history = [], _History()
    for number, level in enumerate(levels):
        pairs = [pair for command in level for pair in history.dependencies(command)]
        found.append(Level(_barrier(pairs) if number else None, tuple(level)))
        for command in level:
            history.add(command, number)
    return found


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
        found = self._writes[use.resource][0] if use.resource in self._writes else -1
        if use.writes:
            found = max([found, *(level for level, _ in self._reads.get(use.resource, ()))])
        return found

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
