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
from ...errors import InputError
from ..surface.screen import covered
from .bsdf import Bsdf, Frame
from .shadows import STEEPEST, Occluders, PlacedMap, Shadow, light_arriving


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

    Of a material its occlusion darkens the ambient light. Others have no effect; take ``DirectionalLight``.

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
        ambient = at.surface.occluded(as_variable(self.ambient))
        return lambert(at.surface.matt, at.normal, towards, self.colour, ambient)


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
    shadow: Shadow | None = None
    """How the mesh hides the light from itself, by six maps; None: not at all."""

    def arriving(self, at: Fragment) -> Arriving:
        position = as_variable(self.position)
        away = position - at.point
        squared = F.maximum(F.dot(away, away), 1e-12)
        visible = None
        if self.shadow is not None and at.occluders is not None:
            visible = PlacedMap.of(self.shadow, at.occluders, position, None).lit(at.point, at.normal)
        return Arriving(away / F.sqrt(squared), as_variable(self.intensity) / squared, visible)


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
    shadow: Shadow | None = None
    """How the mesh hides the light from itself, by one map; None: not at all."""

    def prepared(self) -> SpotLight:
        outer = self.outer.data if isinstance(self.outer, Variable) else self.outer
        if self.shadow is not None and outer is not None and np.max(outer) > math.atan(STEEPEST):
            raise InputError(
                f"a SpotLight with a shadow has an outer angle of at most 1.39 (80 degrees), not {np.max(outer):.4g};"
                " give a smaller one, or an IesLight"
            )
        return self

    def arriving(self, at: Fragment) -> Arriving:
        found = PointLight(self.position, self.intensity).arriving(at)
        axis = F.normalize(as_variable(self.direction))
        cosine = -F.dot(axis, found.to_light)
        edge, full = F.cos(as_variable(self.outer)), F.cos(as_variable(self.inner))
        share = F.clamp((cosine - edge) / F.maximum(full - edge, 1e-3), 0.0, 1.0)
        if self.shadow is not None and at.occluders is not None:
            tangent = F.sqrt(F.maximum(1.0 / F.square(F.maximum(edge, 0.1)) - 1.0, 0.0))
            seen = PlacedMap.of(self.shadow, at.occluders, as_variable(self.position), axis, tangent)
            return found._replace(visible=share * share * seen.lit(at.point, at.normal))
        return found._replace(visible=share * share)


@dataclass(frozen=True, eq=False)
class IesLight(DirectLight):
    """A ``PointLight`` whose intensity depends on the direction, as of a luminaire. Differentiable in all
    fields, the profile included. Raises InputError for a profile that is no image (H, W).

    >>> IesLight((0, 2, 0), np.ones((181, 64))).direction
    (0.0, -1.0, 0.0)
    """

    parameters = {"position": VEC3, "profile": VEC3, "direction": VEC3, "side": VEC3, "intensity": VEC3}
    images = frozenset(("profile",))
    learned = ("position", "direction", "intensity")
    positive = frozenset(("profile", "intensity"))

    position: Like
    """(3,), (N, 3) or VEC3: in the world."""
    profile: Variable | np.ndarray
    """Array (H, W) or (H, W, 3), or a FLOAT or VEC3 Variable: a factor of the intensity, linear, as of
    ``load_ies``. The first row is along ``direction``, the last against it; columns go around it, the first from ``side``."""
    direction: Like = (0.0, -1.0, 0.0)
    """(3,), (N, 3) or VEC3: the axis, of any length; down for ceiling lamps."""
    side: Like = (1.0, 0.0, 0.0)
    """(3,), (N, 3) or VEC3: across the axis, at the horizontal angle 0; not parallel to it."""
    intensity: Like = 1.0
    """A number, (3,), FLOAT or VEC3: irradiance at distance 1 where the profile is 1, linear."""
    shadow: Shadow | None = None
    """How the mesh hides the light from itself, by six maps; None: not at all."""

    def prepared(self) -> IesLight:
        if isinstance(self.profile, Variable):
            return self
        values = np.asarray(self.profile, np.float64)
        if values.ndim not in (2, 3) or min(values.shape[:2]) < 2:
            raise InputError(
                f"the profile of an IesLight is an image (H, W), not an array {values.shape}; give load_ies(path)"
            )
        if not np.isfinite(values).all() or (values < 0).any():
            raise InputError("the profile of an IesLight is finite and not negative; clean it with np.clip")
        return replace(self, profile=np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else values)

    def arriving(self, at: Fragment) -> Arriving:
        found = PointLight(self.position, self.intensity, self.shadow).arriving(at)
        axis = F.normalize(as_variable(self.direction))
        side = as_variable(self.side)
        side = F.normalize(side - axis * F.dot(side, axis))
        x, y, z = (-F.dot(way, found.to_light) for way in (side, F.cross(axis, side), axis))
        across = F.sqrt(F.maximum(x * x + y * y, 1e-12))
        profile = self.profile if isinstance(self.profile, Variable) else Variable.of(self.profile, VEC3)
        width, height = profile.size
        # Rows are at both ends, columns repeat; on the axis any column is as good.
        row = F.atan2(across, z) * ((height - 1) / (height * math.pi)) + 0.5 / height
        # Some drivers take -0 for a turn of half: add what no other number feels.
        column = F.atan2(y + 1e-20, F.select(F.greater(across, 1e-5), x, 1.0)) * (0.5 / math.pi) + 0.5 / width
        share = F.sample(profile, F.vec2(column, row), "bilinear", ("repeat", "clamp"), tolerance=0.0)
        return found._replace(irradiance=found.irradiance * share)


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
