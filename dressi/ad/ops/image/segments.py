"""Reductions over segments of an axis, and trees of them, by which devices with many lanes reduce a long axis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ...graph import At, Domain, PixelFunction, ReduceFunction, Variable
from ...graph.snippet import without_comments
from ...types import Access
from .reduce import Sum
from .texels import fetch

_WORD = re.compile(r"\$\w+|(?<![.\w])(?:pixel|tile)\b")


def extent_along(domain: Domain, axis: str) -> int:
    """The number of texels along "x" or "y", or of tiles along "n"."""
    (width, height), tiles, _ = domain
    return {"x": width, "y": height, "n": tiles}[axis]


def with_extent(domain: Domain, axis: str, extent: int) -> Domain:
    """The domain with another extent along one axis."""
    (width, height), tiles, channels = domain
    size = (extent if axis == "x" else width, extent if axis == "y" else height)
    return Domain(size, extent if axis == "n" else tiles, channels)


class Segments(ReduceFunction):
    """A reduction of each segment of its axis: texel s of the output reduces texels s * length to (s + 1) * length - 1.

    whole: the reduction of the whole axis, whose snippet runs over one segment.  The last segment may be shorter. channels: of
    the output where the tiles of the input are parts of tiles, else 0. Made by the planner, after all derivatives.

        sum, length 4:   1 2 3 4 5 6  ->  10 11
    """

    fields = ("whole", "length", "channels")
    no_derivative = "is made when a plan is built; take derivatives of the whole reduction"
    whole: ReduceFunction
    length: int

    def __init__(self, whole: ReduceFunction, length: int, channels: int = 0):
        self.whole, self.length, self.channels = whole, length, channels
        super().__init__(*whole.inputs)

    @property
    def axis(self) -> str:
        return self.whole.axis

    @property
    def identity(self):
        return (type(self), self.whole.identity, self.length, self.channels)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    @property
    def operations(self):
        return self.whole.operations

    @property
    def iterations(self) -> int:
        return -(-self.whole.iterations * self.length // self.whole.extent)

    @property
    def fetches(self) -> float:
        return float(self.length)

    def infer(self):
        domain = self.inputs[0].domain
        count = -(-extent_along(domain, self.axis) // self.length)
        found = with_extent(domain, self.axis, count)
        return self.whole.output.vtype, found._replace(channels=self.channels or found.channels)

    @property
    def segment_start(self) -> str:
        return f"{'tile' if self.axis == 'n' else f'pixel.{self.axis}'} * {self.length}"

    @cached_property
    def glsl(self) -> str:
        axis = self.axis
        left = f"min({self.length}, {extent_along(self.inputs[0].domain, axis)} - {self.segment_start})"
        pixel, size, count = {
            "x": ("ivec2(0, pixel.y)", f"ivec2({left}, $size0.y)", "$batch0"),
            "y": ("ivec2(pixel.x, 0)", f"ivec2($size0.x, {left})", "$batch0"),
            "n": ("pixel", "$size0", left),
        }[axis]
        return (
            f"int dressi_tile = {'0' if axis == 'n' else 'tile'}, dressi_count = {count};\n"
            f"ivec2 dressi_pixel = {pixel}, dressi_size = {size};\n{{ {self.snippet()} }}"
        )

    def snippet(self, others: Mapping[str, str] | None = None) -> str:
        """The snippet of the whole reduction with the names of the segment: what it reads, where it runs, and ``others``."""
        snippet, (size, batch, _) = without_comments(self.whole.glsl), self.whole.output.domain
        snippet = snippet if "$y" in snippet else f"$y = {snippet};"
        names = {
            "$size0": "dressi_size",
            "$batch0": "dressi_count",
            "$size": f"ivec2({size[0]}, {size[1]})",
            "$batch": str(batch),
            "pixel": "dressi_pixel",
            "tile": "dressi_tile",
            **(others or {}),
        }
        return _WORD.sub(lambda m: names.get(m[0], m[0]), snippet)

    def evaluate(self, at, x):
        k = "nyx".index(self.axis)
        vtype, domain = self.inputs[0].vtype, self.inputs[0].domain
        parts = []
        for first in range(0, x.shape[k], self.length):
            part = np.take(x, np.arange(first, min(first + self.length, x.shape[k])), k)
            short = with_extent(domain, self.axis, part.shape[k])
            one = self.whole.rebuild(Variable(vtype, short.size, short.batch, channels=short.channels))
            (width, height), batch, _ = one.output.domain
            places = np.ogrid[:batch, :height, :width]
            found = one.evaluate(At(places[2], places[1], places[0]), part)
            parts.append(np.broadcast_to(found, (batch, height, width, *found.shape[3:])))
        return fetch(np.concatenate(parts, k), at)


class PlaceInSegment(PixelFunction):
    """Inputs (segment, places): the index along the axis, by components. It follows from the number of a segment and the
    indices inside of all segments.

        length 4, segment 2, places 0 3 1  ->  2 * 4 + 1 = 9
    """

    operations = 5.0
    zero_derivative = True
    fields = ("length", "axis")

    def __init__(self, segment: Variable, places: Variable, length: int, axis: str):
        self.length, self.axis = length, axis
        super().__init__(segment, places)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    @property
    def fetches(self) -> float:
        return float(self.inputs[0].vtype.components)

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        vtype = self.inputs[0].vtype
        at = {"x": "ivec2({}, pixel.y), tile", "y": "ivec2(pixel.x, {}), tile", "n": "pixel, {}"}[self.axis]
        if vtype.is_scalar:
            return f"$0 * {self.length} + $1({at.format('$0')})"
        parts = [f"$1({at.format(f'$0.{c}')}).{c}" for c in "xyzw"[: vtype.components]]
        return f"$0 * {self.length} + $type({', '.join(parts)})"

    def evaluate(self, at, segment, places):
        segment = np.asarray(segment)
        rank = segment.ndim - 3
        grid = [g.reshape(g.shape + (1,) * rank) for g in (at.tile, at.y, at.x)]
        grid["nyx".index(self.axis)] = segment
        index = tuple(0 * g if n == 1 else g for g, n in zip(grid, places.shape[:3], strict=True))
        found = places[(*index, np.arange(segment.shape[-1]))] if rank else places[index]
        return segment * self.length + found


def divisible(whole: ReduceFunction) -> bool:
    """Whether the snippet of a reduction can run over a segment: it has one input, reduces the axis to one texel, and
    takes the extent of the axis from ``$size0`` or ``$batch0``."""
    if len(whole.inputs) != 1 or whole.access != (Access.FETCH,) or whole.includes:
        return False
    if whole.axis == "c" or (whole.axis == "n" and whole.inputs[0].channels > 1):
        return False
    domain = whole.inputs[0].domain
    if whole.output.domain != with_extent(domain, whole.axis, 1):
        return False
    longer = with_extent(domain, whole.axis, extent_along(domain, whole.axis) + 1)
    return (
        whole.rebuild(
            Variable(whole.inputs[0].vtype, longer.size, longer.batch, channels=longer.channels)
        ).glsl
        == whole.glsl
    )


def segment_length(extent: int, most: int) -> int:
    """The number of texels of a segment, at most ``most``, in a tree with the fewest levels, all about equally long."""
    levels, reach = 1, most
    while reach < extent:
        levels, reach = levels + 1, reach * most
    length = round(extent ** (1 / levels))
    while length**levels < extent:
        length += 1
    return min(length, most)


def reduction_tree(whole: ReduceFunction, most: int) -> Variable | None:
    """The value of an ``associative`` reduction, computed by reductions of at most ``most`` texels each, in a fixed order.

    None if the reduction is not associative, or its snippet cannot run over a segment.

        sum of 1024 texels, most 256:   1024 -> 32 sums of 32 -> 1 sum of 32
    """
    same = whole.output.vtype is whole.inputs[0].vtype
    if most < 2 or not whole.associative or not same or not divisible(whole):
        return None
    while whole.extent > most:
        level = whole.rebuild(Segments(whole, segment_length(whole.extent, most)).output)
        assert isinstance(level, ReduceFunction)
        whole = level
    return whole.output


def sum_of_parts(partial: Variable, parts: int, channels: int = 1) -> Variable:
    """The sums of every ``parts`` consecutive tiles, as images of so many channels."""
    return Segments(Sum(partial, "n"), parts, channels).output
