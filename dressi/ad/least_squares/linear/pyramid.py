"""Levels of an image for multigrid: bilinear prolongation between nodes on the even texels, and its transpose.

A level of n texels has n // 2 + 1 nodes; node I lies on texel 2 I, and for an even n the last node lies beyond the end.
"""

from __future__ import annotations

import numpy as np

from ...ops.image.texels import Fetching, fetch
from ...types import Size


def coarser(size: Size) -> Size:
    """The nodes of the next level of an image of this size."""
    return size[0] // 2 + 1, size[1] // 2 + 1


class Prolong(Fetching):
    """Texels of an image of ``size`` from its nodes: the node itself on even texels, the mean of two or four between.

    fine[x] = (coarse[x // 2] + coarse[(x + 1) // 2]) / 2,  in both axes
    """

    operations, fetches = 14.0, 4.0
    fields = ("size",)
    size: Size
    glsl = (
        "{ ivec2 low = pixel / 2, high = (pixel + 1) / 2;\n"
        "$y = 0.25 * (($0(low, tile) + $0(ivec2(high.x, low.y), tile))"
        " + ($0(ivec2(low.x, high.y), tile) + $0(high, tile))); }"
    )

    def infer(self):
        x = self.inputs[0]
        if x.size != coarser(self.size):
            raise self.fail(f"an image of {self.size[0]}x{self.size[1]} has other nodes than {x}")
        return x.vtype, x.domain._replace(size=self.size)

    def evaluate(self, at, x):
        xs, ys = (at.x // 2, (at.x + 1) // 2), (at.y // 2, (at.y + 1) // 2)
        return 0.25 * sum(fetch(x, at, px, py) for px in xs for py in ys)

    def transpose(self, gy):
        return Restrict(gy).output


class Restrict(Fetching):
    """Nodes from texels: the sum over the 3x3 texels around each node with weights 1, 1/2 and 1/4; zero outside."""

    operations, fetches = 60.0, 9.0
    glsl = (
        "{ ivec2 middle = 2 * pixel, low = max(middle - 1, ivec2(0)), high = min(middle + 1, $size0 - 1);\n"
        "$y = $type(0);\n"
        "for (int j = low.y; j <= high.y; ++j) for (int i = low.x; i <= high.x; ++i)"
        " $y += ((i == middle.x ? 1.0 : 0.5) * (j == middle.y ? 1.0 : 0.5)) * $0(ivec2(i, j), tile); }"
    )
    iterations = 9

    def infer(self):
        x = self.inputs[0]
        return x.vtype, x.domain._replace(size=coarser(x.size))

    def evaluate(self, at, x):
        (width, height), total = self.inputs[0].size, 0.0
        for j in (-1, 0, 1):
            for i in (-1, 0, 1):
                px, py = 2 * at.x + i, 2 * at.y + j
                inside = (px >= 0) & (px < width) & (py >= 0) & (py < height)
                values = fetch(x, at, np.clip(px, 0, width - 1), np.clip(py, 0, height - 1))
                weight = inside * 0.5 ** (abs(i) + abs(j))
                total = total + weight.reshape(weight.shape + (1,) * (values.ndim - 3)) * values
        return total

    def transpose(self, gy):
        return Prolong(gy, self.inputs[0].size).output
