"""Coordinates of texels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import Domain, PixelFunction, Variable, domain_of
from ...types import INT, IVEC2, Size

__all__ = ["linear_index", "pixel_coordinates", "tile_index"]


class Coordinates(PixelFunction):
    """The base of Functions without inputs whose value is the place of the texel."""

    operations = 1.0
    zero_derivative = True
    fields = ("domain",)
    domain: Domain

    def infer(self):
        return INT, self.domain


class PixelCoordinates(Coordinates):
    """IVEC2: the coordinates of the texel in its tile."""

    glsl = "pixel"

    def infer(self):
        return IVEC2, self.domain

    def evaluate(self, at, *x):
        return np.stack(np.broadcast_arrays(at.x, at.y, at.tile)[:2], axis=-1)


class LinearIndex(Coordinates):
    """INT: y * W + x."""

    operations = 3.0
    glsl = "pixel.y * $size.x + pixel.x"

    def evaluate(self, at, *x):
        return at.y * self.domain.size[0] + at.x + 0 * at.tile


class ChannelIndex(Coordinates):
    """INT: the number of the channel."""

    @cached_property
    def glsl(self):
        return f"tile % {self.domain.channels}"

    def evaluate(self, at, *x):
        return at.tile % self.domain.channels + 0 * at.x + 0 * at.y


class TileIndex(Coordinates):
    """INT: the number of the tile in the batch."""

    glsl = "tile"

    def evaluate(self, at, *x):
        return at.tile + 0 * at.x + 0 * at.y


def pixel_coordinates(size: Size, batch: int = 1) -> Variable:
    """IVEC2: the texel (x, y) inside its tile, for every texel of a size (W, H) and batch. Its centre is (x + 0.5, y + 0.5).

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.pixel_coordinates((2, 2)))[0].tolist()
    [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
    """
    return PixelCoordinates(domain_of(size, batch)).output


def linear_index(size: Size, batch: int = 1) -> Variable:
    """INT: y * W + x, for every texel of a size (W, H) and batch; the entry of a list that an image holds row by row.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.linear_index((3, 2)))[0].tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return LinearIndex(domain_of(size, batch)).output


def tile_index(size: Size, batch: int) -> Variable:
    """INT: the number of the tile in the batch, for every texel of a size (W, H) and batch.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.tile_index((2, 1), 3)).tolist()
    [[[0, 0]], [[1, 1]], [[2, 2]]]
    """
    return TileIndex(domain_of(size, batch)).output


def shape_of(domain: Domain) -> tuple[int, int, int, int]:
    """The extents along the axes n, c, y, x of a map that takes tiles for images."""
    (width, height), tiles, _ = domain
    return tiles, 1, height, width
