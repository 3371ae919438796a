"""Images whose texels are texels of another: shifted, cut, padded, turned, strided."""

from __future__ import annotations

from functools import cached_property
from math import prod

from ....errors import GraphError
from ...contract.contraction import ContractFunction
from ...contract.derivative import Space, readers_of
from ...contract.readers import Readers
from ...contract.terms import shape_of as image_shape
from ...graph import Domain, Variable
from ...graph.index_map import BORDERS, Affine, IndexMap
from ...graph.types import Size, size_of, whole
from .coordinates import shape_of
from .texels import check_one_row

__all__ = ["crop", "flip", "pad", "repeat", "shift", "subsample", "swap_axes"]

COLUMN, ROW = 3, 2
"""Axes of an image, as an index map numbers them."""
MOST = 256
"""The most texels that a transpose sums in one loop; beyond it images are gathered axis by axis."""


class Gather(ContractFunction):
    """Texel p of the output is texel ``map`` of p of the input, or what its border says outside.

    domain: of the output; its batch and channels are those of the input if the map leaves these axes alone.
    The map takes all tiles for images without channels. A contraction of one term.
    """

    fields = ("map", "domain")
    map: IndexMap
    domain: Domain
    reduced = ()

    @property
    def own_tile(self) -> bool:
        return self.map[:2] == (Affine.axis(0), Affine.axis(1))

    @cached_property
    def parallel(self) -> tuple[tuple[int, ...], ...]:
        whole = self.inputs[0].domain._replace(size=self.domain.size) if self.own_tile else self.domain
        return (whole.batch,), (whole.channels,), (whole.size[1],), (whole.size[0],)

    @cached_property
    def maps(self) -> tuple[IndexMap, ...]:
        if not self.own_tile and self.inputs[0].channels > 1:
            raise self.fail("other tiles are read of images without channels")
        (channels,) = self.parallel[1]
        if channels == 1:
            return (self.map,)
        m = self.map.substituted({0: Affine.of({0: channels, 1: 1}), 1: Affine()})
        assert m is not None  # the number of a tile is whole
        return (m._replace(n=Affine.axis(0), c=Affine.axis(1)) if self.own_tile else m,)

    @property
    def footprint(self) -> float:
        return self.map.footprint(shape_of(self.inputs[0].domain))

    @cached_property
    def readers_of_texels(self) -> Readers:
        """The inverse map: the output texels that read an input texel."""
        return readers_of(Space.of(self), self.maps[0], image_shape(self.inputs[0]))

    @property
    def operations(self) -> float:
        return 2.0 + 4.0 * sum(map(self.readers_of_texels.leaves, range(4)))

    def known_value(self, known):
        """What is read, where it is the same everywhere; beyond a border it may be zero."""
        kept = self.map.border != "zero" or not any(map(self.readers_of_texels.leaves, range(4)))
        return known[0] if 0 in known and (kept or not known[0].any()) else None

    @property
    def cheap(self) -> bool:
        """Whether the transpose reads about as few texels as the gather."""
        readers = self.readers_of_texels
        written = prod(self.shape) / prod(image_shape(self.inputs[0]))
        return readers.iterations <= MOST and readers.average <= max(4 * written, 1.0)


def gather(
    x: Variable, size: tuple[int, int], across: Affine, down: Affine, border: str = "zero"
) -> Variable:
    """An image of another size that reads the columns ``across`` and rows ``down`` of x; axis by axis if that
    keeps the sums of the transpose short."""
    whole = Gather(x, IndexMap.of(x=across, y=down, border=border), x.domain._replace(size=size))
    if whole.readers_of_texels.iterations <= MOST or across == Affine.axis(3) or down == Affine.axis(2):
        return whole.output
    first = gather(x, (size[0], x.size[1]), across, Affine.axis(2), border)
    return gather(first, size, Affine.axis(3), down, border)


def shift(x: Variable, dx: int, dy: int, border: str = "clamp") -> Variable:
    """The image moved by (dx, dy) texels: output (x, y) is input (x - dx, y - dy).

    x: any type. border: what comes in from outside, "clamp" (the nearest texel), "zero", "repeat" (the texels
    of the other side), "mirror" (the texels mirrored at the edge, which itself is repeated) or "reflect"
    (without repeating it). The result has the type and domain of x. Differentiable. Raises GraphError where
    dx or dy is no whole number.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> evaluate(F.shift(x, 2, 0)).ravel().tolist(), evaluate(F.shift(x, -1, 0, "zero")).ravel().tolist()
    ([1.0, 1.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0, 0.0])
    """
    dx, dy = whole(dx, "a shift"), whole(dy, "a shift")
    check_one_row(x, "a shift")
    return _moved(x, x.size, -dx, -dy, border)


def crop(x: Variable, x0: int, y0: int, size: Size) -> Variable:
    """The part of each tile that starts at texel (x0, y0) and has the given size (W, H).

    x: any type; the result has its type and batch. Differentiable. Raises GraphError for other parts.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.crop(x, 1, 1, (2, 1))).ravel().tolist()
    [7.0, 8.0]
    """
    x0, y0, size = whole(x0, "x0"), whole(y0, "y0"), size_of(size)
    check_one_row(x, "a part")
    if min(x0, y0) < 0 or x0 + size[0] > x.size[0] or y0 + size[1] > x.size[1]:
        raise GraphError(f"{x} has no part of size {size[0]}x{size[1]} at ({x0}, {y0}); use F.pad to enlarge")
    return _moved(x, size, x0, y0, "zero")


def pad(x: Variable, left: int, top: int, right: int, bottom: int, border: str = "zero") -> Variable:
    """Each tile with a margin: the given number of texels on each side.

    x: any type; the result has its type and batch. left, top, right, bottom: whole, at least 0. border: what
    the margin holds, "zero", "clamp", "repeat", "mirror" or "reflect" as for ``shift``. Differentiable.
    Raises GraphError.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> [evaluate(F.pad(x, 1, 0, 2, 0, border)).ravel().tolist() for border in ("zero", "mirror")]
    [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 4.0]]
    """
    left, top, right, bottom = (whole(n, "a padding") for n in (left, top, right, bottom))
    check_one_row(x, "a margin")
    if min(left, top, right, bottom) < 0:
        raise GraphError(f"a padding of {x} is negative; use F.crop to cut texels off")
    size = (x.size[0] + left + right, x.size[1] + top + bottom)
    return _moved(x, size, -left, -top, border)


def _moved(x: Variable, size: Size, dx: int, dy: int, border: str) -> Variable:
    """Texel (dx, dy) of x comes first."""
    if border not in BORDERS:
        raise GraphError(f"the border of {x} is one of {', '.join(map(repr, BORDERS))}, not {border!r}")
    return gather(x, size, Affine.axis(COLUMN, 1, dx), Affine.axis(ROW, 1, dy), border)


def flip(x: Variable, axes: str = "x") -> Variable:
    """Each tile with its texels in reverse order along the axes: "x" (left and right exchanged), "y" or "xy".

    x: any type; the result has its type and domain. Differentiable. Raises GraphError, also for lists in
    several rows.

    >>> evaluate(F.flip(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), "x")).ravel().tolist()
    [5.0, 4.0, 3.0, 2.0, 1.0]
    """
    check_one_row(x, "a reversal")
    if not isinstance(axes, str) or not axes or set(axes) - set("xy"):
        raise GraphError(f"axes are 'x', 'y' or 'xy', not {axes!r}")
    across, down = (
        Affine.axis(axis, -1, extent - 1) if name in axes else Affine.axis(axis)
        for name, axis, extent in zip("xy", (COLUMN, ROW), x.size, strict=True)
    )
    return gather(x, x.size, across, down)


def swap_axes(x: Variable) -> Variable:
    """Each tile with x and y exchanged: output (x, y) is input (y, x).

    x: any type, size (W, H); the result has its type and batch, and size (H, W). (``transpose`` is of the
    matrices that the texels hold.) Differentiable. Raises GraphError for a list of several rows.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.swap_axes(x))[0, 1].tolist()
    [2.0, 7.0]
    """
    check_one_row(x, "an exchange of axes")
    index = IndexMap.of(x=Affine.axis(ROW), y=Affine.axis(COLUMN))
    return Gather(x, index, x.domain._replace(size=x.size[::-1])).output


def subsample(x: Variable, step: int | tuple[int, int], first: tuple[int, int] = (0, 0)) -> Variable:
    """Every ``step``-th texel of each tile: output (x, y) is input (first + step * (x, y)).

    x: any type; the result has its type and batch. step: whole, above 0, or two such for x and y. first: (x,
    y) inside the tile. Differentiable. Raises GraphError. (``resize`` with "area" takes the mean of what is
    left out.)

    >>> evaluate(F.subsample(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), (2, 1), (1, 0))).ravel().tolist()
    [2.0, 4.0]
    """
    steps, (x0, y0) = _two(step, "a step"), (whole(k, "the first texel", 0) for k in first)
    check_one_row(x, "a stride")
    if x0 >= x.size[0] or y0 >= x.size[1]:
        raise GraphError(f"texel ({x0}, {y0}) is not in {x}")
    size = (-(-(x.size[0] - x0) // steps[0]), -(-(x.size[1] - y0) // steps[1]))
    return gather(x, size, Affine.axis(COLUMN, steps[0], x0), Affine.axis(ROW, steps[1], y0))


def repeat(x: Variable, times: int | tuple[int, int]) -> Variable:
    """Each texel repeated along both axes: output (x, y) is input (x / times, y / times), rounded down.

    x: any type; the result has its type and batch. times: whole, above 0, or two such for x and y.
    Differentiable. Raises GraphError.

    >>> evaluate(F.repeat(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), (2, 1))).ravel().tolist()
    [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]
    """
    times = _two(times, "a repetition")
    check_one_row(x, "a repetition")
    size = (x.size[0] * times[0], x.size[1] * times[1])
    return gather(x, size, Affine.of({COLUMN: 1}, 0, times[0]), Affine.of({ROW: 1}, 0, times[1]))


def _two(value: int | tuple[int, int], what: str) -> tuple[int, int]:
    x, y = value if isinstance(value, tuple) else (value, value)
    return whole(x, what, 1), whole(y, what, 1)
