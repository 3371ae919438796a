"""A Program as a frozen, printable Plan: what runs once after a change of inputs, and what runs in every step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from ...ad.collecting import paused
from ...ad.graph import Function, ScatterFunction, Variable
from ...ad.program import Program
from ...ad.transform.merge import halve_scatter
from ...ad.traversal import topological_order
from .analysis.dataflow import Analysis
from .analysis.dependencies import NOTHING, Sources, crossing, read_by, sources_of, worth_moving
from .analysis.inlining import Free
from .analysis.order import unless_stuck
from .analysis.trivial import light_functions
from .analysis.updates import Updates, effective_updates, snapshot_leaves
from .cost import CPU, CostModel
from .glsl.fixed_point import accumulator_bytes
from .glsl.generate import generate
from .glsl.writer import Shaders, ShaderText
from .lifetime import Images, assign_images
from .limits import DeviceLimits
from .pack.functions import DoesNotFit, pack_functions
from .pack.stages import pack_sub_stages
from .passes.active_blocks import run_on_active_blocks
from .passes.choose_lowering import draw_updates
from .passes.compact_live_faces import list_live_faces
from .passes.draw_scatters import draw_silent_scatters
from .passes.fission import part_scatters
from .passes.fuse_epilogues import absorb_readers
from .passes.fuse_horizontally import let_ride
from .passes.pack_channels import share_channels
from .passes.store_operands import kept_operands, store_operands
from .passes.update_in_place import prefer_dispatches, update_in_place
from .substage import Stage, SubStage


@dataclass(frozen=True)
class PlanOptions:
    """Parts of the compiler that can be switched off, to compare and to measure.

    | field          | what it switches on |
    |----------------|---------------------|
    | fuse_functions | Functions that read each other at the same pixel share a shader |
    | dispatch       | what needs more images than a subpass may have becomes a compute shader |
    | fuse_stages    | shaders become subpasses of one render pass |
    | recompute      | cheap values are computed again instead of stored |
    | cache_static   | what no step changes is computed once (reactive cache) |
    | draw_scatters  | scatters of what a raster covers are drawn over its primitives, not dispatched over the image |
    | active_blocks  | work that has nothing to do where a raster hit nothing runs over the other blocks only |
    | draw_lists     | of a raster with a mask only the live faces are drawn, from a list |
    | share_channels | values that are made and read together share the channels of an image |
    | share_images   | values that do not live at the same time share an image |
    | adapt          | leaves that are sent in every step get a plan for that |

    All are True by default. All False is the baseline: one Function a pass. Results are the same.

    >>> with DressiAD(options=PlanOptions(fuse_stages=False)) as ad:
    ...     ad.evaluate(F.square(3.0)).item()
    9.0
    """

    fuse_functions: bool = True
    dispatch: bool = True  # SubStages that need more images than a subpass may have become compute shaders
    fuse_stages: bool = True
    recompute: bool = True
    cache_static: bool = True  # what no step changes is computed once (reactive cache)
    draw_scatters: bool = True
    active_blocks: bool = True
    draw_lists: bool = True  # of a raster with a mask only the live faces are drawn, from a list
    share_channels: bool = True
    share_images: bool = True
    adapt: bool = True  # leaves that are sent in every step get a plan for that


DEFAULT = PlanOptions()
BASELINE = PlanOptions(*[False] * 11)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Stages that run together, and the copies (leaf, new value) at their end.

    ``sources``: of each Stage the leaves whose change makes it run again; None: it runs every time.
    """

    stages: tuple[Stage, ...]
    copies: tuple[tuple[Variable, Variable], ...]
    sources: tuple[Sources | None, ...]

    @property
    def sub_stages(self) -> list[SubStage]:
        return [s for stage in self.stages for s in stage.sub_stages]

    @property
    def with_sources(self) -> list[tuple[Stage, Sources | None]]:
        return list(zip(self.stages, self.sources, strict=True))


@dataclass(frozen=True, eq=False)
class Plan:
    """``static`` runs when a leaf was sent, ``step`` in every step; ``images`` serve both.

    Of ``static``, and of those Stages of ``step`` that follow from ``changing`` leaves alone, only what follows from
    the leaves sent runs; ``kept`` are the values that must stay for that. ``movable``: leaves that, sent in every
    step, are better ``changing``.
    """

    program: Program
    limits: DeviceLimits
    static: Schedule
    step: Schedule
    images: Images
    replaces: dict[Variable, Variable]
    shaders: dict[SubStage, Shaders]
    kept: tuple[Variable, ...]
    changing: Sources
    movable: Sources

    @property
    def sub_stages(self) -> list[SubStage]:
        """Those of the steps and what they start from."""
        return self.static.sub_stages + self.step.sub_stages

    @property
    def schedules(self) -> tuple[Schedule, Schedule]:
        return self.static, self.step

    @property
    def stages(self) -> list[Stage]:
        return [*self.static.stages, *self.step.stages]

    @cached_property
    def counts(self) -> dict[str, int]:
        """``functions`` packed, ``substages``, ``stages``, ``shaders`` that differ; ``image_bytes`` of all images,
        depths too, and ``buffer_bytes`` of the accumulators of scatters."""
        texts = {source for s in self.shaders.values() for source in s.sources.values()}
        return {
            "functions": len({f for s in self.sub_stages for f in s.functions}),
            "substages": len(self.sub_stages),
            "stages": len(self.stages),
            "shaders": len(texts),
            "image_bytes": self.images.bytes,
            "buffer_bytes": accumulator_bytes((f for s in self.shaders for f in s.functions), self.limits),
        }

    @cached_property
    def key(self) -> str:
        """Hash of all shaders: equal plans have equal keys."""
        texts = [source for s in self.sub_stages for source in self.shaders[s].sources.values()]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def __str__(self) -> str:
        c = self.counts
        lines = [
            f"{c['functions']} functions in {c['substages']} substages in {c['stages']} stages, "
            f"{c['image_bytes'] / 2**20:.2f} MiB of images, {c['buffer_bytes'] / 2**20:.2f} MiB of accumulators"
        ]
        if self.changing:
            lines.append(f"changing: {', '.join(sorted(map(str, self.changing)))}")
        for title, schedule in zip(("once", "step"), self.schedules, strict=True):
            if schedule.stages:
                lines.append(f"{title}:")
            for k, stage in enumerate(schedule.stages):
                lines.append(f"  stage {k}: {'render pass' if stage.draws else 'dispatch'}")
                lines += [f"    {s}" for s in stage.sub_stages]
            lines += [f"  copy {new} -> {leaf}" for leaf, new in schedule.copies]
        return "\n".join(lines)


def build_plan(
    program: Program,
    limits: DeviceLimits,
    shader_text: ShaderText,
    options: PlanOptions = DEFAULT,
    cost: CostModel | None = None,
    changing: Sources = NOTHING,
) -> Plan:
    """Packs a Program under the limits. Raises PlanError when something cannot fit.

    changing: leaves that no step updates, but that are expected to be sent between steps; what follows from them is
    packed together with what the steps update.

    A scatter that reads more images than the device allows is done in parts, and a leaf that becomes the new value of
    another while the step overwrites it is copied by a Function: ``program`` of the plan is the Program with these.
    """
    program.check()
    program = snapshot_leaves(program)
    while True:
        try:
            with paused():
                return _build_plan(program, limits, shader_text, options, cost, changing)
        except DoesNotFit as error:
            if not isinstance(error.function, ScatterFunction) or len(error.function.pairs) < 2:
                raise
            program = halve_scatter(program, error.function)


def _build_plan(
    program: Program,
    limits: DeviceLimits,
    shader_text: ShaderText,
    options: PlanOptions,
    cost: CostModel | None,
    changing: Sources,
) -> Plan:
    cost = cost or CPU
    model = cost if options.recompute else None
    sources = sources_of(program.functions)
    updates = effective_updates(program)
    updated = frozenset(leaf for leaf, _ in updates)
    if options.cache_static:
        moving = updated | changing
        dynamic = {f for f in program.functions if not moving.isdisjoint(sources[f.output])}
    else:
        dynamic = set(program.functions)
    named = dict.fromkeys(program.outputs.values())
    light: set[Function] = set()
    if model is not None:
        roots = frozenset((*program.roots, *named))
        light = light_functions(program.functions, dynamic, roots, model)
    dynamic |= light
    boundary = _boundary(program, dynamic)
    if model is not None:
        again = kept_operands(program.functions, dynamic, boundary, roots, model)
        light |= again
        dynamic |= again
        boundary = _boundary(program, dynamic)
    # Free values are recomputed in the step instead of being kept, unless an image of them is needed.
    free = {f.output for f in Free(topological_order(boundary), options.recompute).functions}
    kept = tuple(v for v in boundary if v not in free or v in named)

    def schedule(
        roots: Iterable[Variable],
        given: Iterable[Variable] = (),
        updates: Updates = (),
        *,
        apart: bool = False,
    ) -> Schedule:
        known = set(given)
        missing = [v for v in roots if v.creator is not None and v not in known]
        analysis, sub_stages = _packed(
            missing, known, {new for _, new in updates}, limits, options, model, light
        )
        if model is not None:
            fixed = {*roots, *named, *(v for pair in updates for v in pair)}
            sub_stages = store_operands(sub_stages, analysis, fixed, limits, model)
        copies = list(updates)
        if options.fuse_functions:
            # What can be read by name has an image of its own.
            hidden = [(leaf, new) for leaf, new in updates if new not in named]
            sub_stages, left = update_in_place(sub_stages, hidden, limits)
            copies = [pair for pair in updates if pair[1] in named] + left
            if not apart:
                sub_stages, copies = let_ride(sub_stages, copies, limits)
        if options.draw_lists:
            listed = list_live_faces(sub_stages, limits, fuse=options.fuse_functions)
            sub_stages = unless_stuck(sub_stages, listed)
        if options.draw_scatters:
            drawn = draw_silent_scatters(part_scatters(sub_stages, analysis, limits), limits)
            sub_stages = unless_stuck(sub_stages, drawn)
        if options.active_blocks and updates:
            active = run_on_active_blocks(sub_stages, program.functions, known, roots, analysis, limits, cost)
            sub_stages = unless_stuck(sub_stages, active)
        if options.fuse_functions and not apart:
            sub_stages = absorb_readers(sub_stages, (*roots, *named), limits)
        if options.dispatch:
            sub_stages = prefer_dispatches(sub_stages, limits, everywhere=cost.prefers_dispatches)
        if cost.prefers_attachments and not cost.prefers_dispatches:
            sub_stages = draw_updates(sub_stages, limits)
        if options.share_channels and updates:
            own = {*known, *roots, *(v for pair in updates for v in pair)}
            sub_stages, shared = share_channels(sub_stages, own)
            for new, members in shared.items():
                sources[new] = NOTHING.union(*(sources[v] for v in members))
        together = (lambda s: read_by([s], sources)) if apart else None
        stages = pack_sub_stages(sub_stages, limits, fuse=options.fuse_stages, together=together)
        causes = (read_by(stage.sub_stages, sources) for stage in stages)
        always = [not options.cache_static or any(s.replaces for s in stage.sub_stages) for stage in stages]
        return Schedule(
            tuple(stages),
            tuple(copies),
            tuple(None if a or not updated.isdisjoint(c) else c for a, c in zip(always, causes, strict=True)),
        )

    static = schedule(kept, apart=True)
    step = schedule(program.roots, kept, updates)
    replaces = {new: leaf for s in step.sub_stages for new, leaf in s.replaces.items()}
    kept = tuple(dict.fromkeys((*kept, *crossing((*static.with_sources, *step.with_sources)))))
    persistent = [*program.leaves, *kept, *named, *(new for _, new in step.copies), *replaces]
    images = assign_images(
        (static.stages, step.stages),
        persistent,
        replaces,
        limits,
        share=options.share_images,
    )
    schedules = (static, step)
    shaders = {s: generate(s, limits, shader_text) for part in schedules for s in part.sub_stages}
    movable = worth_moving(static.sub_stages, step.sub_stages, sources)
    return Plan(program, limits, *schedules, images, replaces, shaders, kept, changing, movable)


def _boundary(program: Program, dynamic: set[Function]) -> tuple[Variable, ...]:
    """Static values that something dynamic reads, or that are roots."""
    found: dict[Variable, None] = {}
    for f in program.functions:
        if f in dynamic:
            found.update((x, None) for x in f.inputs if x.creator is not None and x.creator not in dynamic)
    found.update((v, None) for v in program.roots if v.creator is not None and v.creator not in dynamic)
    return tuple(found)


def _packed(
    roots: Sequence[Variable],
    given: Iterable[Variable],
    updates: AbstractSet[Variable],
    limits: DeviceLimits,
    options: PlanOptions,
    cost: CostModel | None,
    light: AbstractSet[Function],
) -> tuple[Analysis, list[SubStage]]:
    """SubStages of the roots. What makes a Function exceed the limits, recomputed there, is stored instead."""
    stored: set[Function] = set()
    while True:
        analysis = Analysis(roots, given, recompute=options.recompute, cost=cost, light=light, stored=stored)
        try:
            fuse, dispatch = options.fuse_functions, options.dispatch
            packed = pack_functions(analysis, limits, fuse=fuse, dispatch=dispatch, updates=updates)
            return analysis, packed
        except DoesNotFit as error:
            makers = analysis.recomputed.intersection(x.creator for x in error.function.inputs)
            if not makers:
                raise
            stored |= makers
