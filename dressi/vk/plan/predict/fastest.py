"""Which of several ways to pack a schedule is predicted to be the fastest.

Each SubStage costs what its shaders take, and the start of its pass or dispatch with one barrier; a scatter has two. Which of
them will share a render pass is not known yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ..limits import DeviceLimits
from ..model.device import DeviceModel
from ..substage import FragmentScatter, Scatter, SubStage
from .work import loads_of

MARGIN = 1.02
"""How much faster another way than the first must be: predictions of equal plans differ by rounding."""


def fastest(ways: Sequence[Sequence[SubStage]], limits: DeviceLimits, model: DeviceModel) -> int:
    """The number of the way that is predicted to take the least time; the first one where others gain next to nothing."""
    common = set(ways[0]).intersection(*ways[1:])

    @cache
    def seconds(s: SubStage) -> float:
        draws = s.draws or isinstance(s.work, FragmentScatter)
        start = (model.render_pass if draws else model.dispatch) + model.barrier
        resolve = model.dispatch + model.barrier if isinstance(s.work, Scatter) else 0.0
        return sum(load.seconds(model) for load in loads_of(s, limits)) + start + resolve

    times = [sum(seconds(s) for s in way if s not in common) for way in ways]
    best = min(range(len(ways)), key=times.__getitem__)
    return best if times[best] * MARGIN < times[0] else 0
