"""The kinds of work. A new one is one class here, a rule for its GLSL in ``glsl/generate`` and one for its commands in
``run/record``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ....ad.graph import Function, RasterFunction, Variable
from ..lists import ActiveBlocks, BlockHits, FaceList, WorkList


@dataclass(frozen=True, eq=False)
class Work:
    """What a SubStage is on the device; the classes below are all there is.

    draws: whether it is a subpass of a render pass.  makes: the list that it makes.  uses: the lists that tell where it
    works or what it draws.  buffers: the storage buffers in its descriptor set.
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
    """Work on each pixel by itself.  fused: SubStages over one texel that the first invocation does as well, or over one texel
    a tile, done by the first of each tile; their outputs come last among those of the host."""

    fused: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Undecided(PixelWork):
    """Work on each pixel that ``choose_lowering`` makes a Fragment or a Compute. Reads bound as attachments are those
    that can be attachments."""

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
    """Texels of the source add into accumulators, which a second shader resolves into the table.  epilogue: work on
    each texel of the table that the second shader does instead of storing the table."""

    epilogue: Any = None  # a SubStage
    name: ClassVar[str] = "scatter"

    @property
    def buffers(self) -> int:
        return super().buffers + 2  # accumulators and status


@dataclass(frozen=True, eq=False)
class ScatterDispatch(SparseWork, Scatter):
    """A dispatch over the source, or over active blocks of it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterDraw(PrimitiveWork, Scatter):
    """A draw of the primitives of ``raster``, which has been drawn before: only pixels under them add anything."""

    raster: RasterFunction


@dataclass(frozen=True, eq=False)
class FragmentScatter(PrimitiveWork, Scatter):
    """A draw of the triangles of one FragmentScatterFunction, whose fragments add to the accumulators."""


@dataclass(frozen=True, eq=False)
class FaceSums(Work):
    """A dispatch of an invocation for each face of one FaceSum, which visits the pixels of the face."""

    name: ClassVar[str] = "faces"


@dataclass(frozen=True, eq=False)
class TiledCompute(Work):
    """A dispatch of strips: each invocation computes several texels of a contraction, and what follows them in the body.

    strips: how contractions are divided (``Strips``) that read each other, so that only the last one writes, or what their
    workgroups hold; the others are divided as they say themselves.  held: the values that a workgroup makes or loads once, in
    memory that it shares; each invocation makes or loads the others itself."""

    strips: Mapping[Function, Any] = field(default_factory=dict)
    held: frozenset[Variable] = frozenset()
    name: ClassVar[str] = "strips"


@dataclass(frozen=True, eq=False)
class ListBlocks(Work):
    """A dispatch that lists active blocks.  hits: of the images that decide; without them it looks at the one image itself."""

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
