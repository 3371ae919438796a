"""An operation with parameters, trained by gradient descent towards random values; the same by torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from dressi import Variable
from dressi.ad.types import FLOAT
from dressi.errors import DeviceError

RATE = 1e-3
Operation = Callable[..., Any]
"""Of torch and the parameters."""


def planes(values: np.ndarray, name: str) -> Variable:
    """A leaf of n images with c channels."""
    n, c, height, width = values.shape
    return Variable(FLOAT, (width, height), n, channels=c, data=values if c > 1 else values[:, 0], name=name)


class Training(NamedTuple):
    """What is trained: ``made`` of the parameters comes near the target, in mean squares. peers: who does the same."""

    settings: dict[str, Any]
    made: Variable
    parameters: tuple[Variable, ...]
    target: Variable
    peers: dict[str, Callable[[], Any]]


class Torch:
    """The same step by torch on the processor. Raises DeviceError where torch cannot be imported."""

    def __init__(self, operation: Operation, parameters: Sequence[np.ndarray], target: np.ndarray):
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
