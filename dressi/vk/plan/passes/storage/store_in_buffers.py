"""Values that dispatches hand to other shaders lie in storage buffers where the device stores these faster than images.

CPU drivers pack each texel of a storage image into its format, invocation by invocation: lavapipe takes 16 to 27
nanoseconds for four floats, and 2 to 5 in a buffer. GPUs do both alike, and images have caches for neighbours in two
dimensions. The rates of the device model decide, value by value.

A value stays an image where hardware needs one: what draws write, what samplers filter, leaves, outputs and all that outlives
a step, and what vertices are pulled from. Values of one format that the same SubStages read share a range, since devices
allow few buffers in a shader. Those that save most come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .....ad.graph import Variable
from .....ad.types import Access
from ...bindings import Range, word_of
from ...context import Context
from ...limits import DeviceLimits
from ...model.device import DeviceModel
from ...substage import Binding, SparseWork, SubStage


def store_in_buffers(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with ranges of storage buffers for some of what they read and write."""
    found, limits = list(sub_stages), context.limits
    readers = context.uses.readers
    texels, filters = [texels_read(s) for s in found], [filtered(s) for s in found]

    def gain_of(v: Variable) -> float:
        reads = sum(found[k].domain.texels * texels[k][v] for k in readers[v])
        return _gain(v, reads, context.cost)

    def eligible(v: Variable, s: SubStage) -> bool:
        return _eligible(v, s, context) and not any(v in filters[k] for k in readers[v])

    gains = {}
    for k, s in enumerate(found):
        for held in _candidates(s, [v for v in s.outputs if eligible(v, s)], context):
            gain = sum(map(gain_of, held.members))
            if gain > 0:
                gains[held] = k, gain
    for held, (maker, _) in sorted(gains.items(), key=lambda item: -item[1][1]):
        changed = {k: _with_range(found[k], held) for k in {maker, *readers[held.members[0]]}}
        if all(limits.violation_of(s.descriptors) is None for s in changed.values()):
            for k, s in changed.items():
                found[k] = s
    return found


def _with_range(s: SubStage, held: Range) -> SubStage:
    reads = tuple([r.by(Binding.TEXTURE) if r.variable in held.members else r for r in s.reads])
    return replace(s, reads=reads, ranges={**s.ranges, **dict.fromkeys(held.members, held)})


def _candidates(s: SubStage, values: Sequence[Variable], context: Context) -> Iterator[Range]:
    """The values of a SubStage in ranges, as many in each as a buffer holds."""
    groups: dict[tuple, list[Variable]] = {}
    limits = context.limits
    for v in values:
        held = Range((v,))
        if _bytes(held, limits) <= limits.max_storage_buffer_bytes:
            key = tuple(context.uses.readers[v]), held.components, v.vtype.is_int, v.domain
            groups.setdefault(key, []).append(v)
    for members in groups.values():
        together: list[Variable] = []
        for v in members:
            if _bytes(Range((*together, v)), limits) > limits.max_storage_buffer_bytes:
                yield Range(tuple(together))
                together = []
            together.append(v)
        yield Range(tuple(together))


def _bytes(held: Range, limits: DeviceLimits) -> int:
    return 4 * held.words * limits.tiling(held.members[0]).texels


def _eligible(v: Variable, s: SubStage, context: Context) -> bool:
    """Whether a dispatch writes an output, shaders alone read it, and no step after this one does."""
    readers = [context.uses.sub_stages[k] for k in context.uses.readers.get(v, ())]
    if not readers or v in context.fixed or v in context.given or v in s.narrow:
        return False
    fused = {x for part in s.final.fused for x in part.outputs}
    if (
        s.draws
        or (s.final.draws and v in s.final.outputs)
        or v in fused
        or v in s.replaces
        or v.size == (1, 1)
    ):
        return False
    sparse = s.work.sparse if isinstance(s.work, SparseWork) else None
    if sparse is not None and v in sparse.fill and word_of(sparse.fill[v], v) is None:
        return False
    return {r.binding for s in readers for r in s.reads if r.variable is v} <= {
        Binding.TEXTURE,
        Binding.ATTACHMENT,
    }


def filtered(s: SubStage) -> set[Variable]:
    """What a SubStage filters with a sampler."""
    edges = (e for f in s.everything if f.sampler is not None for e in f.edges)
    return {s.channels.get(x, (x,))[0] for x, _, access, _ in edges if access is Access.SAMPLE}


def texels_read(s: SubStage) -> dict[Variable, float]:
    """How many texels of each value that a SubStage reads an invocation is expected to load."""
    found = {r.variable: 0.0 for r in s.reads}
    for f in s.everything:
        for k, (x, _, access, _) in enumerate(f.edges if Access.FETCH in f.access else ()):
            if access is Access.FETCH and (v := s.channels.get(x, (x,))[0]) in found:
                found[v] += 1.0 if math.isinf(f.reads(k)) else f.reads(k)
    return {v: max(n, 1.0) for v, n in found.items()}


def _gain(v: Variable, reads: float, cost: DeviceModel) -> float:
    """Seconds that a buffer saves where a value is written and read so many times, for all its planes."""
    stored = 1 / cost.image_store_rate - 1 / cost.buffer_store_rate
    read = cost.load_seconds() - 1 / cost.buffer_fetch_rate
    return len(v.vtype.planes) * (v.domain.texels * stored + reads * read)
