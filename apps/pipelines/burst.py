"""Burst demosaicking: one picture from misaligned raw frames, and the homographies between them.

python apps/pipelines/burst.py
"""

import numpy as np
from pipeline_tools import options, photograph, psnr, report

from dressi import MAT3, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=400, size=96, seed=0)
random, n, frames, rim = np.random.default_rng(given.seed), given.size, 12, 8
truth = Variable.of(photograph(given, "rgb.png", n), VEC3)
# Eight numbers a frame of about equal effect, and the homographies between hands that shake by some pixels.
scale = np.array([[1 / n, 1 / n, 1], [1 / n, 1 / n, 1], [1 / n**2, 1 / n**2, 0]])
shaken = random.uniform(-3, 3, (frames, 1, 1, 3, 3)) * np.array([[0.3, 0.3, 1], [0.3, 0.3, 1], [0.1, 0.1, 0]])
shaken[0] = 0  # the first frame is the reference
true = Variable(MAT3, batch=frames, data=np.eye(3) + scale * shaken)
raw = F.bayer_mosaic(F.warp_homography(truth, true))

change = Variable(MAT3, batch=frames, data=np.zeros_like(shaken), name="change")
moving = np.ones((frames, 1, 1, 3, 3)) * scale
moving[0] = 0
matrix = np.eye(3) + F.hadamard(change, Variable(MAT3, batch=frames, data=moving))
image = Variable.of(np.zeros((n, n, 3)), VEC3, name="image")
seen = Variable(raw.vtype, (n, n), frames, name="raw")
mask = F.bayer_filter((n, n))
far = F.demosaic(seen)  # each frame alone, blurred: what aligns them first
reference = F.take(far, 0)
alignment = F.mean(
    F.sum_components(
        F.square(F.gaussian_blur(F.warp_homography(reference, matrix), 1.5) - F.gaussian_blur(far, 1.5))
    )
)
errors = F.dot(F.warp_homography(image, matrix), mask) - seen
merged = F.mean(F.square(errors))


def corner_error(found: np.ndarray) -> float:
    """In pixels, the mean over frames and corners."""
    corners = np.array([[0, 0, 1], [n, 0, 1], [0, n, 1], [n, n, 1]])
    places = [corners @ np.swapaxes(m.reshape(-1, 3, 3), 1, 2) for m in (found, np.asarray(true.data))]
    ends = [p[..., :2] / p[..., 2:] for p in places]
    return np.linalg.norm(ends[0] - ends[1], axis=-1)[1:].mean()


with DressiAD(given.device) as ad:
    ad.send(seen, ad.evaluate(raw))
    ad.set_loss(alignment)
    ad.set_optimizer(adam(0.05), [change])
    ad.step(given.steps)
    aligned = corner_error(ad.evaluate(matrix))
    one = ad.evaluate(reference)
    ad.set_loss(merged)
    for rate in (0.01, 0.003, 0.001):
        ad.set_optimizer(adam(rate), [image, change], keep_state=True)
        if rate == 0.01:
            ad.send(image, one[0])
        ad.step(given.steps)
    wanted, found = ad.evaluate(truth), ad.evaluate(image)
    figures = {
        "one_frame_db": psnr(one, wanted, rim),
        "burst_db": psnr(found, wanted, rim),
        "aligned_pixels": aligned,
    }
    figures["corner_error_pixels"] = corner_error(ad.evaluate(matrix))
    report(given, "burst", figures, wanted, one, found, 0.5 + 5 * (found - wanted))
