"""GLSL of texels that all invocations of a subgroup read: each loads another one, and they take them from each other.

weights of a 3 x 3 convolution, 72 in a block:   9 loads of each of eight invocations, and 72 shuffles
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .....ad.contract.terms import shape_of
from .....ad.graph import Variable
from .....ad.graph.index_map import Affine
from ...lowering.tiling.packed import PACKED
from ...lowering.tiling.strips import TiledContraction
from .strip import Strip
from .texels import Source, Texel, load_of, tile_text

EXTENSIONS = ("GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle")
"""Extensions of GLSL."""


def told_in(f: TiledContraction) -> dict[Variable, Source]:
    """The inputs of a contraction that invocations load together."""
    return {
        x: InSubgroup(f, k)
        for k, x in enumerate(f.inputs)
        if f.layout.loads_together(k) and f.inputs.count(x) == 1 and f.layout.distinct(k, f.packed[k]) > 1
    }


class InSubgroup:
    """An input that invocations load together. k: its number."""

    def __init__(self, f: TiledContraction, k: int):
        self.v, self.packed, self.size = f.inputs[k], f.packed[k], f.strips.subgroup
        self.shape = shape_of(f.whole.inputs[k])
        self.offsets = list(_offsets(f, k))
        self.count = math.prod(map(len, self.offsets))

    def texel(self, strip: Strip, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        tests, number = list[str](), 0
        for s, (moved, out) in enumerate(zip(index, beyond, strict=True)):
            found = strip.met(moved, self.shape[s]) if out else []
            if found is None:
                return None
            tests += found
            constant = moved.constant // PACKED if s == self.packed else moved.constant
            number = number * len(self.offsets[s]) + self.offsets[s].index(constant)
        level = max(map(strip.level_of, index))
        turn, of = divmod(number, self.size)
        strip.w.extensions.update(EXTENSIONS)
        text = f"subgroupShuffle({self._loaded(strip, index, turn, level)}, {of}u)"
        return Texel(strip.declare(self.v.vtype.glsl, text, level), tests, level)

    def _loaded(self, strip: Strip, index: Sequence[Affine], turn: int, level: int) -> str:
        """The name of the texel that an invocation loads itself, one of each ``size`` that follow each other."""
        number = "int(gl_SubgroupInvocationID)" + (f" + {turn * self.size}" if turn else "")
        if (turn + 1) * self.size > self.count:
            number = f"min({number}, {self.count - 1})"
        number = strip.declare("int", number, 0)
        places, stride = list[str](), self.count
        for s, (moved, offsets) in enumerate(zip(index, self.offsets, strict=True)):
            stride //= len(offsets)
            first, divisor = moved._replace(constant=0), PACKED if s == self.packed else 1
            low, high = (x // divisor for x in first.bounds(strip.layout.bases))
            text = first.glsl(strip.names) + (" >> 2" if divisor > 1 else "")
            text = f"({text}) + {offsets[0]}"
            if len(offsets) > 1:
                own = strip.declare("int", f"{number} / {stride} % {len(offsets)} * {offsets.step}", 0)
                text = f"{text} + {own}"
            extent = -(-self.shape[s] // divisor)
            if low + offsets[0] < 0 or high + offsets[-1] >= extent:
                text = f"clamp({text}, 0, {extent - 1})"
            places.append(strip.declare("int", text, strip.level_of(moved)))
        n, c, y, x = places
        tiles, channels, _, _ = shape_of(self.v)
        value = load_of(strip.w, self.v, tile_text(n, c, tiles, channels), y, x)
        return strip.declare(self.v.vtype.glsl, value, level)


def _offsets(f: TiledContraction, k: int) -> Iterator[range]:
    """Along n, c, y, x the distances of the texels of an input in a block from the texel of its first entries."""
    for s, affine in enumerate(f.whole.maps[k].affines):
        values = range(affine.constant, affine.constant + 1)
        for axis, c in affine.terms:
            if (count := f.layout.entries(axis)) > 1:
                ends = affine.constant, affine.constant + c * (count - 1)
                values = range(min(ends), max(ends) + 1, abs(c))
        yield range(values[0] // PACKED, values[-1] // PACKED + 1) if s == f.packed[k] else values
