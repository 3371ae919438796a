"""Pyramids, and filters on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..ops.image.resize import resize
from ..ops.pixel.arithmetic import clamp
from ..ops.pixel.exponential import exp
from ..types import FLOAT, whole
from .contract import contract
from .convolve import correlate

__all__ = ["collapse_pyramid", "gaussian_pyramid", "laplacian_pyramid", "local_laplacian"]

HALVING = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64.0


def gaussian_pyramid(x: Variable, levels: int) -> list[Variable]:
    """The image, and ``levels`` times the half of it, each blurred by (1, 3, 3, 1) / 8 along both axes and subsampled.

    x: FLOAT or VECn, any channels. Extents are halved and rounded up. The result is a list of levels + 1 images of the type
    of x, the finest first. Differentiable. Raises GraphError.

    >>> [level.size for level in F.gaussian_pyramid(Variable(VEC3, (40, 25)), 3)]
    [(40, 25), (20, 13), (10, 7), (5, 4)]
    """
    found = [x]
    for _ in range(whole(levels, "the number of levels", 0)):
        if max(found[-1].size) == 1:
            raise GraphError(f"{x} cannot be halved {levels} times; give fewer levels")
        found.append(correlate(found[-1], Variable.of(HALVING, FLOAT), stride=2, border="mirror"))
    return found


def laplacian_pyramid(x: Variable, levels: int) -> list[Variable]:
    """What each level of the Gaussian pyramid has beyond the next one, enlarged; the last is the coarsest level itself.

    x: FLOAT or VECn, any channels. The result is a list of levels + 1 images of the type of x; ``collapse_pyramid`` makes the
    image of it, exactly. Differentiable. Raises GraphError.

    >>> x = Variable.of(np.arange(30.0).reshape(5, 6))
    >>> bool(np.allclose(evaluate(F.collapse_pyramid(F.laplacian_pyramid(x, 2)) - x), 0.0, atol=1e-6))
    True
    """
    levels_of = gaussian_pyramid(x, levels)
    fine = [a - resize(b, a.size) for a, b in pairwise(levels_of)]
    return [*fine, levels_of[-1]]


def collapse_pyramid(levels: Sequence[Variable]) -> Variable:
    """The image of a Laplacian pyramid: every level is enlarged (bilinear) and added to the next finer one.

    levels: FLOAT or VECn images, the finest first. The result has the type and domain of the first. Differentiable. Raises
    GraphError.

    >>> fine, coarse = Variable.of(np.zeros((2, 4))), Variable.of([[3.0, 3.0]], FLOAT)
    >>> evaluate(F.collapse_pyramid([fine, coarse])).ravel().tolist()
    [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    """
    if not levels:
        raise GraphError("a pyramid has at least one level")
    found = levels[-1]
    for level in reversed(levels[:-1]):
        found = level + resize(found, level.size)
    return found


def local_laplacian(
    x: Variable,
    detail: float = 1.0,
    contrast: float = 1.0,
    *,
    sigma: float = 0.2,
    levels: int = 4,
    bands: int = 8,
) -> Variable:
    """The local Laplacian filter: detail and contrast without halos (Paris, Hasinoff and Kautz, 2011), by bands of values
    (Aubry and others, 2014).

    Around each of ``bands`` values g the image becomes contrast * (x - g) + g + detail * (x - g) exp(-(x - g)^2 / (2
    sigma^2)); the pyramid of the result takes every coefficient from the bands beside the local mean.

    x: FLOAT from 0 to 1, without channels. detail: above 0 for more of it, below for less. contrast: 1 keeps it; numbers or
    FLOAT of one texel. sigma: differences of values that are detail. levels: of the pyramids. The result has type and domain of x. Differentiable
    in x, detail and contrast. Raises GraphError.

    >>> x = Variable.of(np.random.default_rng(0).random((12, 16)))
    >>> bool(np.allclose(evaluate(F.local_laplacian(x, 0.0, 1.0, levels=2) - x), 0.0, atol=1e-6))
    True
    """
    if x.vtype is not FLOAT or x.channels > 1:
        raise GraphError(f"a local Laplacian filter takes FLOAT without channels, not {x}")
    if not sigma > 0:
        raise GraphError(f"sigma of a local Laplacian filter is above 0, not {sigma!r}")
    bands = whole(bands, "the number of bands", 2)
    values = np.linspace(0.0, 1.0, bands).reshape(1, bands, 1, 1)
    away = x - Variable(FLOAT, channels=bands, data=values)
    remapped = x + (contrast - 1.0) * away + detail * away * exp(away * away * (-0.5 / sigma**2))
    means, details = gaussian_pyramid(x, levels), laplacian_pyramid(remapped, levels)
    chosen = [
        contract(
            "out[c, y, x] = detail[k, y, x] * max(1 - abs(place[y, x] - k), 0)",
            detail=fine,
            extents={"c": 1},
            place=clamp(mean * (bands - 1.0), 0.0, bands - 1.0),
        )
        for mean, fine in zip(means, details[:-1])
    ]
    return collapse_pyramid([*chosen, means[-1]])
