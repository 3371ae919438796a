"""How a fit finds a parameter: what it optimises in its place, and how fast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable

LEAST = 0.02
"""Distance from the ends of [0, 1] at which maps start: at the ends a sigmoid has no derivative."""


@dataclass(frozen=True)
class Learned(ABC):
    """rate: of Adam at the first step.  smoothness: weight of the sum of squared differences of neighbouring texels.  name:
    in ``--optimize``, by default that of the parameter."""

    rate: float
    smoothness: float
    name: str = ""

    @abstractmethod
    def start(self, values: np.ndarray) -> np.ndarray:
        """What is optimised, for values (H, W, C) of the parameter to start from."""

    @abstractmethod
    def value(self, unknown: Variable) -> Variable:
        """The parameter."""


class Share(Learned):
    """A number in [0, 1]: the sigmoid of what is optimised.

    >>> Share(0.1, 0.0).start(np.array([[[0.5]]])).item()
    0.0
    """

    def start(self, values: np.ndarray) -> np.ndarray:
        inside = np.clip(values, LEAST, 1 - LEAST)
        return np.log(inside / (1 - inside))

    def value(self, unknown: Variable) -> Variable:
        return F.sigmoid(unknown)


class Radiance(Learned):
    """A number from 0 on: the square of what is optimised."""

    def start(self, values: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(values, 1e-3))

    def value(self, unknown: Variable) -> Variable:
        return unknown * unknown


class Tilt(Learned):
    """Normals in tangent space, tilted by two numbers and normalised."""

    def start(self, values: np.ndarray) -> np.ndarray:
        return values[..., :2] / np.maximum(values[..., 2:], 0.1)

    def value(self, unknown: Variable) -> Variable:
        return F.normalize(F.vec3(unknown, 1.0))
