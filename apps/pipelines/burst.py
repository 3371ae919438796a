"""Burst demosaicking: one picture from misaligned raw frames, and the homographies between them (Li and others, 2018, 5.3).

python apps/pipelines/burst.py
python apps/pipelines/burst.py --picture ../shared/data/images/coffee.png
"""

import numpy as np
from pipeline_tools import camera, corner_errors, hands, homographies, options, photograph, psnr, report

from dressi import FLOAT, MAT3, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=60, size=256, seed=0, quick=40, picture="a photograph (default: rgb.png)")
random, n, frames, rim, noise, prior = np.random.default_rng(given.seed), given.size, 12, 8, 0.002, 2e-5
name = given.picture.resolve() if given.picture else "rgb.png"
shot = photograph(given, name)
true = hands(random, n, frames, 3.0)
true[0] = np.eye(3)  # the first frame is the reference
# What the sensor sees of the photograph, one colour a pixel, with noise. The warp that is fitted has no part in it.
wanted = camera(shot, n)
colour = np.tile(np.array([[0, 1], [1, 2]]), (n // 2, n // 2))[..., None]
views = [np.take_along_axis(camera(shot, n, m), colour, -1)[..., 0] for m in true]
raw = Variable.of(
    np.stack(views) + noise * random.normal(size=(frames, n, n)), FLOAT, batched=True, name="raw"
)

moving = np.arange(frames).reshape(-1, 1, 1, 1, 1) > 0
change = Variable(MAT3, batch=frames, data=np.zeros((frames, 1, 1, 3, 3)), name="change")
matrix = homographies(change, n, moving)
image = Variable.of(np.zeros((n, n, 3)), VEC3, name="image")
place = F.transform_points(matrix, F.to_float(F.pixel_coordinates((n, n))) + 0.5)
seen = F.select(F.max_component(F.abs(place - n / 2)) < n / 2 - 1, 1.0, 0.0)
far = F.demosaic(raw)  # each frame alone: its green aligns them first
greens = Variable(FLOAT, (n, n), frames, name="greens")
away = F.warp_homography(F.take(greens, 0), matrix, filter="cubic") - greens
alignment = F.mean(seen * F.square(away))
errors = F.dot(F.warp_homography(image, matrix, filter="cubic"), F.bayer_filter((n, n))) - raw
edges = [F.square(image - F.shift(image, *by)) for by in ((1, 0), (0, 1))]
merged = F.mean(seen * F.square(errors)) + prior * F.mean(
    F.sum_components(F.sqrt(edges[0] + edges[1] + 1e-6))
)

with DressiAD(given.device) as ad:
    ad.set_loss(alignment)
    for sigma, rate in ((n / 32, 0.1), (1.5, 0.05)):
        ad.send(greens, ad.evaluate(F.gaussian_blur(far.y, sigma)))
        ad.set_optimizer(adam(rate), [change])
        ad.step(given.steps)
    aligned, one = ad.evaluate(matrix), ad.evaluate(F.take(far, 0))
    ad.set_loss(merged)
    for rate in (0.01, 0.002):
        ad.set_optimizer(adam(rate), [image, change], keep_state=True)
        if rate == 0.01:
            ad.send(image, one[0])
        ad.step(given.steps)
    found = ad.evaluate(image)
    figures = {
        "one_frame_db": psnr(one, wanted, rim),
        "burst_db": psnr(found, wanted, rim),
        "aligned_pixels": corner_errors(aligned, true, n)[1:].mean(),
        "corner_error_pixels": corner_errors(ad.evaluate(matrix), true, n)[1:].mean(),
    }
    report(given, "burst", figures, wanted, one, found, 0.5 + 5 * (found - wanted))
