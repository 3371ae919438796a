"""The largest and smallest texels along the axes of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import GraphError
from ...contract.contraction import ContractIndex
from ...graph import Domain, Variable
from ..pixel.arithmetic import maximum, minimum
from ..pixel.compare import equal, select
from ..pixel.constant import Like, operands
from .coordinates import ChannelIndex, pixel_coordinates, tile_index
from .reduce import EVERY_AXIS, Reduce, Sum, reduce_entries
from .texels import extreme_numbers

__all__ = ["max", "min"]


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
