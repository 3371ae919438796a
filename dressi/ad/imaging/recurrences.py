"""Recurrences along an axis: recursive filters and linear scans, in a number of passes that grows by the logarithm."""

from __future__ import annotations

from math import sqrt

from ...errors import GraphError
from ..graph import Variable
from ..ops.image.image import shift
from ..ops.image.reduce import zeros_like
from ..ops.image.texels import check_one_row
from ..ops.pixel.constant import Like, operands
from ..types import FLOAT, whole
from .convolve import matmul

__all__ = ["recurrence", "recursive_blur"]

SMALLEST = 1e-9
"""Powers of the decay that are smaller count as zero."""


def recurrence(x: Variable, decay: Like, axis: str = "x", *, reverse: bool = False) -> Variable:
    """A linear recurrence along an axis: y[i] = x[i] + decay[i] * y[i - 1], from y[-1] = 0 on.

    It is computed by doubling, in log2 of the extent passes. With decays for every texel this is an edge-aware recursive
    filter or the scan of a recurrent layer; a MATn makes recurrences of order n.

    x: FLOAT or VECn, any channels. decay: a number, or FLOAT, or for a VECn a MATn that multiplies y[i - 1] from the left;
    its domain broadcasts to that of x. axis: "x" or "y". reverse: from the last texel on, y[i] = x[i] + decay[i] * y[i + 1].
    The result has type and domain of x. Differentiable in both. Raises GraphError.

    >>> evaluate(F.recurrence(Variable.of([[1.0, 0.0, 0.0, 4.0, 0.0]]), 0.5)).ravel().tolist()
    [1.0, 0.5, 0.25, 4.125, 2.0625]
    """
    number = None if isinstance(decay, Variable) else decay
    (decay,) = operands(decay, matrices=not x.vtype.is_scalar)
    if axis not in ("x", "y"):
        raise GraphError(f"the axis of a recurrence is 'x' or 'y', not {axis!r}")
    matrix = decay.vtype.is_matrix
    fits = decay.vtype.components == x.vtype.components**2 if matrix else decay.vtype is FLOAT
    if x.vtype.is_int or x.vtype.is_matrix or not fits:
        raise GraphError(
            f"a recurrence of {x} decays by FLOAT, or by a square matrix of its order, not by {decay}"
        )
    check_one_row(x, "a recurrence")
    extent, sign = x.size[axis == "y"], -1 if reverse else 1
    uniform = decay.size[axis == "y"] == 1
    y, step = x, 1
    while step < extent:
        if isinstance(number, int | float) and abs(number) < 1 and abs(number) ** step < SMALLEST:
            break

        def moved(v: Variable, by: int = step) -> Variable:
            return shift(v, sign * by if axis == "x" else 0, sign * by if axis == "y" else 0, "zero")

        y = y + (matmul(decay, moved(y)) if matrix else decay * moved(y))
        step *= 2
        if step < extent:
            before = decay if uniform else moved(decay)
            decay = matmul(decay, before) if matrix else decay * before
    return y


def recursive_blur(x: Variable, sigma: float, passes: int = 2) -> Variable:
    """The image blurred by recursive filters: its cost does not grow with sigma but by its logarithm.

    Each pass is a decaying exponential to both sides, along rows and columns, divided by what of it lies inside the image;
    more passes come nearer to a Gaussian. x: FLOAT or VECn, any channels. sigma: standard deviation of the kernel of all
    passes, in texels, above 0. The result has type and domain of x. Differentiable. Raises GraphError.

    >>> evaluate(F.recursive_blur(Variable.of(np.full((3, 5), 2.0)), 4.0)).round(6)[0, 0].tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    if not sigma > 0:
        raise GraphError(f"a blur has a sigma above 0, not {sigma!r}")
    passes = whole(passes, "the number of passes", 1)
    v = sigma * sigma / passes
    decay = (v + 1 - sqrt(2 * v + 1)) / v  # the kernel decay^|i| has the variance 2 decay / (1 - decay)^2

    def both(y: Variable, axis: str) -> Variable:
        return recurrence(y, decay, axis) + recurrence(y, decay, axis, reverse=True) - y

    for axis in ("x", "y"):
        row = (x.size[0], 1) if axis == "x" else (1, x.size[1])
        inside = both(zeros_like(Variable(FLOAT, row)) + 1.0, axis)
        for _ in range(passes):
            x = both(x, axis) / inside
    return x
