"""Checks of what the compiler makes: run after every pass, and on the finished Plan, with DRESSI_CHECK=1.

A rule looks at a SubStage or at a list of them and gives a sentence for every fault that it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ...ad.graph import AccumulateFunction, Function, PixelFunction, RasterFunction, Variable
from ...ad.graph.types import Access
from ...errors import PlanError
from .analysis.context import Context
from .analysis.rematerialization import recomputable
from .core import substage
from .core.limits import DeviceLimits
from .core.lists import WorkList
from .core.substage import Binding, Range, Stage, SubStage
from .execution.plan import Plan
from .lowering.fragment_value import FragmentValue
from .lowering.register_tiles import TiledContraction, tiled_in


def verify(sub_stages: Sequence[SubStage], context: Context, made_by: str) -> None:
    """Raises PlanError when SubStages break a rule. made_by: the pass that made them."""
    faults = _faults_of_each(sub_stages, context.limits)
    for rule in RULES:
        faults += rule(sub_stages, context)
    _raise(faults, made_by)


def verify_plan(plan: Plan) -> None:
    """Raises PlanError when the Stages or the images of a Plan break a rule."""
    faults = _faults_of_each(plan.sub_stages, plan.limits)
    faults += [fault for stage in plan.stages for fault in stages_are_render_passes(stage, plan.limits)]
    _raise([*faults, *images_hold_what_is_read(plan)], "the finished plan")


def _raise(found: Sequence[str], made_by: str) -> None:
    if found:
        raise PlanError(
            f"{made_by} broke a rule of plans: {'; '.join(found[:3])}. This is a bug of dressi: "
            "please report it, and leave the pass out with PlanOptions(without=...) meanwhile"
        )


# ---- of one SubStage
def _faults_of_each(sub_stages: Iterable[SubStage], limits: DeviceLimits) -> list[str]:
    faults = [(s, fault) for s in sub_stages if isinstance(s.work, substage.Joined) for fault in _joined(s)]
    for s in sub_stages:
        joined = isinstance(s.work, substage.Joined)
        if joined and (sentence := limits.violation(s)):
            faults.append((s, sentence))
        parts = s.work.parts if isinstance(s.work, substage.Joined) else (s,)
        faults += [(s, fault) for part in parts for rule in EACH for fault in rule(part, limits)]
    return [f"{fault}, in\n{s}\n" for s, fault in faults]


def _joined(s: SubStage) -> Iterator[str]:
    """Phases make what later ones read, and overwrite what earlier ones have read."""
    assert isinstance(s.work, substage.Joined)
    made: set[Variable] = set()
    overwritten: set[Variable] = set()
    for phase in s.work.phases:
        for part in phase:
            reads = {r.variable for r in part.reads}
            yield from (f"{v} is read before it is made" for v in (reads & s.work.inner) - made)
            yield from (f"{v} is read after it was overwritten" for v in reads & overwritten)
        made.update(v for part in phase for v in part.outputs)
        overwritten.update(v for part in phase for v in part.replaces.values())
    inside = {v for part in s.work.parts for v in part.outputs}
    known = {r.variable for r in s.reads} | inside
    yield from (
        f"{r.variable} is read by a part alone"
        for p in s.work.parts
        for r in p.reads
        if r.variable not in known
    )
    if inside != {*s.outputs}:
        yield "its outputs are not those of its parts"


def limits_hold(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """A SubStage needs no more descriptors, attachments and loop iterations than the device allows."""
    if sentence := limits.violation(s):
        yield sentence


def functions_suit_the_work(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """Outputs are made by its own Functions, of the kind and over the domain of its work."""
    made = {f.output for f in s.functions}
    yield from (f"no Function of its own makes {v}" for v in s.outputs if v not in made)
    if isinstance(s.work, substage.Raster | substage.ComputeRaster):
        f, *values = s.functions
        if not isinstance(f, RasterFunction):
            yield "a raster draws exactly one RasterFunction"
        for v in values:
            if not isinstance(v, FragmentValue) or v.inputs[0] is not f.output:
                yield f"{v!r} is no value of the fragments of {f!r}"
    if isinstance(s.work, substage.Accumulate):
        yield from (f"{f!r} adds no fragments" for f in s.functions if not isinstance(f, AccumulateFunction))
    if isinstance(s.work, substage.Scatter) and s.kept is None:
        yield "a scatter has no ScatterFunction"
    if isinstance(s.work, substage.TiledCompute):
        if not isinstance(s.body[0], TiledContraction):
            yield f"register tiles start with a contraction, not with {s.body[0]!r}"
        for f, others in tiled_in(s).items():
            for g in others:
                own = g not in s.functions or g.output.domain == f.output.domain
                if not (own and isinstance(g, PixelFunction)):
                    yield f"{g!r} is no work on each texel of {f!r}"
    if isinstance(s.work, substage.PixelWork):
        others = {f for fused in s.fused for f in fused.functions}
        for f in s.functions:
            if not isinstance(f, PixelFunction):
                yield f"{f!r} is no work on each pixel"
            elif f not in others and f.output.domain != s.domain:
                yield f"{f!r} works on {f.output.domain}, not on {s.domain}"


def bindings_suit_the_work(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """Subpasses read attachments at their own pixel; only draws of triangles have vertex shaders."""
    drawable = s.draws or (
        isinstance(s.work, substage.PixelWork) and not isinstance(s.work, substage.Compute)
    )
    attached = set(s.final.replaces.values()) if s.final is not s and s.final.draws else set()
    for read in s.reads:
        v = read.variable
        if read.binding is Binding.VERTEX and not isinstance(s.work, substage.PrimitiveWork):
            yield f"{v} is read by a vertex shader that there is none of"
        if read.binding is Binding.ATTACHMENT and v not in attached:
            if not drawable:
                yield f"{v} is an input attachment of a dispatch"
            if read.elsewhere or v.domain != s.domain:
                yield f"{v} is an input attachment, but is read at other pixels"
    names = [read.variable for read in s.reads]
    yield from (f"{v} is read through two bindings" for v in set(names) if names.count(v) > 1)


def overwriting_is_safe(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """What is overwritten is read at the own pixel, by draws through the attachment."""
    reads = {read.variable: read for read in s.reads}
    for new, leaf in s.replaces.items():
        if new not in s.outputs:
            yield f"{new} replaces {leaf} and is not written"
        if (leaf.domain, leaf.vtype) != (new.domain, new.vtype):
            yield f"{new} does not fit the image of {leaf}"
        read = reads.get(leaf)
        if read is not None and read.elsewhere:
            yield f"{leaf} is overwritten while other pixels of it are read"
        if read is not None and s.final.draws and read.binding is not Binding.ATTACHMENT:
            yield f"{leaf} is drawn over while it is read as a texture"
        copied = leaf in s.channels  # another image is read instead
        if s.final is not s and not copied and any(leaf in f.inputs for f in s.body):
            yield f"{leaf} is read by a scatter whose epilogue overwrites it"


def lists_suit_the_work(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """A sparse dispatch has blocks of its own domain; who makes a list has the values that decide it."""
    sparse = s.work.sparse if isinstance(s.work, substage.SparseWork) else None
    if sparse is not None:
        if sparse.blocks.domain != s.domain:
            yield f"it cannot run on blocks of {sparse.blocks.domain}"
        yield from (f"{v} is filled and not written" for v in sparse.fill if v not in s.outputs)
    at_hand = {r.variable for r in s.reads}.union(f.output for f in s.body)
    at_hand.update(v for x in s.work.uses for v in x.decided_by)
    if s.work.makes is not None:
        missing = [v for v in s.work.makes.decided_by if v not in at_hand]
        yield from (f"it makes a list from {v}, which it does not have" for v in missing)


def reads_are_enough(s: SubStage, limits: DeviceLimits) -> Iterator[str]:
    """What a shader needs it reads or can compute: at another texel only what is read there, or recomputed
    from it. Scatters, rasters and contractions by register tiles have SubStages of their own and are
    recomputed nowhere."""
    marked = {r.variable: r.elsewhere for r in s.reads}
    for part in dict.fromkeys((s, s.final, *s.final.fused)):
        made = {f.output for f in part.body}
        made.update(f.output for f in s.functions if part is s.final and s.scatter is f)
        seen: set[tuple[Function, bool]] = set()
        stack = [(f, False) for f in part.body if isinstance(f, PixelFunction)]
        while stack:
            f, far = stack.pop()
            if (f, far) in seen:
                continue
            seen.add((f, far))
            for x, maker, access, _ in f.edges:
                v = s.channels[x][0] if x in s.channels else x
                there = far or access is not Access.SAME_PIXEL or x.domain != f.output.domain
                if v in marked:
                    if (far or access is not Access.SAME_PIXEL) and not marked[v]:
                        yield f"{v} is read at other texels, of which the reads say nothing"
                elif x in made and not there:
                    continue
                elif maker is None or not recomputable(maker):
                    yield f"{x} is read {'at another texel ' * there}and neither stored nor computed again"
                else:
                    stack.append((maker, there))


EACH = (
    limits_hold,
    functions_suit_the_work,
    bindings_suit_the_work,
    overwriting_is_safe,
    lists_suit_the_work,
    reads_are_enough,
)


# ---- of a list of SubStages
def values_are_made_once(sub_stages: Sequence[SubStage], context: Context) -> Iterator[str]:
    """No value is an output of two SubStages."""
    made = Counter(v for s in sub_stages for v in s.outputs)
    yield from (f"{v} is made by two SubStages" for v, n in made.items() if n > 1)


def reads_are_made(sub_stages: Sequence[SubStage], context: Context) -> Iterator[str]:
    """Everything that is read, or wanted in the end, is a leaf, given, or made; in an order that exists."""
    wanted = dict.fromkeys([*context.roots, *(r.variable for s in sub_stages for r in s.reads)])
    for v in wanted:
        if v.creator is not None and v not in context.given and v not in context.uses.maker:
            yield f"nothing makes {v}"
    for s in sub_stages:
        yield from (f"nothing makes the list of {x}" for x in s.work.uses if x not in context.uses.lister)
    if not context.uses.can_run:
        yield f"this waits for itself:\n{context.uses.waits_for_itself}\n"


def leaves_are_overwritten_once(sub_stages: Sequence[SubStage], context: Context) -> Iterator[str]:
    """What is written in place is an update, of one SubStage, whose new value nobody reads by name."""
    seen: set[Variable] = set()
    for new, leaf in (pair for s in sub_stages for pair in s.replaces.items()):
        if (leaf, new) not in context.updates:
            yield f"{new} replaces {leaf}, which is no update"
        if new in context.named:
            yield f"{new} is read by name and has no image of its own"
        if leaf in seen:
            yield f"{leaf} is overwritten twice"
        seen.add(leaf)


def ranges_are_written_by_dispatches(sub_stages: Sequence[SubStage], context: Context) -> Iterator[str]:
    """What lies in a range of a storage buffer a dispatch makes, and all that read it have it there."""
    held = {v: x for s in sub_stages for v, x in s.ranges.items()}
    for s in sub_stages:
        for v in s.outputs:
            if v in held and (s.draws or v in s.colors or v in s.replaces or s.ranges.get(v) is not held[v]):
                yield f"{v} lies in a range of a storage buffer and is written elsewhere"
        for v in s.ranges:
            if v.creator is None or v in context.fixed or v in context.given:
                yield f"{v} outlives its schedule and lies in a range of a storage buffer"
        for read in s.reads:
            v = read.variable
            if v in held and (s.ranges.get(v) is not held[v] or read.binding is not Binding.TEXTURE):
                yield f"{v} lies in a range of a storage buffer and is read from an image"
    for x in set(held.values()):
        if len({context.uses.maker.get(v) for v in x.members}) > 1:
            yield f"{x.members[0]} shares a range with values that others make"
        if 4 * x.words * context.limits.tiling(x.members[0]).texels > context.limits.max_storage_buffer_bytes:
            yield f"{x.members[0]} lies in a range that is longer than the device allows"


RULES = (values_are_made_once, reads_are_made, leaves_are_overwritten_once, ranges_are_written_by_dispatches)


# ---- of a Plan
def stages_are_render_passes(stage: Stage, limits: DeviceLimits) -> Iterator[str]:
    """Subpasses have one framebuffer; no image is an attachment of one and a texture of another."""
    if len(stage.sub_stages) == 1:
        return
    if not all(s.draws for s in stage.sub_stages):
        yield "a dispatch shares a Stage"
    tilings = [limits.tiling(s.domain) for s in stage.sub_stages]
    if len({(t.width, t.height) for t in tilings}) > 1:
        yield "the subpasses of a render pass have different framebuffers"
    attached = {v for s in stage.sub_stages for v in s.outputs}
    reads = [r for s in stage.sub_stages for r in s.reads]
    attached.update(r.variable for r in reads if r.binding is Binding.ATTACHMENT)
    for read in reads:
        if read.binding is not Binding.ATTACHMENT and read.variable in attached:
            yield f"{read.variable} is an attachment and a texture of one render pass"


def images_hold_what_is_read(plan: Plan) -> list[str]:
    """Runs two steps in mind: images must hold what is read from them, and lists must have been made."""
    holds: dict[int, Variable | Range] = {}
    # Leaves that follow from others may be equal.
    leaves = {leaf: leaf for leaf in plan.program.leaves}
    lists: set[WorkList] = set()
    faults: list[str] = []

    def step(number: int) -> None:
        of, held = plan.images.by_schedule[number], leaves | plan.images.ranges[number]
        for leaf in plan.program.leaves:
            holds.update(dict.fromkeys(of[leaf], leaf))
        for old, leaf in plan.schedules[number].saved:
            if any(holds.get(slot) is not leaf for slot in of[leaf]):
                faults.append(f"{leaf} is kept from an image that no longer holds it")
            holds.update(dict.fromkeys(of[old], old))
        for s in (s for stage in plan.schedules[number].stages for s in stage.sub_stages):
            for v in (r.variable for r in s.reads):
                for slot in of[v]:
                    if holds.get(slot) is not held.get(v, v):
                        faults.append(f"{v} is read from an image that holds {holds.get(slot)}, in\n{s}\n")
            faults.extend(f"the list of {x} is used before it is made" for x in s.work.uses if x not in lists)
            if s.work.makes is not None:
                lists.add(s.work.makes)
            for v in s.outputs:
                holds.update(dict.fromkeys(of[v], held.get(v, v)))
        for leaf, new in plan.schedules[number].copies:
            if any(holds.get(slot) is not new for slot in of[new]):
                faults.append(f"{new} is copied into {leaf} from an image that no longer holds it")

    for number in (0, 1, 1):
        step(number)
    after = list(zip(plan.images.by_schedule, plan.images.ranges, strict=True))
    for v in (*plan.kept, *plan.program.outputs.values()):
        for of, held in after:
            if any(holds.get(slot) is not (leaves | held).get(v, v) for slot in of.get(v, ())):
                faults.append(f"{v} is gone after a step")
    return faults
