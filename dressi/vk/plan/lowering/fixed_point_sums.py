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
from ....ad.transform.rewrite import mapped, rewrite
from ....errors import PlanError
from ..limits import DeviceLimits


class PixelSum(FragmentScatter):
    """A sum over fragments as a scatter to their pixels."""

    @property
    def additions(self) -> int:
        return self.triangles  # each covers a pixel once


def sum_in_fixed_point(program: Program, limits: DeviceLimits) -> Program:
    """The program with scatters for the sums over fragments that are not blended. Raises PlanError on devices that can add
    fragments in no way."""
    sums = [
        f
        for f in program.functions
        if isinstance(f, AccumulateFunction) and (f.fixed_point or not limits.float_blending)
    ]
    if sums:
        program = mapped(program, rewrite(program.roots, (), {f.output: in_fixed_point(f) for f in sums}))
    added = next((f for f in program.functions if isinstance(f, FragmentScatterFunction)), None)
    if added is not None and not limits.fragment_atomics:
        raise PlanError(
            f"{added!r} made at {added.where} cannot run on this device: its fragment shaders have no atomic operations"
            " (fragmentStoresAndAtomics); choose another device"
        )
    return program


def in_fixed_point(f: AccumulateFunction) -> Variable:
    """The same sum as a scatter."""
    graph = f.fragment
    value, *keep = graph.roots
    roots = kept_only([(value, pixel_coordinates(f.size, f.batch))], keep[0] if keep else None)
    inside = replace(graph, roots=tuple(roots))
    return PixelSum(f.inputs, f, inside, f.drawn).output
