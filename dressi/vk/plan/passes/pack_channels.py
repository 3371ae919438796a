"""Channel packing: values that one SubStage makes and the same shaders read share the channels of an image.

Two scalars in one image of two channels take one attachment and one fetch instead of two. A vector of three leaves the
fourth channel of its image unused, and a scalar can have it. Values are only packed if that takes no more bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ....ad.ops.pixel.vector import Construct
from ....ad.types import VType
from ..context import Context
from ..substage import Binding, Compute, Fragment, Read, SubStage

_TYPES = {
    (2, False): VType.VEC2,
    (4, False): VType.VEC4,
    (2, True): VType.IVEC2,
    (4, True): VType.IVEC4,
}


def pack_channels(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with fewer images. Only for schedules that update leaves: they run many times."""
    if not context.updates:
        return list(sub_stages)
    readers = context.uses.readers
    shared: dict[Variable, tuple[Variable, ...]] = {}
    found = list(sub_stages)
    for k, s in enumerate(found):
        if not isinstance(s.work, (Fragment, Compute)) or s.work.uses or len(s.outputs) < 2:
            continue
        groups: dict[tuple, list[Variable]] = {}
        for v in s.outputs:
            if (
                v not in context.unchanged
                and v in readers
                and v.domain == s.domain
                and len(v.vtype.planes) == 1
            ):
                groups.setdefault((tuple(readers[v]), v.vtype.is_int), []).append(v)
        for (_, is_int), members in groups.items():
            for together in _fitting(members):
                width = sum(v.vtype.components for v in together)
                made = Construct(_TYPES[width, is_int], *together)
                shared[made.output] = together
                found[k] = _making(found[k], made, together)
    for new, members in shared.items():
        for k in readers[members[0]]:
            found[k] = _reading(found[k], new, members)
    return found


def _fitting(members: list[Variable]) -> list[tuple[Variable, ...]]:
    """Disjoint sets of Variables that fill an image of two or four channels with no more bytes than apart."""
    one, two, three = ([v for v in members if v.vtype.components == n] for n in (1, 2, 3))
    sets: list[tuple[Variable, ...]] = []
    while three and one:
        sets.append((three.pop(), one.pop()))
    while len(two) > 1:
        sets.append((two.pop(), two.pop()))
    if two and len(one) > 1:
        sets.append((two.pop(), one.pop(), one.pop()))
    while len(one) > 3:
        sets.append(tuple(one.pop() for _ in range(4)))
    if len(one) > 1:
        sets.append((one.pop(), one.pop()))
    return sets


def _making(s: SubStage, made: Construct, members: tuple[Variable, ...]) -> SubStage:
    outputs = (*(v for v in s.outputs if v not in members), made.output)
    return replace(s, functions=(*s.functions, made), body=(*s.body, made), outputs=outputs)


def _reading(s: SubStage, new: Variable, members: tuple[Variable, ...]) -> SubStage:
    mine = [r for r in s.reads if r.variable in members]
    binding = mine[0].binding if len({r.binding for r in mine}) == 1 else Binding.TEXTURE
    channels, first = dict(s.channels), 0
    for v in members:
        channels[v] = new, first
        first += v.vtype.components
    reads = (
        *(r for r in s.reads if r.variable not in members),
        Read(new, binding, any(r.elsewhere for r in mine)),
    )
    return replace(s, reads=reads, channels=channels)
