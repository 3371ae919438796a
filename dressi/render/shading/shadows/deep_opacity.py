"""Deep opacity: how much light comes through transparent surfaces to each point (deep opacity maps, Yuksel and Keyser 2008).

A texel of the map does not hold one depth but the absorbance that the light meets on its way. Instead of bins along the way it
holds the total and four moments of the absorbance (``layers.moments``): two sums over all transparent fragments that the
light sees, in any order. The map shares the frame of the ``ShadowMap`` of the opaque surfaces.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ad import functional as F
from ....ad.graph import Variable
from ...layers.absorbance import absorbance, mean, powers, share_before
from ...surface.screen import DrawnMesh
from .shadow_map import Occluders, Shadow, ShadowMap


@dataclass(frozen=True, eq=False)
class DeepOpacity:
    """The absorbance of the transparent surfaces that a light sees."""

    map: ShadowMap
    total: Variable
    """VEC3, size x size: of all surfaces. Differentiable in their transmittance."""
    moments: Variable
    """VEC4, size x size: its mean over the components, times the first four powers of the height in radii. Differentiable in
    the transmittance and in the positions by the heights."""

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
        """VEC3 in [0, 1]: how much of the light arrives. point, normal: VEC3, unit normal. Differentiable in the point, too."""
        uv, height = self.map.place(point, normal)
        total = F.sample(self.total, uv, "bilinear", "clamp")
        moments = F.sample(self.moments, uv, "bilinear", "clamp")
        share = share_before(moments / F.maximum(mean(total), 1e-8), -height)
        return F.exp(-total * share)


def light_arriving(
    shadow: Shadow, occluders: Occluders, towards: Variable, at: tuple[Variable, Variable]
) -> Variable:
    """FLOAT or VEC3 in [0, 1]: how much of a parallel light arrives at points with their unit normals, past opaque and through
    transparent surfaces. towards: unit VEC3, the direction to the light."""
    solid = ShadowMap.of(shadow, occluders, towards)
    lit = solid.lit(*at)
    if occluders.fibres is not None:
        lit = lit * occluders.fibres(shadow, towards)(at[0])
    return lit if occluders.through is None else DeepOpacity.of(solid, occluders).lit(*at) * lit
