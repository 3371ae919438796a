"""Texels of images and entries of lists, which lie in rows of ``LIST_WIDTH`` texels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import At, Domain, PixelFunction, Variable
from ...graph.types import Access
from ..pixel.compare import less, select
from .coordinates import LinearIndex


class Picks(PixelFunction):
    """Inputs (x, index): the texel of x that the index names, 0 where it names none. Linear in x."""

    fetches = 1.0

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    def jvp(self, tangents):
        if tangents[0] is None or self.output.vtype.is_int:
            return None
        return self.rebuild(tangents[0], self.inputs[1]).output


def where_inside(inside: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - inside.ndim)), values, 0)


def fetch(values: np.ndarray, at: At, x=None, y=None, tile=None) -> np.ndarray:
    """``values[tile, y, x]`` at the texels ``at``, or at given coordinates. Axes of length 1 broadcast."""
    indices = (at.tile if tile is None else tile, at.y if y is None else y, at.x if x is None else x)
    return values[tuple(0 * i if n == 1 else i for n, i in zip(values.shape[:3], indices, strict=True))]


def check_one_row(x: Variable, what: str) -> None:
    """Raises GraphError for a list in several rows: entries across their ends are no neighbours."""
    if x.count is not None and x.size[1] > 1:
        raise GraphError(
            f"{what} of {x}, a list of {x.count} entries, would break it at the ends of rows of {x.size[0]};"
            f" make an image of one row from an array (1, {x.count}), or read entries by F.lookup"
        )


def entries_only(x: Variable, outside: float = 0, of: Variable | None = None) -> Variable:
    """The list x with ``outside`` behind its last entry, where its gradient is 0; x itself if there is no
    such texel. of: the list whose entries these are, if it is not x."""
    rows = x if of is None else of
    if rows.count is None or rows.count == rows.size[0] * rows.size[1]:
        return x
    inside = less(LinearIndex(Domain(rows.size, 1)).output, rows.count)
    return select(inside, x, int(outside) if x.vtype.is_int else float(outside))


def extreme_numbers(x: Variable) -> tuple[float, float]:
    numbers = np.iinfo(np.int32) if x.vtype.is_int else np.finfo(np.float32)
    return float(numbers.min), float(numbers.max)
