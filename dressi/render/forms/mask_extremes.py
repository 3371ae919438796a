"""The smallest and the largest of a mask around each pixel, within a reach that is data."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.types import FLOAT, INT, VEC2, Access
from ..lists import at_points


class Extremes(PixelFunction):
    """Inputs (image, reach INT): VEC2 (smallest, largest) within +-reach texels along ``axis``, cut at the border.

    The image is FLOAT, or VEC2 of such extremes along the other axis. No derivative.
    """

    operations, fetches = 15.0, math.inf
    no_derivative = "is made for masks; use F.window_max and F.window_min"
    fields = ("axis",)
    axis: str

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    @property
    def iterations(self) -> int:
        return 2 * max(self.inputs[0].size) + 1  # a reach is a radius in the image

    def shortened(self, most):
        image, reach = self.inputs
        extent = image.size["xy".index(self.axis)]
        length = max(round(math.sqrt(extent / 2)), 2)
        if length >= extent:
            return None
        blocks = BlockExtremes(image, length, self.axis).output
        return ExtremesByBlocks(image, blocks, reach, length, self.axis).output

    def infer(self):
        image, reach = self.inputs
        if image.vtype not in (FLOAT, VEC2) or reach.vtype is not INT:
            raise self.fail("needs a FLOAT or VEC2 image and an INT reach")
        if reach.size != (1, 1) or reach.batch not in (1, image.batch):
            raise self.fail("the reach is one texel")
        return VEC2, image.domain

    @cached_property
    def glsl(self) -> str:
        step = "ivec2(i, 0)" if self.axis == "x" else "ivec2(0, i)"
        return (
            "$y = vec2($0(pixel, tile));\n"
            f"for (int i = -$1; i <= $1; ++i) {{\n"
            f"  vec2 found = vec2($0(clamp(pixel + {step}, ivec2(0), $size0 - 1), tile));\n"
            "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}"
        )

    def evaluate(self, at, image, reach):
        x, y, tile = at_points(at)
        image = image if image.ndim == 4 else np.stack([image, image], axis=-1)
        reach = np.broadcast_to(reach, x.shape)
        width, height = self.inputs[0].size
        low, high = image[tile, y, x, 0], image[tile, y, x, 1]
        for i in range(-int(reach.max()), int(reach.max()) + 1):
            moved = (
                (np.clip(x + i, 0, width - 1), y) if self.axis == "x" else (x, np.clip(y + i, 0, height - 1))
            )
            found = image[tile, moved[1], moved[0]]
            use = np.abs(i) <= reach
            low = np.where(use, np.minimum(low, found[..., 0]), low)
            high = np.where(use, np.maximum(high, found[..., 1]), high)
        return np.stack([low, high], axis=-1)


class BlockExtremes(PixelFunction):
    """VEC2 (smallest, largest) of each block of ``length`` texels along ``axis``; the last block may be shorter.

    The image is FLOAT, or VEC2 of such extremes.
    """

    operations, fetches = 15.0, math.inf
    no_derivative = "is made for masks; use F.max and F.min"
    fields = ("length", "axis")
    length: int
    axis: str

    @cached_property
    def access(self):
        return (Access.FETCH,)

    @property
    def iterations(self) -> int:
        return self.length

    def infer(self):
        (width, height), batch, _ = self.inputs[0].domain
        blocks = [-(-n // self.length) if a == self.axis else n for a, n in (("x", width), ("y", height))]
        return VEC2, Domain((blocks[0], blocks[1]), batch)

    @cached_property
    def glsl(self) -> str:
        a, texel = self.axis, "ivec2(i, pixel.y)" if self.axis == "x" else "ivec2(pixel.x, i)"
        return (
            f"int first = pixel.{a} * {self.length}, end = min(first + {self.length}, $size0.{a});\n"
            "$y = vec2(3.4e38, -3.4e38);\n"
            "for (int i = first; i < end; ++i) {\n"
            f"  vec2 found = vec2($0({texel}, tile));\n"
            "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}"
        )

    def evaluate(self, at, image):
        image = image if image.ndim == 4 else np.stack([image, image], axis=-1)
        k = 2 if self.axis == "x" else 1
        first = np.arange(0, image.shape[k], self.length)
        low = np.minimum.reduceat(image[..., 0], first, axis=k)
        high = np.maximum.reduceat(image[..., 1], first, axis=k)
        x, y, tile = at_points(at)
        return np.stack([low, high], axis=-1)[tile, y, x]


class ExtremesByBlocks(Extremes):
    """``Extremes`` of an image by its ``BlockExtremes``: inputs (image, blocks, reach).

    Of the window it visits the texels before the first whole block, the blocks, and the texels behind the last one.
    """

    fields = ("length", "axis")

    def __init__(self, image: Variable, blocks: Variable, reach: Variable, length: int, axis: str):
        self.length, self.axis = length, axis
        PixelFunction.__init__(self, image, blocks, reach)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH, Access.SAME_PIXEL)

    @property
    def iterations(self) -> int:
        return 2 * self.length + self.inputs[1].size["xy".index(self.axis)]

    def shortened(self, most):
        return None

    def infer(self):
        return VEC2, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        a, texel = self.axis, "ivec2(i, pixel.y)" if self.axis == "x" else "ivec2(pixel.x, i)"

        def loop(begin: str, end: str, table: int) -> str:
            return (
                f"for (int i = {begin}; i < {end}; ++i) {{\n  vec2 found = vec2(${table}({texel}, tile));\n"
                "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}\n"
            )

        return (
            "$y = vec2($0(pixel, tile));\n"
            f"int low = max(pixel.{a} - $2, 0), high = min(pixel.{a} + $2, $size0.{a} - 1) + 1;\n"
            f"int first = (low + {self.length - 1}) / {self.length}, last = max(high / {self.length}, first);\n"
            + loop("low", f"min(first * {self.length}, high)", 0)
            + loop("first", "last", 1)
            + loop(f"last * {self.length}", "high", 0)
        )

    def evaluate(self, at, image, blocks, reach):
        return super().evaluate(at, image, reach)
