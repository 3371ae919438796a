"""Long sums in parts, which invocations compute side by side, and what adds these up: a tree of a workgroup, or loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from .....ad.contract.contraction import ContractFunction
from .....ad.contract.split import interleaved, split, stride_of
from .....ad.graph import Variable
from ...limits import DeviceLimits
from ...model.device import DeviceModel
from .lanes import lane_axis, lanes_of
from .strips import Strips, TiledContraction

SHARED_BYTES = 1 << 14
"""What every device has of memory that a workgroup shares."""
SHARED_STEP = 5e-8
"""Seconds of one level of the tree inside of a workgroup: a barrier of the workgroup, two reads and a write."""
PARTS = (1, 4, 16, 64, 256)
"""Parts that a long contraction may be split into, for each lane of a workgroup."""


def combined(parts: Variable, fields: dict[str, Any], limits: DeviceLimits, model: DeviceModel) -> Variable:
    """The sums of parts, by a workgroup each where that is done sooner than by loops."""
    f = ContractFunction(parts, **fields)
    soon = model.wide and tree_seconds(f.terms, limits, model) < loop_seconds(f.terms, model)
    tree = by_workgroups(f, limits, model) if soon else None
    return f.output if tree is None else tree.output


def by_workgroups(f: ContractFunction, limits: DeviceLimits, model: DeviceModel) -> TiledContraction | None:
    """A reduction of an image by a workgroup for each texel, whose invocations take terms one after the other and combine their
    results in a tree; None where it has too few terms, or an invocation would have too many."""
    lanes = tree_lanes(f.terms, limits, len(f.output.vtype.planes))
    halves = split(f, -(-f.terms // lanes), lanes)
    if halves is None or halves[1]["reduced"] != (1,):
        return None
    part = ContractFunction(*f.inputs, **halves[0].fields)
    strips = Strips(part.axes[3][-1], lanes=lanes, tree=True)
    found = TiledContraction(*f.inputs, whole=part, strips=strips, packed=(None,) * len(f.inputs))
    return found if found.iterations <= model.longest_walk else None


def tree_lanes(terms: int, limits: DeviceLimits, planes: int = 1) -> int:
    """Invocations of a workgroup that combines so many terms, in memory that it shares."""
    return limits.workgroup(min(SHARED_BYTES // (16 * planes), terms))


def divisions(
    f: ContractFunction, limits: DeviceLimits, model: DeviceModel
) -> Iterator[tuple[ContractFunction, bool, dict[str, Any] | None]]:
    """The contraction itself, and into parts, whether the invocations of a workgroup add up theirs in a tree, and what
    combines the rest, if there is more than one, as long as an image holds these."""
    yield from _interleaved(f)
    yield f, False, None
    lanes, widest = lanes_of(model), min(limits.max_image_dimension, limits.max_framebuffer_width)
    for count, tree in itertools.product(PARTS, (False, True) if model.wide else (False,)):
        parts = lanes * count
        found = split(f, -(-f.terms // parts), lanes if tree else 1) if f.terms >= 4 * parts else None
        if found is None:
            continue
        made, rest = found
        part = ContractFunction(*made.inputs, **made.fields)
        (left,) = rest["reduced"]
        if f.output.size[0] * left <= widest and (not tree or lane_axis(part) == part.axes[3][-1]):
            yield part, tree, rest if left > 1 else None


def _interleaved(f: ContractFunction) -> Iterator[tuple[ContractFunction, bool, None]]:
    """The contraction whose invocations visit entries of one stride, if there is one along their lanes: what the others between
    them read, they need no tests for.

        gradient of every second column:    even columns have three of five weights, odd ones two
    """
    axis = lane_axis(f)
    count = 1 if axis is None else stride_of(f, axis)
    if axis is not None and count > 1 and f.extents[axis] % count == 0:
        made = interleaved(f, axis, count)
        yield ContractFunction(*made.inputs, **made.fields), False, None


def combining_seconds(f: ContractFunction, parts: int, limits: DeviceLimits, model: DeviceModel) -> float:
    """Of adding up so many parts of each texel."""
    start = min(tree_seconds(parts, limits, model), loop_seconds(parts, model))
    return start + f.output.domain.texels * parts * model.load_seconds()


def loop_seconds(parts: int, model: DeviceModel) -> float:
    """Of sums in levels of loops, few enough texels that only latencies count."""
    levels = max(math.ceil(math.log(parts, model.longest_walk)), 1)
    return levels * (model.dispatch + model.barrier + parts ** (1 / levels) * model.fetch_latency)


def tree_seconds(parts: int, limits: DeviceLimits, model: DeviceModel) -> float:
    """Of sums by a workgroup each, likewise."""
    lanes = tree_lanes(parts, limits)
    run = -(-parts // lanes)
    if not model.wide or run > model.longest_walk:
        return math.inf
    return model.dispatch + model.barrier + run * model.fetch_latency + (lanes.bit_length() - 1) * SHARED_STEP
