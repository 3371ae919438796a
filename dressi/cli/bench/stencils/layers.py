"""Layers of networks, one and several behind each other, and products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dressi import F
from dressi.ad.types import Size
from dressi.cli.bench.stencils.halide import Halide
from dressi.cli.bench.stencils.trained import RATE, Torch, Training, planes
from dressi.errors import InputError

LAYERS = 4
"""Of a chain."""
WIDTH = 5
"""Texels along a side of a kernel of a chain."""


def convolution(size: Size, views: int, channels: int, kernel: int, *, depthwise: bool) -> Training:
    """A layer of a network: as many channels out as in, kernel and image both trained: forward, both gradients and the update
    of both. With ``depthwise`` every channel has a kernel of its own."""
    width, height = size
    groups = channels if depthwise else 1
    random = np.random.default_rng(0)
    image = random.standard_normal((views, channels, height, width), np.float32)
    weight = random.standard_normal((channels, channels // groups, kernel, kernel), np.float32) / kernel
    target = random.standard_normal(image.shape, np.float32)

    def correlated(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, padding="same", groups=groups)

    def summed(hl: Any, made: Any, axes: Any, x: Any, w: Any) -> None:
        column, row, channel, n = axes
        r, own = hl.RDom([(0, kernel), (0, kernel), (0, channels // groups)]), channels // groups
        i, j = column + r[0] - kernel // 2, row + r[1] - kernel // 2
        inside = (i >= 0) & (i < width) & (j >= 0) & (j < height)
        read = x[hl.clamp(i, 0, width - 1), hl.clamp(j, 0, height - 1), channel // own * own + r[2], n]
        made[axes] = hl.f32(0)
        made[axes] += hl.select(inside, read, hl.f32(0)) * w[r[0], r[1], r[2], channel]

    settings = {
        "views": views, "size": list(size), "channels": channels, "kernel": kernel, "depthwise": depthwise
    }  # fmt: skip
    x, w = planes(image, "image"), planes(weight, "weight")
    peers = {
        "torch": lambda: Torch(correlated, (image, weight), target),
        "halide": lambda: Halide(summed, (image, weight), target),
    }
    return Training(settings, F.correlate(x, w, groups=groups), (x, w), planes(target, "target"), peers)


def chain(size: Size, views: int) -> Training:
    """Four kernels behind each other, all trained: the gradient of the first goes through the other three."""
    width, height = size
    random = np.random.default_rng(0)
    image, target = (random.standard_normal((views, 1, height, width), np.float32) for _ in range(2))
    weights = [random.standard_normal((1, 1, WIDTH, WIDTH), np.float32) / WIDTH for _ in range(LAYERS)]

    def chained(torch: Any, *ws: Any) -> Any:
        made = torch.from_numpy(image)
        for w in ws:
            made = torch.nn.functional.conv2d(made, w, padding="same")
        return made

    kernels = [planes(w, f"weight {k}") for k, w in enumerate(weights)]
    made = planes(image, "image")
    for w in kernels:
        made = F.correlate(made, w)
    settings = {"views": views, "size": list(size), "layers": LAYERS, "kernel": WIDTH}
    peers = {"torch": lambda: Torch(chained, weights, target)}
    return Training(settings, made, tuple(kernels), planes(target, "target"), peers)


def product(size: Size) -> Training:
    """A product of matrices, both trained: three products a step."""
    width, height = size
    if width != height:
        raise InputError(f"matmul multiplies square matrices, not {width}x{height}; give --size {height}")
    random = np.random.default_rng(0)
    a, b, target = (random.standard_normal((1, 1, height, width), np.float32) for _ in range(3))
    scale = width**-0.5

    def multiplied(torch: Any, x: Any, y: Any) -> Any:
        return x @ y * scale

    x, y = planes(a, "a"), planes(b, "b")
    peers = {
        "torch": lambda: Torch(multiplied, (a[0, 0], b[0, 0]), target[0, 0]),
        "numpy": lambda: Products(a[0, 0], b[0, 0], target[0, 0]),
    }
    return Training({"size": list(size)}, F.matmul(x, y) * scale, (x, y), planes(target, "target"), peers)


class Products:
    """The same products by NumPy."""

    def __init__(self, a: np.ndarray, b: np.ndarray, target: np.ndarray):
        self.facts: dict[str, Any] = {"name": "numpy", "version": np.__version__}
        self._a, self._b, self._target, self._scale = a.copy(), b.copy(), target, np.float32(len(a) ** -0.5)

    def positions(self) -> np.ndarray:
        return self._b

    def run(self, steps: int) -> None:
        for _ in range(steps):
            slope = (self._a @ self._b * self._scale - self._target) * np.float32(2 / self._target.size)
            slope *= self._scale
            a = slope @ self._b.T
            b = self._a.T @ slope
            self._a -= np.float32(RATE) * a
            self._b -= np.float32(RATE) * b
