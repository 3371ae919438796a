"""Passes that draw fewer primitives, or draw by dispatches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import (
    AccumulateFunction,
    Domain,
    DrawFunction,
    FragmentScatterFunction,
    RasterFunction,
)
from ..analysis.context import Context
from ..core import substage
from ..core.accumulators import accumulators_of
from ..core.limits import DeviceLimits
from ..core.lists import LISTING, FaceList
from ..core.substage import Binding, Read, SubStage

# Live-face compaction: a draw with a mask draws only the faces that the mask leaves.
#
# A dispatch writes the numbers of the live faces, in order, and their count as arguments of indirect draws.
# The vertex shader looks its face up in that list. Faces keep their order, which settles ties in depth, so
# the image has the bits of the dense draw. If a SubStage computes the mask face by face, the same dispatch
# makes the list.
#
# A workgroup lists the faces of one *segment*. Each of its invocations counts the live faces of a run and
# learns from the counts of those before it where its own begin. On devices with few lanes, where barriers
# inside of a workgroup are slow (CPU drivers), it adds these counts up alone; on others a prefix sum of the
# whole workgroup does, with fewer faces for each invocation. Every segment is a draw of its own, so that no
# workgroup waits for another.

_INDICES = 1 << 31  # vertices; shaders count them with an int


def compact_live_faces(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; draws with a mask draw listed faces. Who computes a mask makes the list if possible."""
    limits = context.limits
    order = list(sub_stages)
    lists: dict[tuple, FaceList] = {}
    for s in sub_stages:
        f = s.functions[0]
        if (
            not isinstance(s.work, substage.PrimitiveWork)
            or not isinstance(f, DrawFunction)
            or f.live is None
        ):
            continue
        lanes = limits.workgroup() if context.cost.wide else LISTING
        listed = FaceList(Domain(f.live.size, f.batch), f.live, f.faces, 3 * f.triangles_per_face, lanes)
        key = (listed.domain, listed.live, listed.faces, listed.vertices)
        listed = lists.get(key, listed)
        drawing = replace(s, work=replace(s.work, faces=listed))
        read = any(r.variable is f.live for r in s.reads)
        if not read or listed.indices > _INDICES or limits.violation(drawing):
            continue
        if key not in lists:
            maker = next((m for m in order if f.live in m.outputs), None)
            together = None if maker is None else _making(maker, listed, limits)
            if maker is not None and together is not None:
                order[order.index(maker)] = together
            else:
                reads = (Read(f.live, Binding.TEXTURE),)
                alone = SubStage(substage.ListFaces(listed), listed.domain, (), (), reads, ())
                if limits.violation(alone):
                    continue
                order.insert(order.index(s), alone)
            lists[key] = listed
        order[order.index(s)] = drawing
    return order


def _making(s: SubStage, listed: FaceList, limits: DeviceLimits) -> SubStage | None:
    """The SubStage with the list as one more result; None if it cannot make it."""
    if not isinstance(s.work, substage.Undecided) or s.domain != listed.domain or s.replaces or s.fused:
        return None
    together = replace(s.as_dispatch(), work=substage.ListFaces(listed))
    return None if limits.violation(together) else together


# Draws by dispatches: each face visits the pixels that it covers. Accumulators keep the nearest of each pixel,
# or the sums of what fragments add.
#
# Data-centre GPUs draw slowly, and a render pass clears and tests every pixel whatever it draws. A dispatch
# costs the faces and the pixels that they cover. Fragments of draws come in blocks of 2x2: of thin quads, as segments of strands are, most
# invocations shade nothing. A visit shades the pixels that a face covers, and adds in fixed point, since its
# order is any. What is blended may have any magnitude, so that sums stay draws where their accumulators would
# take too much memory.

SHARED = 1 << 14
"""Pixels of an image for each workgroup that visits large faces together, where there are few faces."""
CROWD = 1 << 15
"""Invocations that a raster by a dispatch starts at least, where its image is large."""


def rasterize_in_compute(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with rasters and sums over fragments as dispatches. CPU drivers keep draws, which take a
    third to a fifth of the time there, and tilers, which keep what they draw on the chip."""
    if not context.cost.wide or context.cost.tiler:
        return list(sub_stages)
    return [_visiting(s, context) for s in sub_stages]


def _visiting(s: SubStage, context: Context) -> SubStage:
    f = s.functions[0] if s.functions else None
    drawn = isinstance(s.work, substage.Raster | substage.Accumulate | substage.FragmentScatter)
    if not drawn or not isinstance(f, RasterFunction | AccumulateFunction | FragmentScatterFunction):
        return s
    assert isinstance(s.work, substage.PrimitiveWork), "it draws"
    limits, raster = context.limits, isinstance(f, RasterFunction)
    visit = (substage.ComputeRaster if raster else substage.ComputeSum)(faces=s.work.faces)
    slices = min(CROWD // (visit.entries(f) * f.batch), f.size[0] * f.size[1] // SHARED)
    reads = tuple(r.by(Binding.TEXTURE) for r in s.reads)
    visiting = replace(s, work=replace(visit, slices=max(slices, 1)), reads=reads)
    sums, most = accumulators_of(f), limits.max_storage_buffer_bytes
    fits = len(sums.bands(most)) == 1
    if isinstance(f, AccumulateFunction):
        room = context.options.memory / 4 if context.options.memory else math.inf
        fits = sums.far > 0 and 4 * sums.buffer_words(most) <= room
    return visiting if fits and limits.violation(visiting) is None else s
