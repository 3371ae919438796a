"""SubStages and Stages: what packing produces. Frozen data, printable and comparable as text. The kinds of their work are
in ``work/kinds``; they have their names here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...ad.graph import (
    Domain,
    FragmentScatterFunction,
    Function,
    RasterFunction,
    ScatterFunction,
    Variable,
)
from ...ad.types import Sampler
from .bindings import Binding, Range, Read
from .model.walks import NOT_LONGER, Walks
from .work.kinds import Accumulate as Accumulate
from .work.kinds import (
    Compute,
    Fragment,
    FragmentScatter,
    ListFaces,
    PixelWork,
    Scatter,
    ScatterDraw,
    Sparse,
    TiledCompute,
    Undecided,
    Work,
)
from .work.kinds import FaceSums as FaceSums
from .work.kinds import FindHits as FindHits
from .work.kinds import ListBlocks as ListBlocks
from .work.kinds import PrimitiveWork as PrimitiveWork
from .work.kinds import Raster as Raster
from .work.kinds import ScatterDispatch as ScatterDispatch
from .work.kinds import SparseWork as SparseWork

ONE = Domain((1, 1), 1)
"""A single texel: counters, rates, losses."""
GROUP = 64
"""Invocations of a workgroup of the generated compute shaders, in one dimension."""


@dataclass(frozen=True, eq=False)
class SubStage:
    """One shader: a subpass or a dispatch.

    work: what it is on the device.  functions: those packed here, producers first.  body: these and the ones computed
    again at the same pixel. What is computed again at other texels follows from the inputs that are not among
    ``reads``.  replaces: the leaf whose image an output overwrites.  channels: of Variables that share the channels of
    an image with others, what is read instead, and their first channel.  narrow: the outputs whose images hold 16-bit
    floats.  ranges: of the reads and outputs that lie in storage buffers.  contracted: the Functions whose products and sums the driver may fuse.
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
        return any(isinstance(f, RasterFunction) and not f.covering for f in self.functions[:1])

    @property
    def one_line(self) -> bool:
        """Whether its pixels are in one line, as those of a list: half of the fragments would idle, in blocks of 2x2."""
        return self.domain.size[1] == 1

    @property
    def scatter(self) -> ScatterFunction | FragmentScatterFunction | None:
        """The scatter among its Functions; there is one at most."""
        kinds = ScatterFunction, FragmentScatterFunction
        return next((f for f in self.functions if isinstance(f, kinds)), None)

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
        """The same work on each pixel as a subpass. Leaves that it overwrites are its only input attachments."""
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
        """Of all loops of an invocation together, those in what it makes again at other texels included."""
        return self.iterations_with(NOT_LONGER)

    def iterations_with(self, longer: Mapping[Function, int]) -> int:
        """The same where the loops of some Functions have become longer."""
        stored = {r.variable for r in self.reads}.union(self.channels)
        walks = Walks(lambda f: f.output not in stored, longer=longer)
        each = (walks.of(f).iterations for part in (self, *self.fused) for f in part.body)
        found = max(each) if isinstance(self.work, TiledCompute) else sum(each)
        return self.work.faces.run * (1 + found) if isinstance(self.work, ListFaces) else found

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
    """Descriptors and attachments of a SubStage that reads and writes so many images, ``colors`` of them as
    attachments, and so many ranges of storage buffers."""
    used = {
        "input_attachments": reads[Binding.ATTACHMENT],
        # A vertex shader may read what the fragment shader reads, and its own images beside them.
        "sampled_images": reads[Binding.TEXTURE] + reads[Binding.VERTEX],
        "color_attachments": colors,
        "storage_images": written - colors + reads[Binding.STORAGE],
        "storage_buffers": work.buffers + ranges,
    }
    used["per_stage_resources"] = sum(used.values())
    # Attachments, storage images and buffers of a fragment shader, accumulators that it clears or adds to among them.
    ranges += reads[Binding.STORAGE]
    outputs = written + ranges + isinstance(work, Scatter) if colors else 0
    used["fragment_combined_output_resources"] = max(
        outputs, 2 + ranges if isinstance(work, ScatterDraw | FragmentScatter) else 0
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
