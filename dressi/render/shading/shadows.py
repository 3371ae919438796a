"""Shadows: what hides a light."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product, starmap
from operator import add

from ...ad import functional as F
from ...ad.graph import Variable
from ...errors import InputError
from ..layers.moments import absorbance, mean, powers, share_before
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, interpolate, rasterize_hard

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


@dataclass(frozen=True)
class Shadow:
    """How the shadow map of a light is made. Raises InputError.

    size: texels along each side of the map.  softness: width of the filter in texels, from 1 to 8: shadows
    fade over about so many.  bias: how far in texels points are moved along their normal before they are
    compared, and over what depth the comparison goes from lit to dark. More than half of the softness keeps
    stripes away from lit surfaces; larger values take shadows away near what casts them.

    Transparent surfaces let light through (``DeepOpacity``), differentiable in their transmittance.

    Differentiable in the point that the shadow falls on, and in the direction of the light and the positions
    through the depths that are compared. Which face the light sees at a texel has no derivative, so neither
    has the border of a shadow by what casts it and by the direction. Constants, too, are the frame of the
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
        seen = [F.lookup(occluders.position, F.component(occluders.faces, i)) for i in range(3)]
        low = F.stop_gradient(F.minimum(F.minimum(F.min(seen[0]), F.min(seen[1])), F.min(seen[2])))
        high = F.stop_gradient(F.maximum(F.maximum(F.max(seen[0]), F.max(seen[1])), F.max(seen[2])))
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
        place = (across.xy / self.radius * 0.5 + 0.5) * float(count) - 0.5 * width
        first = F.floor(F.stop_gradient(place))
        part = place - first
        # A box of ``width`` texels covers the first and the last of width + 1 in part.
        weights = [1.0 - part, *[F.constant((1.0, 1.0))] * (width - 1), part]

        def free(j: int, i: int) -> Variable:
            uv = (first + (i + 0.5, j + 0.5)) * (1.0 / count)
            height = F.sample(self.height, uv, "nearest", "clamp", tolerance=0.0)
            return F.clamp(1.0 + (local.z - height) / slack, 0.0, 1.0) * (weights[i].x * weights[j].y)

        return reduce(add, starmap(free, product(range(width + 1), repeat=2))) * (1.0 / width**2)
