"""Robust kernels: costs that grow more slowly than the square, so that outliers weigh less.

A kernel maps the squared norm s = |r|^2 of a residual at one texel to rho(s); the cost is 1/2 rho(s). Near zero rho(s) = s.
The solvers use iteratively reweighted least squares: every step multiplies r by sqrt(rho'(s)), held constant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable

__all__ = ["Kernel", "Robust", "cauchy", "huber", "tukey"]


@dataclass(frozen=True)
class Kernel(ABC):
    """A robust kernel. width: the norm of a residual from which on it counts as an outlier, > 0."""

    width: float

    def __post_init__(self) -> None:
        if not (isinstance(self.width, Real) and self.width > 0):
            raise GraphError(f"the width of a robust kernel is a number above 0, not {self.width!r}")

    @abstractmethod
    def rho(self, s: Variable) -> Variable:
        """The kernel of the squared norm s >= 0, FLOAT."""

    @abstractmethod
    def weight(self, s: Variable) -> Variable:
        """Its derivative d rho / d s, in [0, 1]."""


class Huber(Kernel):
    """s up to width^2, then 2 width sqrt(s) - width^2."""

    def rho(self, s):
        norm = F.sqrt(F.maximum(s, self.width**2))
        return F.select(F.less(s, self.width**2), s, 2.0 * self.width * norm - self.width**2)

    def weight(self, s):
        return self.width / F.sqrt(F.maximum(s, self.width**2))


class Cauchy(Kernel):
    """width^2 log(1 + s / width^2)."""

    def rho(self, s):
        x = s / self.width**2
        # 1 + x loses x where that is small: log(1 + x) = 2 artanh z, with z = x / (2 + x).
        z = x / (2.0 + x)
        square = F.square(z)
        near = 2.0 * z * (1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0))))
        return self.width**2 * F.select(F.less(x, 0.1), near, F.log(1.0 + x))

    def weight(self, s):
        return 1.0 / (1.0 + s / self.width**2)


class Tukey(Kernel):
    """width^2 / 3 (1 - (1 - s / width^2)^3) up to width^2, then constant: outliers do not count."""

    def rho(self, s):
        # The same as width^2 / 3 (1 - (1 - x)^3), which loses x where that is small.
        x = F.minimum(s / self.width**2, 1.0)
        return self.width**2 * x * (1.0 - x + F.square(x) * (1.0 / 3.0))

    def weight(self, s):
        return F.square(F.maximum(1.0 - s / self.width**2, 0.0))


def huber(width: float) -> Kernel:
    """Quadratic up to a norm of ``width``, linear beyond (Huber). width > 0. Raises GraphError.

    >>> r = Variable.of([0.5, 4.0, 4.0, 4.0, 4.0])
    >>> evaluate(least_squares.huber(1.0).rho(F.square(r))).tolist()[:2]
    [0.25, 7.0]
    """
    return Huber(width)


def cauchy(width: float) -> Kernel:
    """Logarithmic beyond a norm of ``width`` (Cauchy, or Lorentzian). width > 0. Raises GraphError.

    >>> evaluate(least_squares.cauchy(1.0).weight(Variable.of(3.0))).item()
    0.25
    """
    return Cauchy(width)


def tukey(width: float) -> Kernel:
    """Constant beyond a norm of ``width``, where residuals have no influence at all (Tukey's biweight). width > 0. Raises
    GraphError.

    >>> evaluate(least_squares.tukey(1.0).weight(Variable.of(3.0))).item()
    0.0
    """
    return Tukey(width)


class Robust(NamedTuple):
    """A residual with its kernel, for the list that ``DressiAD.set_loss`` takes.

    residual: any float type. At each texel the kernel gets the squared norm of all components together. Each channel has texels of
    its own; ``F.from_channels`` makes components of up to four, for one kernel of all.

    >>> x = Variable.of([0.0, 0.1, 9.0, 0.2, 0.1], name="x")
    >>> energy = least_squares.Energy([least_squares.Robust(x, least_squares.tukey(1.0))])
    >>> round(evaluate(energy.cost()).item(), 3)
    0.195
    """

    residual: Variable
    kernel: Kernel
