"""Draws of listed faces: a raster whose mask says which of its faces are live draws nothing else.

A dispatch lists the numbers of the live faces, in order, and how many they are, for indirect draws; vertex shaders
find their face in the list. Depth ties are settled by the order of drawing, so images are those of the dense draw to
the bit. Where the mask is made over the faces anyway, the dispatch that makes it makes the list.

A workgroup lists the faces of one *segment*: each invocation a run of them, one shared sum tells where its own begin.
Each segment is a draw of its own, so no workgroup waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Domain, RasterFunction
from ..context import Context
from ..limits import DeviceLimits
from ..lists import FaceList
from ..substage import Binding, ListFaces, Raster, Read, SubStage, Undecided

LIVE = 1 / 16
"""The share of the faces of a mask that is expected to be live. Of the edges of closed meshes 2 to 7 % are
silhouettes, the fewer the finer the mesh."""
_INDICES = 1 << 31  # of vertices, which shaders count with an int


def compact_live_faces(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with rasters that have a mask drawing listed faces, and those that make the lists; where
    Functions share shaders, what makes the mask makes the list too."""
    limits, fuse = context.limits, context.options.pack_functions
    order = list(sub_stages)
    lists: dict[tuple, FaceList] = {}
    for s in sub_stages:
        f = s.functions[0]
        if not isinstance(f, RasterFunction) or f.live is None:
            continue
        listed = FaceList(Domain(f.live.size, f.batch), f.live, f.faces, 3 * f.triangles_per_face)
        key = (listed.domain, listed.live, listed.faces, listed.vertices)
        listed = lists.get(key, listed)
        drawing = replace(s, work=Raster(listed))
        read = any(r.variable is f.live for r in s.reads)
        if not read or listed.indices > _INDICES or limits.violation(drawing):
            continue
        if key not in lists:
            made = next((k for k, m in enumerate(order) if f.live in m.outputs), None)
            together = _making(order[made], listed, limits) if fuse and made is not None else None
            if made is not None and together is not None:
                order[made] = together
            else:
                reads = (Read(f.live, Binding.TEXTURE),)
                alone = SubStage(ListFaces(listed), listed.domain, (), (), reads, ())
                if limits.violation(alone):
                    continue
                order.insert(order.index(s), alone)
            lists[key] = listed
        order[order.index(s)] = drawing
    return order


def _making(s: SubStage, listed: FaceList, limits: DeviceLimits) -> SubStage | None:
    """The SubStage, making the list as well; None where it cannot."""
    if not isinstance(s.work, Undecided) or s.domain != listed.domain or s.replaces or s.fused:
        return None
    together = replace(s.as_dispatch(), work=ListFaces(listed))
    return None if limits.violation(together) else together


def vertices_expected(f: RasterFunction, listed: FaceList | None) -> float:
    """How many vertices a raster shades for a tile."""
    return 3 * f.triangles * (LIVE if listed is not None else 1.0)
