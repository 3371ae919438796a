"""Lights: what each adds to the colour of a surface point. All light is linear.

A light is a dataclass derived from ``LightSource``. The fields that it lists in ``parameters`` hold numbers,
arrays or Variables, and gradients by them exist; ``render`` turns them into images.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product, starmap
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, VEC3, VType
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..layers.moments import absorbance, mean, powers, share_before
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, interpolate, rasterize_hard
from .bsdf import Bsdf, Frame


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


# Shadows: what hides a light.

# Deep opacity: how much light comes through transparent surfaces (Yuksel and Keyser 2008).
#
# A texel of the map does not hold one depth but the absorbance that the light meets on its way. It holds the
# total and four moments of the absorbance (``layers.moments``): two sums over all transparent fragments that
# the light sees, in any order. It shares the frame of the ``ShadowMap``.


@dataclass(frozen=True, eq=False)
class DeepOpacity:
    """The absorbance of the transparent surfaces that a light sees."""

    map: ShadowMap
    total: Variable
    """VEC3, size x size: of all surfaces. Differentiable in their transmittance."""
    moments: Variable
    """VEC4, size x size: its mean over the components, times the first four powers of the height in radii.
    Differentiable in the transmittance and in the positions by the heights."""

    @classmethod
    def of(cls, shadow_map: ShadowMap, occluders: Occluders) -> DeepOpacity:
        size = (shadow_map.shadow.size, shadow_map.shadow.size)
        faces, clip, through = occluders.faces, shadow_map.clip, occluders.through
        assert through is not None
        transparent = F.greater_equal(F.linear_index(faces.size), occluders.opaque_faces or 0)
        mesh = DrawnMesh(clip, faces, size, occluders.face_count, live=transparent)

        def lost(face: Variable) -> Variable:
            return absorbance(through(mesh.surface(face)))

        total = mesh.summed(lambda face, _: lost(face))
        return cls(shadow_map, total, mesh.summed(lambda face, z: powers(z * 2.0 - 1.0) * mean(lost(face))))

    def lit(self, point: Variable, normal: Variable) -> Variable:
        """VEC3 in [0, 1]: how much light arrives. point, normal: VEC3, unit normal. Differentiable in the
        point."""
        uv, height = self.map.place(point, normal)
        total = F.sample(self.total, uv, "bilinear", "clamp")
        moments = F.sample(self.moments, uv, "bilinear", "clamp")
        share = share_before(moments / F.maximum(mean(total), 1e-8), -height)
        return F.exp(-total * share)


def light_arriving(
    shadow: Shadow, occluders: Occluders, towards: Variable, at: tuple[Variable, Variable]
) -> Variable:
    """FLOAT or VEC3 in [0, 1]: how much of a parallel light arrives at points with their unit normals, past
    opaque and through transparent surfaces. towards: unit VEC3, the direction to the light."""
    solid = ShadowMap.of(shadow, occluders, towards)
    lit = solid.lit(*at)
    if occluders.fibres is not None:
        lit = lit * occluders.fibres(shadow, towards)(at[0])
    return lit if occluders.through is None else DeepOpacity.of(solid, occluders).lit(*at) * lit


# Shadows of parallel light: the depths that the light sees, compared with those of surface points (Williams
# 1978), and the results, not the depths, filtered (Reeves, Salesin and Cook 1987, "Rendering Antialiased
# Shadows with Depth Maps").
#
# The depth map is an image of the same graph: the mesh drawn orthographic from the light.

LARGEST, WIDEST = 8192, 8
"""Of the map in texels, and of the filter."""
FARTHEST = 1e6
"""Radii of the mesh: where the light meets nothing it sees this far."""


Through = Callable[["Shadow", Variable], Callable[[Variable], Variable]]
"""From a shadow and the direction to its light to a function from points to the light there, FLOAT."""


@dataclass(frozen=True, eq=False)
class Occluders:
    """What hides light: a mesh in the world."""

    position: Variable
    """VEC3 list."""
    faces: Variable
    """IVEC3 list."""
    face_count: int
    """How many faces of the list there are."""
    opaque_faces: int | None = None
    """How many of them, from the first, are opaque; None: all. The others are seen through."""
    through: Callable[[Surface], Variable] | None = None
    """From a surface of the others to its transmittance, VEC3, at fragments that the light sees."""
    fibres: Through | None = None
    """What strands let through."""


def bounds(occluders: Occluders) -> tuple[Variable, Variable]:
    """VEC3: the lowest and the highest corner of the bounding box of the faces. No derivative."""
    seen = [F.lookup(occluders.position, F.component(occluders.faces, i)) for i in range(3)]
    low = F.stop_gradient(F.minimum(F.minimum(F.min(seen[0]), F.min(seen[1])), F.min(seen[2])))
    return low, F.stop_gradient(F.maximum(F.maximum(F.max(seen[0]), F.max(seen[1])), F.max(seen[2])))


@dataclass(frozen=True)
class Shadow:
    """How the shadow map of a light is made. Raises InputError.

    size: texels along each side of the map.  softness: width of the filter in texels, from 1 to 8: shadows
    fade over about so many.  bias: how far in texels points are moved along their normal before they are
    compared, and over what depth the comparison goes from lit to dark. More than half of the softness keeps
    stripes away from lit surfaces; larger values take shadows away near what casts them.

    Transparent surfaces let parallel light through (``DeepOpacity``), differentiable in their transmittance;
    to other lights they, and strands, are not there. A ``PointLight`` and an ``IesLight`` have six maps, a
    ``SpotLight`` one, and a ``RectangleLight`` one at each of its ``samples``, whose mean is the penumbra:
    texels grow with the distance from the light.

    Differentiable in the point that the shadow falls on, and in the direction or place of the light and the
    positions through the depths that are compared. Which face the light sees at a texel has no derivative, so neither
    has the border of a shadow by what casts it and by the light. Constants, too, are the frame of the
    map, which follows the bounding box of the mesh, and in which texels a point moved along its normal lies.

    >>> Shadow(512).softness
    3
    """

    size: int = 1024
    softness: int = 3
    bias: float = 2.5

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or not 2 <= self.size <= LARGEST:
            raise InputError(f"size of a shadow map is a whole number from 2 to {LARGEST}, not {self.size!r}")
        if not isinstance(self.softness, int) or not 1 <= self.softness <= WIDEST:
            raise InputError(
                f"softness of a shadow is a whole number from 1 to {WIDEST}, not {self.softness!r}"
            )
        if not 0 < self.bias < self.size:
            raise InputError(f"bias of a shadow is a number of texels above 0, not {self.bias!r}")


def light_frame(towards: Variable) -> Variable:
    """MAT3: from the world to right, down and towards a light (unit VEC3)."""
    y = F.less(F.abs(towards.y), 0.9)
    right = F.normalize(F.cross(F.select(y, (0.0, 1.0, 0.0), F.constant((1.0, 0.0, 0.0))), towards))
    return F.transpose(F.mat3(right, F.cross(right, towards), towards))


@dataclass(frozen=True, eq=False)
class ShadowMap:
    """The depths of a mesh from a direction. Heights: along the direction, from the mesh's centre."""

    shadow: Shadow
    frame: Variable
    """MAT3: from the world to right, down and towards the light."""
    centre: Variable
    """VEC3: of the bounding box of the mesh. No derivative."""
    radius: Variable
    """FLOAT: of a sphere around it. No derivative."""
    height: Variable
    """FLOAT, size x size: of what the light meets first."""
    clip: Variable
    """VEC4 list: the positions as the light sees them."""
    front: Variable
    """FLOAT, size x size: 1 where what the light meets first turns its front to it. No derivative."""

    @classmethod
    def of(cls, shadow: Shadow, occluders: Occluders, towards: Variable) -> ShadowMap:
        """towards: unit VEC3, the direction to the light."""
        low, high = bounds(occluders)
        centre, radius = (low + high) * 0.5, F.length(high - low) * 0.5
        radius = F.maximum(radius * (1.0 + 4.0 / shadow.size), 1e-20)
        frame = light_frame(towards)
        local = (frame @ (occluders.position - centre)) / radius
        clip = F.vec4(local.xy, 0.5 - 0.5 * local.z, 1.0)
        size = (shadow.size, shadow.size)
        count = occluders.face_count if occluders.opaque_faces is None else occluders.opaque_faces
        if not count:
            nothing = F.expand(-FARTHEST * radius, size=size)
            return cls(shadow, frame, centre, radius, nothing, clip, nothing * 0.0)
        face = rasterize_hard(clip, occluders.faces, size=size, face_count=count)
        at = corners(face, occluders.faces)
        depth = interpolate(F.component(local, 2), at, barycentric(clip, at, size)) * radius
        height = F.select(covered(face), depth, -FARTHEST * radius)
        a, b, c = (F.lookup(occluders.position, index) for index in at)
        front = F.greater(F.dot(F.cross(b - a, c - a), towards), 0.0) * covered(face)
        return cls(shadow, frame, centre, radius, height, clip, front)

    def place(self, point: Variable, normal: Variable) -> tuple[Variable, Variable]:
        """VEC2 and FLOAT: where the map shows a point, from 0 to 1, and its height in radii, moved by the
        bias. Differentiable in the point."""
        slack = self.radius * (2.0 * self.shadow.bias / self.shadow.size)
        local = (self.frame @ (point + normal * slack - self.centre)) / self.radius
        return local.xy * 0.5 + 0.5, local.z

    def lit(self, point: Variable, normal: Variable) -> Variable:
        """FLOAT in [0, 1]: how much of the light arrives. point, normal: VEC3, unit normal."""
        count, width = self.shadow.size, self.shadow.softness
        texel = self.radius * (2.0 / count)
        slack = texel * self.shadow.bias
        local = self.frame @ (point + normal * slack - self.centre)
        # What casts the shadow stays in its texels when the light turns: half a motion is worse than none.
        across = F.stop_gradient(self.frame) @ (point + F.stop_gradient(normal) * slack - self.centre)
        place = across.xy / self.radius * 0.5 + 0.5

        def free(uv: Variable) -> Variable:
            height = F.sample(self.height, uv, "nearest", "clamp", tolerance=0.0)
            return 1.0 + (local.z - height) / slack

        return filtered(place * float(count), width, lambda at: free(at * (1.0 / count)))


def filtered(place: Variable, width: int, free: Callable[[Variable], Variable]) -> Variable:
    """FLOAT in [0, 1]: the mean of ``free``, clamped, in a box of ``width`` texels around a place.

    place: VEC2, in texels.  free: from the centre of a texel to how far it is lit. Differentiable in the place
    by the box, and in what ``free`` gives."""
    corner = place - 0.5 * width
    first = F.floor(F.stop_gradient(corner))
    part = corner - first
    # The box covers the first and the last of width + 1 texels in part.
    weights = [1.0 - part, *[F.constant((1.0, 1.0))] * (width - 1), part]

    def weighted(j: int, i: int) -> Variable:
        return F.clamp(free(first + (i + 0.5, j + 0.5)), 0.0, 1.0) * (weights[i].x * weights[j].y)

    return reduce(add, starmap(weighted, product(range(width + 1), repeat=2))) * (1.0 / width**2)


# Shadows of light from a place: the same, of depths along an axis, by one map or by the six of a cube. Those of
# area lights are means over places.

STEEPEST = 5.67
"""The largest tangent of a map from its axis: 80 degrees."""
NEAREST = 1e-3
"""Of what the light is from the farthest corner of the mesh: what is nearer to it hides nothing."""
_SIX = np.array([[axis * sign for axis in np.roll(np.eye(3), k, 0)] for k in range(3) for sign in (1, -1)])
"""The frames of a cube, right, down and forward."""
_BOX = np.stack(np.meshgrid(*[[0.0, 1.0]] * 3), -1).reshape(1, 8, 3)


@dataclass(frozen=True, eq=False)
class PlacedMap:
    """The depths of the opaque faces of a mesh from a place, along an axis or along all of the world.

    Transparent surfaces and strands hide nothing. Derivatives are those of ``ShadowMap``."""

    shadow: Shadow
    place: Variable
    """VEC3: of the light."""
    frame: Variable | None
    """MAT3: from the world to right, down and forward; None for a cube."""
    middle: Like
    half: Like
    """VEC2 or numbers: the middle and half the width of the map, as tangents."""
    depth: Variable
    """FLOAT, size x size, or size x 6 size: of what the light meets first, along its axis."""

    @classmethod
    def of(
        cls,
        shadow: Shadow,
        occluders: Occluders,
        place: Variable,
        axis: Variable | None,
        tangent: Like = STEEPEST,
    ) -> PlacedMap:
        """axis: unit VEC3, in which the light shines; None: everywhere.  tangent: FLOAT, how far from it."""
        low, high = bounds(occluders)
        corners = F.stop_gradient(low + F.hadamard(high - low, Variable.of(_BOX, VEC3)) - place)
        far = F.sqrt(F.maximum(F.max(F.dot(corners, corners), "xy"), 1e-30)) * 1.01
        if axis is None:
            # Boxes of the filter around points near an edge of the cube stay within the map.
            margin = 2.0 * (shadow.softness + shadow.bias) / shadow.size
            middle, half = (0.0, 0.0), (1.0 + margin, 1.0 + margin)
            frames = [F.transpose(F.mat3(*(F.constant(tuple(row)) for row in six))) for six in _SIX.tolist()]
            drawn = [cls._drawn(shadow, occluders, place, frame, (middle, half), far) for frame in frames]
            size = shadow.size
            strips = [F.pad(x, 0, k * size, 0, (5 - k) * size) for k, x in enumerate(drawn)]
            return cls(shadow, place, None, middle, half, reduce(add, strips))
        frame = light_frame(axis)
        local = F.stop_gradient(frame) @ corners
        widest = F.minimum(F.stop_gradient(as_variable(tangent)), STEEPEST)
        ahead = F.greater(local.z, NEAREST * far)
        seen = local.xy / F.select(ahead, local.z, 1.0)
        low = F.maximum(F.min(F.select(ahead, seen, F.vec2(-STEEPEST, -STEEPEST)), "xy"), -widest)
        high = F.minimum(F.max(F.select(ahead, seen, F.vec2(STEEPEST, STEEPEST)), "xy"), widest)
        middle = (low + high) * 0.5
        half = F.maximum((high - low) * (0.5 + 2.0 / shadow.size), 1e-6)
        return cls(
            shadow,
            place,
            frame,
            middle,
            half,
            cls._drawn(shadow, occluders, place, frame, (middle, half), far),
        )

    @staticmethod
    def _drawn(
        shadow: Shadow,
        occluders: Occluders,
        place: Variable,
        frame: Variable,
        window: tuple[Like, Like],
        far: Variable,
    ) -> Variable:
        size = (shadow.size, shadow.size)
        count = occluders.face_count if occluders.opaque_faces is None else occluders.opaque_faces
        if not count:
            return F.expand(far * FARTHEST, size=size)
        local = frame @ (occluders.position - place)
        z, near = F.component(local, 2), far * NEAREST
        across = F.hadamard(local.xy - as_variable(window[0]) * z, 1.0 / as_variable(window[1]))
        clip = F.vec4(across, (z - near) * (1.0 / (1.0 - NEAREST)), z)
        face = rasterize_hard(clip, occluders.faces, size=size, face_count=count)
        depth = interpolate(
            z, corners(face, occluders.faces), barycentric(clip, corners(face, occluders.faces), size)
        )
        return F.select(covered(face), depth, far * FARTHEST)

    def lit(self, point: Variable, normal: Variable) -> Variable:
        """FLOAT in [0, 1]: how much of the light arrives; 1 outside of the map. point, normal: VEC3, unit
        normal."""
        count, width = self.shadow.size, self.shadow.softness
        texel = as_variable(self.half) * (2.0 / count)
        away = point - self.place
        if self.frame is None:
            number = F.cube_face(F.stop_gradient(away))
            rows = [F.lookup(Variable.of(_SIX[None, :, k], VEC3), number) for k in range(3)]
            first = F.to_float(number) * float(count)
        else:
            rows = [F.column(F.transpose(self.frame), k) for k in range(3)]
            first = F.constant(0.0)
        held = [F.stop_gradient(row) for row in rows]
        slack = F.maximum(F.abs(F.dot(rows[2], away)), 1e-20) * F.maximum(texel.x, texel.y) * self.shadow.bias
        depth = F.dot(rows[2], away + normal * slack)
        # As in ``ShadowMap``: what casts the shadow stays in its texels when the light moves.
        held_away = point - F.stop_gradient(self.place) + F.stop_gradient(normal * slack)
        x, y, z = (F.dot(row, held_away) for row in held)
        ahead = F.greater(z, 1e-20)
        tangent = F.vec2(x, y) / F.select(ahead, z, 1.0)
        place = F.hadamard(tangent - self.middle, 0.5 / as_variable(self.half)) + 0.5
        edge = F.maximum(F.abs(place.x - 0.5), F.abs(place.y - 0.5))
        inside = F.logical_and(ahead, F.less(edge, 0.5))
        place = F.clamp(place, 0.0, 1.0) * float(count)

        def free(at: Variable) -> Variable:
            at = F.clamp(at, 0.5, count - 0.5)
            index = F.ivec2(F.to_int(at.x), F.to_int(at.y + first))
            return 1.0 + (F.lookup(self.depth, index) - depth) / slack

        return F.select(inside, filtered(place, width, free), 1.0)
