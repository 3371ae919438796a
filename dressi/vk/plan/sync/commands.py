"""What a Stage is recorded as: its commands, and the images and buffers that each of them uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ....ad.graph import Variable
from ..glsl.shaders import Shaders, ShaderSource, stage_of
from ..lists import BlockHits, FaceList
from ..substage import Binding, ListBlocks, Scatter, SparseWork, Stage, SubStage
from .barriers import Access, Pipe, Use

STATUS, ACCUMULATORS = "status", "accumulators"
"""Buffers that all scatters share: what shaders report to the host, and their sums."""


class Part(Enum):
    """Which commands of a Stage: transfers that prepare a dispatch; the render pass or dispatch; the
    resolution of what a scatter added. Or the copy of a leaf that is kept while the step overwrites it, that
    of a new value into its leaf, and the report of shaders to the host."""

    SAVE = "save"
    PREPARE = "prepare"
    WORK = "work"
    RESOLVE = "resolve"
    COPY = "copy"
    REPORT = "report"

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Command:
    """Commands that are recorded together. stage: the number of their Stage. band: the first cell of the band
    of a table that a scatter adds into. copy: (target, source)."""

    part: Part
    uses: tuple[Use, ...]
    stage: int = -1
    band: int = 0
    copy: tuple[Variable, Variable] | None = None

    def name(self, first: int = 0) -> str:
        """For the listing of a plan, with Stages counted from the one with the number ``first``."""
        if self.copy is not None:
            return f"copy {self.copy[1]}"
        stage = f"stage {self.stage - first}" if self.stage >= 0 else ""
        band = f" from cell {self.band}" if self.band else ""
        return f"{stage} {'' if self.part is Part.WORK else self.part.value}{band}".strip()


Numbers = Mapping[Variable, tuple[int, ...]]
"""The images of a Variable, one a plane, by their numbers in the plan."""

REPORT = Command(Part.REPORT, (Use(STATUS, Pipe.HOST, Access.HOST_READ),))
_TESTS = Pipe.EARLY_TESTS | Pipe.LATE_TESTS
_PIPES = {"vertex": Pipe.VERTEX, "fragment": Pipe.FRAGMENT, "compute": Pipe.COMPUTE}
_READ_WRITE = Access.SHADER_READ | Access.SHADER_WRITE


def commands_of(
    stage: Stage,
    number: int,
    images: Numbers,
    depths: Mapping[SubStage, int],
    shaders: Mapping[SubStage, Shaders],
) -> list[Command]:
    """The commands of a Stage in their order."""
    if stage.draws:
        uses = [use for s in stage.sub_stages for use in _work(s, shaders[s], images, depths)]
        return [Command(Part.WORK, tuple(dict.fromkeys(uses)), number)]
    (s,) = stage.sub_stages
    found = []
    if prepared := tuple(_prepared(s, images)):
        found.append(Command(Part.PREPARE, prepared, number))
    work = tuple(dict.fromkeys(_work(s, shaders[s], images, depths)))
    resolve = tuple(dict.fromkeys(_resolved(s, shaders[s], images))) if isinstance(s.work, Scatter) else ()
    for band in shaders[s].bands:
        found.append(Command(Part.WORK, work, number, band))
        if resolve:
            found.append(Command(Part.RESOLVE, resolve, number, band))
    return found


def copies_of(copies: Iterable[tuple[Variable, Variable]], images: Numbers, part: Part) -> list[Command]:
    """The commands that copy whole values: (target, source) of each."""
    return [
        Command(
            part,
            (
                *(Use(k, Pipe.TRANSFER, Access.TRANSFER_READ) for k in images[source]),
                *(Use(k, Pipe.TRANSFER, Access.TRANSFER_WRITE) for k in images[target]),
            ),
            copy=(target, source),
        )
        for target, source in copies
    ]


# ---- of a SubStage
def _prepared(s: SubStage, images: Numbers) -> Iterable[Use]:
    """Transfers before a dispatch: an empty list, or the values of images outside of active blocks."""
    work = s.work
    if isinstance(work, ListBlocks):
        yield Use(work.blocks, Pipe.TRANSFER, Access.TRANSFER_WRITE)
    elif isinstance(work, SparseWork) and work.sparse is not None:
        for v in work.sparse.fill:
            yield from (Use(k, Pipe.TRANSFER, Access.TRANSFER_WRITE) for k in images[v])


def _work(s: SubStage, shaders: Shaders, images: Numbers, depths: Mapping[SubStage, int]) -> Iterable[Use]:
    """A subpass or dispatch; of a scatter the part that adds."""
    sources = {part: text for part, text in shaders.sources.items() if not part.startswith("resolve")}
    yield from _reads(sources, s, images)
    (pipe,) = {_PIPES[stage_of(part)] for part in sources} - {Pipe.VERTEX}
    for x in s.work.uses:
        if not isinstance(x, BlockHits):
            yield Use(x, Pipe.INDIRECT, Access.INDIRECT_READ)
        yield Use(x, Pipe.VERTEX if isinstance(x, FaceList) else pipe, Access.SHADER_READ)
    if s.work.makes is not None:
        yield Use(s.work.makes, pipe, _READ_WRITE)
    resolved = _resolved_outputs(s) if isinstance(s.work, Scatter) else ()
    if isinstance(s.work, Scatter):
        yield from (Use(buffer, pipe, _READ_WRITE) for buffer in (ACCUMULATORS, STATUS))
    if s.draws:
        yield from _attachments(s, images)
    yield from _stores((v for v in s.outputs if v not in (*resolved, *s.colors)), pipe, images)
    if s in depths:
        yield Use(depths[s], _TESTS, Access.DEPTH_READ | Access.DEPTH_WRITE)


def _resolved(s: SubStage, shaders: Shaders, images: Numbers) -> Iterable[Use]:
    """The second shader of a scatter: it empties accumulators into the table, or does the epilogue."""
    sources = {part: text for part, text in shaders.sources.items() if part.startswith("resolve")}
    yield from _reads(sources, s, images)
    (pipe,) = {_PIPES[stage_of(part)] for part in sources} - {Pipe.VERTEX}
    yield Use(ACCUMULATORS, pipe, _READ_WRITE)
    if s.final.draws:
        yield from _attachments(s.final, images)
    yield from _stores((v for v in _resolved_outputs(s) if v not in s.colors), pipe, images)


def _resolved_outputs(s: SubStage) -> tuple[Variable, ...]:
    """What the second shader of a scatter writes."""
    assert s.scatter is not None
    return (s.scatter.output,) if s.final is s else s.final.outputs


def _reads(sources: Mapping[str, str], s: SubStage, images: Numbers) -> Iterable[Use]:
    """Textures; input attachments belong to the render pass."""
    attached = {r.variable for r in s.reads if r.binding is Binding.ATTACHMENT}
    for part, text in sources.items():
        read = text.reads if isinstance(text, ShaderSource) else ()
        for v in (v for v in read if v not in attached):
            yield from (Use(k, _PIPES[stage_of(part)], Access.SHADER_READ) for k in images[v])


def _stores(outputs: Iterable[Variable], pipe: Pipe, images: Numbers) -> Iterable[Use]:
    for v in outputs:
        yield from (Use(k, pipe, _READ_WRITE) for k in images[v])


def _attachments(s: SubStage, images: Numbers) -> Iterable[Use]:
    """Of a subpass. A render pass loads and stores its attachments, also those that it only reads."""
    inputs = [r.variable for r in s.reads if r.binding is Binding.ATTACHMENT]
    for v in inputs:
        yield from (Use(k, Pipe.FRAGMENT, Access.INPUT_ATTACHMENT_READ) for k in images[v])
    for v in (*inputs, *s.colors):
        yield from (Use(k, Pipe.COLOR, Access.COLOR_READ | Access.COLOR_WRITE) for k in images[v])
