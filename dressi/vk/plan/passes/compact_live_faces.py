"""Live-face compaction: a draw with a mask draws only the faces that the mask leaves.

A dispatch writes the numbers of the live faces, in order, and their count as arguments of indirect draws. The vertex
shader looks its face up in that list. Faces keep their order, which settles ties in depth, so the image has the bits
of the dense draw. If a SubStage computes the mask face by face, the same dispatch makes the list.

A workgroup lists the faces of one *segment*. Each of its invocations counts the live faces of a run and learns from the
counts of those before it where its own begin. On devices with few lanes, where barriers inside of a workgroup are slow
(CPU drivers), it adds these counts up alone; on others a prefix sum of the whole workgroup does, with fewer faces for
each invocation. Every segment is a draw of its own, so that no workgroup waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Domain, DrawFunction
from ..context import Context
from ..limits import DeviceLimits
from ..lists import LISTING, FaceList
from ..model.device import DeviceModel
from ..substage import Binding, ListFaces, PrimitiveWork, Read, SubStage, Undecided

_INDICES = 1 << 31  # vertices; shaders count them with an int


def compact_live_faces(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with draws that have a mask drawing listed faces, and those that make the lists. If Functions
    share shaders at all, the SubStage that computes a mask makes its list."""
    limits, fuse = context.limits, context.options.pack_functions
    order = list(sub_stages)
    lists: dict[tuple, FaceList] = {}
    for s in sub_stages:
        f = s.functions[0]
        if not isinstance(s.work, PrimitiveWork) or not isinstance(f, DrawFunction) or f.live is None:
            continue
        lanes = invocations(limits, context.cost)
        listed = FaceList(Domain(f.live.size, f.batch), f.live, f.faces, 3 * f.triangles_per_face, lanes)
        key = (listed.domain, listed.live, listed.faces, listed.vertices)
        listed = lists.get(key, listed)
        drawing = replace(s, work=replace(s.work, faces=listed))
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


def invocations(limits: DeviceLimits, cost: DeviceModel) -> int:
    """Of the workgroups that make lists on a device."""
    if not cost.wide:
        return LISTING
    return limits.workgroup()


def _making(s: SubStage, listed: FaceList, limits: DeviceLimits) -> SubStage | None:
    """The SubStage with the list as one more result; None if it cannot make it."""
    if not isinstance(s.work, Undecided) or s.domain != listed.domain or s.replaces or s.fused:
        return None
    together = replace(s.as_dispatch(), work=ListFaces(listed))
    return None if limits.violation(together) else together
