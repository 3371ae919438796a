"""Trigonometric Functions of one input, by components. Angles are in radians."""

from __future__ import annotations

import numpy as np

from . import functional as F
from .constant import Like, floats
from .graph import Variable
from .pointwise import Pointwise, guarded


class Sin(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_sin($0)", np.sin

    def partials(self, x):
        return (F.cos(x),)


class Cos(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_cos($0)", np.cos

    def partials(self, x):
        return (-F.sin(x),)


class Tan(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_tan($0)", np.tan

    def partials(self, x):
        return (1.0 + F.square(self.output),)


class Asin(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_asin($0)", np.arcsin

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), F.inversesqrt, rest),)


class Acos(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_acos($0)", np.arccos

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), lambda rest: -F.inversesqrt(rest), rest),)


class Atan(Pointwise):
    expression, compute = "atan($0)", np.arctan

    def partials(self, x):
        return (1.0 / (1.0 + F.square(x)),)


def sin(x: Like) -> Variable:
    """Sine; radians, below 8192 on devices."""
    return Sin(*floats(x)).output


def cos(x: Like) -> Variable:
    """Cosine; radians, below 8192 on devices."""
    return Cos(*floats(x)).output


def tan(x: Like) -> Variable:
    """Tangent; radians."""
    return Tan(*floats(x)).output


def asin(x: Like) -> Variable:
    """Arc sine in [-pi/2, pi/2]; x in [-1, 1]. The derivative at the ends is 0."""
    return Asin(*floats(x)).output


def acos(x: Like) -> Variable:
    """Arc cosine in [0, pi]; x in [-1, 1]. The derivative at the ends is 0."""
    return Acos(*floats(x)).output


def atan(x: Like) -> Variable:
    """Arc tangent in (-pi/2, pi/2)."""
    return Atan(*floats(x)).output
