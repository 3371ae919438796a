"""Lights: what each adds to the colour of a surface point. All light is linear.

A light is a dataclass derived from ``LightSource``. The fields that it lists in ``parameters`` hold numbers, arrays or
Variables, and gradients by them exist; ``render`` turns them into images. A new light is one class here or in a file beside.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import VEC3, VType
from .brdf import Reflectance, reflected
from .lambert import lambert
from .shadows.shadow_map import Occluders, Shadow, ShadowMap


@dataclass(frozen=True, eq=False)
class Fragment:
    """What a light reaches: a surface point at every pixel."""

    point: Variable
    """VEC3: the place in the world."""
    normal: Variable
    """VEC3: unit normal in the world, towards the side that the eye sees."""
    to_eye: Variable
    """VEC3: unit direction to the camera."""
    surface: Reflectance
    occluders: Occluders | None = None
    """What casts shadows; None for nothing."""


@dataclass(frozen=True, eq=False)
class LightSource(ABC):
    """Base of lights."""

    parameters: ClassVar[Mapping[str, VType]] = {}
    """Fields that hold numbers, arrays or Variables, and their types: one value, or one a view."""
    images: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are images instead."""
    lists: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are lists instead."""
    learned: ClassVar[tuple[str, ...]] = ()
    """Parameters that a fit of the light finds."""
    positive: ClassVar[frozenset[str]] = frozenset()
    """Those of them that are never below 0."""

    def prepared(self) -> LightSource:
        """The same light with checked fields in the form that ``parameters`` says. Raises InputError."""
        return self

    @abstractmethod
    def reflected(self, at: Fragment) -> Variable:
        """VEC3: the radiance that the surface sends to the eye because of this light. Differentiable."""


@dataclass(frozen=True, eq=False)
class Light(LightSource):
    """Lambert's light for quick pictures: ``base * (ambient + colour * max(dot(normal, direction), 0))``, linear.

    Metallic, roughness and the other maps of a material have no effect; take ``DirectionalLight`` for those.

    >>> Light((0, 1, 0), colour=(1.0, 0.9, 0.8)).ambient
    0.1
    """

    parameters = {"direction": VEC3, "colour": VEC3, "ambient": VEC3}

    direction: Like | str = "headlight"
    """(3,) or (N, 3) or VEC3: towards the light, in the world, of any length; "headlight": towards the camera."""
    colour: Like = 0.9
    """A number, (3,), FLOAT or VEC3: linear."""
    ambient: Like = 0.1
    """A number, (3,), FLOAT or VEC3: linear."""

    def reflected(self, at: Fragment) -> Variable:
        towards = at.to_eye if isinstance(self.direction, str) else self.direction
        return lambert(at.surface.base, at.normal, towards, self.colour, self.ambient)


@dataclass(frozen=True, eq=False)
class DirectionalLight(LightSource):
    """Parallel light, as of the sun, on glTF materials (``shading.brdf``). Differentiable in both fields.

    >>> sun = DirectionalLight((1, 1, 1), colour=3.0)
    >>> sun.colour
    3.0
    """

    parameters = {"direction": VEC3, "colour": VEC3}
    learned = ("direction", "colour")
    positive = frozenset(("colour",))

    direction: Like
    """(3,), (N, 3) or VEC3: towards the light, in the world, of any length."""
    colour: Like = math.pi
    """A number, (3,), FLOAT or VEC3: irradiance on a plane that faces the light, linear. With the default pi, a white
    matt surface that faces the light has the colour 1."""
    shadow: Shadow | None = None
    """How the mesh hides the light from itself; None: not at all."""

    def reflected(self, at: Fragment) -> Variable:
        towards = F.normalize(as_variable(self.direction))
        light = reflected(at.surface, at.normal, at.to_eye, towards) * as_variable(self.colour)
        if self.shadow is None or at.occluders is None:
            return light
        return light * ShadowMap.of(self.shadow, at.occluders, towards).lit(at.point, at.normal)


@dataclass(frozen=True, eq=False)
class PointLight(LightSource):
    """Light from one point, on glTF materials; it falls off with the squared distance. Differentiable in both fields.

    >>> PointLight((0, 2, 0), intensity=(5.0, 5.0, 4.0)).position
    (0, 2, 0)
    """

    parameters = {"position": VEC3, "intensity": VEC3}
    learned = ("position", "intensity")
    positive = frozenset(("intensity",))

    position: Like
    """(3,), (N, 3) or VEC3: in the world."""
    intensity: Like = math.pi
    """A number, (3,), FLOAT or VEC3: irradiance on a plane that faces the light at distance 1, linear."""

    def reflected(self, at: Fragment) -> Variable:
        away = as_variable(self.position) - at.point
        squared = F.maximum(F.dot(away, away), 1e-12)
        towards = away / F.sqrt(squared)
        return reflected(at.surface, at.normal, at.to_eye, towards) * (as_variable(self.intensity) / squared)
