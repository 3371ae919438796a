"""The sRGB transfer curve on the host, exact in both pieces (IEC 61966-2-1), and the check that colours are
linear light."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...errors import InputError, warn

CODES = 16.0
"""Colours above this are code values, not linear light in [0, 1]: whole numbers for sure, others probably."""


def srgb_to_linear(values: np.ndarray) -> np.ndarray:
    """sRGB code values in [0, 1] to linear light.

    >>> srgb_to_linear(np.array([0.0, 0.5, 1.0])).round(3).tolist()
    [0.0, 0.214, 1.0]
    """
    values = np.asarray(values)
    return np.where(values <= 0.04045, values / 12.92, ((np.maximum(values, 0) + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(values: np.ndarray) -> np.ndarray:
    """Linear light to sRGB code values; values are clamped to [0, 1] first.

    >>> linear_to_srgb(np.array([0.0, 0.214, 1.0])).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    values, end = np.clip(values, 0, 1), 0.0031308  # powers of zeros, the background, take five times as long
    return np.where(values <= end, values * 12.92, 1.055 * np.maximum(values, end) ** (1 / 2.4) - 0.055)


_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""Linear sRGB to XYZ."""


def linear_to_lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of linear light (..., 3).

    >>> linear_to_lab(np.array([0.5, 0.5, 0.5])).round(1).tolist()
    [76.1, 0.0, 0.0]
    """
    t = (linear @ _XYZ.T) / _XYZ.sum(1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def check_linear(name: str, values: Any, radiance: bool = False) -> None:
    """Raises InputError for colours that are 8-bit or 16-bit code values, which are 255 times too bright as
    linear light. Warns for others that are far above 1; a few times 1 is light that a display cannot show.
    radiance: of lights, which has no bound, so that only the type tells code values.

    >>> check_linear("texture", np.full((1, 1, 3), 200, np.uint8))
    Traceback (most recent call last):
        ...
    dressi.errors.InputError: texture has code values (uint8, up to 200), and linear light in [0, 1] is needed: give ...
    """
    values = np.asarray(values)
    if values.dtype.kind not in "uif" or not values.size:
        return
    most, codes = values.max(), values.dtype in (np.uint8, np.uint16)
    if codes or (not radiance and CODES <= most <= 65535 and (values == np.round(values)).all()):
        kind, largest = (f"{values.dtype}, ", np.iinfo(values.dtype).max) if codes else ("", 255)
        raise InputError(
            f"{name} has code values ({kind}up to {most:g}), and linear light in [0, 1] is needed: give"
            f" srgb_to_linear({name.split()[0]} / {largest if most <= largest else 65535})"
        )
    if most > CODES and not radiance:
        warn(
            f"{name} has values up to {most:.4g}; linear colours of surfaces lie in [0, 1]: divide code"
            " values by 255 first"
        )


# The sRGB transfer curve as Functions, differentiable; ``color`` has it on the host. Codes are not clamped.


def decoded(codes: Variable) -> Variable:
    """Linear light of sRGB codes (float image); below 0 the curve goes on straight, above 1 as a power.
    Differentiable.

    >>> from dressi import evaluate
    >>> evaluate(decoded(Variable.of([0.0, 0.5, 1.0], FLOAT))).round(3).tolist()
    [0.0, 0.214, 1.0]
    """
    high = F.pow((F.maximum(codes, 0.04045) + 0.055) / 1.055, 2.4)
    return F.select(F.less_equal(codes, 0.04045), codes / 12.92, high)


def encoded(light: Variable) -> Variable:
    """sRGB codes of linear light (float image), the inverse of ``decoded``. Differentiable.

    >>> from dressi import evaluate
    >>> evaluate(encoded(Variable.of([0.0, 0.214, 1.0], FLOAT))).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    high = F.pow(F.maximum(light, 0.0031308), 1 / 2.4) * 1.055 - 0.055
    return F.select(F.less_equal(light, 0.0031308), light * 12.92, high)
