"""Spatial transformers: the homography between two pictures of each of five scenes, by the gradient of the warp (Jaderberg and
others, 2015).

python apps/pipelines/spatial_transformer.py
"""

import numpy as np
from pipeline_tools import camera, corner_errors, hands, homographies, options, photograph, report

from dressi import MAT3, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=300, size=96, seed=0, quick=100)
random, n = np.random.default_rng(given.seed), given.size
names = ("astronaut.png", "coffee.png", "rocket.jpg", "rgb.png", "camera.png")
photographs = [photograph(given, name) for name in names]
true = hands(random, n, len(names), 8.0)
# Both pictures of a scene are drawn from its photograph by a camera of NumPy's, not by the warp that is fitted.
image = Variable.of(np.stack([camera(p, n) for p in photographs]), VEC3, batched=True, name="image")
target = Variable.of(
    np.stack([camera(p, n, m) for p, m in zip(photographs, true, strict=True)]),
    VEC3,
    batched=True,
    name="target",
)

change = Variable(MAT3, batch=len(names), data=np.zeros((len(names), 1, 1, 3, 3)), name="change")
matrix = homographies(change, n)
place = F.transform_points(matrix, F.to_float(F.pixel_coordinates((n, n))) + 0.5)
seen = F.select(F.max_component(F.abs(place - n / 2)) < n / 2 - 1, 1.0, 0.0)  # the rest has no partner
warped = F.warp_homography(image, matrix, filter="cubic")


def loss(sigma: float) -> Variable:
    """Blurred pictures first: their gradients reach farther."""
    a, b = (F.gaussian_blur(x, sigma) for x in (image, target)) if sigma else (image, target)
    errors = F.square(F.warp_homography(a, matrix, filter="cubic") - b)
    return F.mean(seen * F.sum_components(errors), "xy") / F.mean(seen, "xy")


with DressiAD(given.device) as ad:
    start = ad.evaluate(warped)
    for sigma, rate in ((n / 16, 0.1), (n / 48, 0.05), (0.0, 0.02)):
        ad.set_loss(F.sum(loss(sigma), "n"))
        ad.set_optimizer(adam(rate), [change])
        ad.step(given.steps)
    errors = corner_errors(ad.evaluate(matrix), true, n).max(1)
    before, now, wanted = corner_errors(np.eye(3), true, n).max(1), ad.evaluate(warped), ad.evaluate(target)
    figures = {"start_pixels": before.max(), "corner_error_pixels": errors.max()}
    figures |= {f"{name.partition('.')[0]}_pixels": e for name, e in zip(names, errors, strict=True)}
    report(given, "spatial_transformer", figures, start[0], wanted[0], now[0], 0.5 + 5 * (now - wanted)[0])
