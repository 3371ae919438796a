"""Contractions that are trained on random values, and the same in torch and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import F, Variable
from ...ad.graph.types import FLOAT, VEC3, VEC4, Size
from ...errors import DeviceError, InputError
from .request import Request

# Filters of one plane: a blur by rows and columns, and a Laplacian pyramid.

TAPS = 11
"""Weights of a blur along a row or a column."""
LEVELS = 4
"""Levels of a pyramid, and a rest."""
BINOMIAL = np.array([1, 4, 6, 4, 1], np.float32) / 16


def blur(size: Size, request: Request) -> Training:
    """A separable blur: the image and the weights of rows and columns are trained."""
    width, height = size
    image, target, row, column = _random(
        *[(request.views, 1, height, width)] * 2, (1, 1, 1, TAPS), (1, 1, TAPS, 1)
    )
    row, column = row / 3, column / 3

    def blurred(torch: Any, x: Any, r: Any, c: Any) -> Any:
        correlated = torch.nn.functional.conv2d
        return correlated(correlated(x, r, padding="same"), c, padding="same")

    x, r, c = planes(image, "image"), planes(row, "row"), planes(column, "column")
    settings = {"views": request.views, "size": list(size), "taps": TAPS}
    peers = {"torch": lambda: Torch(blurred, (image, row, column), target)}
    return Training(settings, F.correlate(F.correlate(x, r), c), (x, r, c), planes(target, "target"), peers)


def pyramid(size: Size, request: Request) -> Training:
    """A Laplacian pyramid, its levels compressed, and the image made of them; the image is trained."""
    width, height = size
    if width % 2**LEVELS or height % 2**LEVELS:
        raise InputError(
            f"a pyramid halves {width}x{height} {LEVELS} times; give a --size of multiples of {2**LEVELS}"
        )
    image, target = _random(*[(request.views, 1, height, width)] * 2)

    def rebuilt(torch: Any, x: Any) -> Any:
        row = torch.from_numpy(BINOMIAL.reshape(1, 1, 1, -1))
        column = row.swapaxes(2, 3)
        spread = torch.nn.functional.conv_transpose2d

        def halved(x: Any) -> Any:
            narrow = torch.nn.functional.conv2d(x, row, stride=(1, 2), padding=(0, 2))
            return torch.nn.functional.conv2d(narrow, column, stride=(2, 1), padding=(2, 0))

        def doubled(x: Any) -> Any:
            tall = spread(x, 2 * column, stride=(2, 1), padding=(2, 0), output_padding=(1, 0))
            return spread(tall, 2 * row, stride=(1, 2), padding=(0, 2), output_padding=(0, 1))

        return _synthesis(x, halved, lambda x, like: doubled(x), torch.rsqrt)

    row = Variable.of(BINOMIAL[None], FLOAT, name="row")
    column = Variable.of(BINOMIAL[:, None], FLOAT, name="column")

    def halved(x: Variable) -> Variable:
        return F.correlate(F.correlate(x, row, stride=(2, 1)), column, stride=(1, 2))

    def doubled(x: Variable, like: Variable) -> Variable:
        (width, _), (_, height) = x.size, like.size
        tall = Variable(FLOAT, (width, height), x.batch)
        tall = F.correlate_transposed(x, 2.0 * column, tall, stride=(1, 2))
        return F.correlate_transposed(tall, 2.0 * row, like, stride=(2, 1))

    x = planes(image, "image")
    settings = {"views": request.views, "size": list(size), "levels": LEVELS}
    peers = {"torch": lambda: Torch(rebuilt, (image,), target)}
    made = _synthesis(x, halved, doubled, lambda x: 1.0 / F.sqrt(x))
    return Training(settings, made, (x,), planes(target, "target"), peers)


def _synthesis(x: Any, halved: Any, doubled: Any, inverse_root: Any) -> Any:
    """The image of the compressed differences between levels, from the coarsest to the finest."""
    levels = [x]
    for _ in range(LEVELS):
        levels.append(halved(levels[-1]))
    made = levels[-1]
    for fine, coarse in zip(reversed(levels[:-1]), reversed(levels), strict=False):
        detail = fine - doubled(coarse, fine)
        made = doubled(made, fine) + detail * inverse_root(1.0 + detail * detail)
    return made


# The training steps of this folder by Halide on the processor, with its own gradients and schedules.

SCHEDULER = "Li2018"
"""Halide's autoscheduler for gradients (Differentiable programming for image processing, 2018)."""
Algorithm = Callable[..., None]
"""Takes the package halide, the Func to define, its Vars (innermost first) and the parameters' Funcs."""


class Halide:
    """The same step by Halide: ``propagate_adjoints`` makes the gradients, its autoscheduler the schedule.
    Raises DeviceError where the package halide cannot be imported."""

    def __init__(self, algorithm: Algorithm, parameters: Sequence[np.ndarray], target: np.ndarray):
        hl = imported("Halide", "halide")
        self.facts: dict[str, Any] = {"name": "halide", "version": version("halide")}
        for folder in ("lib64", "lib", "bin"):
            for plugin in (Path(hl.__file__).parent / folder).glob(f"*autoschedule_{SCHEDULER.lower()}.*"):
                hl.load_plugin(str(plugin))
        self._values, self._goal = [p.copy() for p in parameters], target.copy()
        self._gradients = [np.zeros_like(p) for p in self._values]
        inputs = [hl.ImageParam(hl.Float(32), p.ndim) for p in (*self._values, self._goal)]
        self._kept = [hl.Buffer(p) for p in (*self._values, self._goal)]
        for given, buffer in zip(inputs, self._kept, strict=True):
            given.set(buffer)
            given.set_estimates(_extents(buffer))
        funcs = []
        for k, given in enumerate(inputs[:-1]):
            axes = [hl.Var(f"p{k}_{a}") for a in range(given.dimensions())]
            funcs.append(hl.Func(f"p{k}"))
            funcs[-1][axes] = given[axes]
        made, loss = hl.Func("made"), hl.Func("loss")
        algorithm(hl, made, [hl.Var(f"a{k}") for k in range(target.ndim)], *funcs)
        every = hl.RDom(_extents(self._kept[-1]))
        texel = [every[k] for k in range(target.ndim)]
        slope = made[texel] - inputs[-1][texel]
        loss[()] = hl.f32(0)
        loss[()] += slope * slope * hl.f32(1 / target.size)
        adjoints, outputs = hl.propagate_adjoints(loss), []
        for f, buffer in zip(funcs, self._kept, strict=False):
            axes = [hl.Var(f"g{a}") for a in range(buffer.dimensions())]
            outputs.append(hl.Func())
            outputs[-1][axes] = adjoints[f][axes]
            outputs[-1].set_estimates(_extents(buffer))
        self._pipeline, self._results = hl.Pipeline(outputs), [hl.Buffer(g) for g in self._gradients]
        self._pipeline.apply_autoscheduler(hl.get_host_target(), hl.AutoschedulerParams(SCHEDULER, {}))
        self._pipeline.compile_jit()

    def positions(self) -> np.ndarray:
        """The last parameter."""
        return self._values[-1]

    def run(self, steps: int) -> None:
        """Gradients by all parameters, and the update of these."""
        for _ in range(steps):
            self._pipeline.realize(self._results)
            for p, gradient in zip(self._values, self._gradients, strict=True):
                p -= np.float32(RATE) * gradient


def _extents(buffer: Any) -> list[tuple[int, int]]:
    return [(0, buffer.dim(k).extent()) for k in range(buffer.dimensions())]


# Layers of networks, one and several behind each other, and products of matrices.

LAYERS = 4
"""Of a chain."""
WIDTH = 5
"""Texels along a side of a kernel of a chain."""


def convolution(size: Size, request: Request) -> Training:
    """A layer of a network with as many channels out as in: forward, and gradients and updates of both kernel
    and image. With ``depthwise`` every channel has a kernel of its own."""
    width, height = size
    views, channels, kernel = request.views, request.channels, request.kernel
    groups = channels if request.depthwise else 1
    shape = views, channels, height, width
    image, weight, target = _random(shape, (channels, channels // groups, kernel, kernel), shape)
    weight = weight / kernel

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

    settings = {"views": views, "size": list(size), "channels": channels, "kernel": kernel}
    settings["depthwise"] = request.depthwise
    x, w = planes(image, "image"), planes(weight, "weight")
    peers = {
        "torch": lambda: Torch(correlated, (image, weight), target),
        "halide": lambda: Halide(summed, (image, weight), target),
    }
    return Training(settings, F.correlate(x, w, groups=groups), (x, w), planes(target, "target"), peers)


def chain(size: Size, request: Request) -> Training:
    """Four kernels behind each other, all trained: the gradient of the first goes through the other three."""
    width, height = size
    shape = request.views, 1, height, width
    image, target, *weights = _random(shape, shape, *[(1, 1, WIDTH, WIDTH)] * LAYERS)
    weights = [weight / WIDTH for weight in weights]

    def chained(torch: Any, *ws: Any) -> Any:
        made = torch.from_numpy(image)
        for w in ws:
            made = torch.nn.functional.conv2d(made, w, padding="same")
        return made

    kernels = [planes(w, f"weight {k}") for k, w in enumerate(weights)]
    made = planes(image, "image")
    for w in kernels:
        made = F.correlate(made, w)
    settings = {"views": request.views, "size": list(size), "layers": LAYERS, "kernel": WIDTH}
    peers = {"torch": lambda: Torch(chained, weights, target)}
    return Training(settings, made, tuple(kernels), planes(target, "target"), peers)


def product(size: Size, request: Request) -> Training:
    """A product of matrices, both trained: three products a step."""
    width, height = size
    if width != height:
        raise InputError(f"matmul multiplies square matrices, not {width}x{height}; give --size {height}")
    a, b, target = _random(*[(1, 1, height, width)] * 3)
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


# A layer of HDRnet: a bilateral grid of affine matrices, sliced by a guide and applied to an image.

CELLS = 32
"""Along a side of the grid, less where they would be smaller than SMALLEST."""
SMALLEST = 4
DEPTHS = 8
ROWS = 3
"""Of an affine matrix, each of a VEC4."""


def slicing(size: Size, request: Request) -> Training:
    """Grid, guide and image are trained. Every texel takes a matrix between eight of the grid's: columns and
    rows by the place, depths by the guide. Hats, 1 at a cell and 0 at its neighbours, weigh all depths, so
    that every gradient is a contraction."""
    (width, height), views = size, request.views
    across, down = cells(width), cells(height)
    random = np.random.default_rng(0)
    grid = random.standard_normal((views, ROWS * DEPTHS, down, across, 4), np.float32)
    guide = random.random((views, height, width), np.float32)
    image = random.random((views, height, width, 3), np.float32)
    target = random.random((views, ROWS, height, width), np.float32)
    g = Variable(VEC4, (across, down), views, channels=ROWS * DEPTHS, data=grid, name="grid")
    u = Variable(FLOAT, size, views, data=guide, name="guide")
    x = Variable(VEC3, size, views, data=image, name="image")
    settings = {"views": views, "size": list(size), "cells": [across, down], "depths": DEPTHS}

    def blended(hl: Any, made: Any, axes: Any, grid: Any, guide: Any, image: Any) -> None:
        """The same by the eight cells around a texel and its guide."""
        column, row, matrix, n = axes
        near = hl.RDom([(0, 2)] * 3)
        texel = (hl.f32(column) + 0.5) * (across / width), (hl.f32(row) + 0.5) * (down / height)
        cell, weight = [], hl.f32(1)
        for k, (place, cells) in enumerate(
            zip((*texel, guide[column, row, n] * DEPTHS), (across, down, DEPTHS), strict=True)
        ):
            at = hl.clamp(place - 0.5, hl.f32(0), hl.f32(cells - 1))
            first = hl.clamp(hl.i32(hl.floor(at)), 0, max(cells - 2, 0))
            part = at - hl.f32(first)
            weight = weight * hl.select(near[k] == 0, 1 - part, part)
            cell.append(hl.clamp(first + near[k], 0, cells - 1))
        made[axes] = hl.f32(0)
        where = cell[0], cell[1], matrix * DEPTHS + cell[2], n
        product = grid[(3, *where)]
        for k in range(3):
            product = product + grid[(k, *where)] * image[k, column, row, n]
        made[axes] += weight * product

    made = F.dot(F.slice_grid(g, u, DEPTHS), F.vec4(x, 1.0))
    peers = {
        "torch": lambda: Torch(sliced, (grid, guide, image), target),
        "halide": lambda: Halide(blended, (grid, guide, image), target),
    }
    return Training(settings, made, (g, u, x), planes(target, "target"), peers)


def cells(texels: int) -> int:
    """The cells of the grid along so many texels, which they divide."""
    return max(n for n in range(1, CELLS + 1) if texels % n == 0 and (n == 1 or texels >= SMALLEST * n))


def sliced(torch: Any, grid: Any, guide: Any, image: Any) -> Any:
    """The same by torch's samples of volumes."""
    n, height, width, _ = image.shape
    columns, rows = ((2 * torch.arange(e) + 1) / e - 1 for e in (width, height))
    places = torch.broadcast_tensors(columns, rows[:, None], 2 * guide - 1)
    volume = grid.reshape(n, ROWS, DEPTHS, *grid.shape[2:]).permute(0, 1, 5, 2, 3, 4).flatten(1, 2)
    found = torch.nn.functional.grid_sample(
        volume, torch.stack(places, -1)[:, None], padding_mode="border", align_corners=False
    )
    matrix = found.reshape(n, ROWS, 4, height, width)
    return (matrix[:, :, :3] * image.permute(0, 3, 1, 2)[:, None]).sum(2) + matrix[:, :, 3]


# An operation with parameters, trained by gradient descent towards random values; the same by torch.

RATE = 1e-3
Operation = Callable[..., Any]
"""Of torch and the parameters."""


def _random(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, np.float32) for shape in shapes]


def planes(values: np.ndarray, name: str) -> Variable:
    """A leaf of n images with c channels."""
    n, c, height, width = values.shape
    return Variable(FLOAT, (width, height), n, channels=c, data=values if c > 1 else values[:, 0], name=name)


class Training(NamedTuple):
    """What is trained: ``made`` of the parameters approaches the target in mean squares. peers: rivals."""

    settings: dict[str, Any]
    made: Variable
    parameters: tuple[Variable, ...]
    target: Variable
    peers: dict[str, Callable[[], Any]]


def imported(name: str, module: str, package: str = "") -> Any:
    """A module of another program. package: that has it. Raises DeviceError where it cannot be imported."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DeviceError(
            f"{name} cannot be imported ({error}); install it with `pip install {package or module}`"
        ) from None


class Torch:
    """The same step by torch on the processor. Raises DeviceError where torch cannot be imported."""

    def __init__(self, operation: Operation, parameters: Sequence[np.ndarray], target: np.ndarray):
        torch = imported("torch", "torch")
        self.facts: dict[str, Any] = {"name": "torch", "version": version("torch")}
        self.facts["threads"] = torch.get_num_threads()
        self._torch, self._operation = torch, operation
        self._values = [torch.from_numpy(p.copy()).requires_grad_() for p in parameters]
        self._target = torch.from_numpy(target)

    def positions(self) -> np.ndarray:
        """The last parameter."""
        return self._values[-1].detach().numpy()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            made = self._operation(self._torch, *self._values)
            loss = ((made - self._target) ** 2).mean()
            loss.backward()
            with self._torch.no_grad():
                for v in self._values:
                    v -= RATE * v.grad
                    v.grad = None
