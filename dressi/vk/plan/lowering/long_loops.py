"""Long loops become trees of short ones, for devices with many lanes.

A sum of 1024 x 1024 texels is a loop over each column and one over the row of their sums. A CPU is as fast as its loops;
on a GPU the second loop is one invocation that keeps thousands of lanes waiting. There a reduction is a contraction by strips
whose invocations combine their results in a tree; other loops become levels of short ones, each over the results of the one
before. The order of additions is fixed by the sizes alone.
"""

from __future__ import annotations

from dataclasses import replace

from ....ad.contract.contraction import contraction_of
from ....ad.graph import Function, ReduceFunction, Variable
from ....ad.program import Program
from ....ad.transform.rewrite import replaced
from ..context import Target
from ..limits import DeviceLimits
from ..model.cost import with_fragments
from ..model.device import DeviceModel
from .tiling.parts import by_workgroups

ROUNDS = 32
"""Functions that replace others may be shortened again, so many times at most."""
LEAST_TEXELS = 32
"""Of an axis that workgroups reduce: shorter ones leave most of a workgroup idle."""


def shorten_loops(program: Program, target: Target) -> Program:
    """The program with loops that the device can walk, but for Functions that know no way; itself where all are short."""
    for _ in range(ROUNDS):
        shorter = {
            f.output: y
            for f in program.functions
            if (y := shortened(f, target.limits, target.model)) is not None
        }
        if not shorter:
            break
        program = replaced(program, shorter)
    return program


def within_walks(limits: DeviceLimits, program: Program, most: int) -> DeviceLimits:
    """The limits with at most ``most`` loop iterations for an invocation, so that packing does not put the short loops one
    behind the other. A Function that stays longer sets the bound."""
    longest = max((with_fragments(f, f.iterations) for f in program.functions), default=0)
    return replace(limits, max_loop_iterations=min(limits.max_loop_iterations, max(most, longest)))


def shortened(f: Function, limits: DeviceLimits, model: DeviceModel) -> Variable | None:
    """The value of a Function by shorter loops, None where it is short enough or where no way is known."""
    most = min(model.longest_walk, limits.max_loop_iterations)
    if isinstance(f, ReduceFunction) and f.combine:
        # One view and many plan alike, so that sums over the tiles of a batch are loops.
        wide = model.wide and f.axis != "n" and f.extent >= LEAST_TEXELS
        tree = by_workgroups(contraction_of(f), limits, model) if wide else None
        if tree is not None:
            return tree.output
        f = contraction_of(f) if f.iterations > most else f
    return _short_enough(f, most, limits)


def _short_enough(f: Function, most: int, limits: DeviceLimits) -> Variable | None:
    """The value of a Function by loops of at most ``most`` iterations, or of a few times more where an image would not hold
    all parts; None where no way is known."""
    widest = min(limits.max_image_dimension, limits.max_framebuffer_width)
    while f.iterations > most:
        y = f.shortened(most)
        if y is None or y.creator is None or all(max(x.size) <= widest for x in y.creator.inputs):
            return y
        most *= 2
    return None
