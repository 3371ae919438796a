"""What the strips of a shader ask of each other, and texts of indices and sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from .....ad.graph import Variable
from .....ad.graph.index_map import Affine
from ..text.writer import Writer

Point = dict[int, int]
"""Distances of the axes of an entry of a block from the first one."""


class Source(Protocol):
    """A value that the shader makes."""

    def texel(self, strip: Any, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        """The texel n, c, y, x, over the names of the axes of the ``Strip`` that reads it. beyond: along which axes it may lie outside of the image.
        None where it always does."""
        ...


class Texel(NamedTuple):
    """name: of its value.  tests: names of what has to hold; else it is 0.  level: the loop in which it is known."""

    name: str
    tests: list[str]
    level: int


def moved_by(first: Point, point: Point) -> Point:
    return {a: first.get(a, 0) + point.get(a, 0) for a in (*first, *(a for a in point if a not in first))}


def added(factors: list[str], total: str) -> str:
    """An expression of a sum and a product more."""
    *first, last = factors
    return f"fma({' * '.join(first)}, {last}, {total})" if first else f"{total} + {last}"


def tile_text(n: str, c: str, tiles: int, channels: int) -> str:
    """The number of a tile, as an expression that stands beside others."""
    return f"({n})" if channels == 1 else f"({c})" if tiles == 1 else f"(({n}) * {channels} + {c})"


def places(axes: tuple[tuple[int, ...], ...], extents: tuple[int, ...]) -> Iterator[Affine]:
    """The indices n, c, y, x of the output, each of one axis or several."""
    for own in axes:
        terms, radix = {}, 1
        for axis in reversed(own):
            terms[axis], radix = radix, radix * extents[axis]
        yield Affine.of(terms)


def load_of(w: Writer, v: Variable, tile: str, y: str, x: str) -> str:
    """An expression of a texel, from where it is stored."""
    if v in w.images and v not in w.s.channels:
        return w.load(v, w.texel(v, tile, f"ivec2({x}, {y})"))
    return f"{w.fetch(v)}(ivec2({x}, {y}), {tile})"
