"""Lights: what each adds to the colour of a surface point. All light is linear.

A light is a dataclass derived from ``LightSource``. The fields that it lists in ``parameters`` hold numbers,
arrays or Variables, and gradients by them exist; ``render`` turns them into images.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, VEC3, VType
from ...ad.ops.pixel.constant import Like
from ..surface.screen import covered
from .bsdf import Bsdf, Frame
from .shadows import Occluders, Shadow, light_arriving


@dataclass(frozen=True, eq=False)
class Fragment:
    """What a light reaches: a surface point at every pixel."""

    point: Variable
    """VEC3: the place in the world."""
    normal: Variable
    """VEC3: unit normal in the world, towards the side that the eye sees."""
    to_eye: Variable
    """VEC3: unit direction to the camera."""
    surface: Bsdf
    occluders: Occluders | None = None
    """What casts shadows; None for nothing."""
    tangent: Variable | None = None
    """VEC4: the direction in which u grows and the sign of the bitangent; None without UVs."""

    @property
    def frame(self) -> Frame:
        """The directions that a BSDF sees."""
        return Frame(self.normal, self.to_eye, self.tangent)


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
    """Parameters that are never below 0."""

    def prepared(self) -> LightSource:
        """The same light with checked fields in the form that ``parameters`` says. Raises InputError."""
        return self

    def in_floats(self) -> LightSource:
        """The same light with constants in place of numbers: for graphs of one's own."""
        found = self.prepared()
        given = {name: getattr(found, name) for name in found.parameters}
        numbers = {
            name: np.asarray(x, np.float64).tolist()
            for name, x in given.items()
            if name not in found.images | found.lists and x is not None and not isinstance(x, (Variable, str))
        }
        return replace(
            found, **{name: F.constant(tuple(x) if isinstance(x, list) else x) for name, x in numbers.items()}
        )

    @abstractmethod
    def reflected(self, at: Fragment) -> Variable:
        """VEC3: the radiance that the surface sends to the eye because of this light. Differentiable."""


class Arriving(NamedTuple):
    """Light from one direction at every pixel."""

    to_light: Variable
    """VEC3: unit, in the world."""
    irradiance: Variable
    """VEC3 or FLOAT: on a plane that faces the light, linear."""
    visible: Variable | None = None
    """FLOAT or VEC3 in [0, 1]: how much of it arrives; None for all."""


@dataclass(frozen=True, eq=False)
class DirectLight(LightSource):
    """Base of lights that reach each point from one direction. They say which, and how much light that is."""

    @abstractmethod
    def arriving(self, at: Fragment) -> Arriving:
        """What reaches the surface point. Differentiable."""

    def reflected(self, at: Fragment) -> Variable:
        found = self.arriving(at)
        light = at.surface.reflected(at.frame, found.to_light) * found.irradiance
        return light if found.visible is None else light * found.visible


@dataclass(frozen=True, eq=False)
class Light(LightSource):
    """Lambert's light: ``base * (ambient + colour * max(dot(normal, direction), 0))``, linear.

    Other parameters of a material have no effect; take ``DirectionalLight`` for those.

    >>> Light((0, 1, 0), colour=(1.0, 0.9, 0.8)).ambient
    0.1
    """

    parameters = {"direction": VEC3, "colour": VEC3, "ambient": VEC3}
    positive = frozenset(("colour", "ambient"))

    direction: Like | str = "headlight"
    """(3,), (N, 3) or VEC3: towards the light, in the world, any length; "headlight": towards the camera."""
    colour: Like = 0.9
    """A number, (3,), FLOAT or VEC3: linear."""
    ambient: Like = 0.1
    """A number, (3,), FLOAT or VEC3: linear."""

    def reflected(self, at: Fragment) -> Variable:
        towards = at.to_eye if isinstance(self.direction, str) else self.direction
        return lambert(at.surface.matt, at.normal, towards, self.colour, self.ambient)


@dataclass(frozen=True, eq=False)
class DirectionalLight(DirectLight):
    """Parallel light, as of the sun, on any surface (``shading.bsdf``). Differentiable in both fields.

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
    """A number, (3,), FLOAT or VEC3: irradiance on a plane that faces the light, linear. With the default pi,
    a white matt surface that faces the light has the colour 1."""
    shadow: Shadow | None = None
    """How the mesh hides the light from itself; None: not at all."""

    def arriving(self, at: Fragment) -> Arriving:
        towards, visible = F.normalize(as_variable(self.direction)), None
        if self.shadow is not None and at.occluders is not None:
            visible = light_arriving(self.shadow, at.occluders, towards, (at.point, at.normal))
        return Arriving(towards, as_variable(self.colour), visible)


@dataclass(frozen=True, eq=False)
class PointLight(DirectLight):
    """Light from one point, which falls off with the squared distance. Differentiable in both fields.

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

    def arriving(self, at: Fragment) -> Arriving:
        away = as_variable(self.position) - at.point
        squared = F.maximum(F.dot(away, away), 1e-12)
        return Arriving(away / F.sqrt(squared), as_variable(self.intensity) / squared)


@dataclass(frozen=True, eq=False)
class SpotLight(DirectLight):
    """A ``PointLight`` with a cone (KHR_lights_punctual). Differentiable in all fields.

    >>> SpotLight((0, 2, 0), (0, -1, 0), inner=0.2, outer=0.6).outer
    0.6
    """

    parameters = {"position": VEC3, "direction": VEC3, "intensity": VEC3, "inner": FLOAT, "outer": FLOAT}
    learned = ("position", "direction", "intensity")
    positive = frozenset(("intensity",))

    position: Like
    """(3,), (N, 3) or VEC3: in the world."""
    direction: Like
    """(3,), (N, 3) or VEC3: in which it shines, of any length."""
    intensity: Like = math.pi
    """A number, (3,), FLOAT or VEC3: irradiance at distance 1 on the axis, facing the light, linear."""
    inner: Like = 0.0
    """A number or FLOAT: radians from the axis within which the light is full."""
    outer: Like = math.pi / 4
    """A number or FLOAT: radians from the axis from which on there is none."""

    def arriving(self, at: Fragment) -> Arriving:
        found = PointLight(self.position, self.intensity).arriving(at)
        cosine = -F.dot(F.normalize(as_variable(self.direction)), found.to_light)
        edge, full = F.cos(as_variable(self.outer)), F.cos(as_variable(self.inner))
        share = F.clamp((cosine - edge) / F.maximum(full - edge, 1e-3), 0.0, 1.0)
        return found._replace(visible=share * share)


# Unlit and Lambert shading. All colours are linear.


def unlit(albedo: Variable, face: Variable) -> Variable:
    """VEC3: the albedo where there is a face (INT, -1 for none), else 0.

    >>> unlit(Variable(VEC3, (32, 32)), Variable(INT, (32, 32))).shape
    (1, 32, 32, 3)
    """
    return F.select(covered(face), albedo, 0.0)


def lambert(
    albedo: Variable, normal: Variable, direction: Like, colour: Like = 1.0, ambient: Like = 0.0
) -> Variable:
    """VEC3: ``albedo * (ambient + colour * max(dot(normal, direction), 0))``.

    normal: VEC3, normalised here; 0 where there is no surface.  direction: VEC3 towards the light, in the
    space of the normals, normalised here.  colour and ambient: FLOAT or VEC3. Arguments may be images, one
    value a view, or constants. Differentiable in all of them.

    >>> lambert(Variable(VEC3, (32, 32)), Variable(VEC3, (32, 32)), (0.0, 1.0, 0.0), ambient=0.1).shape
    (1, 32, 32, 3)
    """
    towards = F.normalize(as_variable(direction))
    cosine = F.maximum(F.dot(F.normalize(normal), towards), 0.0)
    return albedo * F.add(F.mul(colour, cosine), ambient)
