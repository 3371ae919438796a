"""Tone mapping learned from one picture: strengths of a local Laplacian filter, and a curve, that make its look.

python apps/pipelines/tone_mapping.py
"""

import numpy as np
from pipeline_tools import options, photograph, psnr, report

from dressi import FLOAT, DressiAD, F, Variable, adam

given = options(__doc__, steps=300, size=128)


def look(
    x: Variable, detail: Variable | float, contrast: Variable | float, gamma: Variable | float
) -> Variable:
    return F.pow(F.clamp(F.local_laplacian(x, detail, contrast, sigma=0.15, levels=3), 1e-3, 1.0), gamma)


def grey(name: str) -> np.ndarray:
    return photograph(given, name, given.size).mean(-1)


train, other = (Variable.of(grey(name), FLOAT) for name in ("coffee.png", "rocket.jpg"))
detail, contrast, gamma = (
    Variable.of(v, FLOAT, name=n) for v, n in ((0.0, "detail"), (1.0, "contrast"), (1.0, "gamma"))
)
true = (1.2, 0.6, 0.75)
target = look(train, *true)

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(look(train, detail, contrast, gamma) - target)))
    ad.set_optimizer(adam(0.02), [detail, contrast, gamma])
    ad.step(given.steps)
    found = [ad.recv(v).item() for v in (detail, contrast, gamma)]
    before, after, wanted = (
        ad.evaluate(x) for x in (other, look(other, detail, contrast, gamma), look(other, *true))
    )
    figures = dict(zip(("detail", "contrast", "gamma"), found, strict=True))
    figures |= {
        "start_db": psnr(before[..., None], wanted[..., None]),
        "other_picture_db": psnr(after[..., None], wanted[..., None]),
    }
    report(
        given, "tone_mapping", figures, *(np.repeat(p[0][..., None], 3, -1) for p in (before, wanted, after))
    )
