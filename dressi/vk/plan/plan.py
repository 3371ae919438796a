"""A Program as a frozen, printable Plan: what runs once after a change of inputs, and what runs in every step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ad.graph import Function, Variable
from ...ad.program import Program
from .analysis import Analysis
from .cost import CostModel
from .generate import generate
from .lifetime import Images, assign_images
from .limits import DeviceLimits
from .pack import DoesNotFit, pack_functions
from .replace import update_in_place
from .riders import let_ride
from .silent import draw_silent_scatters
from .stages import pack_sub_stages
from .substage import Stage, SubStage
from .writer import Shaders, ShaderText


@dataclass(frozen=True)
class PlanOptions:
    """Parts that can be switched off, to compare and to measure. All off is the baseline: one Function a pass."""

    fuse_functions: bool = True
    dispatch: bool = True  # SubStages that need more images than a subpass may have become compute shaders
    fuse_stages: bool = True
    recompute: bool = True
    cache_static: bool = True
    draw_scatters: bool = True
    share_images: bool = True


DEFAULT = PlanOptions()
BASELINE = PlanOptions(False, False, False, False, False, False, False)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Stages that run together, and the copies (leaf, new value) at their end."""

    stages: tuple[Stage, ...]
    copies: tuple[tuple[Variable, Variable], ...] = ()

    @property
    def sub_stages(self) -> list[SubStage]:
        return [s for stage in self.stages for s in stage.sub_stages]


@dataclass(frozen=True, eq=False)
class Plan:
    """``static`` runs when a leaf was sent, ``step`` in every step, ``asked`` when one of its values is read;
    ``images`` serve all."""

    program: Program
    limits: DeviceLimits
    static: Schedule
    step: Schedule
    asked: Schedule
    images: Images
    replaces: dict[Variable, Variable]
    shaders: dict[SubStage, Shaders]

    @property
    def sub_stages(self) -> list[SubStage]:
        """Those of the steps and what they start from; reading values that are only asked for adds more."""
        return self.static.sub_stages + self.step.sub_stages

    @property
    def schedules(self) -> tuple[Schedule, Schedule, Schedule]:
        return self.static, self.step, self.asked

    @property
    def stages(self) -> list[Stage]:
        return [*self.static.stages, *self.step.stages]

    @cached_property
    def counts(self) -> dict[str, int]:
        """``functions`` packed, ``substages``, ``stages``, ``shaders`` that differ, ``image_bytes``."""
        texts = {source for s in self.shaders.values() for source in s.sources.values()}
        return {
            "functions": len({f for s in self.sub_stages for f in s.functions}),
            "substages": len(self.sub_stages),
            "stages": len(self.stages),
            "shaders": len(texts),
            "image_bytes": self.images.bytes,
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
            f"{c['image_bytes'] / 2**20:.2f} MiB of images"
        ]
        for title, schedule in zip(("once", "step", "when asked"), self.schedules, strict=True):
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
) -> Plan:
    """Packs a Program under the limits. Raises PlanError when something cannot fit."""
    program.check()
    model = (cost or CostModel()) if options.recompute else None
    dynamic = _dynamic_functions(program) if options.cache_static else set(program.functions)
    boundary = _boundary(program, dynamic)
    analysis = Analysis(boundary, recompute=options.recompute)
    # Free values are recomputed in the step instead of being kept, unless an image of them is needed.
    free = {f.output for f in analysis.free}
    named = {*program.outputs.values(), *program.asked.values()}
    kept = tuple(v for v in boundary if v not in free or v in named)
    static = _schedule(kept, (), (), limits, options, model)
    roots = [v for v in program.run_roots if v not in kept]
    step = _schedule(roots, kept, program.updates, limits, options, model)
    asked = _schedule([v for v in program.asked.values() if v not in kept], kept, (), limits, options, model)
    replaces = {new: leaf for s in step.sub_stages for new, leaf in s.replaces.items()}
    persistent = [
        *program.leaves,
        *kept,
        *program.outputs.values(),
        *program.asked.values(),
        *(new for _, new in step.copies),
        *replaces,
    ]
    images = assign_images(
        (static.stages, step.stages, asked.stages), persistent, replaces, limits, share=options.share_images
    )
    schedules = (static, step, asked)
    shaders = {s: generate(s, limits, shader_text) for part in schedules for s in part.sub_stages}
    return Plan(program, limits, *schedules, images, replaces, shaders)


def _dynamic_functions(program: Program) -> set[Function]:
    """Functions whose value can differ from step to step: they depend on a leaf that the step updates."""
    updated = {leaf for leaf, _ in program.updates}
    dynamic: set[Function] = set()
    for f in program.functions:
        if any(x in updated or x.creator in dynamic for x in f.inputs):
            dynamic.add(f)
    return dynamic


def _boundary(program: Program, dynamic: set[Function]) -> tuple[Variable, ...]:
    """Static values that something dynamic reads, or that are roots."""
    found: dict[Variable, None] = {}
    for f in program.functions:
        if f in dynamic:
            found.update((x, None) for x in f.inputs if x.creator is not None and x.creator not in dynamic)
    found.update((v, None) for v in program.roots if v.creator is not None and v.creator not in dynamic)
    return tuple(found)


def _schedule(
    roots: Sequence[Variable],
    given: Sequence[Variable],
    updates: Sequence[tuple[Variable, Variable]],
    limits: DeviceLimits,
    options: PlanOptions,
    cost: CostModel | None,
) -> Schedule:
    sub_stages = _packed([r for r in roots if r.creator is not None], given, limits, options, cost)
    copies = list(updates)
    if options.fuse_functions:
        sub_stages, copies = update_in_place(sub_stages, updates, limits)
        sub_stages, copies = let_ride(sub_stages, copies, limits)
    if options.draw_scatters:
        sub_stages = draw_silent_scatters(sub_stages, limits)
    stages = pack_sub_stages(sub_stages, limits, fuse=options.fuse_stages)
    return Schedule(tuple(stages), tuple(copies))


def _packed(
    roots: Sequence[Variable],
    given: Sequence[Variable],
    limits: DeviceLimits,
    options: PlanOptions,
    cost: CostModel | None,
) -> list[SubStage]:
    """SubStages of the roots. What makes a Function exceed the limits, recomputed there, is stored instead."""
    stored: set[Function] = set()
    while True:
        analysis = Analysis(roots, given, recompute=options.recompute, cost=cost, stored=stored)
        try:
            return pack_functions(analysis, limits, fuse=options.fuse_functions, dispatch=options.dispatch)
        except DoesNotFit as error:
            makers = analysis.recomputed.intersection(x.creator for x in error.function.inputs)
            if not makers:
                raise
            stored |= makers
