"""Lists that the device makes: which blocks of pixels are worked on, which faces are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ....ad.graph import Domain, DrawFunction, Function, RasterFunction, Variable


@dataclass(frozen=True, eq=False)
class ActiveBlocks:
    """The blocks of pixels of images over ``domain`` in which an image of ``quiet`` differs from the value
    there, or within ``halo`` pixels of which it does.

    shared: whether the invocations of a workgroup look at a row of blocks together, each at a column of
    pixels; otherwise one invocation looks at all pixels of a block.  pixels: whether the list holds these pixels alone, each by
    itself, instead of whole blocks.
    """

    domain: Domain
    quiet: tuple[tuple[Variable, float], ...]
    shared: bool = False
    halo: int = 0
    pixels: bool = False
    resource: ClassVar[str] = "blocks"

    @property
    def decided_by(self) -> tuple[Variable, ...]:
        """The images that decide what is in the list."""
        return tuple(v for v, _ in self.quiet)

    def __str__(self) -> str:
        near = f" within {self.halo}" if self.halo else ""
        each = ", by pixels" if self.pixels else ""
        return " or ".join(f"{v} != {value:g}" for v, value in self.quiet) + near + each


@dataclass(frozen=True, eq=False)
class BlockHits:
    """Where in each block of pixels ``image`` differs from its value ``quiet``: two 32-bit words a block, with
    a bit for each pixel, row by row. Lists with halos, and those of several images, are made of these, so that
    each image is looked at once.

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
"""Invocations that list faces on devices with few lanes: 32 faces each, one wait."""


@dataclass(frozen=True, eq=False)
class FaceList:
    """The faces of a raster whose texel of ``live`` is not 0, for each tile of ``domain``; ``vertices`` of
    each face.

    A buffer of 32-bit words: VkDrawIndirectCommand of each segment of each tile, then the numbers of the
    faces, of each segment from the place of its first one on.  invocations: of the workgroup that lists a
    segment, a power of two; with more than ``LISTING`` they add up their counts in a tree.
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
        """Segments of a tile."""
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
LIVE, SHOWN = 1 / 16, 1 / 2
"""The expected share of live faces: of rasters, and of draws whose fragments are added up. Of the edges of
closed meshes 2 to 7 % are silhouettes, fewer of fine meshes. What is added up are strands, of which nearly
all are live, and meshes without the faces that are turned away."""
QUAD = 8.0
"""The least fragments of a face of two triangles. Such faces are quads around segments and points, with half
a pixel more on each side, so that they hold every pixel that these touch."""
SHADED = 2
"""Pixels along a side of the blocks in which devices shade fragments."""

ACTIVE = 0.5
"""The expected share of active blocks."""
LINE = 32.0
"""Blocks with lines in them, such as silhouettes, on an image that is n blocks wide: so many times n / 8. On
meshes of 500 to 14,000 faces in images of 512 and 1024 pixels these are 20 to 28."""
WIDTH, WIDER = 10.0, 8.0
"""Active pixels in a block with a line in it, and how many more each pixel of a halo adds. Quads around
silhouettes have 6 to 12, within two pixels 25 to 27."""


def vertices_expected(f: DrawFunction, faces: FaceList | None) -> float:
    """The vertices that a draw is expected to shade for one tile, if it draws these faces or all."""
    live = LIVE if isinstance(f, RasterFunction) else SHOWN
    return 3 * f.triangles * (live if faces is not None else 1.0)


def fragments_expected(f: DrawFunction, faces: FaceList | None) -> float:
    """The fragments that a draw is expected to have in one tile, if it draws these faces or all.

    Of a raster only the nearest count. Where fragments are added up all do: small faces overlap, so that
    their number decides and not the image, in which few of them cover little. Dead faces have none, whether
    they are listed or not.
    """
    pixels = f.size[0] * f.size[1]
    if isinstance(f, RasterFunction):
        return (COVERED if faces is None else LISTED) * pixels
    if f.triangles_per_face == 1:
        return COVERED * pixels
    least = QUAD * f.faces
    # Of strands and points on images of 128 to 512 pixels a side, from 400 to 30,000, this is .3 to 3 times
    # the truth.
    return max(least, (least * COVERED * pixels) ** 0.5)


def shaded_expected(triangles: int, fragments: float) -> float:
    """The invocations that shade so many fragments of so many triangles: all of the blocks that the triangles
    touch.

    A convex shape of area a that is w wide and h high touches a / B^2 + (w + h) / B + 1 blocks of side B on
    average; half of a square of area 2 a is sqrt(2 a) wide and high.
    """
    return fragments + SHADED * (8.0 * fragments * triangles) ** 0.5 + triangles * SHADED**2


def active_expected(blocks: ActiveBlocks) -> float:
    """The share of pixels that a list is expected to hold: of those of whole blocks, or one by one."""
    makers = [v.creator for v in blocks.decided_by]
    width, height = blocks.domain.size
    share = min(ACTIVE, LINE / (width * height) ** 0.5) if all(map(_tells_lines, makers)) else ACTIVE
    if share == ACTIVE or not blocks.pixels:
        return share
    return share * min((WIDTH + WIDER * blocks.halo) / 64, 1.0)


def _tells_lines(f: Function | None) -> bool:
    """Whether an image differs from its quiet value along lines: a raster with a mask of its faces, such as
    quads around silhouettes, what compares neighbouring pixels, and what follows from either as what its fragments
    write does from a raster."""
    makers = [f] if f is None or isinstance(f, RasterFunction) or not f.inputs else [f, f.inputs[0].creator]
    return any(
        g.masked and g.fragment is not None
        if isinstance(g, RasterFunction)
        else g is not None and g.quiet is not None and 0 < g.footprint < math.inf
        for g in makers
    )
