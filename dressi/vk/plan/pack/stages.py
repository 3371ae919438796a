"""SubStages to Stages (paper A.9): subpasses of equal framebuffers share a render pass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ....ad.graph import Variable
from ....errors import PlanError
from ..context import Context
from ..limits import DeviceLimits
from ..substage import Binding, Stage, SubStage
from ..uses import Uses


def pack_stages(sub_stages: Sequence[SubStage], context: Context) -> list[Stage]:
    """Stages in the order of execution: render passes of several subpasses, or one dispatch each.

    Where Stages run again one by one, only SubStages that depend on the same leaves share a Stage.
    """

    def key(s: SubStage) -> Hashable:
        return (
            context.dependencies.read_by([s]) if context.incremental else None,
            *_framebuffer(s, context.limits),
        )

    keys = [key(s) if s.draws and not s.replaces else None for s in sub_stages]
    return _pack(context.uses, keys, saving=any(f.saves_memory for s in sub_stages for f in s.body))


def one_sub_stage_each(sub_stages: Sequence[SubStage], context: Context) -> list[Stage]:
    """The baseline: Stages of one SubStage each, in the order of execution."""
    return _pack(context.uses, [None for _ in sub_stages])


def _pack(uses: Uses, keys: Sequence[Hashable], saving: bool = False) -> list[Stage]:
    """Stages in the order of execution. keys: what SubStages of one render pass have in common; None stays alone. saving:
    what makes the fewest bytes live is placed first; otherwise SubStages stay in their order where they can.

    Greedy from the end, as for Functions: a SubStage joins the open render pass when everything that reads it is
    placed, it shares an attachment with a member (else the pass would gain nothing), and no image is an attachment
    of one and a texture of another: Vulkan forbids both within one render pass.
    """
    stuck = uses.waits_for_itself
    if stuck is not None:
        raise PlanError(f"the planner found no order of execution: this waits for itself:\n    {stuck}")
    sub_stages, after = uses.sub_stages, uses.later
    pending = [len(later) for later in after]
    before: list[list[int]] = [[] for _ in sub_stages]
    for k, later in enumerate(after):
        for n in later:
            before[n].append(k)
    ready = {k for k, n in enumerate(pending) if n == 0}
    stages: list[Stage] = []
    live: set[Variable] = set()
    while ready:
        first = min(ready, key=lambda k: (_grown(sub_stages[k], live), -k)) if saving else max(ready)
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
        for k in members:
            live.difference_update(sub_stages[k].outputs)
            live.update(r.variable for r in sub_stages[k].reads)
        stages.append(Stage(tuple(sub_stages[k] for k in reversed(members))))
    return stages[::-1]


def _grown(s: SubStage, live: set[Variable]) -> int:
    """By how many bytes what lives grows where a SubStage is placed before all that is placed already."""
    read = {r.variable for r in s.reads if not r.variable.is_leaf}
    return sum(map(_bytes, read - live)) - sum(_bytes(v) for v in s.outputs if v in live)


def _bytes(v: Variable) -> int:
    return 4 * v.vtype.components * v.domain.texels


def _attachments(s: SubStage) -> set[Variable]:
    return {*s.outputs, *(r.variable for r in s.reads if r.binding is Binding.ATTACHMENT)}


def _textures(s: SubStage) -> set[Variable]:
    return {r.variable for r in s.reads if r.binding is not Binding.ATTACHMENT}


def _framebuffer(s: SubStage, limits: DeviceLimits) -> tuple[int, int]:
    tiling = limits.tiling(s.domain)
    return tiling.width, tiling.height
