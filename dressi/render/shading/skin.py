"""Light under the skin: it enters, spreads, and leaves elsewhere.

``profile`` how far it spreads, as sums of Gaussians; ``diffusion`` the irradiance of a mesh over its texture
coordinates, spread by a profile, and light that comes through thin parts. ``bsdf.skin`` shows the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import add
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import IVEC3, VEC2, VEC3
from ...errors import InputError
from ..core.lists import as_list
from ..surface.screen import Surface, barycentric, corners, covered, rasterize_hard, vertex_normals
from .bsdf import Bsdf, Frame, Sky, SkyLight
from .lights import DirectionalLight, Fragment, LightSource, Occluders, ShadowMap
from .normal_map import mapped_normal, vertex_tangents

__all__ = ["Profile", "burley", "diffused"]


# The irradiance of a mesh over its texture coordinates, spread under the surface (d'Eon and Luebke 2007).
#
# The mesh is rasterized at its texture coordinates. Each texel gets the light that arrives there, times the
# square root of its albedo. Each Gaussian of the profile is made from the one before it, along u and then
# along v, with steps scaled by the stretch of the surface. Texels outside of the charts have no weight.

TAPS = 4
"""Samples to each side of a Gaussian."""
STEP = 0.65
"""Between them, in deviations."""
BORDER = 2
"""Texels beside charts that are filled."""
WRAP = 0.3
"""Cosine by which light from behind reaches beyond the plane of a thin part (Jimenez et al. 2010)."""


@dataclass(frozen=True, eq=False)
class White(Bsdf):
    """A white matt surface: what it reflects of a light is the irradiance over pi."""

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        return F.vec3(F.maximum(F.dot(frame.normal, to_light), 0.0) * (1 / np.pi))

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        return SkyLight(sky.diffuse(frame.normal), F.constant((0.0, 0.0, 0.0)))


@dataclass(frozen=True, eq=False)
class UvSurface:
    """A mesh at its texture coordinates: images of the size of a texture, 0 outside of the charts."""

    inside: Variable
    """FLOAT: 1 in the charts."""
    point: Variable
    """VEC3: the place in the world."""
    normal: Variable
    """VEC3: the unit normal, of the normal map if there is one."""
    smooth: Variable
    """VEC3: the unit normal of the mesh."""
    occluders: Occluders

    @classmethod
    def of(
        cls,
        positions: Any,
        faces: Any,
        uvs: Any,
        uv_faces: Any,
        size: int,
        normal_map: Variable | None = None,
    ) -> UvSurface:
        """positions: (V, 3) or VEC3 list, in the world.  faces, uv_faces: (F, 3).  uvs: (U, 2), in [0, 1].
        normal_map: VEC3 in [-1, 1], in tangent space. Differentiable in the positions and the map."""
        face_count = len(faces) if isinstance(faces, np.ndarray) else faces.count or 0
        position, faces = as_list("positions", VEC3, positions), as_list("faces", IVEC3, faces)
        uvs, uv_faces = as_list("uvs", VEC2, uvs), as_list("uv_faces", IVEC3, uv_faces)
        clip = F.vec4(uvs * 2.0 - 1.0, 0.5, 1.0)
        face = rasterize_hard(clip, uv_faces, size=(size, size), face_count=face_count)
        surface = Surface(faces, face, barycentric(clip, corners(face, uv_faces), (size, size)))
        normals = vertex_normals(position, faces)
        smooth = F.normalize(surface.interpolate(normals))
        normal = smooth
        if normal_map is not None:
            tangent = surface.interpolate(vertex_tangents(position, faces, uvs, uv_faces), uv_faces)
            place = (F.to_float(F.pixel_coordinates((size, size))) + 0.5) * (1 / size)
            normal = mapped_normal(F.sample(normal_map, place, "bilinear", "clamp"), smooth, tangent)
        images = covered(face), surface.interpolate(position), normal, smooth
        inside, point, normal, smooth = map(F.store, images)
        return cls(inside, point, normal, smooth, Occluders(position, faces, face_count))

    def irradiance(self, lights: Sequence[LightSource]) -> Variable:
        """VEC3: of all lights, over pi: what a white matt surface reflects. Differentiable."""
        at = Fragment(self.point, self.normal, self.normal, White(), self.occluders)
        if not lights:
            return F.constant((0.0, 0.0, 0.0))
        return reduce(add, (light.reflected(at) for light in lights)) * self.inside

    def through(self, lights: Sequence[LightSource], profile: Profile) -> Variable | None:
        """VEC3: light of those with a shadow map that comes through the mesh, over pi (Jimenez et al. 2010,
        "Real-Time Realistic Skin Translucency"): by the thickness towards the light. None without such
        lights."""
        parts = []
        for light in lights:
            if not isinstance(light, DirectionalLight) or light.shadow is None:
                continue
            towards = F.normalize(as_variable(light.direction))
            shadow = ShadowMap.of(light.shadow, self.occluders, towards)
            # The map is read a little below the surface, where the mesh is seen for certain.
            uv, _ = shadow.place(self.point, -self.smooth)
            _, height = shadow.place(self.point, self.smooth * 0.0)
            thick = F.maximum(F.sample(shadow.height, uv, "bilinear", "clamp") - height * shadow.radius, 0.0)
            # Light that meets a back first came through a hole of the mesh; its way is not known.
            entered = F.sample(shadow.front, uv, "bilinear", "clamp")
            back = entered * F.maximum(WRAP - F.dot(self.smooth, towards), 0.0)
            share = back * (1 / ((1 + WRAP) * np.pi))
            parts.append(transmitted(profile, thick) * as_variable(light.colour) * share)
        return reduce(add, parts) * self.inside if parts else None

    def spread(self, light: Variable, profile: Profile) -> Variable:
        """VEC3: an image over the texture coordinates, spread by a profile. Differentiable in it, the
        positions and the profile."""
        size = light.size
        steps = [self._step(axis) for axis in (0, 1)]
        place = (F.to_float(F.pixel_coordinates(size)) + 0.5) * (1 / size[0])
        image = F.store(F.vec4(light * self.inside, self.inside))
        total = light * _weight(profile, 0)
        before = 0.0
        for k, deviation in enumerate(profile.deviations.tolist(), 1):
            wider = (deviation**2 - before**2) ** 0.5
            before = deviation
            for axis in (0, 1):
                image = self._gaussian(image, place, steps[axis] * F.mul(profile.scale, wider), axis)
            total = total + image.xyz * (1.0 / F.maximum(image.w, 1e-4)) * _weight(profile, k)
        return total * self.inside

    def beyond(self, image: Variable) -> Variable:
        """The image with texels beside charts, which filters read, as the mean of their neighbours inside."""
        image, known = F.store(image), self.inside
        for _ in range(BORDER):
            both = F.vec4(image * known, known)
            rows = F.store(F.shift(both, 1, 0) + both + F.shift(both, -1, 0))
            near = F.store(F.shift(rows, 0, 1) + rows + F.shift(rows, 0, -1))
            filled = near.xyz * (1.0 / F.maximum(near.w, 1e-6))
            image = F.store(F.select(F.greater(known, 0.0), image, filled))
            known = F.greater(near.w, 0.0)
        return image

    def _step(self, axis: int) -> Variable:
        """FLOAT: how much of the texture a unit of the world is along u or v."""
        one = (1, 0) if axis == 0 else (0, 1)
        after, before = (F.shift(self.point, k * one[0], k * one[1]) for k in (-1, 1))
        both = F.shift(self.inside, -one[0], -one[1]) * F.shift(self.inside, *one)
        length = F.length(after - before) * (0.5 * self.point.size[axis])
        # At the borders of charts, where neighbours are missing, light stays.
        return F.store(F.select(F.greater(both * length, 0.0), 1.0 / F.maximum(length, 1e-12), 0.0))

    def _gaussian(self, image: Variable, place: Variable, step: Variable, axis: int) -> Variable:
        weights = np.exp(-0.5 * (STEP * np.arange(-TAPS, TAPS + 1)) ** 2)
        # Steps as they are sampled, between texels, have the variance of the Gaussian.
        offsets = np.arange(-TAPS, TAPS + 1) * STEP
        weights /= weights.sum()
        offsets /= (weights * offsets**2).sum() ** 0.5

        def sampled(weight: float, offset: float) -> Variable:
            away = step * offset
            at = place + (F.vec2(away, 0.0) if axis == 0 else F.vec2(0.0, away))
            return F.sample(image, at, "bilinear", "clamp") * weight

        return F.store(reduce(add, map(sampled, weights.tolist(), offsets.tolist())))


def diffused(
    mesh: Any,
    lights: LightSource | Sequence[LightSource],
    profile: Profile,
    *,
    size: int = 512,
    positions: Any = None,
    albedo: Any = None,
    normal_map: Variable | None = None,
    thin: bool = True,
) -> Variable:
    """VEC3 image over the texture coordinates: the light that leaves a mesh after it has spread below the
    surface, over pi, times the square root of the albedo; the ``diffused`` light of a ``SkinBsdf``.

    mesh: with texture coordinates in [0, 1], in one chart or several.  lights: as of ``render``.  profile: in
    units of the world.  size: texels along each side.  positions: VEC3 list instead of those of the mesh,
    such as moved ones.  albedo: VEC3 image at the texture coordinates; by default the texture of the mesh.
    normal_map: VEC3 in [-1, 1].  thin: whether lights with a ``shadow`` shine through thin parts.
    Differentiable in the lights, the positions, the albedo, the map and the profile. Raises InputError.

    >>> ball = primitives.pear(8, 6)
    >>> diffused(ball, DirectionalLight((0, 0, 1)), burley((0.1, 0.05, 0.02)), size=16).size
    (16, 16)
    """
    if mesh.uvs is None:
        raise InputError(f"mesh '{mesh.name}' has no texture coordinates; give it some with mesh.unwrap()")
    if not (isinstance(size, int) and size > 0):
        raise InputError(f"the size of diffused light is a number of texels, at least 1, not {size!r}")
    given = [light.in_floats() for light in ([lights] if isinstance(lights, LightSource) else lights)]
    positions = mesh.positions if positions is None else positions
    at = UvSurface.of(positions, mesh.faces, mesh.uvs, mesh.uv_faces, size, normal_map)
    colour = mesh.texture if albedo is None else albedo
    if colour is None:
        colour = F.constant(tuple(mesh.color))
    elif not isinstance(colour, Variable):
        colour = Variable(VEC3, colour.shape[1::-1], name="albedo", data=np.asarray(colour)[None])
    if colour.size != (1, 1) and colour.size != (size, size):
        colour = F.resize(colour, (size, size), "area" if colour.size[0] >= size else "bilinear")
    root = F.sqrt(F.maximum(colour, 1e-6))
    light = at.spread(F.store(at.irradiance(given) * root), profile)
    through = at.through(given, profile) if thin else None
    return at.beyond(light if through is None else light + through * root)


def transmitted(profile: Profile, thickness: Variable) -> Variable:
    """VEC3: the share of light that comes through a slab. thickness: FLOAT, in the world. Differentiable.

    >>> evaluate(transmitted(Profile([1.0], [[0, 0, 0], [1, 1, 1]]), F.constant(0.0))).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

    def part(k: int, deviation: float) -> Variable:
        share = F.exp(F.square(thickness / F.mul(profile.scale, deviation)) * -0.5)
        return _weight(profile, k) * share

    return reduce(add, map(part, count(1), profile.deviations.tolist()))


def _weight(profile: Profile, k: int) -> Variable:
    weights = profile.weights
    if isinstance(weights, Variable):
        return F.lookup(weights, F.constant(k))
    return F.constant(tuple(weights[k].tolist()))


# How far light spreads under a surface: diffusion profiles as sums of Gaussians, which are separable.
#
# A profile R(r) is the radiant exitance at the distance r from a point that light enters, a density over the
# area (Jensen et al. 2001). The normalised profile of Burley 2015, "Extending the Disney BRDF to a BSDF with
# Integrated Subsurface Scattering":
#
#     R(r) = (exp(-r / d) + exp(-r / 3d)) / (8 pi d r),    within r: 1 - exp(-r / d) / 4 - 3 exp(-r / 3d) / 4
#
# Sums of Gaussians (d'Eon and Luebke 2007, "Advanced Techniques for Realistic Real-Time Skin Rendering") have
# its energy within every radius to 1 %.

RATIO = 2.2
"""Of the deviation of a Gaussian to that of the one before it."""
LEAST, MOST = 0.08, 5.0
"""Deviations of the first and last Gaussian, over the smallest and largest distance of the profile."""
EVEN = 50.0
"""Weight of the sum of all weights in their fit."""


@dataclass(frozen=True, eq=False)
class Profile:
    """A sum of Gaussians over the plane, and light that does not move.

    deviations: (K,) growing, in units of the world.  weights: (K + 1, 3), those of light that does not move
    first; red, green and blue sum to 1 each where all light leaves again.  scale: a number or FLOAT of one
    texel that multiplies the deviations. Weights and the scale may be Variables (VEC3, K + 1 rows as a list;
    FLOAT); differentiable in both. Raises InputError.

    >>> Profile([1.0], [[0.5, 0.8, 1.0], [0.5, 0.2, 0.0]]).within(1e9).tolist()
    [1.0, 1.0, 1.0]
    """

    deviations: Any
    weights: Any
    scale: Any = 1.0

    def __post_init__(self) -> None:
        deviations = np.asarray(self.deviations, np.float64)
        grows = deviations.ndim == 1 and len(deviations) and (np.diff(deviations, prepend=0.0) > 0).all()
        if not grows or not np.isfinite(deviations).all():
            raise InputError("deviations of a profile are positive numbers that grow, (K,)")
        object.__setattr__(self, "deviations", deviations)
        if not isinstance(self.weights, Variable):
            weights, rows = np.asarray(self.weights, np.float64), len(deviations) + 1
            if weights.shape != (rows, 3) or not (weights >= 0).all():
                raise InputError(f"weights of a profile of {rows - 1} Gaussians are at least 0, ({rows}, 3)")
            object.__setattr__(self, "weights", weights)

    def within(self, radius: float) -> np.ndarray:
        """(3,): the share of light that leaves within a radius, of a profile of numbers."""
        spread = 1 - np.exp(-0.5 * (radius / (self.deviations * self.scale)) ** 2)
        return self.weights[0] + spread @ self.weights[1:]


def burley(distances: Sequence[float]) -> Profile:
    """The normalised profile of Burley.

    distances: d of red, green and blue, in the world; skin: about (1.2, 0.5, 0.3) mm. Raises InputError.

    >>> profile = burley((1.0, 0.5, 0.25))
    >>> from dressi.render.shading.skin import burley_within
    >>> bool(abs(profile.within(2.0) - burley_within(2.0, np.array([1.0, 0.5, 0.25]))).max() < 0.01)
    True
    """
    d = np.asarray(distances, np.float64)
    if d.shape != (3,) or not ((d > 0) & np.isfinite(d)).all():
        raise InputError(f"distances of a profile are three positive numbers, not {distances!r}")
    number = int(np.ceil(np.log(MOST * d.max() / (LEAST * d.min())) / np.log(RATIO))) + 1
    deviations = LEAST * d.min() * RATIO ** np.arange(number)
    radii = np.geomspace(0.1 * LEAST * d.min(), 24 * d.max(), 1000)
    basis = np.column_stack([np.ones_like(radii), 1 - np.exp(-0.5 * (radii[:, None] / deviations) ** 2)])
    sum_row = np.full((1, number + 1), EVEN * len(radii) ** 0.5)
    weights = []
    for one in d:
        wanted = np.append(burley_within(radii, one), EVEN * len(radii) ** 0.5)
        found = _least_squares(np.vstack([basis, sum_row]), wanted)
        weights.append(found / found.sum())
    return Profile(deviations, np.stack(weights, axis=1))


def burley_within(radius: Any, d: Any) -> Any:
    """The share of light that leaves within a radius by the profile of Burley: arrays.

    >>> burley_within(0.0, 1.0)
    0.0
    """
    return 1 - 0.25 * np.exp(-radius / d) - 0.75 * np.exp(-radius / (3 * d))


def _least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x >= 0 that minimises |a x - b| (Lawson and Hanson 1974)."""
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], bool)
    for _ in range(10 * a.shape[1]):
        slope = a.T @ (b - a @ x)
        if free.all() or slope[~free].max() < 1e-9 * np.abs(b).max():
            break
        free[np.argmax(np.where(free, -np.inf, slope))] = True
        while True:
            s = np.zeros_like(x)
            s[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            if (s[free] > 0).all():
                break
            low = free & (s <= 0)
            x = x + np.min(x[low] / (x[low] - s[low])) * (s - x)
            free &= x > 1e-12
        x = s
    return x
