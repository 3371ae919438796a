"""Non-blind deconvolution by conjugate gradients, whose prior is learned through the iterations.

python apps/pipelines/deconvolution.py
"""

import numpy as np
from pipeline_tools import crops, options, photograph, psnr, report, wiener

from dressi import FLOAT, DressiAD, F, Variable, adam, gradient

given = options(__doc__, steps=320, size=96, seed=0)
random, crop, batch, noise, rim = np.random.default_rng(given.seed), 40, 2, 0.01, 8
column, row = np.mgrid[-3:4, -3:4]
blur = np.exp(-0.5 * ((column - 0.6 * row) ** 2 / 1.0**2 + row**2 / 1.8**2))
kernel = Variable.of(blur / blur.sum(), FLOAT)
# The prior: filters whose answers are small, and are allowed to be large where the first solution says that an edge is.
start = np.zeros((4, 1, 3, 3))
start[0, 0, 1, 1:], start[1, 0, 1:, 1], start[2, 0, 1] = (-1, 1), (-1, 1), (1, -2, 1)
start[3, 0, :, 1] = (1, -2, 1)
filters = Variable(FLOAT, (3, 3), 4, data=start[:, 0], name="filters")
strength = Variable.of([-6.0, -5.0], FLOAT, name="strength")  # of the two solutions, logarithms
edge = Variable.of([-3.5], FLOAT, name="edge")


def solved(blurred: Variable, x: Variable, weights: Variable, count: int) -> Variable:
    """min |kernel * x - blurred|^2 + sum of weights (filters * x)^2, from x on."""

    def energy(x: Variable, seen: Variable | float) -> Variable:
        fit, answers = F.correlate(x, kernel, border="clamp") - seen, F.correlate(x, filters, border="clamp")
        return 0.5 * F.sum(F.square(fit)) + 0.5 * F.sum(weights * F.square(answers))

    def step(x: Variable, r: Variable, p: Variable) -> tuple[Variable, ...]:
        q, size = gradient(energy(p, 0.0), [p])[0], F.sum(r * r, "xy")
        alpha = size / (F.sum(p * q, "xy") + 1e-12)
        rest = r - alpha * q
        return x + alpha * p, rest, rest + F.sum(rest * rest, "xy") / (size + 1e-12) * p

    right = -gradient(energy(x, blurred), [x])[0]
    return F.loop(step, [x, right, right], count)[0]


def deconvolved(blurred: Variable) -> Variable:
    flat = F.exp(F.lookup(strength, 0)) + 0.0 * F.correlate(blurred, filters)
    first = solved(blurred, F.recompute(1.0 * blurred), flat, 8)
    answers = F.correlate(first, filters, border="clamp")
    small = F.exp(F.lookup(strength, 1)) / (1.0 + F.square(answers) * F.exp(-2.0 * F.lookup(edge, 0)))
    return solved(blurred, first, small, 12)


def blurred_of(sharp: np.ndarray, ad: DressiAD) -> np.ndarray:
    found = ad.evaluate(F.correlate(Variable.of(sharp, FLOAT, batched=True), kernel, border="clamp"))
    return found + noise * random.normal(size=found.shape)


train = np.concatenate([photograph(given, name, 256).mean(-1) for name in ("astronaut.png", "coffee.png")])
with DressiAD(given.device) as ad:
    sharp = crops(random, train, batch * 8, crop)
    truth = Variable.of(sharp[:batch], FLOAT, batched=True, name="truth")
    given_blur = Variable.of(blurred_of(sharp[:batch], ad), FLOAT, batched=True, name="blurred")
    inner = (rim, rim, (crop - 2 * rim, crop - 2 * rim))
    ad.set_loss(F.mean(F.square(F.crop(deconvolved(given_blur) - truth, *inner))))
    ad.set_optimizer(adam(0.03), [filters, strength, edge])
    all_blurred = blurred_of(sharp, ad)
    for k in range(given.steps):
        part = slice(k % 8 * batch, k % 8 * batch + batch)
        ad.send(truth, sharp[part])
        ad.send(given_blur, all_blurred[part])
        ad.step()
    test = photograph(given, "rgb_small.png", given.size).mean(-1)
    seen = blurred_of(test[None], ad)
    found = ad.evaluate(deconvolved(Variable.of(seen[0], FLOAT)))
    grey = [np.repeat(p.reshape(*test.shape, 1), 3, -1) for p in (test, seen, found)]
    filtered = [wiener(seen[0], blur / blur.sum(), r) for r in 10 ** np.linspace(-4, -1, 25)]
    best = max((np.repeat(w[..., None], 3, -1) for w in filtered), key=lambda w: psnr(w, grey[0], rim))
    figures = {
        f"{n}_db": psnr(p, grey[0], rim)
        for n, p in (("blurred", grey[1]), ("wiener", best), ("found", grey[2]))
    }
    report(given, "deconvolution", figures, grey[0], grey[1], best, grey[2])
