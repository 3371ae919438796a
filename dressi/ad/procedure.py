"""A Procedure: what one step runs, where one Program is not enough: Programs in sequence, some of them many times."""

from __future__ import annotations

from dataclasses import dataclass

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
class Procedure:
    """Parts that share leaves and run in order. What a part updates, the next one reads.

    restart: leaves that get the value 1 when any other leaf was sent, before the next step: what was learned from the
    old values is out of date.
    """

    parts: tuple[Part, ...]
    restart: tuple[Variable, ...] = ()

    @property
    def updated(self) -> tuple[Variable, ...]:
        """Leaves that some part updates."""
        return tuple(dict.fromkeys(leaf for part in self.parts for leaf, _ in part.program.updates))
