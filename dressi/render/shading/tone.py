"""From linear light to a display: exposure and tone mapping. sRGB is in ``surface.transfer``."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like


def exposed(light: Variable, stops: Like) -> Variable:
    """VEC3: light times 2^stops. light: linear.  stops: FLOAT, one, one a view, or an image. Differentiable.

    >>> evaluate(exposed(as_variable(0.25), 1.0)).item()
    0.5
    """
    return light * F.exp2(as_variable(stops))


def reinhard(light: Variable, white: Like = 1e6) -> Variable:
    """Values in [0, 1) by Reinhard et al. (2002), equation 4: L (1 + L / white^2) / (1 + L).

    light: linear, at least 0.  white: the least light that is shown as 1. Differentiable in both.

    >>> evaluate(reinhard(as_variable(1.0))).item()
    0.5
    """
    white = as_variable(white)
    return light * (1.0 + light / (white * white)) / (1.0 + light)


def aces(light: Variable) -> Variable:
    """Values in [0, 1] by the fit of Narkowicz (2015) to the ACES film curve, clamped at 1.

    light: linear, at least 0. Differentiable.

    >>> round(evaluate(aces(as_variable(0.18))).item(), 3)
    0.267
    """
    value = light * (light * 2.51 + 0.03) / (light * (light * 2.43 + 0.59) + 0.14)
    return F.clamp(value, 0.0, 1.0)
