"""From linear light to a display: exposure, tone mapping, and outputs by name. sRGB is in ``surface.color``."""

from __future__ import annotations

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable, evaluation
from ...ad.graph.types import VEC3
from ...ad.ops.pixel.constant import Like
from ...errors import InputError, did_you_mean
from ..surface.color import encoded, linear_to_srgb


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


# Outputs by name.

TONES = ("srgb", "linear", "aces", "reinhard", "acescg", "aces2065-1", "raw")
"""What the values of a saved picture mean (``displayed``)."""
PRIMARIES = {
    "acescg": (
        (0.613097, 0.339523, 0.047379), (0.070194, 0.916354, 0.013452), (0.020616, 0.109570, 0.869815)
    ),
    "aces2065-1": (
        (0.439633, 0.382989, 0.177378), (0.089776, 0.813439, 0.096784), (0.017541, 0.111547, 0.870912)
    ),
}  # fmt: skip
"""Rows: from linear Rec. 709 to the primaries AP1 and AP0, with Bradford's adaptation from D65 to ACES white."""
FLOATS = ("linear", *PRIMARIES)
"""Tones that are light without an upper end, which 8 and 16 bits do not hold."""


def displayed(light: Variable, tone: str = "srgb", stops: Like = 0.0) -> Variable:
    """VEC3: linear Rec. 709 light times 2^stops as the values that an output of that name stores.

    "srgb": cut at 1, with the sRGB curve.  "aces", "reinhard": the tone curve of that name, then the sRGB
    curve.  "linear": linear Rec. 709, as it is.  "acescg", "aces2065-1": linear light with the primaries AP1
    or AP0.  "raw": the values without exposure. Differentiable in light and stops. Raises InputError for
    another name.

    >>> [round(evaluate(displayed(F.constant((0.18,) * 3), name)).max().item(), 3) for name in TONES]
    [0.461, 0.18, 0.553, 0.427, 0.18, 0.18, 0.18]
    """
    check_tone(tone)
    if tone == "raw":
        return light
    light = exposed(light, stops)
    if tone in PRIMARIES:
        return F.vec3(*(F.dot(light, F.constant(row)) for row in PRIMARIES[tone]))
    if tone == "linear":
        return light
    shown = light if tone == "srgb" else {"aces": aces, "reinhard": reinhard}[tone](F.maximum(light, 0.0))
    return encoded(F.clamp(shown, 0.0, 1.0))


def check_tone(tone: str) -> None:
    """Raises InputError for a name that is none of ``TONES``."""
    if tone not in TONES:
        raise InputError(f"a tone is one of {', '.join(TONES)}, not {tone!r}{did_you_mean(str(tone), TONES)}")


def displayed_array(light: np.ndarray, tone: str = "srgb", stops: float = 0.0) -> np.ndarray:
    """``displayed`` of an array (..., H, W, 3).

    >>> displayed_array(np.full((1, 1, 3), 0.18), "aces", stops=1.0).round(3).ravel().tolist()
    [0.738, 0.738, 0.738]
    """
    check_tone(tone)
    if tone == "srgb":
        return linear_to_srgb(light * 2.0**stops)
    tiles = np.asarray(light).reshape(-1, *light.shape[-3:])
    leaf = Variable(VEC3, tiles.shape[2:0:-1], len(tiles), name="light", data=tiles)
    return evaluation.evaluate([displayed(leaf, tone, stops)])[0].reshape(light.shape)
