"""Sheen, as of cloth (KHR_materials_sheen): Charlie's distribution with the visibility of Neubelt and Pettineo."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import FLOAT

LEAST_ROUGHNESS = 0.07
"""Smaller roughness is taken as this: the lobe has no width that a pixel could show."""
TABLE = 32
"""Entries along each axis of the table of albedos."""


def charlie(n_h: Variable, roughness: Variable) -> Variable:
    """FLOAT: the distribution of sheen (Estevez and Kulla 2017), (2 + 1/a) sin^(1/a) / (2 pi), a the squared roughness.

    n_h: cosine between normal and half vector. Differentiable in both.

    >>> round(evaluate(charlie(as_variable(0.0), as_variable(1.0))).item(), 4)
    0.4775
    """
    inverse = 1.0 / F.square(F.maximum(roughness, LEAST_ROUGHNESS))
    # A power has no derivative at 0.
    sine = F.sqrt(F.maximum((1.0 - n_h) * (1.0 + n_h), 1e-7))
    return (inverse + 2.0) * F.pow(sine, inverse) / (2.0 * math.pi)


@cache
def albedo_table() -> np.ndarray:
    """(TABLE, TABLE) float64: the share of uniform light that white sheen reflects, at most 1, by quadrature.

    Rows: roughness from 0 to 1.  Columns: square root of the cosine to the eye, from 0 to 1.
    """
    axis = np.linspace(0, 1, TABLE)
    cosine, angle = (np.arange(64) + 0.5) / 64, (np.arange(64) + 0.5) / 64 * np.pi
    n_l, turn = np.meshgrid(cosine, angle, indexing="ij")
    light = np.stack([np.sqrt(1 - n_l**2) * np.cos(turn), np.sqrt(1 - n_l**2) * np.sin(turn), n_l], axis=-1)
    n_v = np.maximum(axis, 0.03) ** 2
    eye = np.stack([np.sqrt(1 - n_v**2), np.zeros(TABLE), n_v], axis=-1)
    half = light[None] + eye[:, None, None]
    n_h = half[..., 2] / np.linalg.norm(half, axis=-1)
    inverse = 1 / np.maximum(axis, LEAST_ROUGHNESS)[:, None, None, None] ** 2
    sine = np.sqrt(np.maximum(1 - n_h**2, 1e-7))
    distribution = (2 + inverse) * sine**inverse / (2 * np.pi)
    visible = n_l / (4 * (n_l + n_v[:, None, None] - n_l * n_v[:, None, None]))
    return np.minimum((distribution * visible).mean(axis=(2, 3)) * 2 * np.pi, 1.0)


def sheen_albedo(cosine: Variable, roughness: Variable) -> Variable:
    """FLOAT: the share of uniform light that white sheen reflects to a direction. Differentiable in both.

    cosine: between the normal and the direction.  roughness: in [0, 1].

    >>> 0.1 < evaluate(sheen_albedo(as_variable(0.5), as_variable(0.5))).item() < 0.3
    True
    """
    return _looked_up(albedo_table(), "albedo of sheen", cosine, roughness)


@cache
def cover_table() -> np.ndarray:
    """(TABLE, TABLE) float64: the mean over even light, weighted by the cosine to it, of the larger of the albedos to the eye and
    to the light. Rows and columns as of ``albedo_table``.
    """
    albedo, axis = albedo_table(), np.linspace(0, 1, TABLE)
    # Midpoints of the squared cosine have equal weights.
    n_l = np.sqrt((np.arange(256) + 0.5) / 256)
    to_light = np.stack([np.interp(np.sqrt(n_l), axis, row) for row in albedo])
    return np.maximum(albedo[:, :, None], to_light[:, None]).mean(-1)


def sheen_cover(cosine: Variable, roughness: Variable) -> Variable:
    """FLOAT: the share of even light that white sheen keeps from what is below: ``under_sheen``, for a matt surface.

    cosine: between the normal and the eye.  roughness: in [0, 1]. Differentiable in both.

    >>> evaluate(sheen_cover(as_variable(0.5), as_variable(0.5)) >= sheen_albedo(as_variable(0.5), as_variable(0.5))).item()
    1.0
    """
    return _looked_up(cover_table(), "cover of sheen", cosine, roughness)


def _looked_up(values: np.ndarray, name: str, cosine: Variable, roughness: Variable) -> Variable:
    table = Variable(FLOAT, (TABLE, TABLE), name=name, data=values[None])
    place = F.vec2(F.sqrt(F.clamp(cosine, 1e-4, 1.0)), F.clamp(roughness, 0.0, 1.0))
    return F.sample(table, place * ((TABLE - 1) / TABLE) + 0.5 / TABLE, "bilinear", "clamp")


def under_sheen(
    below: Variable,
    sheen: Variable,
    roughness: Variable | None,
    n_l: Variable,
    n_v: Variable,
    n_h: Variable,
) -> Variable:
    """VEC3: the BRDF with a layer of sheen; what is below is scaled down by what the sheen reflects.

    below: VEC3 BRDF without sheen.  sheen: VEC3 colour.  roughness: FLOAT, None for 0. Cosines must be positive.
    """
    rough = F.maximum(F.constant(0.0) if roughness is None else roughness, LEAST_ROUGHNESS)
    visibility = 0.25 / (n_l + n_v - n_l * n_v)
    albedo = F.maximum(sheen_albedo(n_v, rough), sheen_albedo(n_l, rough))
    return sheen * (charlie(n_h, rough) * visibility) + below * (1.0 - strongest(sheen) * albedo)


def strongest(colour: Variable) -> Variable:
    """FLOAT: the largest component."""
    return F.maximum(F.maximum(colour.x, colour.y), colour.z)
