"""Sums, means and extremes along the axes of an image, and the transpose of sums: broadcasting to a domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from ....errors import GraphError
from ...contract.contraction import ContractIndex, Contraction, contraction_glsl, unrolled_glsl
from ...contract.terms import COMBINE, shape_of
from ...graph import Domain, ReduceFunction, Variable, domain_of
from ...graph.index_map import IMAGE_AXES, Affine, IndexMap
from ...graph.types import Size, VType
from ..pixel.arithmetic import maximum, minimum
from ..pixel.compare import equal, select
from ..pixel.constant import Like, constant, operands
from ..pixel.kinds import Linear
from ..pixel.vector import fill
from .coordinates import ChannelIndex, entries_only, extreme_numbers, fetch, pixel_coordinates, tile_index

__all__ = ["expand", "fit", "max", "mean", "min", "sum", "zeros", "zeros_like"]


EVERY_AXIS = "xycn"
_TEXTS: dict[Any, str] = {}
_MOST_TEXTS = 1024


@cache
def _maps(axis: str) -> tuple[IndexMap]:
    return (IndexMap.to([Affine.axis(4 if name == axis else k) for k, name in enumerate(IMAGE_AXES)]),)


class Reduce(ReduceFunction, Contraction):
    """A contraction along one axis of an image: "x", "y", "c" (channels) or "n" (the images of the batch)."""

    fields = ("axis",)

    @property
    def parallel(self):
        shape = zip(IMAGE_AXES, shape_of(self.inputs[0]), strict=True)
        return tuple((1 if name == self.axis else extent,) for name, extent in shape)

    @property
    def reduced(self):
        return (self.extent,)

    @property
    def maps(self):
        return _maps(self.axis)

    @cached_property
    def glsl(self) -> str:
        return self._text(contraction_glsl)

    def _text(self, write: Callable[[Any], str]) -> str:
        """Reductions of one kind, type and domain have one text, which programs with many of them write once."""
        key = write, type(self), self.axis, self.output.vtype, self.inputs[0].domain
        if key not in _TEXTS:
            if len(_TEXTS) >= _MOST_TEXTS:
                _TEXTS.clear()
            _TEXTS[key] = write(self)
        return _TEXTS[key]

    def evaluate(self, at, x):
        x = x.reshape(*shape_of(self.inputs[0]), *x.shape[3:])
        reduced = COMBINE[self.combine].reduce(x, axis=IMAGE_AXES.index(self.axis))
        return fetch(reduced.reshape(self.output.tiled), at)


class Sum(Reduce, Linear):
    """The sum, compensated on devices. The batch is summed even if it is 1; see ``Expand``."""

    operations: Any = 9.0
    combine = "add"
    long = 1

    @cached_property
    def unrolled(self) -> str:
        return self._text(unrolled_glsl)

    def transpose(self, gy):
        return Expand(gy, self.inputs[0].domain).output


class Expand(Linear):
    """Broadcasts axes of extent 1 to ``domain``. The transpose sums over the batch even if it is 1, so that a
    plan for one view has the passes of a plan for many."""

    operations = 1.0
    exact = True
    fields = ("domain",)
    domain: Domain
    glsl = "$0"

    def infer(self):
        x = self.inputs[0]
        for have, want in zip(extents(x.domain), extents(self.domain), strict=True):
            if have not in (1, want):
                raise self.fail(f"{x.domain} does not broadcast to {self.domain}")
        return x.vtype, self.domain

    def eval(self, x):
        return np.broadcast_to(x, self.output.tiled)

    def evaluate(self, at, x):
        shape = np.broadcast_shapes(at.x.shape, at.y.shape, at.tile.shape)
        return np.broadcast_to(x, shape + self.output.vtype.shape)

    def transpose(self, gy):
        x = self.inputs[0]
        for axis, have, want in zip("xyc", extents(x.domain), extents(self.domain), strict=False):
            if have != want:
                gy = Sum(gy, axis).output
        return Sum(gy, "n").output if x.batch == 1 else gy


def check_axes(axes: Any) -> None:
    """Raises GraphError for axes that are not letters of "xycn"; names the letters meant by numbers."""
    if isinstance(axes, str) and not set(axes) - set(EVERY_AXIS):
        return
    numbers: list[Any] = [*axes] if isinstance(axes, tuple | list) else [axes]
    meant = ""
    if numbers and all(isinstance(k, int) and not isinstance(k, bool) and -4 <= k < 4 for k in numbers):
        letters = "".join(sorted({IMAGE_AXES[k] for k in numbers}, key=IMAGE_AXES.index))
        meant = f"; of an array (n, c, y, x) axis {axes} is {letters!r}"
    raise GraphError(f"axes are letters of 'xycn', 'c' the channels and 'n' the batch, not {axes!r}{meant}")


def reduce_axes(kind: type[Reduce], x: Variable, axes: str) -> Variable:
    """x reduced along axes, in the order y, x, c, n; texels behind the last entry of a list count."""
    check_axes(axes)
    one_texel = x.size == (1, 1)
    # y first: neighbouring invocations then read neighbouring texels.
    for axis in "yxcn":
        if axis in axes:
            function = kind(x, axis)
            # The batch of an image is reduced even if it is 1: a plan for one view has the passes of a plan
            # for many.
            keep = function.extent > 1 or (axis == "n" and not one_texel)
            x = function.output if keep else x
    return x


def reduce_entries(kind: type[Reduce], x: Variable, axes: str, neutral: float) -> Variable:
    """``reduce_axes`` of an image, or of the entries of a list. neutral: the value that changes no result.
    Raises GraphError as well for one of "x" and "y" if a list has several rows."""
    check_axes(axes)
    if x.count is not None and x.size[1] > 1 and ("x" in axes) != ("y" in axes):
        raise GraphError(
            f"{x} is a list of {x.count} entries in rows of {x.size[0]}; reduce it along 'xy', not {axes!r}"
        )
    return reduce_axes(kind, entries_only(x, neutral) if "x" in axes else x, axes)


def extents(domain: Domain) -> tuple[int, int, int, int]:
    """Along x, y, the channels and the batch."""
    return (*domain.size, domain.channels, domain.batch)


def sum(x: Like, axes: str = EVERY_AXIS) -> Variable:
    """The sum of the texels along axes of an image.

    x: any type, (W, H) with a batch. axes: letters of "xycn": "x" and "y" inside a tile, "c" over channels,
    "n" over the batch; default: all. The result has the type of x, and extent 1 along these axes. Float sums
    are compensated on devices. Of a list the entries are summed, not what fills its last row. Differentiable.
    Raises GraphError for other axes. Components are summed separately; ``sum_components`` adds them.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.sum(x)).item(), evaluate(F.sum(x, "x")).ravel().tolist()
    (55.0, [15.0, 40.0])
    """
    (x,) = operands(x)
    return reduce_entries(Sum, x, axes, 0)


def mean(x: Like, axes: str = EVERY_AXIS) -> Variable:
    """The mean of the texels along axes of an image.

    x: FLOAT, VECn or MATn. axes: as for ``sum``. The result has the type of x, and extent 1 along these axes.
    Differentiable. Raises GraphError.

    >>> evaluate(F.mean(Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]))).item()
    3.0
    """
    (x,) = operands(x)
    total = sum(x, axes)
    texels = math.prod(n for axis, n in zip(EVERY_AXIS, extents(x.domain), strict=True) if axis in axes)
    count = texels if x.count is None or "x" not in axes else x.count * (x.batch if "n" in axes else 1)
    return total if count == 1 else total * (1.0 / count)


def expand(
    x: Like, batch: int | None = None, size: Size | None = None, channels: int | None = None
) -> Variable:
    """x repeated to a batch, a size and channels: one value or image for many.

    x: any type. batch, size, channels: of the result, by default those of x; along each axis x has the same
    extent or 1. (Operations broadcast by themselves.) Differentiable: the gradient is summed over the axes,
    and always over a batch of 1. Raises GraphError.

    >>> evaluate(F.expand(2.0, batch=2, size=(3, 1))).tolist()
    [[[2.0, 2.0, 2.0]], [[2.0, 2.0, 2.0]]]
    """
    (x,) = operands(x)
    batch, channels = x.batch if batch is None else batch, x.channels if channels is None else channels
    return Expand(x, domain_of(x.size if size is None else size, batch, channels)).output


def fit(x: Variable, like: Variable) -> Variable:
    """x with the type and domain of another Variable; x itself if it has them already.

    x: the type of ``like``, or a scalar that fills it; each extent is that of ``like`` or 1. Differentiable.
    Raises GraphError where x does not broadcast.

    >>> evaluate(F.fit(Variable.of(2.0), Variable(VEC2, (2, 1)))).tolist()
    [[[[2.0, 2.0], [2.0, 2.0]]]]
    """
    if x.vtype is not like.vtype:
        x = fill(x, like.vtype)
    return x if x.domain == like.domain else Expand(x, like.domain).output


def zeros_like(x: Variable) -> Variable:
    """Zeros of the type and domain of x. A constant: no derivative.

    >>> F.zeros_like(Variable(VEC3, (4, 2)))
    VEC3 Expand#... (4x2)
    """
    return zeros(x.vtype, x.domain)


def zeros(vtype: VType, domain: Domain | tuple[Size, int]) -> Variable:
    """Zeros of a type and a domain.

    vtype: FLOAT, VEC3, INT, ...; domain: ((W, H), batch). A constant: no derivative. Raises GraphError.

    >>> evaluate(F.zeros(FLOAT, ((3, 2), 1))).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    if not isinstance(domain, Domain):
        try:
            size, batch = domain
        except (TypeError, ValueError):
            raise GraphError(f"a domain is ((width, height), batch), not {domain!r}") from None
        domain = domain_of(size, batch)
    zero = constant(0, vtype)
    return zero if domain == zero.domain else Expand(zero, domain).output


# The largest and smallest texels along the axes of an image.


class ReduceExtreme(Reduce):
    """The gradient goes to the first of equal texels."""

    operations: Any = 6.0

    def _chosen(self) -> Variable:
        """A mask of the texels that give the output: one along the axis, by components."""
        (x,) = self.inputs
        return equal(ContractIndex(x, **self.form).output, along(x, self.axis))

    def vjp(self, gy, i):
        return None if self.output.vtype.is_int else select(self._chosen(), gy, 0.0)

    def jvp(self, tangents):
        if tangents[0] is None or self.output.vtype.is_int:
            return None
        return Sum(select(self._chosen(), tangents[0], 0.0), self.axis).output


class ReduceMax(ReduceExtreme):
    combine = "max"


class ReduceMin(ReduceExtreme):
    combine = "min"


def along(x: Variable, axis: str) -> Variable:
    """INT: the numbers of the texels of an image along an axis."""
    if axis == "n":
        return tile_index((1, 1), x.batch)
    if axis == "c":
        return ChannelIndex(Domain((1, 1), x.channels, x.channels)).output
    width, height = x.size
    place = pixel_coordinates((width, 1) if axis == "x" else (1, height))
    return place.x if axis == "x" else place.y


def _extreme(
    pairwise: Callable[[Like, Like], Variable],
    kind: type[Reduce],
    a: Like,
    b: Like | str | None,
    axes: str | None,
) -> Variable:
    """``max`` or ``min``. pairwise: of two values. kind: along the axes of one. Raises GraphError if both are given."""
    if axes is not None and b is not None:
        raise GraphError(f"F.{kind.combine} takes either a second value or axes of the first, not both")
    if b is not None and not isinstance(b, str):
        return pairwise(a, b)
    (x,) = operands(a)
    axes = axes if b is None else b
    nothing = extreme_numbers(x)[kind.combine == "min"]
    return reduce_entries(kind, x, EVERY_AXIS if axes is None else axes, nothing)


def max(a: Like, b: Like | str | None = None, axes: str | None = None) -> Variable:
    """The larger of two, or the largest texel of an image.

    ``max(a, b)`` is ``maximum(a, b)``: by components, if they are equal the gradient goes to a. ``max(a)``,
    ``max(a, "xy")`` and ``max(a, axes="xy")``: the largest texel along the axes (letters of "xycn" as for
    ``sum``), by components.

    a: FLOAT, VECn, INT or IVECn. The result has its type, and extent 1 along the axes. Differentiable; among
    equal texels along an axis the first gets the gradient (y before x before n). Raises GraphError.

    >>> evaluate(F.max(Variable.of([3.0, 9.0, 1.0, 4.0, 5.0]))).item()
    9.0
    """
    return _extreme(maximum, ReduceMax, a, b, axes)


def min(a: Like, b: Like | str | None = None, axes: str | None = None) -> Variable:
    """The smaller of two, or the smallest texel of an image.

    ``min(a, b)`` is ``minimum(a, b)``: by components, if they are equal the gradient goes to a. ``min(a)``,
    ``min(a, "xy")`` and ``min(a, axes="xy")``: the smallest texel along the axes (letters of "xycn" as for
    ``sum``), by components.

    a: FLOAT, VECn, INT or IVECn. The result has its type, and extent 1 along the axes. Differentiable; among
    equal texels along an axis the first gets the gradient (y before x before n). Raises GraphError.

    >>> evaluate(F.min(Variable.of([3.0, 9.0, 1.0, 4.0, 5.0]))).item()
    1.0
    """
    return _extreme(minimum, ReduceMin, a, b, axes)
