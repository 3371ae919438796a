"""The compiler: a Program becomes a Plan. Read this first.

A *Function* is one operation on images with a GLSL snippet. A *SubStage* is one shader: a subpass of a render
pass, or a dispatch. A *Stage* is one render pass of several subpasses, or one dispatch. A *Schedule* is a
list of Stages that run together. A *Plan* has two: ``static`` runs once after leaves were sent, ``step`` runs
in every step.

0. ``lowered`` exchanges Functions for others that suit the device, one of ``LOWERINGS`` after the other.
1. ``split_static`` separates what a step changes from what it does not (the reactive cache), and names the
   static values that the step reads.
2. For each Schedule an ``Analysis`` orders its Functions and decides which values are stored and which every
   reader computes again (rematerialization).
3. The ``PASSES`` below turn the Functions into SubStages. They are in ``passes/``, with one
   signature: (sub_stages, context) -> sub_stages. A pass is pure: it returns new SubStages and changes
   nothing that it was given. ``Context`` holds what passes share.
4. ``pack_stages`` groups the SubStages into Stages.
5. ``generate`` writes the GLSL of every SubStage.
6. ``assign_images`` gives every stored value an image with the usages that the shaders need; values that do
   not live at the same time share one.

The driver skips a pass that ``PlanOptions`` leaves out; ``INSTEAD`` has what then runs for those that cannot
be left out. Passes propose: the driver drops what a pass made if no order of execution is left, or if the
``Judge`` predicts that it takes longer (``JUDGED``). With DRESSI_CHECK it verifies the SubStages after every
pass and the finished Plan; with DRESSI_DEBUG=2 it prints what every pass changed.

To add a pass: write the function, add it to PASSES. To add a kind of work:
write its class in ``substage`` (with the storage buffers and lists that it uses), and register its rules for
GLSL (``glsl/generate``) and for commands (``run/execution/record``). To add a limit: see ``DeviceLimits``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TypeVar

from ...ad.graph import DrawFunction, ScatterFunction, Variable
from ...ad.graph.program import Program
from ...ad.loops.loop import without_loops
from ...ad.transform.merge import halve_scatter, pack_externals
from ...ad.transform.rewrite import replaced
from ...ad.transform.simplify import paused
from ...config import config
from ...errors import InputError
from .analysis.context import Context, Target, Uses
from .analysis.dataflow import Analysis
from .analysis.dependencies import (
    NO_LEAVES,
    Dependencies,
    Leaves,
    OldValue,
    Updates,
    crossing,
    effective_updates,
    separate_updates,
    split_static,
)
from .analysis.known_values import KnownValues
from .core.limits import DeviceLimits
from .core.options import DEFAULT, PlanOptions
from .core.substage import SubStage
from .execution.images import assign_images, usages
from .execution.plan import Plan, Schedule
from .glsl.generate import Alike, generate
from .glsl.writer import ShaderText
from .lowering import scatter
from .lowering.fragment_value import FragmentValue, fuse_into_draws, without
from .lowering.samplers import sample_in_hardware
from .lowering.tile_contractions import shorten_loops, tile_contractions, within_walks
from .model.device import DeviceModel
from .model.records import CPU
from .passes.active_blocks import run_on_active_blocks
from .passes.choose_lowering import choose_lowering, split_overflow, subpasses_where_possible
from .passes.draws import compact_live_faces, rasterize_in_compute
from .passes.fusion import fuse_epilogues, fuse_horizontally
from .passes.join import join_dispatches, run_side_by_side
from .passes.pack import DoesNotFit, one_function_each, one_sub_stage_each, pack_functions, pack_stages
from .passes.precision import contract_operations, narrow_intermediates
from .passes.schedule_contractions import fuse_contractions, overlap_tiles, stage_operands, tile_products
from .passes.storage import (
    copy_leaves_first,
    load_images,
    pack_channels,
    store_in_buffers,
    store_operands,
    update_in_place,
)
from .predict.stages import Judge
from .verify import verify, verify_plan

Pass = Callable[[Sequence[SubStage], Context], list[SubStage]]

PASSES: tuple[Pass, ...] = (
    pack_functions,  # Functions to SubStages, greedy, under the limits (paper 3.3.3 and A.8)
    store_operands,  # min-cut rematerialization: store few planes that many values follow from
    update_in_place,  # a new value is written into the image of the leaf it replaces
    split_overflow,  # on tilers: more attachments than a subpass has become several subpasses
    fuse_horizontally,  # work on single texels joins a larger dispatch
    compact_live_faces,  # a raster with a mask draws the live faces only
    run_on_active_blocks,  # sparse tiling: blocks where a raster hit nothing are skipped
    rasterize_in_compute,  # rasters and sums over fragments by dispatches
    fuse_epilogues,  # a scatter does the work of the only reader of its table
    overlap_tiles,  # contractions make what they read of each other, and store nothing between them
    tile_products,  # workgroups make products of two operands together, block after block of their terms
    fuse_contractions,  # other contractions share a dispatch
    stage_operands,  # workgroups stage what contractions read in shared memory
    choose_lowering,  # subpass or dispatch
    pack_channels,  # values that are made and read together share an image
    narrow_intermediates,  # 16-bit floats between passes (off by default)
    store_in_buffers,  # what dispatches hand on lies in storage buffers where these are faster than images
    load_images,  # what shaders fetch they load from storage images where these are faster than textures
    contract_operations,  # fused multiply-adds where no test depends on them (off by default)
    copy_leaves_first,  # leaves are copied when a step begins, and no new value at its end
    join_dispatches,  # small dispatches in a row are phases of one workgroup
    run_side_by_side,  # dispatches that wait for nothing of each other share a start
)

Lowering = Callable[[Program, Target], Mapping[Variable, Variable]]
Made = TypeVar("Made")
LOWERINGS: tuple[Lowering, ...] = (
    scatter.join_scatters,  # scatters of fragments of the same triangles share a draw
    scatter.join_sums,  # and so do sums over such fragments
    scatter.sum_by_faces,  # fragments of small faces are added up by an invocation a face
    scatter.sum_in_fixed_point,  # sums over fragments that the device does not blend
    sample_in_hardware,  # filtered reads of textures use its sampler
    scatter.gather_at_lists,  # scatters by lists of indices become gathers
    scatter.measure_bounds,  # large tables of sums get the largest value as a bound
    tile_contractions,  # large contractions are computed by register tiles
)
"""What replaces Functions by others that suit the device, by the Variables that are replaced."""

INSTEAD: dict[Pass, Pass] = {pack_functions: one_function_each, choose_lowering: subpasses_where_possible}
"""What runs for a pass that is switched off and cannot be left out."""

_KEPT = frozenset(
    (
        *INSTEAD,  # no plan goes without these
        narrow_intermediates,  # the options ask for these two
        contract_operations,
        split_overflow,  # it knows better what stays on the chip of a tiler
        pack_channels,  # these give nothing up: the rates of the device decide, value by value
        store_in_buffers,
        load_images,
    )
)
JUDGED: frozenset[Pass | Lowering] = frozenset((*PASSES, scatter.sum_by_faces)) - _KEPT
"""Passes and lowerings whose result is kept only where it is predicted to be faster; of a lowering the whole
step is scheduled with it and without. All others state why not."""

_LEFT_OUT = (
    *PASSES,
    scatter.sum_by_faces,
    sample_in_hardware,
    scatter.gather_at_lists,
    tile_contractions,
    fuse_into_draws,
)
OPTIONAL = frozenset(each.__name__ for each in _LEFT_OUT)
"""The names that ``PlanOptions.without`` may have."""

TOGETHER = frozenset(
    (compact_live_faces, run_on_active_blocks, rasterize_in_compute, fuse_contractions, stage_operands)
)
"""Consecutive passes that are accepted or rejected together. One of them may pay only with the list of
another, rasters by dispatches gain less by a list, and contractions that share a dispatch are not staged."""


def build_plan(
    program: Program,
    limits: DeviceLimits,
    shader_text: ShaderText,
    options: PlanOptions = DEFAULT,
    cost: DeviceModel | None = None,
    changing: Leaves = NO_LEAVES,
    *,
    gated: bool = False,
    every: bool = False,
) -> Plan:
    """Packs a Program under the limits. Raises PlanError when something cannot fit.

    changing: leaves that no step updates, but that are expected to be sent between steps; what depends on
    them is packed together with what the steps update. gated: leaves are copied when a step begins wherever
    that leaves no copy at its end, which a gate could not skip. every: the ``changing`` leaves have new
    values in every step, so that nothing that depends on them is kept for the next.

    ``program`` of the plan is the Program that was packed: loops longer than the ``longest_walk`` of the
    device model are trees of short ones, a scatter that reads more images than the device allows is a sum of
    several, a draw that does reads some of them as channels of others, and a Function copies a new value that
    is a leaf which the step overwrites, or that of another leaf too.
    """
    program.check()
    if unknown := sorted({*options.without} - OPTIONAL):
        raise InputError(f"no pass is called {unknown[0]!r}; there are {', '.join(sorted(OPTIONAL))}")
    target = Target(limits, cost or CPU, options, changing)
    with paused():
        while True:
            try:
                return _fitted(
                    lowered(program, target),
                    lambda p, target=target: _build(p, target, shader_text, gated, every),
                )
            except DoesNotFit as error:
                if not isinstance(error.function, scatter.FaceSum):
                    raise
                target = target._replace(options=options.switched("sum_by_faces"))


def _fitted(program: Program, make: Callable[[Program], Made]) -> Made:
    """What is made of a program in which Functions that do not fit are replaced. Raises DoesNotFit."""
    while True:
        try:
            return make(program)
        except DoesNotFit as error:
            f = error.function
            if isinstance(f, FragmentValue):
                program = without(program, f.inputs[0])
            elif isinstance(f, ScatterFunction) and len(f.pairs) > 1:
                program = halve_scatter(program, f)
            elif isinstance(f, DrawFunction) and (packed := pack_externals(program, f)) is not program:
                program = packed
            else:
                raise


def lowered(program: Program, target: Target) -> Program:
    """The Program in Functions that suit the device, one lowering after the other."""
    program = without_loops(program)  # bodies are written as often as they are applied
    program = separate_updates(program)  # every update gets a computed value of its own
    return _lowered(program, LOWERINGS, target)


def _lowered(program: Program, lowerings: Sequence[Lowering], target: Target) -> Program:
    for k, lowering in enumerate(lowerings):
        made = replaced(program, lowering(program, target))
        if made is not program and target.options.keep_what_pays and lowering in JUDGED:
            ways = [_lowered(way, lowerings[k + 1 :], target) for way in (made, program)]
            return _faster(ways, f"step, {lowering.__name__}", target)
        program = made
    program = shorten_loops(program, target)  # long loops become trees of short ones
    return fuse_into_draws(program, target)  # fragments of rasters make what follows from these


def _faster(ways: Sequence[Program], title: str, target: Target) -> Program:
    """The program with the fastest predicted step of those that fit; the last one where none does."""

    def sub_stages(program: Program) -> list[SubStage]:
        once, step = contexts(program, target)
        return schedule(step, NO_LEAVES, title).sub_stages or schedule(once, NO_LEAVES, title).sub_stages

    fitting = []
    for program in ways:
        with suppress(DoesNotFit):
            fitting.append((program, _fitted(program, sub_stages)))
    if not fitting:
        return ways[-1]
    return fitting[Judge(target.limits, target.model).fastest([(made, 0.0) for _, made in fitting])][0]


def contexts(program: Program, target: Target, gated: bool = False) -> tuple[Context, Context]:
    """What the first pass gets for each of the two Schedules of a Program: what runs once, and the step."""
    options, cost = target.options, target.model
    limits = within_walks(target.limits, program, cost.longest_walk)
    dependencies, known = Dependencies(program.functions), KnownValues(program.functions)
    updates = effective_updates(program)
    moving = target.changing.union(leaf for leaf, _ in updates)
    kept, repeated = split_static(program, moving, dependencies, options, cost)

    def context(roots: Iterable[Variable], given: Iterable[Variable], updates: Updates) -> Context:
        """The Schedule that computes ``roots`` from leaves and ``given``, then makes the updates."""
        roots, given = tuple(roots), frozenset(given)
        analysis = Analysis(
            [v for v in roots if v.creator is not None and v not in given],
            given,
            rematerialize=options.rematerialize,
            cost=cost if options.rematerialize else None,
            trivial=repeated,
        )
        return Context(
            limits=limits,
            cost=cost,
            options=options,
            functions=program.functions,
            roots=roots,
            given=given,
            updates=updates,
            named=frozenset(program.outputs.values()),
            incremental=False,
            gated=gated,
            dependencies=dependencies,
            known=known,
            analysis=analysis,
            uses=Uses(()),
        )

    once = replace(context(kept, (), ()), incremental=True)
    return once, context(program.roots, kept, updates)


def _build(program: Program, target: Target, shader_text: ShaderText, gated: bool, every: bool) -> Plan:
    limits, _, options, changing = target
    once, each = contexts(program, target, gated)
    moving = frozenset(leaf for leaf, _ in each.updates) | (changing if every else NO_LEAVES)
    static, step = schedule(once, moving, "once"), schedule(each, moving, "step")
    replaces = {new: leaf for s in step.sub_stages for new, leaf in s.replaces.items()}
    kept = (*once.roots, *crossing(static.with_dependencies), *crossing(step.with_dependencies))
    kept = tuple(dict.fromkeys(kept))
    copied = [*(old for old, _ in step.saved), *(new for _, new in step.copies)]
    persistent = [*program.leaves, *kept, *program.outputs.values(), *copied, *replaces]
    alike, shader_text = Alike(), cache(shader_text)
    shaders = {
        s: alike.of(s, lambda s=s: generate(s, limits, shader_text))
        for s in chain(static.sub_stages, step.sub_stages)
    }
    usage = usages(shaders, (*step.saved, *step.copies), (*program.leaves, *program.outputs.values()))
    saving = options.memory > 0 or any(f.saves_memory for f in program.functions)
    images = assign_images(
        (static.stages, step.stages),
        persistent,
        replaces,
        usage,
        limits,
        share=options.pack_functions,
        saving=saving,
    )
    movable = each.dependencies.worth_changing(static.sub_stages, step.sub_stages)
    plan = Plan(program, limits, static, step, images, replaces, shaders, kept, changing, movable)
    plan.check_memory(options.memory)
    if config.check:
        verify_plan(plan)
    return plan


def schedule(context: Context, moving: Leaves, title: str) -> Schedule:
    """The Stages that compute the roots of a context, and the copies at their end. moving: the leaves that
    are new in every step: what depends on them runs every time."""
    options, updates = context.options, context.updates
    judge = Judge(context.limits, context.cost, chooses=options.runs("choose_lowering"))
    ways: list[tuple[list[SubStage], Context]] = [([], context)]
    before: Pass | None = None
    for each in PASSES:
        chosen = each if options.runs(each.__name__) else INSTEAD.get(each)
        if chosen is None:
            continue
        judged = options.keep_what_pays and each in JUDGED
        if not (judged and {before, each} <= TOGETHER):
            ways = [_fastest(ways, judge)]
        ways = [made for way in ways for made in _after(way, chosen, title, choose=judged)]
        before = each
    sub_stages, context = _fastest(ways, judge)
    stages = (pack_stages if options.pack_stages else one_sub_stage_each)(sub_stages, context)
    in_place = {(leaf, new) for s in sub_stages for new, leaf in s.replaces.items()}
    causes = [context.dependencies.read_by(stage.sub_stages) for stage in stages]
    always = [not options.cache_static or any(s.replaces for s in stage.sub_stages) for stage in stages]
    read = dict.fromkeys(r.variable for s in sub_stages for r in s.reads)
    return Schedule(
        tuple(stages),
        tuple((v, v.leaf) for v in read if isinstance(v, OldValue)),
        tuple(pair for pair in updates if pair not in in_place),
        tuple(None if a or not moving.isdisjoint(c) else c for a, c in zip(always, causes, strict=True)),
    )


def _after(
    before: tuple[list[SubStage], Context], run: Pass, title: str, *, choose: bool
) -> list[tuple[list[SubStage], Context]]:
    """What a pass makes of a schedule; with ``choose`` also the schedule without it, if they differ."""
    sub_stages, context = before
    made = run(sub_stages, context)
    following = context.following(made)
    if not following.uses.can_run and context.uses.can_run:
        return [before]  # the pass made SubStages that wait for each other
    if config.debug >= 2:
        _show(title, run.__name__, sub_stages, made)
    if config.check:
        verify(made, following, f"{run.__name__}, {title}")
    after = (made, following)
    return [after, before] if choose and following is not context else [after]


def _fastest(ways: Sequence[tuple[list[SubStage], Context]], judge: Judge) -> tuple[list[SubStage], Context]:
    """The way that takes the least time, with the copies of new values at the end of a step."""

    def copying(sub_stages: Sequence[SubStage], context: Context) -> float:
        overwritten = {leaf for s in sub_stages for leaf in s.replaces.values()}
        return judge.copying(leaf for leaf, _ in context.updates if leaf not in overwritten)

    return ways[judge.fastest([(way[0], copying(*way)) for way in ways])]


def _show(title: str, name: str, before: Sequence[SubStage], after: Sequence[SubStage]) -> None:
    old = set(before)
    new = [s for s in after if s not in old]
    if new or len(before) != len(after):
        print(f"dressi: {title}: {name}: {len(before)} -> {len(after)} substages", file=sys.stderr)
        for s in new if before else ():
            print(f"  {s}", file=sys.stderr)
