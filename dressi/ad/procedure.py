"""A Procedure: what one step runs, where one Program is not enough: Programs in sequence, some of them many times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .graph import Variable
from .program import Program


@dataclass(frozen=True, eq=False)
class Part:
    """A Program that runs ``times`` times in a row.

    gate: a FLOAT leaf of one texel, with a batch or not. While all its tiles are zero the Program does nothing: devices skip
    its work. Its updates must keep all leaves as they are then, so that a run that is not skipped has the same result.
    """

    name: str
    program: Program
    times: int = 1
    gate: Variable | None = None


@dataclass(frozen=True, eq=False)
class Copies:
    """Pairs (leaf, target): leaves whose values are copied into other leaves of their type and domain."""

    pairs: tuple[tuple[Variable, Variable], ...]


@dataclass(frozen=True, eq=False)
class Procedure:
    """Parts that share leaves and run in order. What a part updates, the next one reads.

    scratch: leaves that nobody reads between steps. unmet: FLOAT leaves of one texel that are 0 after a step, and what is said where one is
    not. restart: leaves that get the value 1 when any other leaf was sent, before the next step: what was learned from the
    old values is out of date.
    """

    sequence: tuple[Part | Copies, ...]
    restart: tuple[Variable, ...] = ()
    scratch: tuple[Variable, ...] = ()
    unmet: Mapping[Variable, str] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What runs a program."""
        return tuple(part for part in self.sequence if isinstance(part, Part))

    @cached_property
    def copies(self) -> tuple[tuple[Variable, Variable], ...]:
        """All pairs of leaves that are copied."""
        return tuple(pair for part in self.sequence if isinstance(part, Copies) for pair in part.pairs)

    @cached_property
    def updated(self) -> tuple[Variable, ...]:
        """Leaves that get new values."""
        made = [leaf for part in self.parts for leaf, _ in part.program.updates]
        return tuple(dict.fromkeys([*made, *(target for _, target in self.copies)]))

    def changing(self, part: Part) -> frozenset[Variable]:
        """The leaves that others write between the runs of a part. What a repeated program computes from the values of other
        programs is computed once, before its first run."""
        copied = frozenset(target for _, target in self.copies)
        if part.times > 1 or any(p is not part and p.program is part.program for p in self.parts):
            return copied
        others = (p.program for p in self.parts if p.program is not part.program)
        return copied.union(leaf for program in others for leaf, _ in program.updates)
