"""Values that are computed by a pass of their own."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad.graph import PixelFunction
from ....ad.types import Access


class Stored(PixelFunction):
    """Input: any image. Output: the same.

    It fetches its input, so the planner stores the input before the pass that uses the output, and computes it on active
    blocks alone where it is constant elsewhere (``vk/plan/passes/active_blocks``). Without this, values that few
    pixels have would be computed by all pixels together with the values that all have. The gradient is passed through.
    """

    operations, fetches, footprint = 1.0, 1.0, 0
    stores_inputs = True
    glsl = "$y = $0(pixel, tile);"

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        image = self.inputs[0]
        return image.vtype, image.domain

    def known_value(self, known):
        return known.get(0)

    def evaluate(self, at, image):
        x, y, tile = np.broadcast_arrays(at.x, at.y, at.tile)
        return image[tile if len(image) > 1 else np.zeros_like(tile), y, x]

    def vjp(self, gy, i):
        return gy

    def jvp(self, tangents):
        return tangents[0]


class StoredGradient(PixelFunction):
    """Input: any image. Output: the same. The gradient by it is ``Stored``: what reads it at other pixels does not make it
    again from many images, which would all be stored beyond the active blocks."""

    operations = 1.0
    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, image):
        return image

    def vjp(self, gy, i):
        return Stored(gy).output

    def jvp(self, tangents):
        return tangents[0]
