"""Filters and statistics: Gaussian and box blurs, guided filter, soft histogram."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..ops.image.reduce import expand
from ..ops.pixel.arithmetic import clamp
from ..ops.pixel.constant import Like, operands
from ..ops.pixel.geometry import dot
from ..ops.pixel.matrix import inverse, outer
from ..types import FLOAT, VEC3, whole
from .contract import contract
from .convolve import correlate

__all__ = ["box_blur", "gaussian_blur", "guided_filter", "histogram"]


def gaussian_blur(x: Variable, sigma: float, border: str | None = "clamp", *, reach: float = 3.0) -> Variable:
    """The image blurred by a Gaussian, row by row and column by column.

    x: FLOAT, VECn or MATn, any channels. sigma: its standard deviation in texels, above 0. The kernel ends at ``reach``
    sigma and sums to 1. border: as for ``correlate``. The result has type and domain of x, or without a border what lies inside. Differentiable in x. Raises
    GraphError.

    >>> (100 * evaluate(F.gaussian_blur(Variable.of([[0.0, 0.0, 1.0, 0.0, 0.0]]), 0.8))).round().ravel().tolist()
    [2.0, 23.0, 50.0, 23.0, 2.0]
    """
    if not sigma > 0 or not reach > 0:
        raise GraphError(f"a Gaussian has a sigma and a reach above 0, not {sigma!r} and {reach!r}")
    radius = max(ceil(reach * sigma - 0.5), 1)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return _separable(x, kernel / kernel.sum(), border)


def _separable(x: Variable, kernel: np.ndarray, border: str | None) -> Variable:
    """Correlated with a row, and then with the same as a column."""
    row = correlate(x, Variable.of(kernel[None], FLOAT), border=border)
    return correlate(row, Variable.of(kernel[:, None], FLOAT), border=border)


def box_blur(x: Variable, radius: int) -> Variable:
    """The mean of the texels within ``radius`` along both axes, of those that there are.

    x: FLOAT, VECn or MATn, any channels. radius: whole, at least 0. The result has type and domain of x. Differentiable.
    Raises GraphError.

    >>> evaluate(F.box_blur(Variable.of([[0.0, 3.0, 6.0, 0.0, 0.0]]), 1)).ravel().tolist()
    [1.5, 3.0, 3.0, 2.0, 0.0]
    """
    radius = whole(radius, "the radius", 0)
    counts = [
        np.minimum(np.arange(n) + radius, n - 1) - np.maximum(np.arange(n) - radius, 0) + 1 for n in x.size
    ]
    across, down = Variable.of(1.0 / counts[0][None], FLOAT), Variable.of(1.0 / counts[1][:, None], FLOAT)
    return _separable(x, np.ones(2 * radius + 1), "zero") * across * down


def guided_filter(image: Variable, guide: Variable, radius: int, eps: float = 1e-3) -> Variable:
    """The image as a function of the guide, linear in every window: it keeps the guide's edges (He, Sun and Tang, 2010).

    image: FLOAT or VECn. guide: FLOAT, or VEC3 for a FLOAT image, of the same domain. radius: of the windows, in texels.
    eps: added to the guide's variance; where that is smaller the result is the mean. The result has type and domain of the
    image. Differentiable in both. Raises GraphError.

    >>> step = Variable.of([[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
    >>> bool(np.allclose(evaluate(F.guided_filter(step, step, 1, 1e-9) - step), 0.0))
    True
    """
    if guide.vtype not in (FLOAT, VEC3) or image.vtype.is_int or image.vtype.is_matrix:
        raise GraphError(
            f"a guided filter takes FLOAT or VECn and a guide FLOAT or VEC3, not {image} and {guide}"
        )
    if not eps > 0:
        raise GraphError(f"what is added to the variance of a guide is above 0, such as 1e-3, not {eps!r}")
    if guide.domain != image.domain or (guide.vtype is VEC3 and image.vtype is not FLOAT):
        raise GraphError(f"{guide} cannot guide {image}: domains are equal, and a VEC3 guides a FLOAT")
    mean_guide, mean = box_blur(guide, radius), box_blur(image, radius)
    if guide.vtype is FLOAT:
        variance = box_blur(guide * guide, radius) - mean_guide * mean_guide
        slope = (box_blur(guide * image, radius) - mean_guide * mean) / (variance + eps)
        offset = mean - slope * mean_guide
        return box_blur(slope, radius) * guide + box_blur(offset, radius)
    variance = box_blur(outer(guide, guide), radius) - outer(mean_guide, mean_guide)
    slope = inverse(variance + eps * np.eye(3)) @ (box_blur(guide * image, radius) - mean_guide * mean)
    offset = mean - dot(slope, mean_guide)
    return dot(box_blur(slope, radius), guide) + box_blur(offset, radius)


def histogram(
    x: Variable, bins: int, low: float = 0.0, high: float = 1.0, weight: Like | None = None
) -> Variable:
    """A soft histogram: every texel is shared by the two bins whose centres are beside its value.

    x: FLOAT, any channels. bins: their number, at least 2, from ``low`` to ``high``; values beyond the outermost centres
    count for these. weight: FLOAT, what a texel counts, 1 by default. The result is FLOAT (bins, 1) for every tile and
    channel. Differentiable in x and weight. Raises GraphError.

    >>> evaluate(F.histogram(Variable.of([[0.1, 0.3, 0.5, 0.9, 2.0]]), 5)).round(6).ravel().tolist()
    [1.0, 1.0, 1.0, 0.0, 2.0]
    """
    bins = whole(bins, "the number of bins", 2)
    if x.vtype is not FLOAT or not high > low:
        raise GraphError(f"a histogram takes FLOAT and low < high, not {x}, {low!r} and {high!r}")
    place = clamp((x - low) * (bins / (high - low)) - 0.5, 0.0, bins - 1.0)
    given: dict[str, Any] = {}
    text = "out[b] = max(1 - abs(place[y, x] - b), 0)"
    if weight is not None:
        (weight,) = operands(weight, beside=(x,))
        given, text = {"weight": expand(weight, x.batch, x.size, x.channels)}, f"{text} * weight[y, x]"
    return contract(text, place=place, extents={"b": bins}, **given)
