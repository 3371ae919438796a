"""SubStages and Stages: what packing produces, with the kinds of their work and how they get at stored
values. Frozen data, printable and comparable as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ....ad.graph import (
    AccumulateFunction,
    Domain,
    DrawFunction,
    FragmentScatterFunction,
    Function,
    RasterFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.types import Sampler
from ..model.device import NOT_LONGER, Walks
from .lists import ActiveBlocks, BlockHits, FaceList, WorkList

Kept = ScatterFunction | FragmentScatterFunction | AccumulateFunction | RasterFunction
"""What adds to accumulators, or keeps the nearest faces in them."""
ONE = Domain((1, 1), 1)
"""A single texel: counters, rates, losses."""
GROUP = 64
"""Invocations of a workgroup of the generated compute shaders, in one dimension."""


@dataclass(frozen=True, eq=False)
class SubStage:
    """One shader: a subpass or a dispatch.

    work: what it is on the device.  functions: those packed here, producers first.  body: these and the ones
    computed again at the same pixel. What is computed again at other texels follows from the inputs that are
    not among ``reads``.  replaces: the leaf whose image an output overwrites.  channels: of Variables that
    share the channels of an image with others, what is read instead, and their first channel.  narrow: the
    outputs whose images hold 16-bit floats.  ranges: of the reads and outputs that lie in storage buffers.
    contracted: the Functions whose products and sums the driver may fuse.
    """

    work: Work
    domain: Domain
    functions: tuple[Function, ...]
    body: tuple[Function, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Variable, ...]
    replaces: Mapping[Variable, Variable] = field(default_factory=dict)
    channels: Mapping[Variable, tuple[Variable, int]] = field(default_factory=dict)
    narrow: frozenset[Variable] = frozenset()
    ranges: Mapping[Variable, Range] = field(default_factory=dict)
    contracted: frozenset[Function] = frozenset()

    @property
    def draws(self) -> bool:
        """Whether it is a subpass of a render pass."""
        return self.work.draws

    @property
    def has_depth(self) -> bool:
        """Whether it draws what has to be the nearest."""
        rasters = self.functions[:1] if isinstance(self.work, Raster) else ()
        return any(isinstance(f, RasterFunction) and not f.covering for f in rasters)

    @property
    def one_line(self) -> bool:
        """Whether its pixels are one line, as of a list: half of the 2x2 blocks of fragments would idle."""
        return self.domain.size[1] == 1

    @property
    def scatter(self) -> ScatterFunction | FragmentScatterFunction | None:
        """The scatter among its Functions; there is one at most."""
        kinds = ScatterFunction, FragmentScatterFunction
        return next((f for f in self.functions if isinstance(f, kinds)), None)

    @property
    def kept(self) -> Kept | None:
        """The Function whose values lie in accumulators before a second shader writes them."""
        first = self.functions[0] if isinstance(self.work, Visit) else self.scatter
        assert first is None or isinstance(first, Kept)
        return first

    @property
    def resolved(self) -> tuple[Variable, ...]:
        """What the second shader of a scatter, or of a raster by a dispatch, writes."""
        if isinstance(self.work, Visit) or self.final is not self:
            return self.final.outputs
        return () if self.scatter is None else (self.scatter.output,)

    @property
    def final(self) -> SubStage:
        """What writes its outputs: the epilogue of a scatter, where it has one, or itself."""
        return self.work.epilogue or self if isinstance(self.work, Scatter) else self

    @property
    def fused(self) -> tuple[SubStage, ...]:
        """The SubStages over one texel that are done as well."""
        return self.work.fused if isinstance(self.work, PixelWork) else ()

    @cached_property
    def samplers(self) -> tuple[Sampler, ...]:
        """At most four; devices allow 16 a shader."""
        return tuple(sorted({f.sampler for f in self.everything if f.sampler is not None}))

    @property
    def everything(self) -> Iterator[Function]:
        """The Functions of its shaders, of the epilogue and of what is fused too."""
        return (f for part in (self, self.final, *self.final.fused) for f in part.body)

    @property
    def colors(self) -> tuple[Variable, ...]:
        """Outputs that are attachments: of a draw, or of the one that ends a scatter."""
        return self.final.own_outputs if self.final.draws else ()

    @property
    def own_outputs(self) -> tuple[Variable, ...]:
        """Those that nothing fused makes."""
        others = {v for s in self.fused for v in s.outputs}
        return tuple([v for v in self.outputs if v not in others])

    def as_dispatch(self, sparse: Sparse | None = None) -> SubStage:
        """The same work on each pixel as a dispatch: what could be an input attachment is fetched."""
        reads = tuple([r.by(Binding.TEXTURE) for r in self.reads])
        return replace(self, work=Compute(self.fused, sparse), reads=reads)

    def as_subpass(self) -> SubStage:
        """The same work as a subpass. Leaves that it overwrites are its only input attachments."""
        if not self.replaces:
            return replace(self, work=Fragment(self.fused))
        leaves = set(self.replaces.values())
        reads = tuple(
            [r.by(Binding.ATTACHMENT if r.variable in leaves else Binding.TEXTURE) for r in self.reads]
        )
        return replace(self, work=Fragment(self.fused), reads=reads)

    @property
    def shapes(self) -> tuple[SubStage, ...]:
        """What it can become: work on pixels may be undecided between a subpass and a dispatch."""
        return (self.as_subpass(), self.as_dispatch()) if isinstance(self.work, Undecided) else (self,)

    @property
    def descriptors(self) -> dict[str, int]:
        """Descriptors and attachments in use, by the names of DeviceLimits."""
        count = dict.fromkeys(Binding, 0)
        for v, binding in ((r.variable, r.binding) for r in self.reads if r.variable not in self.ranges):
            count[binding] += len(v.vtype.planes)
        images = [v for v in self.outputs if v not in self.ranges]
        written, colors = (sum(len(v.vtype.planes) for v in vs) for vs in (images, self.colors))
        return resources(self.work, count, written, colors, len(set(self.ranges.values())))

    @cached_property
    def iterations(self) -> int:
        """Iterations of all loops of an invocation, those in what it makes again at other texels included."""
        return self.iterations_with(NOT_LONGER)

    def iterations_with(self, longer: Mapping[Function, int]) -> int:
        """The same where the loops of some Functions have become longer. Phases count one by one."""
        if isinstance(self.work, Joined):
            return max(part.iterations_with(longer) for part in self.work.parts)
        stored = {r.variable for r in self.reads}.union(self.channels)
        walks = Walks(lambda f: f.output not in stored, longer=longer)
        each = (walks.of(f).iterations for part in (self, *self.fused) for f in part.body)
        iterations = max(each) if isinstance(self.work, TiledCompute) else sum(each)
        return self.work.faces.run * (1 + iterations) if isinstance(self.work, ListFaces) else iterations

    def __str__(self) -> str:
        names = ", ".join(type(f).__name__ for f in self.functions)
        where = {r.variable: r.binding.value for r in self.reads} | dict.fromkeys(self.ranges, "buffer")
        reads = ", ".join(f"{r.variable} [{where[r.variable]}]" for r in self.reads)
        outputs = ", ".join(f"{v} [buffer]" if v in self.ranges else str(v) for v in self.outputs)
        names += "".join(f" where {x}" for x in (*self.work.uses, self.work.makes) if x is not None)
        return f"{self.work.name} {self.domain}: {names}\n      reads  {reads or '-'}\n      writes {outputs}"


def resources(
    work: Work, reads: Mapping[Binding, int], written: int, colors: int, ranges: int = 0
) -> dict[str, int]:
    """Descriptors and attachments of a SubStage. colors: of the images ``written``, those that are
    attachments. ranges: of storage buffers."""
    used = {
        "input_attachments": reads[Binding.ATTACHMENT],
        # A vertex shader may read what the fragment shader reads, and its own images beside them.
        "sampled_images": reads[Binding.TEXTURE] + reads[Binding.VERTEX],
        "color_attachments": colors,
        "storage_images": written - colors + reads[Binding.STORAGE],
        "storage_buffers": work.buffers + ranges,
    }
    used["per_stage_resources"] = sum(used.values())
    # Attachments, images and buffers that a fragment shader writes, accumulators among them.
    ranges += reads[Binding.STORAGE]
    outputs = written + ranges + isinstance(work, Scatter) if colors else 0
    used["fragment_combined_output_resources"] = max(
        outputs, 2 + ranges if isinstance(work, FragmentScatter) else 0
    )
    if not work.draws:
        used["workgroup_invocations"] = GROUP
    return used


@dataclass(frozen=True, eq=False)
class Stage:
    """One render pass of several subpasses, or one dispatch."""

    sub_stages: tuple[SubStage, ...]

    @property
    def draws(self) -> bool:
        return self.sub_stages[0].draws

    @property
    def variables(self) -> set[Variable]:
        """What it reads and makes."""
        return {v for s in self.sub_stages for v in (*s.outputs, *(r.variable for r in s.reads))}


# The kinds of work. A new one is one class here, a rule for its GLSL in ``glsl/generate`` and one for its
# commands in ``run/record``.


@dataclass(frozen=True, eq=False)
class Work:
    """What a SubStage is on the device; the classes below are all there is.

    draws: whether it is a subpass of a render pass.  makes: the list that it makes.  uses: the lists that
    tell where it works or what it draws.  buffers: the storage buffers in its descriptor set.
    """

    name: ClassVar[str] = "work"
    draws: ClassVar[bool] = False
    listed: ClassVar[str] = ""  # the field that holds the list that it makes

    @property
    def makes(self) -> WorkList | None:
        return getattr(self, self.listed) if self.listed else None

    @property
    def uses(self) -> tuple[WorkList, ...]:
        return ()

    @property
    def buffers(self) -> int:
        return len(self.uses) + (self.makes is not None)


@dataclass(frozen=True, eq=False)
class Sparse:
    """blocks: those that a dispatch visits.  fill: the values of images outside of them, written before."""

    blocks: ActiveBlocks
    fill: Mapping[Variable, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SparseWork(Work):
    """A dispatch.  sparse: where it works, if not everywhere."""

    sparse: Sparse | None = None

    @property
    def uses(self) -> tuple[WorkList, ...]:
        return () if self.sparse is None else (self.sparse.blocks,)


@dataclass(frozen=True, eq=False)
class PrimitiveWork(Work):
    """A draw of primitives.  faces: the list of those that are drawn, if not all."""

    faces: FaceList | None = None

    @property
    def uses(self) -> tuple[WorkList, ...]:
        return () if self.faces is None else (self.faces,)


@dataclass(frozen=True, eq=False)
class PixelWork(Work):
    """Work on each pixel by itself.  fused: SubStages over one texel that the first invocation does as well,
    or over one texel a tile, done by the first of each tile; their outputs come last among those of the
    host."""

    fused: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Undecided(PixelWork):
    """Work on each pixel, still a Fragment or a Compute. ATTACHMENT reads are those that could be."""

    name: ClassVar[str] = "pixels"


@dataclass(frozen=True, eq=False)
class Fragment(PixelWork):
    """A subpass that covers its framebuffer."""

    name: ClassVar[str] = "fragment"
    draws: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Compute(SparseWork, PixelWork):
    """A dispatch over all pixels, or over active blocks."""

    name: ClassVar[str] = "compute"


@dataclass(frozen=True, eq=False)
class Joined(Work):
    """A dispatch of several SubStages, which were dispatches over all of their pixels.

    parts: those, in an order in which they may run.  lanes: invocations of a workgroup.  pixels: that each
    workgroup has of every part, in all tiles; 0: one workgroup has all.  beside: whether the parts, which wait
    for nothing of each other, have workgroups of their own instead.
    """

    parts: tuple[SubStage, ...] = ()
    lanes: int = GROUP
    pixels: int = 0
    beside: bool = False
    name: ClassVar[str] = "joined"

    @property
    def groups(self) -> int:
        if self.beside:
            return sum(map(self.groups_of, self.parts))
        return -(-self.parts[0].domain.area // self.pixels) if self.pixels else 1

    def groups_of(self, part: SubStage) -> int:
        """The workgroups that a part has of its own, an invocation for each texel."""
        return -(-part.domain.texels // self.lanes)

    @cached_property
    def inner(self) -> frozenset[Variable]:
        """What one part makes and another one reads."""
        made = {v for s in self.parts for v in s.outputs}
        return frozenset(r.variable for s in self.parts for r in s.reads if r.variable in made)

    @cached_property
    def phases(self) -> list[list[SubStage]]:
        """The parts by phase; those of one phase are independent."""
        phases: list[list[SubStage]] = []
        level: dict[SubStage, int] = {}
        for s in self.parts:
            reads, leaves = ({r.variable for r in s.reads}, {*s.replaces.values()})
            earlier = (
                level[t]
                for t in level
                if not (reads.isdisjoint(t.outputs) and leaves.isdisjoint(r.variable for r in t.reads))
            )
            level[s] = max(earlier, default=-1) + 1
            phases += [[]] * (level[s] == len(phases))
            phases[level[s]] = [*phases[level[s]], s]
        return phases


@dataclass(frozen=True, eq=False)
class Raster(PrimitiveWork):
    """A subpass that draws the triangles of one RasterFunction."""

    name: ClassVar[str] = "raster"
    draws: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Accumulate(PrimitiveWork):
    """A subpass that draws the triangles of one AccumulateFunction, whose fragments are added by blending."""

    name: ClassVar[str] = "accumulate"
    draws: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Scatter(Work):
    """Texels of the source add into accumulators, which a second shader resolves into the table.  epilogue:
    work on each texel of the table that the second shader does instead of storing the table."""

    epilogue: Any = None  # a SubStage
    name: ClassVar[str] = "scatter"

    @property
    def buffers(self) -> int:
        return super().buffers + 2  # accumulators and status


@dataclass(frozen=True, eq=False)
class ScatterDispatch(SparseWork, Scatter):
    """A dispatch over the source, or over active blocks of it."""


@dataclass(frozen=True, eq=False)
class FragmentScatter(PrimitiveWork, Scatter):
    """A draw of the triangles of one FragmentScatterFunction, whose fragments add to the accumulators."""


@dataclass(frozen=True, eq=False)
class Visit(Scatter):
    """A dispatch over the faces of one DrawFunction, which visit the pixels that they cover.

    faces: the list of those that are drawn, if not all.  slices: workgroups that share the pixels of the same
    large faces.
    """

    faces: FaceList | None = None
    slices: int = 1
    name: ClassVar[str] = "faces"

    @property
    def uses(self) -> tuple[WorkList, ...]:
        return () if self.faces is None else (self.faces,)

    def entries(self, f: DrawFunction) -> int:
        """Invocations of a tile that look for a face: one for each of f, or for each place of the list."""
        return f.faces if self.faces is None else self.faces.entries


@dataclass(frozen=True, eq=False)
class ComputeRaster(Visit):
    """A visit of the faces of one RasterFunction, which keep the nearest of each pixel in accumulators."""


@dataclass(frozen=True, eq=False)
class ComputeSum(Visit):
    """A visit of the faces of one AccumulateFunction or FragmentScatterFunction, whose fragments add to
    accumulators."""


@dataclass(frozen=True, eq=False)
class FaceSums(Work):
    """A dispatch of an invocation for each face of one FaceSum, which visits the pixels of the face."""

    name: ClassVar[str] = "faces"


@dataclass(frozen=True, eq=False)
class TiledCompute(Work):
    """A dispatch of register tiles: each invocation computes several texels of a contraction, and what
    follows them in the body.

    schedules: the rows (``model/schedules``) of contractions that read each other, so that only the last one
    writes, or whose workgroups stage what they read; the others have schedules of their own, and workgroups
    of their own."""

    schedules: Mapping[Function, Any] = field(default_factory=dict)
    name: ClassVar[str] = "tiles"


@dataclass(frozen=True, eq=False)
class ListBlocks(Work):
    """A dispatch that lists active blocks.  hits: of the images that decide; (): it looks at its image."""

    blocks: ActiveBlocks
    hits: tuple[BlockHits, ...] = ()
    name = listed = "blocks"

    @property
    def uses(self) -> tuple[WorkList, ...]:
        return self.hits


@dataclass(frozen=True, eq=False)
class FindHits(Work):
    """A dispatch that looks at all pixels of an image."""

    hits: BlockHits
    name = listed = "hits"


@dataclass(frozen=True, eq=False)
class ListFaces(Work):
    """A dispatch that lists live faces, with the images it makes over the same texels."""

    faces: FaceList
    name: ClassVar[str] = "list"
    listed: ClassVar[str] = "faces"


# How shaders get at stored values: the bindings of images, and ranges of storage buffers.


class Binding(Enum):
    """How a shader gets at an image."""

    ATTACHMENT = "input attachment"
    TEXTURE = "texture"
    VERTEX = "texture of the vertex shader"
    STORAGE = "storage image"

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Read:
    """An image that a SubStage reads.  elsewhere: at other pixels than the shader's own, too."""

    variable: Variable
    binding: Binding
    elsewhere: bool = False

    def by(self, binding: Binding) -> Read:
        """The same image by another binding."""
        return self if binding is self.binding else Read(self.variable, binding, self.elsewhere)


def all_reads(first: Iterable[Read], second: Iterable[Read]) -> tuple[Read, ...]:
    """The reads of one shader that does the work of two. An image that both read has the binding of the
    first; it is read elsewhere, and then as a texture, if one of them does that."""
    reads = {r.variable: r for r in first}
    for r in second:
        known = reads.setdefault(r.variable, r)
        if r.elsewhere and not known.elsewhere:
            attached = known.binding is Binding.ATTACHMENT
            reads[r.variable] = Read(known.variable, r.binding if attached else known.binding, True)
    return tuple(reads.values())


@dataclass(frozen=True, eq=False)
class Range:
    """Values of one format and size that one dispatch makes and the same SubStages read. They lie in one
    range of a storage buffer, plane after plane, each with its texels row by row as an image of the value
    would have them.

    members: in the order of their planes.  masks: of members whose components differ where their maker leaves
    them as they are filled, the words of that value. They are stored xor these, since a buffer is filled with
    one word: zeros stand for the value.
    """

    members: tuple[Variable, ...]
    masks: Mapping[Variable, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def first(self) -> dict[Variable, int]:
        """The number of the first plane of each member."""
        counts = [len(v.vtype.planes) for v in self.members]
        return {v: sum(counts[:k]) for k, v in enumerate(self.members)}

    @property
    def components(self) -> int:
        """32-bit words of a texel: 1, 2 or 4."""
        return {1: 1, 2: 2, 3: 4, 4: 4}[self.members[0].vtype.planes[0]]

    @property
    def words(self) -> int:
        """32-bit words of a texel in all planes together."""
        return self.components * sum(len(v.vtype.planes) for v in self.members)

    def part(self, v: Variable, texels: int) -> tuple[int, int]:
        """First byte of a member, and how many bytes. texels: of a plane, all tiles together."""
        plane = 4 * self.components * texels
        return self.first[v] * plane, len(v.vtype.planes) * plane


def words_of_value(value: np.ndarray, v: Variable) -> tuple[int, ...]:
    """The 32 bits of each component of a value, of one where all are equal."""
    words = np.asarray(value, v.vtype.dtype).astype(v.vtype.dtype).ravel().view(np.uint32)
    return tuple(words.tolist()) if len(np.unique(words)) > 1 else (int(words[0]),)
