"""Shares of even light that surfaces reflect, from tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, VEC4, Size, VType
from ....ad.ops.pixel.constant import Like
from .microfacet import DIELECTRIC

ENTRIES = 64
"""Entries of the table of diffuse albedos."""
LEAST_COSINE = 1.6e-3
"""The smallest cosine to the eye in the tables of lobes."""


def looked_up(table: np.ndarray, vtype: VType, name: str, place: Variable) -> Variable:
    """``table`` (rows, columns, ...) bilinear at ``place`` in [0, 1]^2, between centres of outer entries."""
    height, width = table.shape[:2]
    size: Size = (width, height)
    leaf = Variable(vtype, size, name=name, data=table[None])
    inner = ((width - 1) / width, (height - 1) / height)
    return F.sample(leaf, place * inner + (0.5 / width, 0.5 / height), "bilinear", "clamp", tolerance=0.0)


@cache
def lobe_table(count: int) -> np.ndarray:
    """(count, rows, columns, 4) float32: of each lobe of GGX (``split_sum``) the sine of its angle to the
    normal over the sine of that of the eye, its level, and its weights by f0 and f90.

    Rows: roughness from 0 to 1.  Columns: square root of the cosine to the eye, from 0 to 1.
    """
    return np.load(Path(__file__).parents[1] / f"lobes_{count}.npy")


def lobe_place(n_v: Variable, roughness: Like) -> Variable:
    """VEC2: where the tables of lobes have a cosine to the eye and a roughness."""
    return F.vec2(F.sqrt(n_v), F.clamp(roughness, 0.0, 1.0))


def film_albedo(f0: Variable, cosine: Variable, roughness: Like) -> Variable:
    """FLOAT: the share of even light that a film of GGX reflects to an eye at an angle, or of light from
    there to everywhere. Differentiable.

    >>> [round(evaluate(film_albedo(F.constant(0.03), F.constant(0.1), r)).item(), 2) for r in (0.3, 0.6)]
    [0.34, 0.11]
    """
    place = lobe_place(F.clamp(cosine, LEAST_COSINE, 1.0), roughness)
    entry = looked_up(lobe_table(1)[0], VEC4, "lobe 0", place)
    return f0 * entry.z + entry.w


@cache
def diffuse_table() -> np.ndarray:
    """(1, ENTRIES) float64: the diffuse albedo of a white dielectric, by quadrature.

    Columns: the cosine to the eye, from 0 to 1. Gauss-Legendre in the cosine to the light.
    """
    node, weight = np.polynomial.legendre.leggauss(48)
    n_l, weight = (node + 1) / 2, weight / 2
    turn = (np.arange(64) + 0.5) / 64 * np.pi
    n_v = np.linspace(0, 1, ENTRIES)[:, None, None]
    v_l = n_v * n_l[:, None] + np.sqrt((1 - n_v**2) * (1 - n_l[:, None] ** 2)) * np.cos(turn)
    v_h = np.sqrt((1 + v_l) / 2)
    through = (1 - DIELECTRIC) * (1 - (1 - v_h) ** 5)
    return (through.mean(-1) * (2 * n_l * weight)).sum(-1)[None]


def diffuse_albedo(normal: Variable, to_eye: Variable) -> Variable:
    """FLOAT: the diffuse albedo of a white dielectric: the mean of 1 - F(v.h) over the cosine.

    >>> round(evaluate(diffuse_albedo(F.constant((0.0, 0.0, 1.0)), F.constant((0.0, 0.0, 1.0)))).item(), 2)
    0.96
    """
    n_v = F.clamp(F.dot(normal, to_eye), 0.0, 1.0)
    return looked_up(diffuse_table(), FLOAT, "diffuse albedo", F.vec2(n_v, 0.5))
