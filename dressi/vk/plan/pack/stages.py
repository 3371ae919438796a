"""SubStages to Stages (paper A.9): subpasses of equal framebuffers share a render pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ....ad.graph import Variable
from ....errors import PlanError
from ..analysis.order import dependents
from ..limits import DeviceLimits
from ..substage import Binding, Stage, SubStage


def pack_sub_stages(
    sub_stages: list[SubStage],
    limits: DeviceLimits,
    *,
    fuse: bool = True,
    together: Callable[[SubStage], Hashable] | None = None,
) -> list[Stage]:
    """Stages in the order of execution. ``fuse=False``: one SubStage a Stage; ``together``: only those of which it
    says the same share one.

    Greedy from the end, as for Functions: a SubStage joins the open render pass when everything that reads it is
    placed, it shares an attachment with a member (else the pass would gain nothing), and no image is an attachment
    of one and a texture of another: Vulkan forbids both within one render pass.
    """
    keys = [_key(s, limits, together) if fuse else None for s in sub_stages]
    after = dependents(sub_stages)
    pending = [len(later) for later in after]
    before: list[list[int]] = [[] for _ in sub_stages]
    for k, later in enumerate(after):
        for n in later:
            before[n].append(k)
    ready = {k for k, n in enumerate(pending) if n == 0}
    stages: list[Stage] = []
    while ready:
        first = max(ready)
        key = keys[first]
        members: list[int] = []
        textures: set[Variable] = set()
        shared: set[Variable] = set()
        while True:
            fitting = [
                k
                for k in ready
                if not members
                or (
                    key is not None
                    and keys[k] == key
                    and not shared.isdisjoint(_attachments(sub_stages[k]))
                    and textures.isdisjoint(_attachments(sub_stages[k]))
                    and shared.isdisjoint(_textures(sub_stages[k]))
                )
            ]
            if not fitting:
                break
            k = first if not members else max(fitting)
            ready.remove(k)
            members.append(k)
            shared |= _attachments(sub_stages[k])
            textures |= _textures(sub_stages[k])
            for p in before[k]:
                pending[p] -= 1
                if pending[p] == 0:
                    ready.add(p)
            if key is None:
                break
        stages.append(Stage(tuple(sub_stages[k] for k in reversed(members))))
    if any(pending):
        stuck = next(s for s, n in zip(sub_stages, pending, strict=True) if n)
        raise PlanError(f"the planner found no order of execution: this waits for itself:\n    {stuck}")
    return stages[::-1]


def _attachments(s: SubStage) -> set[Variable]:
    return {*s.outputs, *(r.variable for r in s.reads if r.binding is Binding.ATTACHMENT)}


def _textures(s: SubStage) -> set[Variable]:
    return {r.variable for r in s.reads if r.binding is not Binding.ATTACHMENT}


def _key(s: SubStage, limits: DeviceLimits, together: Callable[[SubStage], Hashable] | None) -> Hashable:
    """What SubStages of one render pass have in common, its framebuffer at least; None: stays alone."""
    if not s.draws or s.replaces:
        return None
    tiling = limits.tiling(s.domain)
    return tiling.width, tiling.height, together(s) if together else None
