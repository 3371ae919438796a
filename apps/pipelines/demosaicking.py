"""Learned demosaicking: three layers that correct Malvar's filter, trained on crops, and shown on a raw picture.

python apps/pipelines/demosaicking.py
"""

import numpy as np
from PIL import Image
from pipeline_tools import crops, options, photograph, psnr, report

from dressi import FLOAT, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=15000, seed=0)
random, crop, batch, width, rim = np.random.default_rng(given.seed), 32, 8, 32, 8
names = ("astronaut", "coffee", "rgb_small")
images = [photograph(given, f"{name}.png") for name in names]
parts = [
    x.shape[1] * 2 // 3 // 2 * 2 for x in images
]  # the left two thirds are learned from, the rest is held out
training = [x[:, :at] for x, at in zip(images, parts, strict=True)]
held_out = [x[: x.shape[0] // 2 * 2, at : x.shape[1] // 2 * 2] for x, at in zip(images, parts, strict=True)]
PATTERN = "GRBG"  # that of the raw picture


def layer(outputs: int, inputs: int, gain: float, name: str) -> Variable:
    values = random.normal(size=(outputs, inputs, 3, 3)) * gain / np.sqrt(9 * inputs)
    return Variable(FLOAT, (3, 3), outputs, channels=inputs, data=values, name=name)


weights = [layer(width, 4, 1.4, "first"), layer(width, width, 1.4, "second"), layer(12, width, 0.01, "third")]


def demosaicked(raw: Variable) -> Variable:
    """VEC3: Malvar's filter, and what the layers make of blocks of 2 x 2 texels."""
    x = F.space_to_depth(raw)
    for weight in weights[:-1]:
        x = F.maximum(F.correlate(x, weight, border="clamp"), 0.0)
    more = F.depth_to_space(F.correlate(x, weights[-1], border="clamp"))
    return F.demosaic(raw, PATTERN) + F.from_channels(more)


sharp = Variable(VEC3, (crop, crop), batch, name="sharp", data=np.zeros((batch, crop, crop, 3)))
errors = demosaicked(F.bayer_mosaic(sharp, PATTERN)) - sharp
squares = F.sum_components(F.square(F.crop(errors, 4, 4, (crop - 8, crop - 8))))
loss = F.mean(
    F.log(F.mean(squares, "xy") + 1e-6), "n"
)  # decibels: smooth pictures count as much as rough ones


with DressiAD(given.device) as ad:
    ad.set_loss(loss)
    for rate in (3e-3, 1e-3, 3e-4):
        ad.set_optimizer(adam(rate), weights, keep_state=True)
        for _ in range(given.steps // 3):
            some = crops(random, training[random.integers(len(training))], batch, crop)
            ad.send(sharp, np.rot90(some, random.integers(4), (1, 2))[:, :, :: random.choice((-1, 1))])
            ad.step()
    figures, shown = {}, []
    for name, image in zip(names, held_out, strict=True):
        mosaic = F.bayer_mosaic(Variable.of(image, VEC3), PATTERN)
        malvar, learned = ad.evaluate(F.demosaic(mosaic, PATTERN)), ad.evaluate(demosaicked(mosaic))
        figures |= {f"{name}_malvar_db": psnr(malvar, image, rim), f"{name}_db": psnr(learned, image, rim)}
        shown += [p[0, 60:160, 0:60] for p in (image[None], malvar, learned)]
    raw = np.asarray(Image.open(given.data / "images" / "bayer_small.png"), np.float32)[:256, :340]
    grey = np.clip((raw - raw.min()) / (np.percentile(raw, 99.5) - raw.min()), 0, 1)
    real = ad.evaluate(demosaicked(Variable.of(grey[40:140, 60:160], FLOAT)))
    report(given, "demosaicking", figures, *shown, np.clip(real * np.array([1.8, 1.0, 1.5]), 0, 1) ** 0.45)
