"""Non-blind deconvolution in four stages, whose filters, weights and thresholds are learned through the iterations (Fortunato and
Oliveira, 2014; Li and others, 2018, 5.2.2).

python apps/pipelines/deconvolution.py
"""

import numpy as np
from pipeline_tools import crops, options, photograph, psnr, report, shaken, wiener
from scipy import ndimage

from dressi import FLOAT, DressiAD, F, Variable, adam, gradient

given = options(__doc__, steps=160, size=256, seed=0, quick=80)
random, crop, batch, noise, half, rim = np.random.default_rng(given.seed), 40, 4, 0.01, 6, 16
stages, count, edge = 4, 6, 2 * half + 1
kernel = Variable(FLOAT, (edge, edge), name="kernel")
# The prior of each stage: answers of filters are near those of the solution before it, less what a threshold takes away.
start = np.zeros((5, 3, 3))
start[0, 1, 1:], start[1, 1:, 1], start[2, 1], start[3, :, 1] = (-1, 1), (-1, 1), (1, -2, 1), (1, -2, 1)
start[4, :2, :2] = (1, -1), (-1, 1)
filters = [Variable(FLOAT, (3, 3), 5, data=start, name=f"filters{k}") for k in range(stages)]
strengths = [
    Variable(FLOAT, channels=5, data=np.full((1, 5, 1, 1), -6.0 + (k > 0)), name=f"strengths{k}")
    for k in range(stages)
]
thresholds = [
    Variable(FLOAT, channels=5, data=np.full((1, 5, 1, 1), -3.0), name=f"thresholds{k}")
    for k in range(1, stages)
]
smoothing = [Variable.of([-1.0], FLOAT, name=f"smoothing{k}") for k in range(1, stages)]


def solved(blurred: Variable, x: Variable, k: int, wanted: Variable | float) -> Variable:
    """min |kernel * x - blurred|^2 + sum of strengths (filters * x - wanted)^2 by conjugate gradients, from x on. x has a margin."""

    def energy(x: Variable, seen: Variable | float, wanted: Variable | float) -> Variable:
        fit = F.correlate(x, kernel, border=None) - seen
        away = F.correlate(x, filters[k], border="clamp") - wanted
        return 0.5 * F.sum(F.square(fit)) + 0.5 * F.sum(F.exp(strengths[k]) * F.square(away))

    def step(x: Variable, r: Variable, p: Variable) -> tuple[Variable, ...]:
        q, size = gradient(energy(p, 0.0, 0.0), [p])[0], F.sum(r * r, "xy")
        alpha = size / (F.sum(p * q, "xy") + 1e-12)
        rest = r - alpha * q
        return x + alpha * p, rest, rest + F.sum(rest * rest, "xy") / (size + 1e-12) * p

    right = -gradient(energy(x, blurred, wanted), [x])[0]
    return F.loop(step, [x, right, right], count + 2 * (k == 0))[0]


def deconvolved(blurred: Variable) -> Variable:
    x = solved(blurred, F.pad(blurred, half, half, half, half, "clamp"), 0, 0.0)
    for k in range(1, stages):
        even = F.mix(x, F.bilateral_filter(F.clamp(x), cell=4.0, depths=12), F.sigmoid(smoothing[k - 1]))
        answers = F.correlate(even, filters[k], border="clamp")
        small = F.exp(2.0 * thresholds[k - 1])
        x = solved(blurred, x, k, answers * (F.square(answers) / (F.square(answers) + small)))
    return F.crop(x, half, half, blurred.size)


def blurred_of(sharp: np.ndarray, psf: np.ndarray) -> np.ndarray:
    """By SciPy, with what lies beyond the crop; the margin is cut off."""
    seen = np.stack([ndimage.correlate(s, psf, mode="nearest") for s in sharp])[:, half:-half, half:-half]
    return seen + noise * random.normal(size=seen.shape)


train = [
    photograph(given, name, 320).mean(-1)
    for name in ("astronaut.png", "coffee.png", "coins.png", "brick.png")
]
inner = slice(half, -half)
with DressiAD(given.device) as ad:
    truth = Variable(FLOAT, (crop, crop), batch, name="truth")
    seen = Variable(FLOAT, (crop, crop), batch, name="blurred")
    squares = F.square(F.crop(deconvolved(seen) - truth, 6, 6, (crop - 12, crop - 12)))
    ad.set_loss(F.mean(F.sqrt(F.mean(squares, "xy")), "n"))
    for rate in (0.03, 0.01):
        ad.set_optimizer(adam(rate), [*filters, *strengths, *thresholds, *smoothing], keep_state=True)
        for _ in range(given.steps // 2):
            psf = shaken(random, edge)
            sharp = np.concatenate(
                [crops(random, train[k], 1, crop + 2 * half) for k in random.integers(4, size=batch)]
            )
            ad.send(kernel, psf)
            ad.send(truth, sharp[:, inner, inner])
            ad.send(seen, blurred_of(sharp, psf))
            ad.step()
    figures, shown, random = {}, [], np.random.default_rng(given.seed + 1)
    test = Variable(FLOAT, (given.size, given.size), name="test")
    restored = deconvolved(test)
    ad.set_output("restored", restored)
    for name in ("rocket.jpg", "camera.png", "rgb_small.png"):
        psf, sharp = shaken(random, edge), photograph(given, name, given.size + 2 * half).mean(-1)
        blurred = blurred_of(sharp[None], psf)[0]
        ad.send(kernel, psf)
        ad.send(test, blurred)
        found = ad.evaluate(restored)[0]
        filtered = [wiener(blurred, psf, r)[..., None] for r in 10 ** np.linspace(-4, -1, 25)]
        wanted = sharp[inner, inner, None]
        best = max(filtered, key=lambda w: psnr(w, wanted, rim))
        parts = {"blurred": blurred[..., None], "wiener": best, "found": found[..., None]}
        figures |= {f"{name.partition('.')[0]}_{key}_db": psnr(p, wanted, rim) for key, p in parts.items()}
        shown += [np.repeat(p, 3, -1) for p in (wanted, *parts.values())]
    report(given, "deconvolution", figures, *shown[:4])
