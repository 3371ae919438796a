"""A bilateral slicing layer learns a tone curve: a grid of affine colour matrices, sliced by a guide (HDRnet, 2017).

python apps/pipelines/slicing.py
"""

import numpy as np
from pipeline_tools import options, photograph, psnr, report

from dressi import VEC3, VEC4, DressiAD, F, Variable, adam

given = options(__doc__, steps=400, size=256)
n, cells, depths, rows = given.size, 16, 8, 3


def curve(x: np.ndarray) -> np.ndarray:
    """An S, steeper in the shadows of each colour."""
    return x ** np.array([0.7, 0.8, 1.1]) * (1.5 - 0.5 * x)


def matrices() -> np.ndarray:
    """The identity in every cell: channel depths * row + depth holds a row of a matrix."""
    return np.broadcast_to(np.eye(3, 4)[:, None, None, None], (rows, depths, cells, cells, 4)).reshape(
        1, -1, cells, cells, 4
    )


image = photograph(given, "coffee.png", n)
x = Variable.of(image, VEC3, name="image")
target = Variable.of(curve(image), VEC3, name="target")
grid = Variable(VEC4, (cells, cells), channels=rows * depths, data=matrices(), name="grid")
mixing = Variable.of([0.3, 0.5, 0.2], VEC3, name="mixing")
guide = F.sigmoid(8.0 * (F.dot(x, mixing) - 0.5))
affine = F.slice_grid(grid, guide, depths)  # a channel for each row
result = F.from_channels(F.dot(affine, F.vec4(x, 1.0)))

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.sum_components(F.square(result - target))))
    ad.set_optimizer(adam(0.02), [grid, mixing])
    start = psnr(image, curve(image))
    ad.step(given.steps)
    ad.set_optimizer(adam(0.002), [grid, mixing], keep_state=True)
    ad.step(given.steps // 2)
    found = ad.evaluate(result)
    # What eight depths can do at all: the curve itself, linear between eight values of each colour.
    knots = (np.arange(depths) + 0.5) / depths
    linear = np.stack([np.interp(image[..., k], knots, curve(knots[:, None])[:, k]) for k in range(3)], -1)
    figures = {
        "start_db": start,
        "found_db": psnr(found, curve(image)),
        "curve_of_8_knots_db": psnr(linear, curve(image)),
    }
    report(given, "slicing", figures, image, curve(image), found, 0.5 + 5 * (found - curve(image)))
