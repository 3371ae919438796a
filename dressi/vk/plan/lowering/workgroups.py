"""Reductions by workgroups: the invocations of one reduce runs of a segment each, then their results in a tree."""

from __future__ import annotations

from functools import cached_property

from ....ad.graph import Function, ReduceFunction
from ....ad.ops.image.segments import Segments, divisible
from ....ad.types import Access
from ..limits import DeviceLimits
from ..model.device import DeviceModel

LEAST_TEXELS = 64
"""Of an axis that workgroups reduce: shorter ones leave most of a workgroup idle."""
SHARED_BYTES = 1 << 14
"""What every device has of memory that a workgroup shares."""
SHARED_STEP = 5e-8
"""Seconds of one level of the tree inside of a workgroup: a barrier of the workgroup, two reads and a write."""


class GroupReduction(Function):
    """A reduction of segments of an axis, by a workgroup each: ``invocations`` of them, a power of two, take ``run`` texels
    one after the other, and combine their results in pairs. A kind of Function of its own, made by the planner.

        sum of 8 by 4 invocations:   1 2 | 3 4 | 5 6 | 7 8   ->   3 . 7 . 11 . 15   ->   10 . 26   ->   36
    """

    fields = ("whole", "length", "invocations")
    no_derivative = "is made when a plan is built; take derivatives of the whole reduction"
    whole: ReduceFunction
    length: int
    invocations: int

    def __init__(self, whole: ReduceFunction, length: int, invocations: int):
        self.whole, self.length, self.invocations = whole, length, invocations
        super().__init__(*whole.inputs)

    @property
    def identity(self):
        return (type(self), self.whole.identity, self.length, self.invocations)

    @cached_property
    def segments(self) -> Segments:
        """The same by one invocation a segment."""
        whole = self.whole.rebuild(*self.inputs)
        assert isinstance(whole, ReduceFunction)
        return Segments(whole, self.length)

    @property
    def run(self) -> int:
        """Texels that one invocation takes."""
        return -(-self.length // self.invocations)

    @property
    def operations(self):
        return self.whole.operations

    @property
    def iterations(self) -> int:
        return self.run + self.invocations.bit_length() - 1

    @property
    def fetches(self) -> float:
        return float(self.length)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        return self.segments.output.vtype, self.segments.output.domain

    @property
    def glsl(self) -> str:
        return self.segments.glsl

    def evaluate(self, at, x):
        return self.segments.evaluate(at, x)


def by_workgroups(
    f: ReduceFunction, limits: DeviceLimits, model: DeviceModel
) -> tuple[GroupReduction, float] | None:
    """The reduction in one dispatch and the seconds it is expected to take; None where it cannot be done so.

    Over the tiles of a batch it is not: one view and many plan alike.
    """
    vtype = f.output.vtype
    wanted = model.wide and f.axis != "n" and f.extent >= LEAST_TEXELS
    if not wanted or not f.associative or vtype is not f.inputs[0].vtype or not divisible(f):
        return None
    most = min(SHARED_BYTES // (16 * len(vtype.planes)), f.extent)
    found = GroupReduction(f, f.extent, limits.workgroup(most))
    steps = found.invocations.bit_length() - 1
    seconds = model.dispatch + model.barrier + found.run * model.fetch_latency + steps * SHARED_STEP
    return (found, seconds) if found.iterations <= model.longest_walk else None
