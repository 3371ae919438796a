"""Shaders load what they fetch from storage images where the device does that faster than from textures.

Both read one texel. CPU drivers write the whole of their sampler around a fetch from a texture: lavapipe takes 1.8
nanoseconds for four floats, and .7 for a load from a storage image. GPUs read both through the same caches. The rates of
the device model decide.

Devices allow fewer storage images than textures in a shader. Those that are read most often come first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from .....ad.graph import Variable
from ...context import Context
from ...substage import Binding, PrimitiveWork, SubStage
from .store_in_buffers import filtered, texels_read


def load_images(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, which read storage images instead of textures."""
    if context.cost.image_load_rate <= context.cost.fetch_rate:
        return list(sub_stages)
    narrow = frozenset[Variable]().union(*(s.narrow for s in sub_stages))
    return [
        s if isinstance(s.work, PrimitiveWork) and s.draws else _loading(s, narrow, context)
        for s in sub_stages
    ]


def _loading(s: SubStage, narrow: frozenset[Variable], context: Context) -> SubStage:
    others = {*s.ranges, *s.replaces.values(), *narrow, *filtered(s)}
    textures = [r.variable for r in s.reads if r.binding is Binding.TEXTURE and r.variable not in others]
    texels = texels_read(s)
    textures.sort(key=lambda v: -texels[v])

    def loading(count: int) -> SubStage:
        some = set(textures[:count])
        return replace(s, reads=tuple(r.by(Binding.STORAGE) if r.variable in some else r for r in s.reads))

    def too_many(count: int) -> bool:
        return context.limits.violation_of(loading(count).descriptors) is not None

    most = len(textures)
    return loading(bisect_left(range(1, most + 1), True, key=too_many) if too_many(most) else most)
