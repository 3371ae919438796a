"""Distances between images, as one number."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from .reduction import reduced


def l1(image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: absolute differences of all components of all texels and tiles.

    target: of the type of the image, or FLOAT; batch 1 is shared.  weight: FLOAT, multiplies each texel.
    reduction: "sum", or "mean" over components, texels and tiles (weights do not change the count).
    Differentiable everywhere but where image and target agree (there 0). Raises InputError.

    >>> l1(Variable.of(np.zeros((4, 4, 3))), 0.5).shape
    (1, 1, 1)
    """
    return _reduced(F.sum_components(F.abs(F.sub(image, target))), image, weight, reduction)


def l2(image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared differences of all components of all texels and tiles; arguments as in ``l1``.

    >>> l2(Variable.of(np.zeros((4, 4, 3))), 0.5).shape
    (1, 1, 1)
    """
    difference = F.sub(image, target)
    if difference.vtype.is_scalar:
        squares = F.square(difference)
    else:
        squares = F.dot(difference, difference)
    return _reduced(squares, image, weight, reduction)


def charbonnier(
    image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean", *, scale: float
) -> Variable:
    """FLOAT 1x1: scale^2 (sqrt(1 + d^2 / scale^2) - 1) of the lengths d of the differences of all texels and tiles, which is
    robust: d^2 / 2 if d is much smaller than ``scale``, scale d if it is much larger.

    Arguments as in ``l1``; the mean is over texels and tiles. Differentiable. Raises InputError for a scale that is not
    positive.

    >>> charbonnier(Variable.of(np.zeros((4, 4, 3))), 0.5, scale=0.01).shape
    (1, 1, 1)
    """
    if not scale > 0:
        raise InputError(f"the scale of a robust loss is positive, such as 0.01, not {scale}")
    difference = F.sub(image, target)
    squares = F.square(difference) if difference.vtype.is_scalar else F.dot(difference, difference)
    # The same as the formula above, without its cancellation.
    values = squares / (F.sqrt(squares * (1 / scale**2) + 1.0) + 1.0)
    if weight is not None:
        values = values * as_variable(weight)
    (width, height), batch, _ = values.domain
    return reduced(values, width * height * batch, reduction)


def _reduced(values: Variable, image: Variable, weight: Like | None, reduction: str) -> Variable:
    if weight is not None:
        values = values * as_variable(weight)
    (width, height), batch, _ = values.domain
    return reduced(values, width * height * batch * image.vtype.components, reduction)
