"""Shares of even light that surfaces reflect, from tables."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import FLOAT, Size, VType
from .microfacet import DIELECTRIC

ENTRIES = 64
"""Entries of the table of diffuse albedos."""


def looked_up(table: np.ndarray, vtype: VType, name: str, place: Variable) -> Variable:
    """``table`` (rows, columns, ...) bilinear at ``place`` in [0, 1]^2, whose ends are the centres of outer entries."""
    height, width = table.shape[:2]
    size: Size = (width, height)
    leaf = Variable(vtype, size, name=name, data=table[None])
    inner = ((width - 1) / width, (height - 1) / height)
    return F.sample(leaf, place * inner + (0.5 / width, 0.5 / height), "bilinear", "clamp", tolerance=0.0)


@cache
def diffuse_table() -> np.ndarray:
    """(1, ENTRIES) float64: the share of uniform light that a white dielectric reflects diffusely, by quadrature.

    Columns: the cosine to the eye, from 0 to 1. Gauss-Legendre in the cosine to the light, the mean of angles around it.
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
    """FLOAT: the share of uniform light that a white dielectric reflects diffusely: the mean of 1 - F(v.h) over the cosine.

    >>> round(evaluate(diffuse_albedo(F.constant((0.0, 0.0, 1.0)), F.constant((0.0, 0.0, 1.0)))).item(), 2)
    0.96
    """
    n_v = F.clamp(F.dot(normal, to_eye), 0.0, 1.0)
    return looked_up(diffuse_table(), FLOAT, "diffuse albedo", F.vec2(n_v, 0.5))
