"""Updates of a step, separated: each leaf gets a computed value of its own."""

from __future__ import annotations

from dataclasses import replace

from ....ad.ops.pixel.math import StopGradient
from ....ad.program import Program
from ..analysis.updates import effective_updates


def separate_updates(program: Program) -> Program:
    """The program in which every update has a computed value of its own, so that it can be written in place.

    A new value that is a leaf which the step overwrites becomes a computed copy of it. With the updates ``previous =
    current`` and ``current = current + 1`` a plain copy at the end of the step would read ``current`` after it was
    overwritten. The new value of several leaves gets a computed copy for each but the first.
    """
    overwritten = {leaf for leaf, _ in effective_updates(program)}
    snapshots = {v: StopGradient(v).output for _, v in effective_updates(program) if v in overwritten}
    updates, taken = [], set(overwritten)
    for leaf, new in program.updates:
        if leaf is not new:
            new = snapshots.get(new, new)
            new = StopGradient(new).output if new in taken else new
            taken.add(new)
        updates.append((leaf, new))
    return program if tuple(updates) == program.updates else replace(program, updates=tuple(updates))
