"""The invocations of strips: along which axis neighbours lie, and what one view of many gives them to do."""

from __future__ import annotations

import math
from functools import lru_cache

from .....ad.contract.contraction import ContractFunction
from .....ad.graph.index_map import Affine
from ...limits import DeviceLimits
from ...model.device import DeviceModel
from ...substage import GROUP
from .strips import Layout

LEAST_LANES = 16
"""Of an axis along which invocations are neighbours."""
BESIDE = 4
"""Entries beside each other at most that one invocation stores all of."""
NARROW = 16
"""Invocations of a workgroup on CPU drivers, which run them a few at a time: with more each loop walks the same rows again."""


def lanes_of(model: DeviceModel) -> int:
    """Invocations of a workgroup."""
    return GROUP if model.wide else NARROW


def subgroup_of(limits: DeviceLimits, model: DeviceModel) -> int:
    """Invocations that load together what does not depend on the lane: on CPU drivers, where the texels of an invocation are loaded
    one after the other whether they are alike or not."""
    alike = not model.wide and lanes_of(model) % limits.subgroup == 0
    return limits.subgroup if alike else 1


def lane_axis(f: ContractFunction) -> int | None:
    """The axis of the columns that varies fastest, but for a few entries beside each other, or of the rows or channels where there
    are few columns."""
    views = view_axes(f)
    long = [[a for a in own if f.extents[a] > BESIDE] or own for own in reversed(f.axes)]
    axes = [own[-1] for own in long if own and own[-1] not in views]
    return next((a for a in axes if f.extents[a] >= LEAST_LANES), None)


@lru_cache(maxsize=4)
def view_axes(f: ContractFunction) -> frozenset[int]:
    """The axes of images that are worked on alike, or summed over: what has them has them as the number in the batch, and nothing
    else there. One view and many have to plan alike, so that they count as one."""
    found = set[int]()
    for a in (*f.axes[0], *f.reduced_axes):
        others = any(a in affine.axes for m in f.maps for affine in m.affines[1:])
        if not others and all(m.n == Affine.axis(a) for m in f.maps if a in m.axes):
            found.add(a)
    return frozenset(found)


def one_view(layout: Layout) -> tuple[int, int]:
    """Workgroups and blocks of an invocation, for one view."""
    f, views = layout.f, view_axes(layout.f)
    parallel = math.prod(f.extents[a] for a in views if a < f.reduced_axes.start)
    summed = math.prod(f.extents[a] for a in views if a >= f.reduced_axes.start)
    return layout.groups // parallel, layout.iterations // summed
