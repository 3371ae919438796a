"""Sums in fixed point that a program does not ask for as they run: sums over fragments, and scatters into large tables.

Where a device does not blend floats, or a user asks for it, every fragment adds its value to the accumulators of its own
pixel. Sums of integers have the same bits in any order. Scatters without a bound have accumulators for values of every
magnitude; where these need too much memory, a pass before finds the largest value and makes it the bound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from ....ad.coordinates import pixel_coordinates
from ....ad.graph import AccumulateFunction, FragmentScatterFunction, ScatterFunction, Variable
from ....ad.ops.image.extremes import max as max_texel
from ....ad.ops.pixel.arithmetic import maximum
from ....ad.ops.pixel.matrix import max_component
from ....ad.ops.sums.accumulate import FragmentScatter
from ....ad.ops.sums.inside import kept_only
from ....ad.program import Program
from ....errors import PlanError
from ..accumulators import accumulators_of
from ..context import Target


class PixelSum(FragmentScatter):
    """A sum over fragments as a scatter to their pixels."""

    @property
    def additions(self) -> int:
        return self.triangles  # each covers a pixel once


def measure_bounds(program: Program, target: Target) -> dict[Variable, Variable]:
    """Scatters without a bound whose accumulators cannot hold values of every magnitude, with the largest value as bound."""
    unbounded = (f for f in program.functions if isinstance(f, ScatterFunction) and _clamps(f))
    return {f.output: _measured(f) for f in unbounded}


def _clamps(f: ScatterFunction) -> bool:
    sums = accumulators_of(f)
    return sums.adding and not (sums.bits or sums.far)


def _measured(f: ScatterFunction) -> Variable:
    largest = [max_texel(max_component(abs(value))) for value, _ in f.pairs]
    return f.rebuild(reduce(maximum, largest), *f.inputs[1:]).output


def sum_in_fixed_point(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums over fragments that are not blended, as scatters. Raises PlanError on devices that can add fragments in no way."""
    limits = target.limits
    sums = [
        f
        for f in program.functions
        if isinstance(f, AccumulateFunction) and (f.fixed_point or not limits.float_blending)
    ]
    adding = [*sums, *(f for f in program.functions if isinstance(f, FragmentScatterFunction))]
    added = next(iter(adding), None)
    if added is not None and not limits.fragment_atomics:
        raise PlanError(
            f"{added!r} made at {added.where} cannot run on this device: its fragment shaders have no atomic operations"
            " (fragmentStoresAndAtomics); choose another device"
        )
    return {f.output: in_fixed_point(f) for f in sums}


def in_fixed_point(f: AccumulateFunction) -> Variable:
    """The same sum as a scatter."""
    graph = f.fragment
    value, *keep = graph.roots
    roots = kept_only([(value, pixel_coordinates(f.size, f.batch))], keep[0] if keep else None)
    inside = replace(graph, roots=tuple(roots))
    return PixelSum(f.inputs, f, inside, f.drawn).output
