"""Modified Bessel functions, which normalise lobes on the sphere."""

from __future__ import annotations

import math

import numpy as np

from ....ad import functional as F
from ....ad.graph import PixelFunction, Variable
from ....ad.types import FLOAT

FAR = 30.0
"""From here on the asymptotic series is exact in double precision."""


class _OfFloat(PixelFunction):
    """Input: a FLOAT of at least 0."""

    operations = 60.0
    includes = ("bessel.glsl",)

    def infer(self):
        if self.inputs[0].vtype is not FLOAT:
            raise self.fail("takes a FLOAT")
        return FLOAT, self.broadcast()


class LogBessel(_OfFloat):
    """Input: FLOAT x, at least 0. FLOAT: log(exp(-x) I0(x)), which neither overflows nor vanishes. Differentiable."""

    glsl = "bessel_log($0)"

    def eval(self, x):
        near, far = np.minimum(x, FAR), np.maximum(x, FAR)
        return np.where(
            x < FAR, np.log(_series(near, 0)) - near, np.log(_asymptotic(far, 0)) - 0.5 * np.log(far)
        )

    def partials(self, x):
        return (BesselRatio(x).output - 1.0,)


class BesselRatio(_OfFloat):
    """Input: FLOAT x, at least 0. FLOAT in [0, 1): I1(x) / I0(x). Differentiable."""

    glsl = "bessel_ratio($0)"

    def eval(self, x):
        near, far = np.minimum(x, FAR), np.maximum(x, FAR)
        near = 0.5 * near * _series(near, 1) / _series(near, 0)
        return np.where(x < FAR, near, _asymptotic(far, 1) / _asymptotic(far, 0))

    def partials(self, x):
        # r' = 1 - r / x - r^2, and r / x tends to 1/2.
        there = F.greater(x, 1e-4)
        over = F.select(there, self.output / F.select(there, x, 1.0), 0.5)
        return (1.0 - over - F.square(self.output),)


def log_bessel(x: Variable) -> Variable:
    """FLOAT: log(exp(-x) I0(x)) of the modified Bessel function I0. x: FLOAT, at least 0. Differentiable.

    >>> round(evaluate(log_bessel(as_variable(1.0))).item(), 5)
    -0.76409
    """
    return LogBessel(x).output


def _series(x: np.ndarray, order: int) -> np.ndarray:
    """The sum over k of (x^2 / 4)^k / (k! (k + order)!)."""
    quarter, term = 0.25 * np.square(x), np.ones_like(x)
    total = np.ones_like(x)
    for k in range(1, 64):
        term = term * quarter / (k * (k + order))
        total = total + term
    return total


def _asymptotic(x: np.ndarray, order: int) -> np.ndarray:
    """sqrt(x) exp(-x) times the function, by Hankel's series."""
    total, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, 20):
        term = -term * (4 * order * order - (2 * k - 1) ** 2) / (k * 8 * x)
        total = total + term
    return total / math.sqrt(2 * math.pi)
