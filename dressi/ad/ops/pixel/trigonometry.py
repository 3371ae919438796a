"""Trigonometry, by components. Angles are in radians."""

from __future__ import annotations

import numpy as np

from ...graph import Variable
from .arithmetic import div
from .compare import greater, guarded
from .constant import Like, floats
from .exponential import inversesqrt
from .kinds import Pointwise
from .math import square

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]


class Sin(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_sin($0)", np.sin

    def partials(self, x):
        return (cos(x),)


class Cos(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_cos($0)", np.cos

    def partials(self, x):
        return (-sin(x),)


class Tan(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_tan($0)", np.tan

    def partials(self, x):
        return (1.0 + square(self.output),)


class Asin(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_asin($0)", np.arcsin

    def partials(self, x):
        rest = 1.0 - square(x)
        return (guarded(greater(rest, 0.0), inversesqrt, rest),)


class Acos(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    operations = 31.0
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_acos($0)", np.arccos

    def partials(self, x):
        rest = 1.0 - square(x)
        return (guarded(greater(rest, 0.0), lambda rest: -inversesqrt(rest), rest),)


class Atan(Pointwise):
    operations = 9.0
    expression, compute = "atan($0)", np.arctan

    def partials(self, x):
        return (1.0 / (1.0 + square(x)),)


class Atan2(Pointwise):
    """Angle of the point (x, y), inputs y and x. The derivative at the origin is 0."""

    decides_on = None
    operations = 9.0
    expression, compute = "atan($0, $1)", np.arctan2

    def partials(self, y, x):
        radius2 = square(x) + square(y)
        away = greater(radius2, 0.0)
        return (
            guarded(away, lambda r2: div(x, r2), radius2),
            guarded(away, lambda r2: -div(y, r2), radius2),
        )


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


def atan2(y: Like, x: Like) -> Variable:
    """The angle of the point (x, y) in radians, in (-pi, pi], by components.

    y, x: FLOAT, VECn or MATn as for ``add``. Differentiable in both; undefined, with derivative 0, at the origin. Raises
    GraphError.

    >>> round(evaluate(F.atan2(1.0, -1.0)).item(), 4)
    2.3562
    """
    return Atan2(*floats(y, x)).output
