"""A Program as a frozen, printable Plan: what runs once, what runs in every step; its picture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ....ad.graph import Function, Variable
from ....ad.graph.program import Program
from ....ad.show import COLOURS
from ....errors import PlanError
from ....figures import Figures
from ..analysis.context import Uses
from ..analysis.dependencies import Leaves, OldValue
from ..core.accumulators import accumulator_bytes
from ..core.limits import DeviceLimits
from ..core.substage import Binding, Fragment, PrimitiveWork, Scatter, Stage, SubStage
from ..glsl.writer import Shaders
from ..lowering.chains import rows_of
from ..lowering.register_tiles import TiledContraction, tiled_in
from ..model.schedules import Rows, Schedules, loop_nests
from .images import Images
from .sync import REPORT, STATUS, Command, Level, Part, commands_of, copies_of, synchronize


class TooLarge(PlanError):
    """A plan needs more memory than its options allow."""

    def __init__(self, bytes: int, memory: int, after: str = ""):
        super().__init__(
            f"a step takes {bytes / 2**20:.1f} MiB of images and buffers, and memory={memory} allows"
            f" {memory / 2**20:.1f}{after}; give more, or take fewer or smaller images"
        )
        self.bytes = bytes


@dataclass(frozen=True, eq=False)
class Schedule:
    """Stages that run together, in their order.

    saved: pairs (old value, leaf): leaves are copied before the Stages run.  copies: pairs (leaf, new value):
    new values are copied into leaves after them.  dependencies: of each Stage the leaves whose change makes
    it run again; None: it runs every time.
    """

    stages: tuple[Stage, ...]
    saved: tuple[tuple[OldValue, Variable], ...]
    copies: tuple[tuple[Variable, Variable], ...]
    dependencies: tuple[Leaves | None, ...]

    @property
    def sub_stages(self) -> list[SubStage]:
        return [s for stage in self.stages for s in stage.sub_stages]

    @property
    def with_dependencies(self) -> list[tuple[Stage, Leaves | None]]:
        return list(zip(self.stages, self.dependencies, strict=True))


@dataclass(frozen=True, eq=False)
class Plan(Figures):
    """``static`` runs when a leaf was sent, ``step`` in every step.

    Of ``static``, and of those Stages of ``step`` that depend on ``changing`` leaves alone, only what depends
    on the leaves that were sent runs.  kept: the values that must stay for that.  movable: leaves that are
    better treated as ``changing`` if they are sent before every step.

    program: what was packed, after its lowering.  limits: that it was packed for.  images: of the values of
    both Schedules.  replaces: by new values that are written in place, the leaves whose images they
    overwrite.  shaders: of each SubStage.
    """

    program: Program
    limits: DeviceLimits
    static: Schedule
    step: Schedule
    images: Images
    replaces: dict[Variable, Variable]
    shaders: dict[SubStage, Shaders]
    kept: tuple[Variable, ...]
    changing: Leaves
    movable: Leaves

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

    @property
    def schedule(self) -> Schedules:
        """How its contractions are computed: the rows (``dressi.schedules``) of each, none of those that one
        invocation a texel computes. Edited or not, it can be given to another plan by
        ``PlanOptions.schedules``."""
        rows: dict[Function, Rows] = {f: rows_of(s, f) for s in self.sub_stages for f in tiled_in(s)}
        every = ((f, f.whole if isinstance(f, TiledContraction) else f) for f in self.program.functions)
        return Schedules.of({nest: rows.get(f, ()) for f, nest in loop_nests(every).items()})

    @cached_property
    def commands(self) -> tuple[tuple[Command, ...], ...]:
        """What each Stage is recorded as, those of ``static`` first."""
        by_schedule, depths, shaders = self.images.by_schedule, self.images.depths, self.shaders
        images = [of for s, of in zip(self.schedules, by_schedule, strict=True) for _ in s.stages]
        stages = enumerate(zip(self.stages, images, strict=True))
        return tuple(tuple(commands_of(stage, k, of, depths, shaders)) for k, (stage, of) in stages)

    def synchronized(self, stages: Iterable[int], *, in_order: bool = False) -> list[Level[Command]]:
        """The commands of these Stages, numbered through ``static`` and ``step``, and of the copies of a
        step, with the barriers between them. in_order: all of a Stage before the next one."""
        stages = sorted(stages)
        read = {r.variable for k in stages for s in self.stages[k].sub_stages for r in s.reads}
        saved = [pair for pair in self.step.saved if pair[0] in read]
        images = self.images.by_schedule[1]
        commands = copies_of(saved, images, Part.SAVE)
        commands += [command for k in stages for command in self.commands[k]]
        commands += copies_of(self.step.copies, images, Part.COPY)
        if any(use.resource == STATUS for command in commands for use in command.uses):
            commands.append(REPORT)
        return synchronize(commands, in_order=in_order)

    @cached_property
    def levels(self) -> list[Level[Command]]:
        """The commands of a step before which nothing was sent, with the barriers between them."""
        first = len(self.static.stages)
        always = [first + k for k, own in enumerate(self.step.dependencies) if own is None]
        return self.synchronized(always)

    @cached_property
    def barriers(self) -> dict[int, int]:
        """How many barriers of a step come right before commands of each Stage that always runs, numbered
        through ``static`` and ``step``; those before the copies at the end have the number -1. The full
        barrier that a step begins with is one of them."""
        counts: dict[int, int] = {}
        for level in self.levels:
            stage = next((c.stage for c in level.commands if c.stage >= 0), -1)
            counts[stage] = counts.get(stage, 0) + 1
        return counts

    @cached_property
    def counts(self) -> dict[str, int]:
        """``functions`` packed, ``substages``, ``stages``, ``shaders`` that differ; ``image_bytes`` of all
        images, depths too, and ``buffer_bytes`` of the accumulators of scatters."""
        texts = {source for s in self.shaders.values() for source in s.sources.values()}
        return {
            "functions": len({f for s in self.sub_stages for f in s.functions}),
            "substages": len(self.sub_stages),
            "stages": len(self.stages),
            "shaders": len(texts),
            "image_bytes": self.images.bytes,
            "buffer_bytes": accumulator_bytes(self.shaders, self.limits.max_storage_buffer_bytes),
        }

    def check_memory(self, memory: int) -> None:
        """Raises TooLarge if it takes more bytes; 0 allows any number."""
        taken = self.counts["image_bytes"] + self.counts["buffer_bytes"]
        if 0 < memory < taken:
            raise TooLarge(taken, memory)

    @cached_property
    def key(self) -> str:
        """Hash of all shaders: equal plans have equal keys."""
        texts = [source for s in self.sub_stages for source in self.shaders[s].sources.values()]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    def __str__(self) -> str:
        c = self.counts
        lines = [
            f"{c['functions']} functions in {c['substages']} substages in {c['stages']} stages, "
            f"{c['image_bytes'] / 2**20:.2f} MiB of images, "
            f"{c['buffer_bytes'] / 2**20:.2f} MiB of accumulators"
        ]
        if self.changing:
            lines.append(f"changing: {', '.join(sorted(map(str, self.changing)))}")
        for title, schedule in zip(("once", "step"), self.schedules, strict=True):
            if schedule.stages:
                lines.append(f"{title}:")
            lines += [f"  copy {leaf} -> {old}" for old, leaf in schedule.saved]
            for k, stage in enumerate(schedule.stages):
                lines.append(f"  stage {k}: {'render pass' if stage.draws else 'dispatch'}")
                for s in stage.sub_stages:
                    lines.append(f"    {s}")
                    lines += [f"      tiles  {', '.join(map(str, rows_of(s, f)))}" for f in tiled_in(s)]
            lines += [f"  copy {new} -> {leaf}" for leaf, new in schedule.copies]
        lines.append("order of a step, with its barriers:")
        first = len(self.static.stages)
        for level in self.levels:
            lines.append(f"  {level.barrier or 'full barrier'}")
            lines.append(f"    {', '.join(command.name(first) for command in level.commands)}")
        return "\n".join(lines)


# A Plan as a picture: SubStages as boxes, Stages as frames around them.


def _colour(s: SubStage) -> str:
    kinds = {Fragment: "pixel", Scatter: "scatter", PrimitiveWork: "raster"}
    return next((colour for kind, colour in kinds.items() if isinstance(s.work, kind)), "reduce")


def _label(s: SubStage) -> str:
    names: dict[str, int] = {}
    for f in s.functions:
        names[type(f).__name__] = names.get(type(f).__name__, 0) + 1
    parts = [name if n == 1 else f"{n} {name}" for name, n in names.items()]
    lines = [", ".join(parts[k : k + 5]) for k in range(0, len(parts), 5)]
    writes = ", ".join(str(v.vtype) for v in s.outputs)
    return "\n".join([f"{s.work.name} {s.domain}", *lines, f"writes {writes}"])


def _edges(plan: Plan, name: dict[SubStage, str]) -> list[tuple[str, str, bool]]:
    """(producer, reader, whether through a texture); what is read from outside comes from no box."""
    uses = Uses(plan.sub_stages)
    return [
        (name[uses.sub_stages[uses.maker[r.variable]]], name[s], r.binding is not Binding.ATTACHMENT)
        for s in uses.sub_stages
        for r in s.reads
        if r.variable in uses.maker
    ]


def plan_dot(plan: Plan) -> str:
    """The plan in Graphviz' language; dashed edges go through textures, others through attachments."""
    name = {s: f"s{k}" for k, s in enumerate(plan.sub_stages)}
    lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="monospace", fontsize=10]']
    for k, stage in enumerate(plan.stages):
        once = "once, " if stage in plan.static.stages else ""
        kind = "render pass" if stage.draws else "dispatch"
        lines.append(f'  subgraph cluster{k} {{ label="stage {k}: {once}{kind}"; fontname="monospace"')
        for s in stage.sub_stages:
            text = _label(s).replace("\n", "\\n")
            lines.append(f'    "{name[s]}" [label="{text}", fillcolor="{COLOURS[_colour(s)]}"]')
        lines.append("  }")
    dashed = " [style=dashed]"
    lines += [f'  "{a}" -> "{b}"{dashed if texture else ""}' for a, b, texture in _edges(plan, name)]
    return "\n".join([*lines, "}"]) + "\n"
