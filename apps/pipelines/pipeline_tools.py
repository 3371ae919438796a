"""Shared by the image pipelines: options, photographs, noise-free figures, and the picture of a result."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

from dressi import FLOAT, MAT3, F, Variable, evaluate
from dressi.config import config
from dressi.errors import InputError
from dressi.render.io import save_png


def options(
    doc: str | None,
    *,
    steps: int,
    size: int | None = None,
    seed: int | None = None,
    data: bool = True,
    quick: int | None = None,
    **files: str,
) -> argparse.Namespace:
    """--steps, --device, --json, --out, --headless, and of --size, --seed and --data those that the script reads: a default
    declares it. quick: the steps under --quick, two minutes at most. files: more options for files, and their help."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps)
    if quick is not None:
        parser.add_argument("--quick", dest="steps", action="store_const", const=quick, help=f"{quick} steps")
    if size is not None:
        parser.add_argument("--size", type=int, default=size, help="pixels along each side of a picture")
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    if data:
        parser.add_argument("--data", type=Path, default=config.data or Path("../shared/data"))
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument("--out", type=Path, default=Path("out/pipelines"), help="folder of the picture")
    for name, text in files.items():
        parser.add_argument(f"--{name}", type=Path, help=text)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    return parser.parse_args()


def photograph(given: argparse.Namespace, name: str, size: int | None = None) -> np.ndarray:
    """(H, W, 3) from 0 to 1: the middle square of a photograph, at a size; or all of it as it is."""
    file = given.data / "images" / name
    if not file.is_file():
        raise InputError(f"there is no photograph {file}; give the folder of the data by --data")
    image = Image.open(file).convert("RGB")
    if size is not None:
        edge = min(image.size)
        left, top = (image.width - edge) // 2, (image.height - edge) // 2
        image = image.crop((left, top, left + edge, top + edge)).resize((size, size), Image.Resampling.BOX)
    return np.asarray(image, np.float32) / 255


def camera(picture: np.ndarray, n: int, matrix: np.ndarray | None = None, lens: float = 0.6) -> np.ndarray:
    """(n, n, 3): what a sensor of n x n pixels sees of a finer picture through a homography from its pixels to those without one.

    By cubic splines between the texels of the picture, after the blur of a lens (a Gaussian, in pixels) and of the square of a
    pixel. None of it is dressi's. The sensor sees the middle nine tenths of the picture, so that it can move."""
    scale = 0.9 * min(picture.shape[:2]) / n
    blurred = ndimage.gaussian_filter(picture, (lens * scale, lens * scale, 0), mode="nearest")
    blurred = ndimage.uniform_filter(blurred, round(scale), mode="nearest", axes=(0, 1))
    row, column = np.mgrid[:n, :n] + 0.5
    x, y, w = np.tensordot(np.eye(3) if matrix is None else matrix, [column, row, np.ones_like(row)], 1)
    middle = np.array(picture.shape[:2])[:, None, None] / 2
    places = (np.stack([y / w, x / w]) - n / 2) * scale + middle - 0.5
    planes = [ndimage.map_coordinates(blurred[..., k], places, mode="nearest") for k in range(3)]
    return np.stack(planes, -1).astype(np.float32)


# Eight numbers of a homography around the middle of n x n pixels, of about equal effect: pixels at the corners.
EFFECT = np.array([[2, 2, 1], [2, 2, 1], [4, 4, 0]])


def homographies(change: Variable, n: int, moving: np.ndarray | None = None) -> Variable:
    """MAT3: the identity, changed by EFFECT times ``change`` around the middle. moving: (count, 1, 1, 1, 1), 0 for what stays."""
    effect = EFFECT / n ** np.array([[1, 1, 0], [1, 1, 0], [2, 2, 0]])
    numbers = effect * (np.ones((change.batch, 1, 1, 1, 1)) if moving is None else moving)
    to = np.array([[1, 0, n / 2], [0, 1, n / 2], [0, 0, 1]])
    around = np.eye(3) + F.hadamard(change, Variable(MAT3, batch=change.batch, data=numbers))
    return F.matmul(F.matmul(to, around), np.linalg.inv(to))


def hands(random: np.random.Generator, n: int, count: int, pixels: float) -> np.ndarray:
    """(count, 3, 3): homographies that move pixels by up to about so many, and turn and tilt corners by a third of that."""
    turns = np.array([[0.3, 0.3, 1], [0.3, 0.3, 1], [0.1, 0.1, 0]])
    data = random.uniform(-pixels, pixels, (count, 1, 1, 3, 3)) * turns
    return evaluate(homographies(Variable(MAT3, batch=count, data=data), n)).reshape(count, 3, 3)


def corner_errors(found: np.ndarray, true: np.ndarray, n: int) -> np.ndarray:
    """(count, 4): in pixels, of the corners of an image of n x n pixels under homographies."""
    corners = np.array([[0, 0, 1], [n, 0, 1], [0, n, 1], [n, n, 1]])
    ends = [corners @ np.swapaxes(m.reshape(-1, 3, 3), 1, 2) for m in (found, true)]
    places = [p[..., :2] / p[..., 2:] for p in ends]
    return np.linalg.norm(places[0] - places[1], axis=-1)


def psnr(a: np.ndarray, b: np.ndarray, rim: int = 0) -> float:
    """In dB, of values from 0 to 1, without a rim."""
    inside = (..., slice(rim, a.shape[-3] - rim), slice(rim, a.shape[-2] - rim), slice(None))
    return float(-10 * np.log10(np.mean((np.clip(a[inside], 0, 1) - b[inside]) ** 2)))


def crops(random: np.random.Generator, image: np.ndarray, count: int, edge: int) -> np.ndarray:
    """Random squares of an image (H, W, ...), at even places."""
    places = [[2 * random.integers(0, (e - edge) // 2 + 1) for e in image.shape[:2]] for _ in range(count)]
    return np.stack([image[y : y + edge, x : x + edge] for y, x in places])


PATTERN = "GRBG"
"""Of the mosaics: that of the raw picture of the data."""
DIRECTIONAL = np.zeros((2, 5, 5))
DIRECTIONAL[0, 2] = DIRECTIONAL[1, :, 2] = (-0.25, 0.5, 0.5, 0.5, -0.25)
BILINEAR = np.pad(np.outer((1, 2, 1), (1, 2, 1)) / 4.0, 1)
"""Filters of a mosaic: its green along rows and along columns, and what lies between texels of one colour."""
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
XYZ /= XYZ.sum(1, keepdims=True)


def lab(red: Variable, green: Variable, blue: Variable) -> tuple[Variable, ...]:
    """CIELAB of images with channels."""
    x, y, z = (F.pow(F.maximum(a * red + b * green + c * blue, 1e-3), 1 / 3) for a, b, c in XYZ.tolist())
    return 116.0 * y, 500.0 * (x - y), 200.0 * (y - z)


def homogeneous(raw: Variable, medians: int = 0) -> Variable:
    """VEC3 of a mosaic, by AHD (Hirakawa and Parks, 2005): of green along rows and green along columns, the one with which colours
    change least from texel to texel. A border that repeats no texel keeps the phases of the mosaic."""
    site = F.bayer_filter(raw.size, PATTERN)
    green = F.correlate(raw, Variable(FLOAT, (5, 5), 2, data=DIRECTIONAL), border="reflect")
    green, between = F.mix(green, raw, site.y), Variable.of(BILINEAR, FLOAT)
    red, blue = (green + F.correlate((raw - green) * s, between, border="reflect") for s in (site.x, site.z))
    light, a, b = lab(red, green, blue)
    differences = []
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        da, db = (x - F.shift(x, dx, dy, "reflect") for x in (a, b))
        differences.append((F.abs(light - F.shift(light, dx, dy, "reflect")), da * da + db * db))
    limits = []
    for d in zip(*differences, strict=True):
        # The smaller of what rows change along rows, and columns along columns.
        rows, columns = F.maximum(d[0], d[1]), F.maximum(d[2], d[3])
        limits.append(F.minimum(F.channel(rows, 0), F.channel(columns, 1)))
    near = [
        F.select(light <= limits[0], F.select(colour <= limits[1], 1.0, 0.0), 0.0)
        for light, colour in differences
    ]
    score = 50.0 * F.box_blur(near[0] + near[1] + near[2] + near[3], 1)
    weight = F.exp(score - F.max(score, "c"))
    parts = [F.sum(weight * x, "c") / F.sum(weight, "c") for x in (red, green, blue)]
    for _ in range(medians):
        parts[0], parts[2] = (parts[1] + F.median(x - parts[1], 1, "reflect") for x in (parts[0], parts[2]))
    return F.vec3(*parts)


def shaken(random: np.random.Generator, edge: int) -> np.ndarray:
    """(edge, edge): the blur of a hand that shakes: a path whose direction drifts, and that of a lens (after Kupyn and others,
    2017). Its sum is 1."""
    angle = random.uniform(0, 2 * np.pi) + np.cumsum(random.normal(size=400) * 0.12)
    path = np.cumsum(np.stack([np.sin(angle), np.cos(angle)], -1), 0)
    path = (
        (path - path.mean(0))
        * random.uniform(0.5, 1.0)
        * (edge / 2 - 2.5)
        / np.abs(path - path.mean(0)).max()
    )
    kernel = np.zeros((edge, edge))
    np.add.at(kernel, tuple(np.rint(path + edge // 2).astype(int).T), 1.0)
    kernel = ndimage.gaussian_filter(kernel, random.uniform(0.5, 0.9), mode="constant")
    return kernel / kernel.sum()


def wiener(image: np.ndarray, kernel: np.ndarray, ratio: float, margin: int = 24) -> np.ndarray:
    """Wiener's filter of (H, W) that was correlated with an odd square kernel; ratio: of noise to signal, in energy."""
    padded, half = np.pad(image, margin, "reflect"), len(kernel) // 2
    whole = np.pad(kernel, [(0, e - len(kernel)) for e in padded.shape])
    transfer = np.fft.rfft2(np.roll(whole, (-half, -half), (0, 1))).conj()
    found = np.fft.rfft2(padded) * transfer.conj() / (np.abs(transfer) ** 2 + ratio)
    return np.fft.irfft2(found, padded.shape)[margin:-margin, margin:-margin]


def dots(spots: np.ndarray, kept: np.ndarray, scale: float) -> np.ndarray:
    """Rays of three fields, of three lines each, in the colours of the lines; ``scale`` is half a square."""
    image = np.ones((3, 96, 96, 3))
    for k, spot in enumerate(spots.reshape(9, -1, 2)):
        column, row = np.clip(48 + 48 * spot[kept].T / scale, 0, 95).astype(int)
        image[k // 3, row, column] = np.eye(3)[2 - k % 3] * 0.8
    return image.reshape(-1, 96, 3)


def report(given: argparse.Namespace, name: str, figures: Mapping[str, float], *pictures: np.ndarray) -> None:
    """Print the figures as JSON, write them where --json says, and pictures of one height (H, W, 3) side by side."""
    text = json.dumps({name: {key: round(float(value), 6) for key, value in figures.items()}}, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")
    if not pictures:
        return
    given.out.mkdir(parents=True, exist_ok=True)
    row = np.concatenate([p.reshape(p.shape[-3:]) for p in pictures], axis=1)
    save_png(given.out / f"{name}.png", np.clip(row, 0, 1))
