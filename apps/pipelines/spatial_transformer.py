"""A spatial transformer: the homography between two pictures, by the gradient of the warp (Jaderberg and others, 2015).

python apps/pipelines/spatial_transformer.py
"""

import numpy as np
from pipeline_tools import options, photograph, report

from dressi import FLOAT, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=300, size=96, seed=0)
random, n = np.random.default_rng(given.seed), given.size
image = Variable.of(photograph(given, "astronaut.png", n), VEC3, name="image")
true = np.array([[1.06, -0.08, 2.0], [0.07, 0.95, -3.0], [0.0004, -0.0003, 1.0]])
target = F.warp_homography(image, true)

# Eight numbers of about equal effect: each moves a corner by about that many pixels.
scale = np.array([[1 / n, 1 / n, 1], [1 / n, 1 / n, 1], [1 / n**2, 1 / n**2, 0]])
change = Variable.of(np.zeros(9), FLOAT, name="change")
entries = [F.lookup(change, k) * float(scale.ravel()[k]) + float(np.eye(3).ravel()[k]) for k in range(9)]
matrix = F.mat3(*(F.vec3(*(entries[3 * r + c] for r in range(3))) for c in range(3)))  # of columns
sigma = n / 24
blurred = [F.gaussian_blur(x, sigma) for x in (image, target)]
losses = [
    F.mean(F.sum_components(F.square(F.warp_homography(a, matrix) - b)))
    for a, b in ((blurred[0], blurred[1]), (image, target))
]


def corner_error(found: np.ndarray) -> float:
    """In pixels, the largest of the four corners."""
    corners = np.array([[0, 0, 1], [n, 0, 1], [0, n, 1], [n, n, 1]]) @ np.stack([true.T, found.T])
    places = corners[..., :2] / corners[..., 2:]
    return np.linalg.norm(places[0] - places[1], axis=-1).max()


with DressiAD(given.device) as ad:
    start = ad.evaluate(F.warp_homography(image, matrix))
    for loss, rate in zip(
        losses, (0.1, 0.03), strict=True
    ):  # first by blurred pictures, whose gradients reach farther
        ad.set_loss(loss)
        ad.set_optimizer(adam(rate), [change])
        ad.step(given.steps)
    found = np.eye(3) + scale * ad.recv(change).reshape(3, 3)
    wanted, now = ad.evaluate(target), ad.evaluate(F.warp_homography(image, matrix))
    figures = {"start_pixels": corner_error(np.eye(3)), "corner_error_pixels": corner_error(found)}
    report(given, "spatial_transformer", figures, start, wanted, now, 0.5 + 5 * (now - wanted))
