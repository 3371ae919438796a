"""Distances between images, as one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like, operands
from ...ad.transform.gradient import total
from ...errors import InputError


def l1(image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: absolute differences of all components of all texels and tiles.

    target: of the type of the image, or FLOAT; batch 1 is shared.  weight: FLOAT, multiplies each texel.
    reduction: "sum", or "mean" over components, texels and tiles (weights do not change the count).
    Differentiable everywhere but where image and target agree (there 0). Raises InputError.

    >>> l1(Variable.of(np.zeros((4, 4, 3))), 0.5).shape
    (1, 1, 1)
    """
    values = F.sum_components(F.abs(F.sub(image, target)))
    return _weighted(values, weight, reduction, image.vtype.components)


def l2(image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared differences of all components of all texels and tiles; arguments as in ``l1``.

    >>> l2(Variable.of(np.zeros((4, 4, 3))), 0.5).shape
    (1, 1, 1)
    """
    return _weighted(squared(F.sub(image, target)), weight, reduction, image.vtype.components)


def charbonnier(
    image: Variable, target: Like, weight: Like | None = None, reduction: str = "mean", *, scale: float
) -> Variable:
    """FLOAT 1x1: scale^2 (sqrt(1 + d^2 / scale^2) - 1) of the lengths d of the differences of all texels and
    tiles, which is robust: d^2 / 2 if d is much smaller than ``scale``, scale d if it is much larger.

    Arguments as in ``l1``; the mean is over texels and tiles. Differentiable. Raises InputError for a scale
    that is not positive.

    >>> charbonnier(Variable.of(np.zeros((4, 4, 3))), 0.5, scale=0.01).shape
    (1, 1, 1)
    """
    if not scale > 0:
        raise InputError(f"the scale of a robust loss is positive, such as 0.01, not {scale}")
    squares = squared(F.sub(image, target))
    # The same as the formula above, without its cancellation.
    return _weighted(squares / (F.sqrt(squares * (1 / scale**2) + 1.0) + 1.0), weight, reduction)


def pyramid(loss: Callable[..., Variable], levels: int) -> Callable[..., Variable]:
    """A loss of two images, as the mean of ``loss`` over a Gaussian pyramid of both: the images themselves, and
    these halved ``levels`` times.

    At level k a pixel is 2^k pixels wide, so that an outline has a gradient where it lies that far from its
    target. This is the reach of forms without a radius (``form="edges"``). The result takes ``(image, target,
    **options of the loss)``, images of one size; ``weight`` is an image, halved too. Differentiable as the loss
    is. Raises InputError for levels of which the last is smaller than two pixels.

    >>> disc = Variable.of(np.zeros((16, 16)), FLOAT)
    >>> pyramid(l2, 3)(disc, np.ones((1, 16, 16))).shape
    (1, 1, 1)
    """

    def over_levels(image: Variable, target: Like, weight: Like | None = None, **options: Any) -> Variable:
        target, *given = operands(target, *(() if weight is None else (weight,)), beside=(image,))
        if 2 ** (levels + 1) > min(image.size):
            raise InputError(
                f"a pyramid of {levels} levels reaches beyond an image of {image.size[0]}x{image.size[1]};"
                f" it can have {max(min(image.size).bit_length() - 2, 0)}"
            )
        spread = [x if x.size == image.size else F.expand(x, x.batch, image.size) for x in (target, *given)]
        halved = [F.gaussian_pyramid(x, levels) for x in (image, *spread)]
        each = [
            loss(one, other, *(() if weight is None else rest), **options)
            for one, other, *rest in zip(*halved, strict=True)
        ]
        return total(each) * (1.0 / len(each))

    return over_levels


def squared(values: Variable) -> Variable:
    """FLOAT: squared lengths."""
    return F.square(values) if values.vtype.is_scalar else F.dot(values, values)


def _weighted(values: Variable, weight: Like | None, reduction: str, components: int = 1) -> Variable:
    if weight is not None:
        values = values * as_variable(weight)
    (width, height), batch, _ = values.domain
    return reduced(values, width * height * batch * components, reduction)


def reduced(values: Variable, count: int | Variable, reduction: str) -> Variable:
    """FLOAT 1x1: the sum of all texels and tiles of ``values`` (FLOAT), for "mean" over ``count``, their
    number or total weight. Raises InputError."""
    if reduction not in ("sum", "mean"):
        raise InputError(f"reduction is 'sum' or 'mean', not {reduction!r}")
    total = F.sum(values)
    if reduction == "sum":
        return total
    return total / count if isinstance(count, Variable) else total * (1.0 / count)


# Structural similarity as a graph: one minus it is a loss. ``metrics.ssim`` is that of arrays under masks.

RADIUS, SIGMA = 5, 1.5
"""The window of the paper: 11x11 texels of a Gaussian."""
K1, K2 = 0.01, 0.03
SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Exponents of the scales, from fine to coarse: Wang, Simoncelli and Bovik, section 3.2."""


def structural_similarity(
    image: Variable, target: Like, weight: Like | None = None, data_range: float = 1.0
) -> Variable:
    """FLOAT 1x1: the mean structural similarity of two images, at most 1. Wang et al. 2004, equation 13.

    image: FLOAT with any channels, or VECn, of at least 11x11 texels; sRGB codes are what people compare.
    target: of its type and size; batch 1 is shared.  weight: FLOAT of one channel and the size of the image,
    multiplies the similarity of each texel; the mean is over the weights then.  data_range: from black to
    white. Windows are Gaussians of 11x11 texels and sigma 1.5 that lie inside of the image, as in the paper
    and in scikit-image with gaussian_weights=True and use_sample_covariance=False. Differentiable in both.
    Raises InputError.

    >>> image = Variable.of(np.random.default_rng(0).uniform(size=(16, 16, 3)))
    >>> round(evaluate(structural_similarity(image, image)).item(), 3)
    1.0
    """
    image, target = _pair(image, target, 2 * RADIUS + 1)
    similarity = F.hadamard(*_similarities(image, target, data_range))
    if weight is None:
        return _over_components(F.mean(similarity))
    _, given = operands(image, weight)
    inside = F.crop(given, RADIUS, RADIUS, similarity.size)
    if inside.channels != 1 or not inside.vtype.is_scalar:
        raise InputError(f"the weight of a similarity is FLOAT of one channel, not {weight}")
    texels = similarity.batch // inside.batch * similarity.channels
    total = F.maximum(F.sum(inside) * float(texels), 1e-6)
    return _over_components(F.sum(similarity * inside)) / total


def multiscale_structural_similarity(
    image: Variable, target: Like, data_range: float = 1.0, scales: Sequence[float] = SCALES
) -> Variable:
    """FLOAT 1x1: the structural similarity over several scales, at most 1. Wang, Simoncelli and Bovik 2003,
    equation 7.

    image, target, data_range: as for ``structural_similarity``; the image has 11 texels at the coarsest scale
    at least, 176 with five of them.  scales: their exponents from fine to coarse; each halves the size, by
    the mean of 2x2 texels. Contrasts and structures of all scales are multiplied, with the luminance of the
    last, for every image and channel, and then averaged; those below 0 count as 0. Differentiable in both.
    Raises InputError.

    >>> image = Variable.of(np.random.default_rng(0).uniform(size=(24, 24)))
    >>> round(evaluate(multiscale_structural_similarity(image, image, scales=(0.4, 0.6))).item(), 3)
    1.0
    """
    if not scales:
        raise InputError("a similarity over scales has one scale at least")
    image, target = _pair(image, target, (2 * RADIUS + 1) << (len(scales) - 1))
    factors = []
    for number, exponent in enumerate(scales):
        if number:
            image, target = F.average_pool(image, 2), F.average_pool(target, 2)
        luminance, contrast = _similarities(image, target, data_range)
        last = number == len(scales) - 1
        mean = F.mean(F.hadamard(luminance, contrast) if last else contrast, "xy")
        factors.append(F.pow(F.maximum(mean, 0.0), float(exponent)))
    return _over_components(F.mean(reduce(F.hadamard, factors)))


def _pair(image: Variable, target: Like, least: int) -> tuple[Variable, Variable]:
    _, other = operands(image, target)
    if (image.vtype, image.size, image.channels) != (other.vtype, other.size, other.channels):
        raise InputError(f"{image} and {other}, which are compared, are of one type and size")
    if min(image.size) < least:
        raise InputError(
            f"{image} is too small for a similarity of windows, which takes {least}x{least} texels at least"
        )
    return image, other


def _over_components(mean: Variable) -> Variable:
    return F.sum_components(mean) * (1.0 / mean.vtype.components)


def _similarities(x: Variable, y: Variable, data_range: float) -> tuple[Variable, Variable]:
    """(luminance, contrast times structure) where windows lie inside: equations 6 and 9 with 10."""
    c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2

    def blurred(x: Variable) -> Variable:
        return F.gaussian_blur(x, SIGMA, border=None, reach=RADIUS / SIGMA)

    mean_x, mean_y = blurred(x), blurred(y)
    product, squares = F.hadamard(mean_x, mean_y), F.hadamard(mean_x, mean_x) + F.hadamard(mean_y, mean_y)
    covariance = blurred(F.hadamard(x, y)) - product
    variances = blurred(F.hadamard(x, x) + F.hadamard(y, y)) - squares
    return F.div(product * 2.0 + c1, squares + c1), F.div(covariance * 2.0 + c2, variances + c2)
