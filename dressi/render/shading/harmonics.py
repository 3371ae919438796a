"""Light as real spherical harmonics of degree 0 to 3: 16 colours, for diffuse light and soft backgrounds.

Ramamoorthi and Hanrahan, "An Efficient Representation for Irradiance Environment Maps" (2001). Coefficient l
(l + 1) + m, m = 0 about z: the first four functions are 1, y, z and x times a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, VEC3
from ...ad.ops.pixel.constant import Like
from ...errors import GraphError, InputError
from ..core.lists import as_list
from .environment import Environment
from .lights import Fragment, LightSource
from .sphere_filter import directions, solid_angles

DEGREES = 4
COUNT = DEGREES**2
CLAMPED_COSINE = (1.0, 2 / 3, 1 / 4, 0.0)
"""The factor of each degree in the convolution with the cosine, divided by pi: equation 8 of the paper."""


def _polynomials(x, y, z) -> list:
    """The 16 basis functions at unit directions; the first is a number. For arrays and for Variables."""
    xx, yy, zz = x * x, y * y, z * z
    root = math.sqrt
    return [
        0.5 / root(math.pi),
        root(3 / (4 * math.pi)) * y,
        root(3 / (4 * math.pi)) * z,
        root(3 / (4 * math.pi)) * x,
        root(15 / (4 * math.pi)) * x * y,
        root(15 / (4 * math.pi)) * y * z,
        root(5 / (16 * math.pi)) * (3.0 * zz - 1.0),
        root(15 / (4 * math.pi)) * x * z,
        root(15 / (16 * math.pi)) * (xx - yy),
        root(35 / (32 * math.pi)) * y * (3.0 * xx - yy),
        root(105 / (4 * math.pi)) * x * y * z,
        root(21 / (32 * math.pi)) * y * (5.0 * zz - 1.0),
        root(7 / (16 * math.pi)) * z * (5.0 * zz - 3.0),
        root(21 / (32 * math.pi)) * x * (5.0 * zz - 1.0),
        root(105 / (16 * math.pi)) * z * (xx - yy),
        root(35 / (32 * math.pi)) * x * (xx - 3.0 * yy),
    ]


def harmonics(direction: np.ndarray) -> np.ndarray:
    """(..., 16) float64: the basis at unit directions (..., 3).

    >>> harmonics(np.array([0.0, 0.0, 1.0]))[:4].round(4).tolist()
    [0.2821, 0.0, 0.4886, 0.0]
    """
    x, y, z = np.moveaxis(np.asarray(direction, float), -1, 0)
    return np.stack([np.broadcast_to(p, x.shape) for p in _polynomials(x, y, z)], axis=-1)


def project_map(image: Variable | np.ndarray) -> Variable:
    """VEC3 list of 16: the coefficients of a map: sums of light times basis times solid angle.

    image: VEC3 Variable or array (H, W, 3), linear. Differentiable in the map. Raises InputError.

    >>> grey = project_map(np.ones((16, 32, 3)))
    >>> bool(abs(evaluate(grey)[0, 0, 0, 0] - np.sqrt(4 * np.pi)) < 1e-6), grey.size
    (True, (16, 1))
    """
    if not isinstance(image, Variable):
        image = np.asarray(image)
        if image.ndim != 3 or image.shape[-1] != 3:
            raise InputError(f"an environment map is an array (H, W, 3), not one of shape {image.shape}")
        image = Variable.of(image, VEC3)
    basis = np.moveaxis(harmonics(directions(image.size)), -1, 0)
    # The basis functions are tiles below each other: one sum over each tile.
    tiles = Variable(FLOAT, image.size, COUNT, data=basis)
    sums = F.sum(image * solid_angles(image.size) * tiles, "xy")
    places = F.pixel_coordinates((COUNT, 1)).x
    return reduce(add, [F.select(F.equal(places, k), F.take(sums, k), 0.0) for k in range(COUNT)])


def radiance(coefficients: Like, direction: Variable) -> Variable:
    """VEC3: the light that comes from a direction, the sum of coefficients times basis; may be negative.

    coefficients: VEC3 list of 16.  direction: unit VEC3. Differentiable in both. Raises GraphError.
    """
    return _sum(coefficients, direction, (1.0,) * DEGREES)


def harmonic_irradiance(coefficients: Like, normal: Variable) -> Variable:
    """VEC3: what a surface gathers, divided by pi: diffuse light is this times the base colour.

    coefficients: VEC3 list of 16.  normal: unit VEC3. Differentiable in both. Raises GraphError.

    >>> grey = project_map(np.ones((16, 32, 3)))
    >>> evaluate(harmonic_irradiance(grey, F.constant((0.0, 1.0, 0.0)))).round(2).ravel().tolist()
    [1.0, 1.0, 1.0]
    """
    return _sum(coefficients, normal, CLAMPED_COSINE)


def _sum(coefficients: Like, direction: Variable, factors: tuple[float, ...]) -> Variable:
    table = as_variable(coefficients)
    if table.vtype is not VEC3 or table.size[0] * table.size[1] < COUNT:
        raise GraphError(f"spherical harmonics of degree 0 to 3 are a list of {COUNT} VEC3, not {table}")
    basis = enumerate(_polynomials(direction.x, direction.y, direction.z))
    weighted = ((k, p, factors[math.isqrt(k)]) for k, p in basis)
    return reduce(add, (F.lookup(table, k) * (p * factor) for k, p, factor in weighted if factor))


# Distant light as spherical harmonics, on glTF materials: few numbers, for light that is not known.

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
    """Light from infinitely far away as real spherical harmonics of degree 0 to 3, where positive.

    The harmonics become a small environment map, so that smooth surfaces reflect them too. Differentiable.

    >>> HarmonicsLight().coefficients.shape
    (16, 3)
    """

    parameters = {"coefficients": VEC3}
    lists = frozenset(("coefficients",))
    learned = ("coefficients",)

    coefficients: Variable | np.ndarray | None = None
    """(16, 3) or a VEC3 list of 16, order l (l + 1) + m, linear radiance. Default: even light of 1."""

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
