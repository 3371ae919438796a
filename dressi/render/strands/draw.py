"""Pictures of strands and points: ``draw_strands``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import FLOAT, VEC3, Size
from ...errors import InputError, OfVariables
from ..cameras.given import seen_by
from ..cameras.units import matrices_leaf
from .discs import Discs, discs_of
from .drawn import DrawnStrands
from .geometry import PointGeometry, StrandGeometry, leaf_of
from .point import StrandShader, unlit
from .ribbons import Ribbons, ribbons_of
from .sorted import SortedLayers
from .sums import Sums

MOST_LAYERS = 64


@dataclass(frozen=True, eq=False)
class StrandPicture(OfVariables):
    """What ``draw_strands`` returns: images of N tiles, as Variables, also where all arguments are arrays. Each is built on first use;
    unused ones cost nothing. ``render(strands, cameras)`` gives arrays.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24)).over((0.0, 0.0, 1.0)).vtype
    VEC3
    """

    composed: Sums | SortedLayers

    @property
    def mask(self) -> Variable:
        """FLOAT in [0, 1): how much of the pixel the strands hide. Differentiable."""
        return self.composed.mask

    @property
    def colour(self) -> Variable:
        """VEC3: the strands over black, linear. Differentiable."""
        return self.composed.premultiplied

    @property
    def depth(self) -> Variable:
        """FLOAT: the ``distance`` over 0, as ``colour`` is over black: ``mask`` times it. So nothing jumps where a strand begins, and
        the derivative of a loss is exact there, too. Differentiable."""
        return self.composed.weighted_depth

    @cached_property
    def distance(self) -> Variable:
        """FLOAT: the distance from the camera along its axis (``Picture.depth``), the mean of what is seen; 0 where there is nothing.
        It jumps where a strand begins, and the derivative does not hold that: take ``depth`` for losses."""
        there = F.greater(self.mask, 1e-4)
        return F.select(there, self.composed.weighted_depth / F.select(there, self.mask, 1.0), 0.0)

    def over(self, background: Like) -> Variable:
        """VEC3: the strands over a colour or an image, such as the ``colour`` of a ``Picture`` drawn with the same cameras."""
        return self.colour + F.mul(background, 1.0 - self.mask)


def draw_strands(
    strands: StrandGeometry | PointGeometry,
    cameras: Any = None,
    *,
    size: Size | None = None,
    shader: StrandShader = unlit,
    limit: Variable | None = None,
    layers: int | None = None,
) -> StrandPicture:
    """Strands, lines or points as differentiable images.

    ::

        hair = load_strands("head.hair")
        picture = draw_strands(hair, camera, shader=KajiyaKay((0, 1, 1)))
        loss = F.mean(F.square(F.length(picture.over(0.5) - photograph)))

    strands: a ``StrandGeometry`` or ``PointGeometry``.  cameras: a ``Camera``, ``Cameras``, ``Views``, ``Poses``, or matrices
    (4, 4), (N, 4, 4) or MAT4 1x1 with N tiles, from the world to Vulkan's clip space, with a ``size`` (W, H). Left out: a view
    that frames the points.  shader: the colour of a ``StrandPoint``; by default that of the geometry.
    limit: FLOAT image of N tiles: the depth z / w, in [0, 1], of what stands in front and hides the rest.
    layers: how many segments are composed in a pixel, the nearest first, in the right order; what lies behind is left out. By
    default (None) all are summed, in any order: ``mask`` is then exact, and colours count by the transmittance of a cloud of the
    same mean distance and spread.

    Each pixel holds the exact area of each segment in it (a box filter), so that derivatives by points and radii are those of
    the picture. Strands that cross the near plane end at their last point in front of it. Differentiable in the tables of the
    geometry, matrices, and Variables of the shader. Raises InputError.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24)).mask.size
    (32, 24)
    """
    if not isinstance(strands, (StrandGeometry, PointGeometry)):
        raise InputError(
            f"draw_strands takes a StrandGeometry or a PointGeometry, not {type(strands).__name__}; load files with load_strands"
        )
    if layers is not None and (not isinstance(layers, int) or not 1 <= layers <= MOST_LAYERS):
        raise InputError(f"layers are a whole number from 1 to {MOST_LAYERS}, or None, not {layers!r}")
    seen = seen_by(cameras, size, None if cameras is not None else np.stack(strands.bounds()))
    matrices = seen.matrices if isinstance(seen.matrices, Variable) else matrices_leaf(seen.matrices)
    drawn = drawn_strands(strands, matrices, seen.size, shader)
    return StrandPicture(Sums(drawn, limit) if layers is None else SortedLayers(drawn, layers, limit))


def drawn_strands(
    strands: StrandGeometry | PointGeometry, matrices: Variable, size: Size, shader: StrandShader
) -> DrawnStrands:
    """Strands or points in N views, MAT4 1x1 of N tiles."""
    leaves = {
        "points": leaf_of("points", VEC3, strands.points),
        "radius": leaf_of("radius", FLOAT, strands.radius),
        "colours": leaf_of("colours", VEC3, strands.colours),
        "opacity": leaf_of("opacity", FLOAT, strands.opacity),
    }
    shapes: Ribbons | Discs
    if isinstance(strands, StrandGeometry):
        shapes = ribbons_of(strands, leaves, matrices, size)
        before, after = (F.lookup(leaves["points"], n) for n in (shapes.chain.before, shapes.chain.after))
        leaves["tangents"] = F.normalize(after - before)
    else:
        shapes = discs_of(strands, leaves, matrices, size)
    return DrawnStrands(shapes, leaves, matrices, shader, strands.count)
