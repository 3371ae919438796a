"""Distant light as spherical harmonics, on glTF materials: few numbers, for light that is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import VEC3
from ..lists import as_list
from .environment import Environment
from .harmonics import COUNT, radiance
from .lights import Fragment, LightSource
from .sphere_filter import directions

SIZE = (32, 16)
"""Of the map that the harmonics are drawn into: they are smooth."""


def even_light(brightness: float = 1.0) -> np.ndarray:
    """(16, 3): coefficients of light of the same radiance from all around.

    >>> even_light().shape
    (16, 3)
    """
    coefficients = np.zeros((COUNT, 3))
    coefficients[0] = brightness * math.sqrt(4 * math.pi)
    return coefficients


@dataclass(frozen=True, eq=False)
class HarmonicsLight(LightSource):
    """Light from infinitely far away as real spherical harmonics of degree 0 to 3. Where the sum is negative there is none.

    The harmonics become a small environment map, so that smooth surfaces reflect them too. Differentiable.

    >>> HarmonicsLight().coefficients.shape
    (16, 3)
    """

    parameters = {"coefficients": VEC3}
    lists = frozenset(("coefficients",))
    learned = ("coefficients",)

    coefficients: Variable | np.ndarray | None = None
    """(16, 3) or a VEC3 list of 16, order l (l + 1) + m (``harmonics``), linear radiance. Default: even light of radiance 1."""

    def __post_init__(self) -> None:
        if self.coefficients is None:
            object.__setattr__(self, "coefficients", even_light())

    def map(self) -> Variable:
        """VEC3: the light as an equirectangular map."""
        coefficients = as_list("coefficients", VEC3, self.coefficients)
        towards = Variable(VEC3, SIZE, name="directions", data=directions(SIZE)[None])
        return F.maximum(radiance(coefficients, towards), 0.0)

    def reflected(self, at: Fragment) -> Variable:
        return Environment(self.map(), lobes=1).reflected(at)
