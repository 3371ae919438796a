"""Demosaicking by homogeneity (AHD: Hirakawa and Parks, 2005), the same with learned filters (Li and others, 2018, table 2), and
a network of three layers on top.

python apps/pipelines/demosaicking.py
"""

import numpy as np
from pipeline_tools import crops, options, photograph, psnr, report
from scipy import ndimage

from dressi import FLOAT, VEC3, DressiAD, F, Variable, adam

given = options(__doc__, steps=7200, seed=0, quick=480)
random, crop, batch, width, rim, count = np.random.default_rng(given.seed), 48, 4, 32, 8, 9
PATTERN = "GRBG"  # that of the raw picture
training = [photograph(given, f"{name}.png")[:400, :512] for name in ("astronaut", "coffee", "rgb_small")]
held_out = {name: photograph(given, name)[:400, :600] for name in ("rgb.png", "rocket.jpg")}
held_out["astronaut's right"] = photograph(given, "astronaut.png")[:400, 512 - 170 :]
training[0] = training[0][:, : 512 - 170]
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
XYZ /= XYZ.sum(1, keepdims=True)


def lab(red: Variable, green: Variable, blue: Variable) -> tuple[Variable, ...]:
    """CIELAB of images with channels."""
    x, y, z = (F.pow(F.maximum(a * red + b * green + c * blue, 1e-3), 1 / 3) for a, b, c in XYZ.tolist())
    return 116.0 * y, 500.0 * (x - y), 200.0 * (y - z)


def homogeneous(
    raw: Variable, greens: Variable, chroma: Variable, sharpness: Variable | float, *, medians: int = 0
) -> Variable:
    """VEC3: of several interpolations of the mosaic, those that change least from texel to texel.

    greens: a filter of the mosaic for the green of each, the first along rows and the second along columns. chroma: of the
    differences to green where they are measured. sharpness: how much the most homogeneous one is preferred. A border that
    repeats no texel keeps the phases of the mosaic.
    """
    site = F.bayer_filter(raw.size, PATTERN)
    green = F.mix(F.correlate(raw, greens, border="reflect"), raw, site.y)
    red, blue = (green + F.correlate((raw - green) * s, chroma, border="reflect") for s in (site.x, site.z))
    light, a, b = lab(red, green, blue)
    differences = []
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        da, db = (x - F.shift(x, dx, dy, "reflect") for x in (a, b))
        differences.append((F.abs(light - F.shift(light, dx, dy, "reflect")), da * da + db * db))
    limits = []
    for d in zip(
        *differences, strict=True
    ):  # the smaller of what rows change along rows, and columns along columns
        rows, columns = F.maximum(d[0], d[1]), F.maximum(d[2], d[3])
        limits.append(F.minimum(F.channel(rows, 0), F.channel(columns, 1)))
    near = [
        F.select(light <= limits[0], F.select(colour <= limits[1], 1.0, 0.0), 0.0)
        for light, colour in differences
    ]
    score = sharpness * F.box_blur(near[0] + near[1] + near[2] + near[3], 1)
    weight = F.exp(score - F.max(score, "c"))
    parts = [F.sum(weight * x, "c") / F.sum(weight, "c") for x in (red, green, blue)]
    for _ in range(medians):
        parts[0], parts[2] = (parts[1] + F.median(x - parts[1], 1, "reflect") for x in (parts[0], parts[2]))
    return F.vec3(*parts)


directional = np.zeros((2, 5, 5))
directional[0, 2] = directional[1, :, 2] = (-0.25, 0.5, 0.5, 0.5, -0.25)
bilinear = np.pad(np.outer((1, 2, 1), (1, 2, 1)) / 4.0, 1)
AHD = Variable(FLOAT, (5, 5), 2, data=directional), Variable.of(bilinear, FLOAT), 50.0
many = directional[np.arange(count) % 2] * (1 - np.arange(count) // 2 * 0.1).reshape(-1, 1, 1)
many += directional[1 - np.arange(count) % 2] * (np.arange(count) // 2 * 0.1).reshape(-1, 1, 1)
learned = [
    Variable(FLOAT, (5, 5), count, data=many, name="greens"),
    Variable.of(bilinear, FLOAT, name="chroma"),
    Variable.of([8.0], FLOAT, name="sharpness"),
]


def layer(outputs: int, inputs: int, gain: float, name: str) -> Variable:
    values = random.normal(size=(outputs, inputs, 3, 3)) * gain / np.sqrt(9 * inputs)
    return Variable(FLOAT, (3, 3), outputs, channels=inputs, data=values, name=name)


weights = [
    layer(width, 28, 1.4, "first"),
    layer(width, width, 1.4, "second"),
    layer(12, width, 0.01, "third"),
]


def network(raw: Variable) -> Variable:
    """VEC3: the learned interpolation, and what layers that see Malvar's, too, add to blocks of 2 x 2 texels of it."""
    first = homogeneous(raw, *learned)
    parts = (F.to_channels(y) for y in (first, F.demosaic(raw, PATTERN)))
    x = F.space_to_depth(F.concatenate_channels(raw, *parts))
    for weight in weights[:-1]:
        x = F.correlate(x, weight, border="clamp")
        x = F.maximum(x, 0.1 * x)
    return first + F.from_channels(F.depth_to_space(F.correlate(x, weights[-1], border="clamp")))


sharp = Variable(VEC3, (crop, crop), batch, name="sharp", data=np.zeros((batch, crop, crop, 3)))
mosaic = F.bayer_mosaic(sharp, PATTERN)


def loss(made: Variable) -> Variable:
    """In decibels: smooth crops count as much as rough ones."""
    squares = F.sum_components(F.square(F.crop(made - sharp, 4, 4, (crop - 8, crop - 8))))
    return F.mean(F.log(F.mean(squares, "xy") + 1e-6), "n")


with DressiAD(given.device) as ad:
    # First the filters alone, a quarter of the steps, then the network with them.
    phases = [(homogeneous(mosaic, *learned), learned, rate) for rate in (1e-3, 3e-4)]
    phases += [(network(mosaic), [*weights, *learned], rate) for rate in (2e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)]
    for made, parameters, rate in phases:
        ad.set_loss(loss(made))
        ad.set_optimizer(adam(rate), parameters, keep_state=True)
        for _ in range(given.steps // len(phases)):
            some = crops(random, training[random.integers(len(training))], batch, crop)
            ad.send(sharp, np.rot90(some, int(random.integers(4)), (1, 2))[:, :, :: random.choice((-1, 1))])
            ad.step()
    figures, shown = {}, []
    for name, image in held_out.items():
        image = image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
        raw = F.bayer_mosaic(Variable.of(image, VEC3), PATTERN)
        ways = {
            "malvar": F.demosaic(raw, PATTERN),
            "ahd": homogeneous(raw, *AHD),
            "ahd_medians": homogeneous(raw, *AHD, medians=3),
            "ahd_learned": homogeneous(raw, *learned),
            "network": network(raw),
        }
        found = {way: ad.evaluate(x) for way, x in ways.items()}
        figures |= {f"{name}_{way}_db": psnr(x, image, rim) for way, x in found.items()}
        # Where AHD is worst.
        error = np.square(found["ahd"][0] - image).mean(-1)
        y, x = np.unravel_index(ndimage.uniform_filter(error, 60, mode="constant").argmax(), error.shape)
        part = np.s_[max(y - 30, 0) :, max(x - 30, 0) :]
        shown += [p[part][:60, :60] for p in (image, found["ahd"][0], found["network"][0])]
    report(given, "demosaicking", figures, *shown)
