"""Long loops become trees of short ones, for devices with many lanes.

A sum of 1024 x 1024 texels is a loop over each column and one over the row of their sums. A CPU is as fast as its loops;
on a GPU the second loop is one invocation that keeps thousands of lanes waiting. There the sum becomes levels of short
loops, each over the results of the one before. The order of additions is fixed by the sizes alone.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ....ad.graph import Function, ReduceFunction, Variable
from ....ad.ops.image.segments import Segments, reduction_tree
from ....ad.program import Program
from ....ad.transform.rewrite import mapped, rewrite
from ..limits import DeviceLimits
from ..model.device import DeviceModel
from ..model.walks import Walks
from .workgroups import by_workgroups

ROUNDS = 32
"""Functions that replace others may be shortened again, so many times at most."""
MOST_LEVELS = 8


def shorten_loops(program: Program, limits: DeviceLimits, model: DeviceModel) -> Program:
    """The program with loops that the device can walk, but for Functions that know no way; itself where all are short."""
    for _ in range(ROUNDS):
        shorter = {f.output: y for f in program.functions if (y := shortened(f, limits, model)) is not None}
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


def shortened(f: Function, limits: DeviceLimits, model: DeviceModel) -> Variable | None:
    """The value of a Function by shorter loops, None where it is short enough or where no way is known."""
    if not f.iterations or isinstance(f, Segments):
        return None
    if not isinstance(f, ReduceFunction):
        return _short_enough(f, min(model.longest_walk, limits.max_loop_iterations), limits)
    most, seconds = level_length(f, model)
    group = by_workgroups(f, limits, model)
    if group is not None and group[1] < seconds:
        return group[0].output
    if f.iterations <= most:
        return None
    own = f.shortened(most)
    return reduction_tree(f, most) if own is None else own


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


def level_length(f: ReduceFunction, model: DeviceModel) -> tuple[int, float]:
    """Texels that an invocation of each level of a reduction takes, and the seconds that all levels take.

    On wide devices those for which the levels, each with the start of a pass and as many fetches one after the other, are
    done soonest: 1024 texels are 3 levels of 11 for passes of 7 and fetches of 0.4 microseconds. Elsewhere, and over the
    tiles of a batch, where one view and many have to plan alike, as many as may be.
    """
    times = {model.longest_walk: inf}
    if model.wide and f.axis != "n":
        start = model.render_pass + model.barrier
        lengths = [max(_root(f.extent, levels), 2) for levels in range(1, MOST_LEVELS + 1)]
        for levels, n in enumerate(lengths, 1):
            if n <= model.longest_walk:
                times.setdefault(n, levels * (start + n * model.fetch_latency))
    most = min(times, key=lambda n: times[n])
    return most, times[most]


def _root(extent: int, levels: int) -> int:
    """The smallest n with n ** levels >= extent."""
    n = max(int(extent ** (1 / levels)), 1)
    while n**levels < extent:
        n += 1
    return n
