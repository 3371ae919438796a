"""Long loops become trees of short ones, for devices with many lanes.

A sum of 1024 x 1024 texels is a loop over each column and one over the row of their sums. A CPU is as fast as its loops;
on a GPU the second loop is one invocation that keeps thousands of lanes waiting. There the sum becomes levels of short
loops, each over the results of the one before. The order of additions is fixed by the sizes alone.
"""

from __future__ import annotations

from dataclasses import replace

from ....ad.graph import Function, ReduceFunction, Variable
from ....ad.ops.image.segments import reduction_tree
from ....ad.program import Program
from ....ad.transform.rewrite import mapped, rewrite
from ..limits import DeviceLimits
from ..walks import Walks

ROUNDS = 32
"""Functions that replace others may be shortened again, so many times at most."""


def shorten_loops(program: Program, most: int) -> Program:
    """The program with loops of at most ``most`` iterations, but for Functions that know no way; itself where all are
    short."""
    for _ in range(ROUNDS):
        shorter = {f.output: y for f in program.functions if (y := shortened(f, most)) is not None}
        if not shorter:
            break
        program = mapped(program, rewrite(program.roots, (), shorter))
    return program


def within_walks(limits: DeviceLimits, program: Program, most: int) -> DeviceLimits:
    """The limits with at most ``most`` loop iterations for an invocation, so that packing does not put the short loops one
    behind the other. A Function that stays longer sets the bound."""
    alone = Walks(lambda _: True)
    longest = max((alone.of(f) for f in program.functions), default=0)
    return replace(limits, max_loop_iterations=min(limits.max_loop_iterations, max(most, longest)))


def shortened(f: Function, most: int) -> Variable | None:
    """The value of a Function by shorter loops, None where it is short enough or where no way is known."""
    if f.iterations <= most:
        return None
    own = f.shortened(most)
    if own is None and isinstance(f, ReduceFunction):
        own = reduction_tree(f, most)
    return own
