"""Bilateral slicing: a network that sees a picture at 32 x 32 makes a grid of affine colour matrices, which a guide slices at full
size (HDRnet: Gharbi and others, 2017). It learns a local tone curve from several pictures, and is shown others.

python apps/pipelines/slicing.py
"""

import numpy as np
from pipeline_tools import crops, options, photograph, psnr, report
from scipy import ndimage

from dressi import FLOAT, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=600, size=256, seed=0, quick=200)
random, n, batch, depths, width = np.random.default_rng(given.seed), 128, 4, 8, 24


def look(x: np.ndarray) -> np.ndarray:
    """By NumPy and SciPy: dark regions are lifted and bright ones held, by the mean of what lies around, and a curve on top."""
    around = ndimage.gaussian_filter(x.mean(-1), 0.06 * len(x), mode="nearest")[..., None]
    return np.clip(x * (0.45 / (around + 0.1)) ** 0.5, 0, 1) ** np.array([0.8, 0.85, 0.95])


def layer(outputs: int, inputs: int, edge: int, gain: float = 1.4) -> Variable:
    values = random.normal(size=(outputs, inputs, edge, edge)) * gain / np.sqrt(inputs * edge * edge)
    return Variable(FLOAT, (edge, edge), outputs, channels=inputs, data=values)


identity = np.repeat(np.eye(3, 4).reshape(12), depths).reshape(1, -1, 1, 1)
layers = [
    layer(16, 3, 3),
    layer(width, 16, 3),
    layer(width, width, 3),
    layer(width, width, 3),
    layer(width, width, 1),
]
layers.append(layer(12 * depths, width, 1, 0.05))
biases = [Variable(FLOAT, channels=w.batch, data=np.zeros((1, w.batch, 1, 1))) for w in layers[:-1]]
biases.append(Variable(FLOAT, channels=12 * depths, data=identity, name="identity"))
mixing = Variable.of([0.33, 0.33, 0.33], VEC3, name="mixing")


def sliced(x: Variable) -> Variable:
    """VEC3 of the size of x."""

    def made(h: Variable, k: int, stride: int = 1) -> Variable:
        h = F.correlate(h, layers[k], stride=stride, border="clamp") + biases[k]
        return h if k == 5 else F.maximum(h, 0.1 * h)

    h = made(made(F.to_channels(F.resize(x, (32, 32), "area")), 0), 1, 2)
    h = made(h, 2, 2)
    grid = made(made(h, 3) + made(F.mean(h, "xy"), 4), 5)  # what is near, and the whole picture
    affine = F.slice_grid(grid, F.clamp(F.dot(x, mixing)), depths)
    ones = F.concatenate_channels(F.to_channels(x), F.dot(x, (0.0, 0.0, 0.0)) + 1.0)
    text = "out[n, r, y, x] = affine[n, 4 * r + c, y, x] * ones[n, c, y, x]"
    return F.from_channels(F.contract(text, affine=affine, ones=ones, extents={"r": 3, "c": 4}))


def powers(x: np.ndarray) -> np.ndarray:
    """(count, 20): products of the three colours of pixels, up to order three."""
    r, g, b = x.reshape(-1, 3).astype(float).T
    return np.stack(
        [r**i * g**j * b**k for i in range(4) for j in range(4 - i) for k in range(4 - i - j)], -1
    )


def curves(x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The best polynomial of the colours of a pixel, which sees nothing of what lies around."""
    return np.linalg.lstsq(powers(x), wanted.reshape(-1, 3), rcond=None)[0]


names = ("astronaut.png", "coffee.png", "rgb_small.png", "brick.png", "coins.png", "camera.png")
pictures = [photograph(given, name, size) for name in names for size in (136, 176)]
pairs = [
    (p, look(p))
    for x in pictures
    for p in (v for _ in range(6) for v in crops(random, x[:, :: random.choice((-1, 1))], 1, n))
]
with DressiAD(given.device) as ad:
    x, wanted = (Variable(VEC3, (n, n), batch, name=name) for name in ("picture", "wanted"))
    ad.set_loss(F.mean(F.sum_components(F.square(sliced(x) - wanted))))
    for rate in (3e-3, 1e-3, 3e-4):
        ad.set_optimizer(adam(rate), [*layers, *biases, mixing], keep_state=True)
        for _ in range(given.steps // 3):
            some = [pairs[k] for k in random.integers(len(pairs), size=batch)]
            ad.send_many({x: np.stack([a for a, _ in some]), wanted: np.stack([b for _, b in some])})
            ad.step()
    learned = curves(*(np.concatenate([p[k][::4] for p in pairs]) for k in (0, 1)))
    figures, shown = {}, []
    for name in ("rgb.png", "rocket.jpg"):  # neither was learned from
        picture = photograph(given, name, given.size)
        truth, found = look(picture), ad.evaluate(sliced(Variable.of(picture, VEC3)))
        of_all, own = (
            (powers(picture) @ c).reshape(picture.shape) for c in (learned, curves(picture, truth))
        )
        ways = {"untouched": picture, "curves": of_all, "own_curves": own, "found": found[0]}
        figures |= {f"{name.partition('.')[0]}_{way}_db": psnr(y, truth) for way, y in ways.items()}
        shown += [picture, truth, found]
    report(given, "slicing", figures, *shown[:3], 0.5 + 5 * (shown[2] - shown[1]))
