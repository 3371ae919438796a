"""Trigonometric Functions of one input, by components. Angles are in radians."""

from __future__ import annotations

import numpy as np

from ... import functional as F
from ...graph import Variable
from .constant import Like, floats
from .pointwise import Pointwise, guarded


class Sin(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_sin($0)", np.sin

    def partials(self, x):
        return (F.cos(x),)


class Cos(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_cos($0)", np.cos

    def partials(self, x):
        return (-F.sin(x),)


class Tan(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_tan($0)", np.tan

    def partials(self, x):
        return (1.0 + F.square(self.output),)


class Asin(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_asin($0)", np.arcsin

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), F.inversesqrt, rest),)


class Acos(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_acos($0)", np.arccos

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), lambda rest: -F.inversesqrt(rest), rest),)


class Atan(Pointwise):
    operations = 9.0
    expression, compute = "atan($0)", np.arctan

    def partials(self, x):
        return (1.0 / (1.0 + F.square(x)),)


def sin(x: Like) -> Variable:
    """Sine by components.

    x: FLOAT, VECn or MATn, in radians; below 8192 in magnitude on devices. The result has its type and domain. Derivative
    cos(x).

    >>> round(evaluate(F.sin(np.pi / 6)).item(), 4)
    0.5
    """
    return Sin(*floats(x)).output


def cos(x: Like) -> Variable:
    """Cosine by components.

    x: FLOAT, VECn or MATn, in radians; below 8192 in magnitude on devices. The result has its type and domain. Derivative
    -sin(x).

    >>> round(evaluate(F.cos(np.pi / 3)).item(), 4)
    0.5
    """
    return Cos(*floats(x)).output


def tan(x: Like) -> Variable:
    """Tangent by components.

    x: FLOAT, VECn or MATn, in radians; below 8192 in magnitude on devices. The result has its type and domain. Derivative
    1 + tan(x)**2.

    >>> round(evaluate(F.tan(np.pi / 4)).item(), 4)
    1.0
    """
    return Tan(*floats(x)).output


def asin(x: Like) -> Variable:
    """Arc sine by components, in radians in [-pi/2, pi/2].

    x: FLOAT, VECn or MATn in [-1, 1]. The result has its type and domain. Derivative 1 / sqrt(1 - x**2); 0 at -1 and 1,
    where it would be infinite.

    >>> round(evaluate(F.asin(0.5)).item(), 4)
    0.5236
    """
    return Asin(*floats(x)).output


def acos(x: Like) -> Variable:
    """Arc cosine by components, in radians in [0, pi].

    x: FLOAT, VECn or MATn in [-1, 1]. The result has its type and domain. Derivative -1 / sqrt(1 - x**2); 0 at -1 and 1,
    where it would be infinite.

    >>> round(evaluate(F.acos(0.5)).item(), 4)
    1.0472
    """
    return Acos(*floats(x)).output


def atan(x: Like) -> Variable:
    """Arc tangent by components, in radians in (-pi/2, pi/2).

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / (1 + x**2).

    >>> round(evaluate(F.atan(1.0)).item(), 4)
    0.7854
    """
    return Atan(*floats(x)).output
