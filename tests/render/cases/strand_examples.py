"""Small graphs for the Functions of strands and points."""

from collections.abc import Callable

import numpy as np
from drawn_example import Example

from dressi import FLOAT, VEC2, VEC4, Variable
from dressi.render.strands import discs, ribbons


def ribbon_ends() -> tuple[Variable, Variable]:
    """Segments of ribbons near the centre of a pixel: inside, across, beside it, and one turned over."""
    rng = np.random.default_rng(21)
    centre, along = rng.uniform(-0.7, 0.7, (1, 4, 8, 2)), rng.normal(size=(1, 4, 8, 2))
    across = np.stack([-along[..., 1], along[..., 0]], -1) * rng.uniform(0.05, 0.6, (1, 4, 8, 1))
    across[0, 0, 0] *= -1
    ends = [np.concatenate([centre + k * along, across * (1 + 0.2 * k)], -1) for k in (-0.5, 0.5)]
    start, end = (Variable(VEC4, (8, 4), data=x.astype(np.float32)) for x in ends)
    return start, end


def ribbon_area() -> Example:
    ends = ribbon_ends()
    return Example(ribbons.ribbon_area(*ends), ends)


def disc_area() -> Example:
    """No disc here touches the side of a pixel from within or without, where the slope has a kink."""
    rng = np.random.default_rng(23)
    place = Variable(VEC2, (8, 4), data=rng.uniform(-1.2, 1.2, (1, 4, 8, 2)).astype(np.float32))
    radius = Variable(FLOAT, (8, 4), data=rng.uniform(0.1, 1.5, (1, 4, 8)).astype(np.float32))
    return Example(discs.disc_area(place, radius), (place, radius))


STRANDS: list[Callable[[], Example]] = [ribbon_area, disc_area]
