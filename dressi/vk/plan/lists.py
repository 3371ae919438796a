"""Lists that the device makes: which blocks of pixels are worked on, which faces are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ad.graph import Domain, DrawFunction, Variable


@dataclass(frozen=True, eq=False)
class ActiveBlocks:
    """The blocks of pixels of images over ``domain`` in which an image of ``quiet`` differs from the value there, or within
    ``halo`` pixels of which it does.

    shared: whether the invocations of a workgroup look at a block together, one at each pixel; otherwise one invocation
    looks at all pixels of a block.
    """

    domain: Domain
    quiet: tuple[tuple[Variable, float], ...]
    shared: bool = False
    halo: int = 0
    resource: ClassVar[str] = "blocks"

    @property
    def decided_by(self) -> tuple[Variable, ...]:
        """The images that decide what is in the list."""
        return tuple(v for v, _ in self.quiet)

    def __str__(self) -> str:
        near = f" within {self.halo}" if self.halo else ""
        return " or ".join(f"{v} != {value:g}" for v, value in self.quiet) + near


@dataclass(frozen=True, eq=False)
class BlockHits:
    """Where in each block of pixels ``image`` differs from its value ``quiet``: a 32-bit word a block, with a bit for each
    column (from bit 0 on) and for each row (from bit 8 on) in which it does. Lists with halos, and those of several images,
    are made of these, so that each image is looked at once.

    shared: as in ``ActiveBlocks``.
    """

    domain: Domain
    image: Variable
    quiet: float
    shared: bool = False
    resource: ClassVar[str] = "hits"

    @property
    def decided_by(self) -> tuple[Variable, ...]:
        """The images that decide what is in it."""
        return (self.image,)

    def __str__(self) -> str:
        return f"{self.image} != {self.quiet:g}"


SEGMENT = 2048
"""Faces that one workgroup lists."""
LISTING = 64
"""Invocations of a workgroup that lists faces on devices with few lanes: they take 32 faces each, and wait for each other
once."""


@dataclass(frozen=True, eq=False)
class FaceList:
    """The faces of a raster whose texel of ``live`` is not 0, for each tile of ``domain``; ``vertices`` of each face.

    A buffer of 32-bit words: VkDrawIndirectCommand of each segment of each tile, then the numbers of the faces, of each
    segment from the place of its first one on.  invocations: of the workgroup that lists a segment, a power of two; with
    more than ``LISTING`` they add up their counts in a tree.
    """

    domain: Domain
    live: Variable
    faces: int
    vertices: int
    invocations: int = LISTING
    segment = SEGMENT
    resource: ClassVar[str] = "list"

    @property
    def decided_by(self) -> tuple[Variable, ...]:
        """The images that decide what is in the list."""
        return (self.live,)

    @property
    def run(self) -> int:
        """Faces that one invocation looks at, at most 32."""
        return -(-min(self.entries, self.segment) // self.invocations)

    @property
    def entries(self) -> int:
        """Places for a tile."""
        return self.domain.area

    @property
    def segments(self) -> int:
        """Of a tile."""
        return -(-self.entries // self.segment)

    @property
    def header(self) -> int:
        """Words before the numbers."""
        return 4 * self.segments * self.domain.tiles

    @property
    def words(self) -> int:
        return self.header + self.entries * self.domain.tiles

    @property
    def indices(self) -> int:
        """Vertices there would be with every place taken."""
        return self.entries * self.domain.tiles * self.vertices

    def __str__(self) -> str:
        return f"{self.live} is live"


WorkList = ActiveBlocks | BlockHits | FaceList

COVERED, LISTED = 1.0, 1 / 8
"""Fragments of a raster for each pixel of its image; of one that draws a list of live faces."""
LIVE = 1 / 16
"""The expected share of live faces. Of the edges of closed meshes 2 to 7 % are silhouettes; fewer of fine meshes."""

ACTIVE = 0.5
"""The expected share of active blocks."""


def vertices_expected(f: DrawFunction, faces: FaceList | None) -> float:
    """The vertices that a draw is expected to shade for one tile, if it draws these faces or all."""
    return 3 * f.triangles * (LIVE if faces is not None else 1.0)
