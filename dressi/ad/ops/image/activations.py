"""Activations of networks, by their usual names."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....errors import GraphError
from ...graph import Variable
from ..pixel.arithmetic import hadamard, maximum, sub
from ..pixel.constant import Like, floats
from ..pixel.elementary import exp, log, sigmoid
from ..pixel.kinds import Pointwise
from ..pixel.math import square, stop_gradient
from .reduce import max as largest
from .reduce import sum as total

__all__ = ["erf", "gelu", "leaky_relu", "log_softmax", "relu", "silu", "softmax", "softplus", "tanh"]


class Tanh(Pointwise):
    """From exp(-2 |x|), which cannot overflow; below .15 from the series, which keeps its digits."""

    operations = 32.0
    # 1 - tanh(0.15) is far from 0, and the term after x^7 is below 1e-8 of x there. The series of large x is
    # not to be computed: drivers mix by x + (y - x) * a, which would round to its digits.
    _s = "clamp($0, -0.15, 0.15)"
    expression = (
        f"mix({_s} * ($operand(1.0) - {_s} * {_s} * ($operand(0.33333333) - {_s} * {_s}"
        f" * ($operand(0.13333333) - {_s} * {_s} * 0.053968254))),"
        " sign($0) * ($operand(1.0) - exp(-2.0 * abs($0))) / ($operand(1.0) + exp(-2.0 * abs($0))),"
        " step($operand(0.15), abs($0)))"
    )
    compute = np.tanh

    def partials(self, x):
        return (1.0 - square(self.output),)


def _horner(coefficients: Sequence[float], at: str) -> str:
    """A polynomial as GLSL, constant term first."""
    *lower, text = (f"{c:.9g}" for c in coefficients)
    for c in reversed(lower):
        text = f"($operand({c}) + {at} * {text})"
    return text


class Erf(Pointwise):
    """Two polynomials, exact to 2 units of the last place: erf(x) / x to |x| = 1, then -log(1 - erf(t)) /
    t."""

    operations = 60.0
    # The middle is computed from x clamped to 1, and the rest from |x| clamped to 1 to 4, where erf rounds to
    # 1: neither overflows where the other one counts.
    _s, _t = "clamp($0, -1.0, 1.0)", "clamp(abs($0), 1.0, 4.0)"
    _middle = _horner(
        (1.12837913, -0.376123438, 0.112803167, -0.0267150542, 0.00492176203, -0.000564805986),
        f"({_s} * {_s})",
    )
    _rest = _horner(
        (
            1.12895724,
            0.633971448,
            0.108091913,
            -0.0253086012,
            0.00437392263,
            -0.000515745564,
            3.65930119e-05,
            -1.1660325e-06,
        ),
        _t,
    )
    expression = (
        f"mix({_s} * {_middle}, sign($0) * ($operand(1.0) - exp(-{_t} * {_rest})),"
        " step($operand(1.0), abs($0)))"
    )
    compute = staticmethod(lambda x: np.vectorize(math.erf, otypes=[np.float64])(x))

    def partials(self, x):
        return (exp(-square(x)) * (2.0 / math.sqrt(math.pi)),)


class Softplus(Pointwise):
    operations = 26.0
    expression = "max($0, $operand(0.0)) + log($operand(1.0) + exp(-abs($0)))"
    compute = staticmethod(lambda x: np.logaddexp(x, 0.0))

    def partials(self, x):
        return (sigmoid(x),)


def tanh(x: Like) -> Variable:
    """Hyperbolic tangent by components, in [-1, 1].

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 - y**2. Nothing overflows.

    >>> round(evaluate(F.tanh(0.5)).item(), 4), evaluate(F.tanh(-100.0)).item()
    (0.4621, -1.0)
    """
    return Tanh(*floats(x)).output


def erf(x: Like) -> Variable:
    """The error function by components, on devices to 2e-7 of its value.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 2 / sqrt(pi) exp(-x**2).

    >>> round(evaluate(F.erf(0.5)).item(), 4)
    0.5205
    """
    return Erf(*floats(x)).output


def softplus(x: Like) -> Variable:
    """log(1 + exp(x)) by components: a smooth ``relu``, positive.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative ``sigmoid(x)``. Nothing overflows.

    >>> round(evaluate(F.softplus(0.0)).item(), 4), evaluate(F.softplus(100.0)).item()
    (0.6931, 100.0)
    """
    return Softplus(*floats(x)).output


def relu(x: Like) -> Variable:
    """The larger of x and 0, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 where x is positive, else 0.

    >>> evaluate(F.relu([-1.0, 2.0])).ravel().tolist()
    [0.0, 2.0]
    """
    (x,) = floats(x)
    return maximum(x, 0.0)


def leaky_relu(x: Like, slope: float = 0.01) -> Variable:
    """x where it is positive, else ``slope`` times x, by components.

    x: FLOAT, VECn or MATn. slope: a number in [0, 1]. The result has the type and domain of x.
    Differentiable. Raises GraphError.

    >>> evaluate(F.leaky_relu([-1.0, 2.0], 0.25)).ravel().tolist()
    [-0.25, 2.0]
    """
    if not 0 <= slope <= 1:
        raise GraphError(f"the slope of a leaky ReLU is a number in [0, 1], not {slope!r}")
    (x,) = floats(x)
    return maximum(x, x * float(slope))


def silu(x: Like) -> Variable:
    """x times ``sigmoid(x)``, also called swish, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Differentiable.

    >>> round(evaluate(F.silu(1.0)).item(), 4)
    0.7311
    """
    (x,) = floats(x)
    return hadamard(x, sigmoid(x))


def gelu(x: Like, approximate: str = "none") -> Variable:
    """x times the probability that a standard normal number is below x, by components (GELU).

    x: FLOAT, VECn or MATn. approximate: "none" for the probability by ``erf``, or "tanh" for the paper's
    approximation, as in PyTorch. The result has the type and domain of x. Differentiable. Raises GraphError.

    >>> round(evaluate(F.gelu(1.0)).item(), 4)
    0.8413
    """
    (x,) = floats(x)
    match approximate:
        case "none":
            return hadamard(x, erf(x * math.sqrt(0.5)) * 0.5 + 0.5)
        case "tanh":
            inner = hadamard(x, square(x) * 0.044715 + 1.0) * math.sqrt(2.0 / math.pi)
            return hadamard(x, tanh(inner) * 0.5 + 0.5)
    raise GraphError(f"gelu is approximated by 'none' or 'tanh', not {approximate!r}")


def softmax(x: Like, axes: str = "c") -> Variable:
    """Weights that sum to 1 along axes of an image: exp(x) over its sum.

    x: FLOAT, with any channels; VECn: each component by itself. axes: letters of "xycn", by default the
    channels. The result has the type and domain of x. Differentiable. Nothing overflows: the largest value is
    subtracted first. Raises GraphError for other axes.

    >>> x = Variable.of([[0.0, np.log(3.0), -1e4, -1e4, -1e4]])
    >>> evaluate(F.softmax(x, "x")).round(4).ravel().tolist()
    [0.25, 0.75, 0.0, 0.0, 0.0]
    """
    (x,) = floats(x)
    weights = exp(_below_zero(x, axes))
    return hadamard(weights, 1.0 / total(weights, axes))


def log_softmax(x: Like, axes: str = "c") -> Variable:
    """The logarithm of ``softmax``, exact where that is too small for a float: for cross entropies.

    x: FLOAT or VECn, and axes: as for ``softmax``. The result has the type and domain of x. Differentiable.
    Raises GraphError.

    >>> evaluate(F.log_softmax(Variable.of([[0.0, -200.0, -200.0, -200.0, -200.0]]), "x")).ravel().tolist()
    [0.0, -200.0, -200.0, -200.0, -200.0]
    """
    (x,) = floats(x)
    below = _below_zero(x, axes)
    return sub(below, log(total(exp(below), axes)))


def _below_zero(x: Variable, axes: str) -> Variable:
    return sub(x, stop_gradient(largest(x, axes)))
