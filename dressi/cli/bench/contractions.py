"""Layers of networks and products of matrices, trained on random values, and the same in torch and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from dressi import DressiAD, F, Variable
from dressi.ad.optim.optimizers import sgd
from dressi.ad.types import FLOAT, Size
from dressi.cli.bench.request import Request
from dressi.cli.bench.work import Peer, Work
from dressi.errors import DeviceError, InputError

RATE = 1e-3
Step = Callable[[], None]


def convolution(size: Size, request: Request) -> Work:
    """A layer of a network: as many channels out as in, kernel and image both trained: forward, both gradients and the update
    of both. With ``depthwise`` every channel has a kernel of its own."""
    (width, height), channels, kernel = size, request.channels, request.kernel
    groups = channels if request.depthwise else 1
    random = np.random.default_rng(0)
    image = random.standard_normal((request.views, channels, height, width), np.float32)
    weight = random.standard_normal((channels, channels // groups, kernel, kernel), np.float32) / kernel
    target = random.standard_normal(image.shape, np.float32)

    def correlated(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, padding="same", groups=groups)

    settings = {
        "views": request.views, "size": list(size), "channels": channels, "kernel": kernel, "depthwise": request.depthwise
    }  # fmt: skip
    x, w = planes(image, "image"), planes(weight, "weight")
    return _work(
        settings,
        F.correlate(x, w, groups=groups),
        (x, w),
        planes(target, "target"),
        {"torch": lambda: Torch(correlated, (image, weight), target)},
        request,
    )


def product(size: Size, request: Request) -> Work:
    """A product of matrices, both trained: three products a step."""
    width, height = size
    random = np.random.default_rng(0)
    a, b, target = (random.standard_normal((1, 1, height, width), np.float32) for _ in range(3))
    if width != height:
        raise InputError(f"matmul multiplies square matrices, not {width}x{height}; give --size {height}")

    def multiplied(torch: Any, x: Any, y: Any) -> Any:
        return x @ y

    x, y = planes(a, "a"), planes(b, "b")
    peers = {
        "torch": lambda: Torch(multiplied, (a[0, 0], b[0, 0]), target[0, 0]),
        "numpy": lambda: Products(a[0, 0], b[0, 0], target[0, 0]),
    }
    return _work(
        {"size": list(size)}, F.matmul(x, y) * _scale(width), (x, y), planes(target, "target"), peers, request
    )


def planes(values: np.ndarray, name: str) -> Variable:
    """A leaf of n images with c channels."""
    n, c, height, width = values.shape
    return Variable(FLOAT, (width, height), n, channels=c, data=values if c > 1 else values[:, 0], name=name)


def _scale(width: int) -> float:
    return width**-0.5


def _work(
    settings: dict[str, Any],
    made: Variable,
    parameters: tuple[Variable, Variable],
    target: Variable,
    peers: Mapping[str, Callable[[], Peer]],
    request: Request,
) -> Work:
    difference = made - target

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return {"norm": float(np.linalg.norm(engine.recv(parameters[1])))}

    rivals = {name: make for name, make in peers.items() if name == request.peer}
    return Work(
        settings,
        F.mean(F.square(difference)),
        sgd(RATE),
        parameters[0],
        made,
        quality,
        rivals,
        others=parameters[1:],
    )


class Torch:
    """The same step by torch on the processor. operation: of torch and both parameters. Raises DeviceError where torch cannot be
    imported."""

    def __init__(
        self, operation: Callable[..., Any], parameters: tuple[np.ndarray, np.ndarray], target: np.ndarray
    ):
        try:
            torch: Any = import_module("torch")
        except ImportError as error:
            raise DeviceError(
                f"torch cannot be imported ({error}); install it with `pip install torch`"
            ) from None
        self.facts: dict[str, Any] = {
            "name": "torch",
            "version": version("torch"),
            "threads": torch.get_num_threads(),
        }
        self._torch, self._operation = torch, operation
        self._scale = _scale(len(target)) if target.ndim == 2 else 1.0
        self._values = [torch.from_numpy(p.copy()).requires_grad_() for p in parameters]
        self._target = torch.from_numpy(target)

    def positions(self) -> np.ndarray:
        return self._values[1].detach().numpy()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            made = self._operation(self._torch, *self._values)
            loss = ((made * self._scale - self._target) ** 2).mean()
            loss.backward()
            with self._torch.no_grad():
                for v in self._values:
                    v -= RATE * v.grad
                    v.grad = None


class Products:
    """The same products by NumPy."""

    def __init__(self, a: np.ndarray, b: np.ndarray, target: np.ndarray):
        self.facts: dict[str, Any] = {"name": "numpy", "version": np.__version__}
        self._a, self._b, self._target, self._scale = a.copy(), b.copy(), target, np.float32(_scale(len(a)))

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
