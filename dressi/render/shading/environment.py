"""Light from all around: an equirectangular map, its reflection by surfaces, and the background."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, MAT3, VEC3, VEC4, Size
from ...ad.ops.pixel.constant import Like
from ...ad.ops.texture.addressing import Place
from ...ad.ops.texture.sample import sample_levels
from ...errors import InputError
from ..surface.color import check_linear
from .bsdf.albedo import LEAST_COSINE, diffuse_albedo, lobe_place, lobe_table, looked_up
from .lights import Fragment, LightSource
from .sphere_filter import CosineKernel, GgxKernel, Kernel, solid_angles, sphere_filter

LEAST_WIDTH, WIDEST = 16, 512
"""Widths of maps. Wider ones are shrunk to the latter, which keeps the light of each direction."""


@dataclass(frozen=True, eq=False)
class MapLight(LightSource):
    """Base of lights that are an environment map: ``Environment`` and ``MonteCarloEnvironment``."""

    parameters = {"map": VEC3, "rotation": MAT3, "intensity": VEC3}
    images = frozenset(("map",))
    learned = ("map",)
    positive = frozenset(("map", "intensity"))

    map: Variable | np.ndarray
    rotation: Like | np.ndarray | None = 0.0
    intensity: Like = 1.0

    def prepared(self) -> Self:
        """The same with a map at most 512 texels wide, and a rotation matrix, or None for none."""
        image = as_map(self.map)
        own = image is self.map or image.data is None
        turn = None if _is_zero(self.rotation) else as_rotation(self.rotation)
        matrix = turn if turn is None or turn.data is None else np.asarray(turn.data)[0, 0, 0]
        return replace(self, map=image if own else np.asarray(image.data)[0], rotation=matrix)


@dataclass(frozen=True, eq=False)
class Environment(MapLight):
    """Light from infinitely far away.

    map: array (H, 2 H, 3) or VEC3 Variable (2 H x H), linear radiance, equirectangular: row 0 is up (+Y), the
    centre is -Z, +X is to the right of it. Arrays wider than 512 are shrunk; NaN, infinity and negative light
    are refused.
    rotation: how the map is turned in the world: an angle about +Y in radians, positive from +Z to +X
    (FLOAT), or the rotation matrix from the map to the world (3x3 or MAT3). Mitsuba has +Z in the centre of a
    map: what it shows by default is ``rotation=np.pi``, the matrix diag(-1, 1, -1), here; a ``to_world`` R of
    its emitter is R @ diag(-1, 1, -1).
    intensity: FLOAT or VEC3, a factor of all light. Variables are differentiable. Raises InputError.

    >>> sky = Environment(np.ones((8, 16, 3)), intensity=2.0).prefiltered()
    >>> evaluate(sky.diffuse(F.constant((0.0, 1.0, 0.0)))).round(4).ravel().tolist()
    [2.0, 2.0, 2.0]
    """

    lobes: int = 3
    """How many lobes ``reflected`` reads, 3 or 1 (``prefiltered``)."""

    def reflected(self, at: Fragment) -> Variable:
        found = at.surface.environment(at.frame, self.prefiltered(self.lobes))
        return at.surface.occluded(found.total)

    def prefiltered(self, lobes: int = 3, compensate: bool = False) -> PrefilteredEnvironment:
        """The light ready to be reflected. With a map that does not change, an engine computes this once.

        lobes: 3, or 1 for a third of the work: from roughness 0.25 the mean error under photographed
        environments is then 1 to 5 % for metals instead of 1 to 2 %, and up to 1.3 % for dielectrics instead
        of 0.7 %.
        compensate: whether metals get back the light that leaves after several reflections between
        microfacets, which the BRDF of glTF loses: a white metal then reflects all.
        """
        if lobes not in LOBES:
            raise InputError(f"reflections are read as {' or '.join(map(str, LOBES))} lobes, not {lobes!r}")
        image = as_map(self.map)
        return PrefilteredEnvironment(
            image=image,
            levels=filtered_levels(image),
            gathered=irradiance(image),
            to_map=None if _is_zero(self.rotation) else F.transpose(as_rotation(self.rotation)),
            intensity=as_variable(self.intensity),
            lobes=lobes,
            compensate=compensate,
        )


@dataclass(frozen=True, eq=False)
class PrefilteredEnvironment:
    """What surfaces reflect of an environment. Directions are unit VEC3 in the world, away from the surface;
    results are VEC3, linear, and differentiable in the map, its rotation and intensity, and in all arguments.

    >>> sky = Environment(np.ones((8, 16, 3))).prefiltered(compensate=True)
    >>> up = F.constant((0.0, 1.0, 0.0))
    >>> evaluate(sky.specular(up, up, F.constant((1.0, 1.0, 1.0)), F.constant(0.5))).round(3).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

    image: Variable
    """VEC3: the map."""
    levels: Variable
    """VEC3: ``prefilter.filtered_levels`` of it."""
    gathered: Variable
    """VEC3: ``prefilter.irradiance`` of it."""
    to_map: Variable | None
    """MAT3 from the world to the map; None for the identity."""
    intensity: Variable
    lobes: int = 3
    compensate: bool = False

    def diffuse(self, normal: Variable, to_eye: Variable | None = None) -> Variable:
        """The light that a white matt surface reflects; times the base colour it is diffuse light.

        to_eye: takes off what the surface mirrors: times the mean of 1 - F(v.h) of glTF's dielectrics.
        """
        light = F.sample(self.gathered, self._uv(normal), "bilinear", "sphere") * self.intensity
        return light if to_eye is None else light * diffuse_albedo(normal, to_eye)

    def specular(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> Variable:
        """The light that a surface reflects by GGX. f0, f90: FLOAT or VEC3, reflection at normal and at
        grazing incidence.
        roughness: FLOAT in [0, 1]."""
        light, scale, bias = self.microfacets(normal, to_eye, f0, roughness, f90)
        return light * compensation(f0, scale + bias) if self.compensate else light

    def microfacets(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> tuple[Variable, Variable, Variable]:
        """The light that is reflected once, and the share of even light: FLOAT by f0 and FLOAT by f90."""
        places, total, scale, bias = level_places(self.image.size), None, None, None
        for lobe in lobes(normal, to_eye, roughness, self.lobes):
            light = sample_levels(self.levels, places, self._uv(lobe.direction), lobe.level, "sphere")
            light = light * (f0 * lobe.scale + f90 * lobe.bias)
            total = light if total is None else total + light
            scale = lobe.scale if scale is None else scale + lobe.scale
            bias = lobe.bias if bias is None else bias + lobe.bias
        assert total is not None and scale is not None and bias is not None
        # Weights of single lobes may be negative, and so may the light beside a bright direction.
        return F.maximum(total, 0.0) * self.intensity, scale, bias

    def blurred(self, direction: Variable, solid_angle: Variable) -> Variable:
        """The mean radiance around a direction. solid_angle: FLOAT, about over how much, in steradians.
        Differentiable in both."""
        places, level = level_places(self.image.size), blurred_level(solid_angle)
        return sample_levels(self.levels, places, self._uv(direction), level, "sphere") * self.intensity

    def background(self, direction: Variable) -> Variable:
        """The light of the map in a direction, as an eye sees it. direction: VEC3 of any length but 0."""
        return F.sample(self.image, self._uv(direction), "bilinear", "sphere") * self.intensity

    def _uv(self, direction: Variable) -> Variable:
        return equirectangular(direction if self.to_map is None else self.to_map @ direction)


def as_map(image: Variable | np.ndarray) -> Variable:
    """VEC3: an environment map as a Variable, at most 512 wide. Raises InputError if it cannot be one."""
    if isinstance(image, Variable):
        if image.vtype is not VEC3 or image.batch != 1:
            raise InputError(f"an environment map is one VEC3 image, not {image}")
        _check_size(image.size)
        return image
    values = np.asarray(image)
    if values.ndim != 3 or values.shape[2] != 3:
        raise InputError(f"an environment map is an array (H, 2 H, 3), not one of shape {values.shape}")
    height, width = values.shape[:2]
    _check_size((width, height))
    check_linear("map", values, radiance=True)
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(
            "an environment map holds light, finite and at least 0; clean it with np.nan_to_num and np.clip"
        )
    if width > WIDEST:
        values = _kept_shrunk(values)
    return Variable(VEC3, (values.shape[1], values.shape[0]), name="environment", data=values[None])


_shrunk: OrderedDict[bytes, np.ndarray] = OrderedDict()
"""The last few maps that were shrunk, by a hash of what they were."""
KEPT = 4


def _kept_shrunk(values: np.ndarray) -> np.ndarray:
    """``shrunk_map`` of a map, which pictures ask for again and again."""
    key = blake2b(np.ascontiguousarray(values).data, digest_size=16).digest() + str(values.shape).encode()
    if key not in _shrunk:
        _shrunk[key] = shrunk_map(values)
        if len(_shrunk) > KEPT:
            _shrunk.popitem(last=False)
    _shrunk.move_to_end(key)
    return _shrunk[key]


def shrunk_map(values: np.ndarray) -> np.ndarray:
    """(256, 512, 3): a wider map, each texel the mean over the solid angle that it covers.

    >>> shrunk_map(np.ones((512, 1024, 3))).shape
    (256, 512, 3)
    """
    # A texel that two rows share is cut where the rows meet.
    kept = _coverage(len(values), WIDEST // 2, lambda row: -np.cos(row * (np.pi / len(values))))
    kept /= kept.sum(axis=1, keepdims=True)
    across = _coverage(values.shape[1], WIDEST, lambda column: column)
    across /= across.sum(axis=1, keepdims=True)
    return np.einsum("ab,bcd->acd", kept, np.einsum("ec,bcd->bed", across, values))


def _coverage(extent: int, fewer: int, measure: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(fewer, extent): how much of each texel an output texel covers. measure: from the edges of texels."""
    edges, texel = np.linspace(0, extent, fewer + 1), np.arange(extent)
    low, high = np.maximum(edges[:-1, None], texel), np.minimum(edges[1:, None], texel + 1)
    return np.where(high > low, measure(high) - measure(low), 0.0)


def _check_size(size: tuple[int, int]) -> None:
    width, height = size
    if width != 2 * height or width < LEAST_WIDTH:
        raise InputError(
            f"an environment map is equirectangular, twice as wide as high and at least {LEAST_WIDTH} wide, "
            f"not {width}x{height}"
        )


def _is_zero(rotation) -> bool:
    return rotation is None or (
        not isinstance(rotation, Variable) and np.ndim(rotation) == 0 and float(rotation) == 0.0
    )


def as_rotation(rotation: Like | np.ndarray) -> Variable:
    """MAT3 from an angle about +Y in radians or a rotation matrix. Raises InputError for others.

    >>> evaluate(as_rotation(np.pi / 2) @ F.constant((0.0, 0.0, 1.0)))[0, 0, 0, :2].round(6).tolist()
    [1.0, 0.0]
    """
    if not isinstance(rotation, Variable):
        array = np.asarray(rotation, dtype=np.float64)
        if array.shape == (3, 3):
            if not np.allclose(array @ array.T, np.eye(3), atol=1e-4) or np.linalg.det(array) < 0:
                raise InputError(
                    "the rotation of an environment is a rotation matrix; this one scales, shears or mirrors"
                )
            return Variable(MAT3, data=array)
        if array.shape:
            raise InputError(
                f"the rotation of an environment is an angle or a 3x3 matrix, not an array {array.shape}"
            )
        c, s = np.cos(float(array)), np.sin(float(array))
        return Variable(MAT3, data=np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]))
    if rotation.vtype is MAT3:
        return rotation
    if rotation.vtype is not FLOAT:
        raise InputError(f"the rotation of an environment is an angle or a 3x3 matrix, not {rotation}")
    c, s = F.cos(rotation), F.sin(rotation)
    zero, one = F.zeros_like(c), F.zeros_like(c) + 1.0
    # Columns: where the axes of the map go.
    return F.mat3(F.vec3(c, zero, -s), F.vec3(zero, one, zero), F.vec3(s, zero, c))


# An environment map filtered for lobes of several widths: the first factor of the split-sum approximation.
#
# Karis, "Real Shading in Unreal Engine 4" (2013). Seen from straight above, the lobe of GGX is round, so that
# each level is a convolution on the sphere (``sphere_filter``), exact in value and gradient.

ROUGHNESS = (0.0, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
"""The roughness of each level. Level 0 is the map. The table of lobes (``split_sum``) is fitted to these."""
HALF_WIDTH = 1.28
"""Half the width at half height of the lobe, in radians for alpha = 1: D(h) is half its peak at 0.64 alpha,
and the direction of the reflection turns twice as far as the half vector."""
FINENESS = 0.62
"""Texels of a level are at most so many half widths of its lobe."""
WIDEST_LEVEL, NARROWEST = 256, 16
"""Widths of filtered levels."""
TAIL = 120.0
"""Lobes end where sin^2(angle / 2) is so many times alpha^2: 0.8 % of the light are beyond."""


def blurred_level(solid_angle: Variable) -> Variable:
    """FLOAT: the level, between whole ones, whose lobe is as wide as a solid angle.

    >>> evaluate(blurred_level(as_variable(math.pi * HALF_WIDTH**2))).round(6).item()
    8.0
    """
    alpha = F.sqrt(F.clamp(solid_angle / (math.pi * HALF_WIDTH**2), 1e-12, 1.0))
    roughness, level = F.sqrt(alpha), F.constant(0.0)
    for low, high in pairwise(ROUGHNESS):
        level = level + F.clamp(roughness - low, 0.0, high - low) / (high - low)
    return level


def level_width(alpha: float, width: int) -> int:
    """The width of a level: the least power of two that is fine enough, at most that of the map."""
    needed = 2 * math.pi / (FINENESS * HALF_WIDTH * alpha)
    least = max(NARROWEST, 2 ** math.ceil(math.log2(needed)))
    return min(least, WIDEST_LEVEL, 2 ** int(math.log2(width)))


def level_sizes(size: Size) -> list[Size]:
    """The sizes of all levels for a map of ``size``."""
    widths = [level_width(r * r, size[0]) for r in ROUGHNESS[1:]]
    return [size, *((w, w // 2) for w in widths)]


def level_places(size: Size) -> tuple[Place, ...]:
    """(x, y, width, height) of each level in ``filtered_levels``: the map on top, the others below."""
    (width, height), *rest = level_sizes(size)
    places, x, y, below = [(0, 0, width, height)], 0, height, 0
    for w, h in rest:
        if x + w > width:
            x, y = 0, y + below
        if x == 0:
            below = h
        places.append((x, y, w, h))
        x += w
    return tuple(places)


def weighted(image: Variable) -> Variable:
    """VEC3: the texels of an equirectangular map times their solid angles."""
    return image * solid_angles(image.size)


def shrunk(light: Variable, size: Size) -> Variable:
    """A map of light times solid angle with fewer texels: sums of what each covers."""
    if light.size == size:
        return light
    covered = light.size[0] / size[0] * (light.size[1] / size[1])
    return F.resize(light, size, "area") * covered


def convolved(light: Variable, kernel: Kernel, size: Size) -> Variable:
    """VEC3: the mean radiance under the kernel around each direction. light: radiance times solid angle."""
    return sphere_filter(light, kernel, size) / sphere_filter(solid_angles(light.size), kernel, size)


def level_kernel(roughness: float, width: int, coarse: bool) -> GgxKernel:
    """The lobe of a level. coarse: whether its texels and their sources are wider than those of the map."""
    texel = 2 * math.pi / width
    # Two texels blend where the level is sampled, which widens the lobe: by 1/6 of a squared texel on
    # average. Half of it, taken off all lobes, gave the least error on photographed environments.
    blur = texel**2 / 12
    squared = max(roughness**4 - blur, roughness**4 / 2)
    reach = min(2 * math.asin(math.sqrt(min(TAIL * roughness**4, 0.5))), math.pi / 2)
    return GgxKernel(math.sqrt(squared), 0.0 if coarse else texel / 2, reach)


def filtered_levels(image: Variable) -> Variable:
    """VEC3: one image of all levels at their ``level_places``. Linear in the map, and differentiable."""
    light, places = weighted(image), level_places(image.size)
    (width, height) = image.size[0], max(y + h for _, y, _, h in places)
    result = F.pad(image, 0, 0, 0, height - image.size[1])
    for roughness, (x, y, w, h) in zip(ROUGHNESS[1:], places[1:], strict=True):
        kernel = level_kernel(roughness, w, w < image.size[0])
        level = convolved(shrunk(light, (w, h)), kernel, (w, h))
        result = result + F.pad(level, x, y, width - x - w, height - y - h)
    return result


def irradiance(image: Variable) -> Variable:
    """VEC3, at most 32x16: what surfaces facing each direction gather, divided by pi. Linear in the map."""
    width = min(32, 2 ** int(math.log2(image.size[0])))
    size = (width, width // 2)
    return convolved(shrunk(weighted(image), size), CosineKernel(), size)


# How GGX reflects a filtered environment: where to look, how blurred, and with what weight.
#
# The split-sum approximation reads one filtered level in the direction of the mirror, as if the surface were
# seen from straight above. Towards the horizon the true lobe is long, narrow and cut off, and one round lobe
# misses up to 10 % of the reflected light. Here three round lobes in the plane of incidence stand for the
# true one, or one at a place and of a width that suit. Places, widths and weights are fitted for each cosine
# and roughness: least squares of the difference in spherical harmonics, degree l weighted by (l + 1)^-2.5,
# for photographed environments have less of the higher ones. The weights add up to the albedo.

LOBES = (1, 3)
"""Numbers of lobes for which there are tables."""


class Lobe(NamedTuple):
    """One lookup in the filtered environment; it adds ``(f0 * scale + bias)`` times the light there."""

    direction: Variable
    """VEC3, not normalised."""
    level: Variable
    """FLOAT: the level, see ``prefilter.ROUGHNESS``."""
    scale: Variable
    """FLOAT: the weight that belongs to f0."""
    bias: Variable
    """FLOAT: the weight that belongs to f90, which is 1."""


def lobes(normal: Variable, to_eye: Variable, roughness: Variable, count: int) -> list[Lobe]:
    """The lookups that stand for the reflection of an environment; ``count`` is one of LOBES.

    normal, to_eye: unit VEC3, away from the surface.  roughness: FLOAT in [0, 1]. Differentiable in all.
    """
    n_v = F.clamp(F.dot(normal, to_eye), LEAST_COSINE, 1.0)
    place, result = lobe_place(n_v, roughness), []
    sine_squared = (1.0 - n_v) * (1.0 + n_v)
    for k, table in enumerate(lobe_table(count)):
        entry = looked_up(table, VEC4, f"lobe {k}", place)
        turned = entry.x
        cosine = F.sqrt(F.maximum(1.0 - turned * turned * sine_squared, 1e-6))
        # The mirrored direction is 2 n.v n - v: there ``turned`` is 1 and the cosine is n.v.
        direction = normal * (cosine + turned * n_v) - to_eye * turned
        result.append(Lobe(direction, entry.y, entry.z, entry.w))
    return result


def compensation(f0: Variable, albedo: Variable) -> Variable:
    """VEC3: the factor for light that microfacets reflect several times.

    Turquin, "Practical multiple scattering compensation for microfacet models" (2019), equation 16: 1 + f0 (1
    - E) / E.
    albedo: E, FLOAT, the sum of scale and bias of all lobes.

    >>> evaluate(compensation(F.constant((1.0, 1.0, 1.0)), F.constant(0.5)))[0, 0, 0].tolist()
    [2.0, 2.0, 2.0]
    """
    return 1.0 + f0 * (1.0 / albedo - 1.0)


def equirectangular(direction: Variable) -> Variable:
    """VEC2: where a direction stands in an equirectangular map: up +Y is v = 0, -Z is the centre.

    direction: VEC3 of any length but 0. Differentiable but at the poles.

    >>> evaluate(equirectangular(F.constant((0.0, 0.0, -1.0))))[0, 0, 0].tolist()
    [0.5, 0.5]
    """
    x, y, z = direction.x, direction.y, direction.z
    across = F.sqrt(F.maximum(x * x + z * z, 1e-12))
    return F.vec2(F.atan2(x, -z) / (2 * math.pi) + 0.5, F.atan2(across, y) / math.pi)


# A photographer's studio as an environment map: large soft lamps in a grey room.

ROOM = (0.25, 0.27, 0.32)
"""Radiance of the walls, linear."""
LAMPS = (
    ((0.6, 0.7, 0.5), 0.35, (9.0, 8.6, 8.0)),
    ((-0.8, 0.3, 0.4), 0.45, (2.6, 2.9, 3.4)),
    ((0.2, 0.5, -0.9), 0.3, (5.0, 4.6, 4.2)),
)
"""Direction, angular radius in radians, and radiance of each lamp."""
SOFTNESS = 0.12
"""Width of the edge of a lamp, in radians."""


def studio(height: int = 64) -> np.ndarray:
    """(height, 2 height, 3) float64 linear radiance, equirectangular, row 0 up: a key, a fill and a rim lamp.
    The mean over the sphere is about 0.6.

    >>> studio(16).shape, bool(studio().min() > 0)
    ((16, 32, 3), True)
    """
    v, u = np.meshgrid(
        (np.arange(height) + 0.5) / height, (np.arange(2 * height) + 0.5) / (2 * height), indexing="ij"
    )
    polar, turn = np.pi * v, 2 * np.pi * (u - 0.5)
    direction = np.stack(
        [np.sin(polar) * np.sin(turn), np.cos(polar), -np.sin(polar) * np.cos(turn)], axis=-1
    )
    # The floor is darker than the ceiling.
    light = np.asarray(ROOM) * (0.75 + 0.5 * np.clip(direction[..., 1:2] + 0.3, 0, 1))
    for towards, radius, colour in LAMPS:
        axis = np.asarray(towards) / np.linalg.norm(towards)
        angle = np.arccos(np.clip(direction @ axis, -1, 1))
        share = np.clip((radius - angle) / SOFTNESS + 0.5, 0, 1)
        light = light + (share * share * (3 - 2 * share))[..., None] * np.asarray(colour)
    return light
