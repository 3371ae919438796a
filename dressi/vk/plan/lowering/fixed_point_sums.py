"""Sums over fragments in fixed point: where a device does not blend floats, and where they are asked for.

Every fragment adds its value to the accumulators of its own pixel. Sums of integers have the same bits in any order.
"""

from __future__ import annotations

from dataclasses import replace

from ....ad.graph import AccumulateFunction, FragmentScatterFunction, Variable
from ....ad.ops.coordinates.coordinates import pixel_coordinates
from ....ad.ops.sums.accumulate import FragmentScatter
from ....ad.ops.sums.inside import kept_only
from ....ad.program import Program
from ....errors import PlanError
from ..context import Target


class PixelSum(FragmentScatter):
    """A sum over fragments as a scatter to their pixels."""

    @property
    def additions(self) -> int:
        return self.triangles  # each covers a pixel once


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
