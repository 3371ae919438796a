"""A flow warp layer: the smooth flow between two pictures, by the gradient of the warp.

python apps/pipelines/flow_warp.py
"""

import numpy as np
from pipeline_tools import options, photograph, report

from dressi import VEC2, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=250, size=96, seed=0)
random, n, cells = np.random.default_rng(given.seed), given.size, 6
image = Variable.of(photograph(given, "coffee.png", n), VEC3, name="image")
hidden = Variable.of(random.uniform(-2.5, 2.5, (cells, cells, 2)), VEC2)
true = F.resize(hidden, (n, n), "cubic")
target = F.warp(image, true)
knots = Variable.of(np.zeros((cells, cells, 2)), VEC2, name="knots")
flow = F.resize(knots, (n, n), "cubic")


def loss(sigma: float) -> Variable:
    a, b = (F.gaussian_blur(x, sigma) if sigma else x for x in (image, target))
    return F.mean(F.sum_components(F.square(F.warp(a, flow) - b)))


def colours(x: np.ndarray) -> np.ndarray:
    """A flow of up to three pixels as red and green."""
    return np.concatenate([0.5 + x / 6, np.full_like(x[..., :1], 0.5)], axis=-1)


with DressiAD(given.device) as ad:
    wanted, before = ad.evaluate(true), ad.evaluate(target)
    for sigma, rate in ((2.0, 0.1), (0.0, 0.05), (0.0, 0.01)):
        ad.set_loss(loss(sigma))
        ad.set_optimizer(adam(rate), [knots])
        ad.step(given.steps)
    found, now = ad.evaluate(flow), ad.evaluate(F.warp(image, flow))
    error = np.linalg.norm(found - wanted, axis=-1)[:, 4:-4, 4:-4]
    figures = {"start_pixels": np.linalg.norm(wanted, axis=-1).mean(), "mean_error_pixels": error.mean()}
    report(given, "flow_warp", figures, ad.evaluate(image), before, now, colours(wanted), colours(found))
