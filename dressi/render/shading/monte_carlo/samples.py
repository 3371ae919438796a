"""Directions for the light that a surface reflects: of the map, of the cosine and of the microfacets, with one density.

Veach and Guibas, "Optimally Combining Sampling Techniques for Monte Carlo Rendering" (1995): with the balance heuristic a
sample counts by one over the mean of all densities at it, no matter which of them drew it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.pixel.constant import Like
from ....errors import InputError
from ..bsdf import Bsdf, Frame
from ..bsdf.sampling import Grid, seen_from_above
from .distribution import MapDistribution

BY_MAP = 0.5
"""The share of samples that are drawn from the map."""
COUNTERS = 8
"""Numbers of F.random that a step may use."""


class Samples(NamedTuple):
    """Directions and what they count. The images hold ``grid`` texels for each pixel, ``environment_samples``."""

    direction: Variable
    """VEC3: unit, in the world, away from the surface."""
    weight: Variable
    """FLOAT: one over the density over solid angle; 0 below the surface. Their mean is the integral."""
    grid: Grid


def grid_of(samples: int) -> Grid:
    """Samples along x and y, as near to a square as the number allows. Raises InputError.

    >>> [tuple(grid_of(samples)) for samples in (64, 32, 7)]
    [(8, 8), (4, 8), (1, 7)]
    """
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= 1024:
        raise InputError(
            f"samples of a pixel are a whole number from 1 to 1024, not {samples!r}; send more steps for more"
        )
    across = next(k for k in range(math.isqrt(samples), 0, -1) if samples % k == 0)
    return Grid(across, samples // across)


def environment_samples(
    distribution: MapDistribution,
    to_world: Variable | None,
    surface: Bsdf,
    frame: Frame,
    samples: int,
    seed: Like = 0,
    step: Like = 0,
) -> Samples:
    """``samples`` directions for every pixel: half by the map, the others by the surface.

    to_world: MAT3 from the map to the world, None for the identity.  seed, step: INT, one texel; each step has other
    numbers. The result has no derivatives: samples are detached, so that the mean of weight times integrand is unbiased, and
    so are its derivatives at fixed samples. Raises InputError.
    """
    grid = grid_of(samples)
    given = [frame.normal, frame.to_eye, *surface.variables()]
    width, height = (max(x.size[k] for x in given) for k in (0, 1))
    batch, large = max(x.batch for x in given), (width * grid.across, height * grid.down)

    def spread(x: Variable) -> Variable:
        return F.stop_gradient(grid.spread(x))

    surface, frame = surface.each(spread), frame.each(spread)
    frame = frame._replace(to_eye=seen_from_above(frame.normal, frame.to_eye))

    first = step * COUNTERS
    number = grid.numbers(large)
    turns = [grid.spread(F.random(seed, first + k, (width, height), batch)) for k in range(3)]
    in_texel = [F.random(seed, first + k, large, batch) for k in (3, 4)]
    # The samples of a pixel lie evenly, from a random place on: which way each is drawn, and what it draws.
    chosen = (F.to_float(number) + turns[0]) / samples
    even = F.sobol2(number)
    u, v = (F.fract(x + turn) for x, turn in zip((even.x, even.y), turns[1:], strict=True))
    light = distribution.direction((u, v, in_texel[0], in_texel[1]))
    light = light if to_world is None else to_world @ light
    own = surface.sample(frame, F.clamp((chosen - BY_MAP) / (1.0 - BY_MAP), 0.0, 1.0), u, v)
    direction = F.stop_gradient(F.normalize(F.select(F.less(chosen, BY_MAP), light, own)))

    in_map = direction if to_world is None else F.transpose(to_world) @ direction
    pdf = BY_MAP * distribution.pdf(in_map) + (1.0 - BY_MAP) * surface.pdf(frame, direction)
    above = F.greater(F.dot(frame.normal, direction), 0.0)
    weight = F.select(above, 1.0 / F.maximum(pdf, 1e-20), 0.0)
    return Samples(direction, F.stop_gradient(weight), grid)
