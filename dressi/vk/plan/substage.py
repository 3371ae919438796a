"""SubStages, Stages and Plans: what packing produces. Frozen data, printable and comparable as text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, singledispatch

import numpy as np

from ...ad.graph import Domain, Function, PixelFunction, RasterFunction, ScatterFunction, Variable
from .walks import Walks

ONE = Domain((1, 1), 1)
"""A single texel: counters, rates, losses."""
GROUP = 64
"""Invocations of a workgroup of the generated compute shaders, in one dimension."""


class Mode(Enum):
    """What a SubStage is on the device."""

    FRAGMENT = "fragment"  # a subpass that covers its framebuffer
    COMPUTE = "compute"  # the same per-pixel work as a dispatch
    SCATTER = "scatter"  # dispatches: accumulate, then resolve
    RASTER = "raster"  # a subpass that draws triangles
    BLOCKS = "blocks"  # a dispatch that lists active blocks
    LIST = "list"  # a dispatch that lists live faces, with the images it makes over the same texels

    __hash__ = object.__hash__


@singledispatch
def mode_of(function: Function) -> Mode:
    raise TypeError(f"no device mode for the kind of {function!r}; subclass one of the kinds")


@mode_of.register
def _(function: PixelFunction) -> Mode:
    return Mode.FRAGMENT


@mode_of.register
def _(function: ScatterFunction) -> Mode:
    return Mode.SCATTER


@mode_of.register
def _(function: RasterFunction) -> Mode:
    return Mode.RASTER


def iteration_domain(function: Function) -> Domain:
    """The domain over which shader invocations run."""
    return function.source if isinstance(function, ScatterFunction) else function.output.domain


class Binding(Enum):
    """How a shader gets at an image."""

    ATTACHMENT = "input attachment"
    TEXTURE = "texture"
    VERTEX = "texture of the vertex shader"

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Read:
    """``elsewhere``: at other pixels than the shader's own, too."""

    variable: Variable
    binding: Binding
    elsewhere: bool = False


@dataclass(frozen=True, eq=False)
class ActiveBlocks:
    """The blocks of pixels of images over ``domain`` in which an image of ``quiet`` differs from the value there."""

    domain: Domain
    quiet: tuple[tuple[Variable, float], ...]

    def __str__(self) -> str:
        return " or ".join(f"{v} != {value:g}" for v, value in self.quiet)


SEGMENT = 2048
"""Faces that one workgroup lists: 64 invocations, 32 each."""


@dataclass(frozen=True, eq=False)
class DrawList:
    """The faces of a raster whose texel of ``live`` is not 0, for each tile of ``domain``; ``vertices`` of each face.

    A buffer of 32-bit words: VkDrawIndirectCommand of each segment of each tile, then the numbers of the faces, of each
    segment from the place of its first one on.
    """

    domain: Domain
    live: Variable
    faces: int
    vertices: int
    segment = SEGMENT

    @property
    def entries(self) -> int:
        """Places for a tile."""
        return self.domain.size[0] * self.domain.size[1]

    @property
    def segments(self) -> int:
        """Of a tile."""
        return -(-self.entries // self.segment)

    @property
    def header(self) -> int:
        """Words before the numbers."""
        return 4 * self.segments * self.domain.batch

    @property
    def words(self) -> int:
        return self.header + self.entries * self.domain.batch

    @property
    def indices(self) -> int:
        """Vertices there would be with every place taken."""
        return self.entries * self.domain.batch * self.vertices

    def __str__(self) -> str:
        return f"live in {self.live}"


@dataclass(frozen=True, eq=False)
class SubStage:
    """One shader: a subpass or a dispatch.

    ``functions`` are those packed here, producers first; ``body`` adds those recomputed at the same pixel. What is
    recomputed at other texels follows from the inputs that are not among ``reads``.
    ``replaces`` maps an output to the leaf whose image it overwrites.  ``drawn``: the raster whose primitives a
    scatter draws again instead of visiting every pixel.  ``riders``: SubStages over one texel, whose outputs come
    last among these, that the first invocation of a dispatch does as well.  ``parts``: of Variables that share the
    channels of an image with others, what is read instead, and their first channel.  ``then``: the work on each
    texel of the table that a scatter does itself, as a dispatch or a draw, instead of storing the table.  ``active``:
    the blocks that a dispatch visits, after images were filled with the values of ``fill``; or the list that is made.
    ``listed``: the faces that are drawn, or the list of them that is made.
    """

    mode: Mode
    domain: Domain
    functions: tuple[Function, ...]
    body: tuple[Function, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Variable, ...]
    replaces: dict[Variable, Variable] = field(default_factory=dict)
    drawn: RasterFunction | None = None
    riders: tuple[SubStage, ...] = ()
    parts: dict[Variable, tuple[Variable, int]] = field(default_factory=dict)
    then: SubStage | None = None
    active: ActiveBlocks | None = None
    fill: dict[Variable, np.ndarray] = field(default_factory=dict)
    listed: DrawList | None = None

    @property
    def draws(self) -> bool:
        """Whether it is a subpass of a render pass."""
        return self.mode in (Mode.FRAGMENT, Mode.RASTER)

    @property
    def has_depth(self) -> bool:
        """Whether it draws what has to be the nearest."""
        f = self.functions[0] if self.functions else None
        return isinstance(f, RasterFunction) and not f.covering

    @property
    def over_list(self) -> bool:
        """Whether its pixels are in one line, as those of a list: fragments, shaded in blocks of 2x2 and more, would
        half idle."""
        return self.domain.size[1] == 1

    @property
    def list_made(self) -> ActiveBlocks | DrawList | None:
        """What it lists on the device, if that is its work."""
        return {Mode.BLOCKS: self.active, Mode.LIST: self.listed}.get(self.mode)

    @property
    def lists_used(self) -> tuple[ActiveBlocks | DrawList, ...]:
        """What tells where it works, or what it draws."""
        made = self.list_made
        return tuple(x for x in (self.active, self.listed) if x is not None and x is not made)

    @property
    def scatter(self) -> ScatterFunction | None:
        """The scatter among its Functions; there is one at most."""
        return next((f for f in self.functions if isinstance(f, ScatterFunction)), None)

    @property
    def colors(self) -> tuple[Variable, ...]:
        """Outputs that are attachments: of a draw, or of the one that ends a scatter."""
        work = self.then or self
        riding = {v for rider in work.riders for v in rider.outputs}
        return tuple(v for v in work.outputs if v not in riding) if work.draws else ()

    def as_dispatch(self) -> SubStage:
        """The same work per pixel as a dispatch: what was an input attachment is fetched."""
        reads = tuple(replace(r, binding=Binding.TEXTURE) for r in self.reads)
        return replace(self, mode=Mode.COMPUTE, reads=reads)

    @property
    def resources(self) -> dict[str, int]:
        """Descriptors and attachments in use, by the names of DeviceLimits."""
        count = dict.fromkeys(Binding, 0)
        for read in self.reads:
            count[read.binding] += len(read.variable.vtype.planes)
        written, colors = (sum(len(v.vtype.planes) for v in vs) for vs in (self.outputs, self.colors))
        lists = sum(x is not None for x in (self.listed, self.active))
        used = resources(self.mode, count, written, lists, colors)
        return {**used, "loop_iterations": self.iterations}

    @cached_property
    def iterations(self) -> int:
        """Of all loops of an invocation together, those in what it makes again at other texels included."""
        stored = {r.variable for r in self.reads}.union(self.parts)
        walks = Walks(stored.__contains__)
        return sum(walks.of(f) for part in (self, *self.riders) for f in part.body)

    def __str__(self) -> str:
        names = ", ".join(type(f).__name__ for f in self.functions)
        reads = ", ".join(f"{r.variable} [{r.binding.value}]" for r in self.reads)
        outputs = ", ".join(str(v) for v in self.outputs)
        names += f" where {self.active}" if self.active is not None else ""
        names += f" of faces {self.listed}" if self.listed is not None else ""
        return (
            f"{self.mode.value} {self.domain}: {names}\n      reads  {reads or '-'}\n      writes {outputs}"
        )


def resources(
    mode: Mode, reads: dict[Binding, int], written: int, lists: int = 0, colors: int | None = None
) -> dict[str, int]:
    """Descriptors and attachments of a SubStage that reads and writes so many images, and uses lists; ``colors`` of
    the images are attachments: all or none, by the mode, where it is not said."""
    if colors is None:
        colors = written if mode in (Mode.FRAGMENT, Mode.RASTER) else 0
    buffers = lists + (2 if mode is Mode.SCATTER else 0)  # accumulators and status
    used = {
        "input_attachments": reads[Binding.ATTACHMENT],
        # A vertex shader may read what the fragment shader reads, and its own images beside them.
        "sampled_images": reads[Binding.TEXTURE] + reads[Binding.VERTEX],
        "color_attachments": colors,
        "storage_images": written - colors,
        "storage_buffers": buffers,
    }
    used["per_stage_resources"] = sum(used.values())
    if colors:  # of a draw; the one that resolves a scatter also clears its accumulators
        used["fragment_combined_output_resources"] = colors + (mode is Mode.SCATTER)
    if mode not in (Mode.FRAGMENT, Mode.RASTER):
        used["workgroup_invocations"] = GROUP
    return used


@dataclass(frozen=True, eq=False)
class Stage:
    """One render pass of several subpasses, or one dispatch."""

    sub_stages: tuple[SubStage, ...]

    @property
    def draws(self) -> bool:
        return self.sub_stages[0].draws
