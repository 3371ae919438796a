"""The materials of glTF 2.0: metallic-roughness under clearcoat and sheen.

    f = mix(dielectric, metal, metallic) under a coat, with sheen on top          (glTF 2.0, appendix B)

with the microfacets of ``microfacet``, f0 = mix(dielectric, base, metallic), f90 = 1 and a dielectric of f0 =
0.04, or as KHR_materials_ior and KHR_materials_specular say. Everything is differentiable in every field and
direction.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import cache

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.graph.types import FLOAT, VEC3
from ....ad.ops.pixel.constant import Like
from ...core.materials import GLTF
from .albedo import diffuse_albedo
from .bsdf import Bsdf, Frame, Sky, SkyLight, lobes_pdf, sample_lobes
from .microfacet import DIELECTRIC, LEAST_COSINE, alpha_of, ggx, schlick, smith


@dataclass(frozen=True, eq=False)
class GltfBsdf(Bsdf):
    """A glTF material at every pixel: what its maps and factors give there. FLOAT or VEC3 Variables, None for
    what is not there (``materials.gltf`` says what they are).

    >>> GltfBsdf.of(base=(0.8, 0.2, 0.2), metallic=0.0, roughness=0.5).f0.vtype
    VEC3
    >>> clay = GltfBsdf.of(base=(0.5, 0.5, 0.5), metallic=0.0, roughness=1.0)
    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> bool(abs(evaluate(clay.reflected(Frame(up, up), up)) - 0.156).max() < 1e-3)
    True
    """

    kind = GLTF

    metallic: Like = 0.0
    roughness: Like = 1.0
    occlusion: Variable | None = None
    emission: Variable | None = None
    ior: Variable | None = None
    clearcoat: Variable | None = None
    clearcoat_roughness: Variable | None = None
    clearcoat_normal: Variable | None = None
    specular: Variable | None = None
    specular_color: Variable | None = None
    transmission: Variable | None = None
    sheen: Variable | None = None
    sheen_roughness: Variable | None = None

    @property
    def f0(self) -> Variable:
        """VEC3: reflection at normal incidence."""
        found = self.dielectric if self.specular is None else self.dielectric * self.specular
        return F.mix(found if found.vtype is VEC3 else F.vec3(found), self.base, self.metallic)

    @property
    def f90(self) -> Like:
        """FLOAT: reflection at grazing incidence, of the dielectric the strength of its reflection."""
        return 1.0 if self.specular is None else F.mix(self.specular, F.constant(1.0), self.metallic)

    @property
    def dielectric(self) -> Variable:
        """FLOAT or VEC3: reflection of the dielectric part of full strength at normal incidence."""
        f0 = F.constant(DIELECTRIC) if self.ior is None else F.square((self.ior - 1.0) / (self.ior + 1.0))
        return f0 if self.specular_color is None else F.minimum(self.specular_color * f0, 1.0)

    def _enters(self, reflected: Variable) -> Variable:
        """FLOAT: what a dielectric lets in that reflects so much (of VEC3 the largest counts)."""
        most = strongest(reflected) if reflected.vtype is VEC3 else reflected
        return 1.0 - (most if self.specular is None else self.specular * most)

    @property
    def diffuse(self) -> Variable:
        """VEC3: the colour of diffuse reflection, which metals and what lets light through lack."""
        found = self.base * (1.0 - self.metallic)
        return found if self.transmission is None else found * (1.0 - self.transmission)

    # ---- light from one direction

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        half = F.normalize(to_light + frame.to_eye)
        n_l = F.dot(frame.normal, to_light)
        lit = F.greater(n_l, 0.0)
        n_l = F.maximum(n_l, LEAST_COSINE)
        n_v = F.maximum(frame.n_v, LEAST_COSINE)
        n_h = F.clamp(F.dot(frame.normal, half), 0.0, 1.0)
        v_h = F.clamp(F.dot(frame.to_eye, half), 0.0, 1.0)
        alpha = alpha_of(self.roughness)
        specular = schlick(self.f0, v_h, self.f90) * (ggx(n_h, alpha) * smith(n_l, n_v, alpha))
        diffuse = self.diffuse * self._enters(schlick(self.dielectric, v_h)) / math.pi
        value = diffuse + specular
        if self.sheen is not None:
            value = under_sheen(value, self.sheen, self._sheen_roughness, n_l, n_v, n_h)
        if self.clearcoat is not None:
            # KHR_materials_clearcoat: a layer of GGX; what is below gets what the layer lets through.
            alpha, share = alpha_of(self._coat_roughness), self._coat_share(frame)
            if self.clearcoat_normal is not None:
                c_l = F.dot(self.clearcoat_normal, to_light)
                c_v = F.maximum(F.dot(self.clearcoat_normal, frame.to_eye), LEAST_COSINE)
                c_h = F.clamp(F.dot(self.clearcoat_normal, half), 0.0, 1.0)
                layer = ggx(c_h, alpha) * smith(F.maximum(c_l, LEAST_COSINE), c_v, alpha)
                coat = layer * share * F.maximum(c_l, 0.0)
                return F.select(lit, value * (1.0 - share) * n_l, 0.0) + F.vec3(coat)
            layer = ggx(n_h, alpha) * smith(n_l, n_v, alpha)
            value = F.mix(value, F.vec3(layer), share)
        return F.select(lit, value * n_l, 0.0)

    def transmittance(self, frame: Frame) -> Variable | None:
        """KHR_materials_transmission of a thin surface: what enters, tinted, neither refracted nor blurred,
        under the layers."""
        if self.transmission is None:
            return None
        n_v = F.clamp(frame.n_v, 0.0, 1.0)
        found = self.base * ((1.0 - self.metallic) * self.transmission)
        found = found * self._enters(schlick(self.dielectric, n_v))
        if self.sheen is not None:
            found = found * (1.0 - strongest(self.sheen) * sheen_albedo(n_v, self._sheen_roughness))
        return found if self.clearcoat is None else found * (1.0 - self._coat_share(frame))

    @classmethod
    def transmits(cls, parts: Container[str]) -> bool:
        return "transmission" in parts

    @property
    def _sheen_roughness(self) -> Variable:
        rough = F.constant(0.0) if self.sheen_roughness is None else self.sheen_roughness
        return F.maximum(rough, LEAST_ROUGHNESS)

    @property
    def _coat_roughness(self) -> Variable:
        return F.constant(0.0) if self.clearcoat_roughness is None else self.clearcoat_roughness

    def _coat_share(self, frame: Frame) -> Variable:
        """FLOAT: what the clear layer reflects. KHR_materials_clearcoat takes the angle of its normal, not of
        microfacets, so that light and emission pass alike."""
        normal = frame.normal if self.clearcoat_normal is None else self.clearcoat_normal
        cosine = F.abs(F.dot(normal, frame.to_eye))
        return as_variable(self.clearcoat) * schlick(F.constant(DIELECTRIC), cosine)

    # ---- light from all around

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        """What is below a layer is darkened as for even light. Sheen reflects what the surface gathers from
        all sides, for its lobe is wide."""
        normal, to_eye = frame.normal, frame.to_eye
        diffuse = self.diffuse * sky.diffuse(normal, to_eye)
        if not (self.ior is None and self.specular is None and self.specular_color is None):
            # The mean of Schlick's power over the cosine is that of the dielectric that the sky knows.
            power = 1.0 - diffuse_albedo(normal, to_eye) / (1.0 - DIELECTRIC)
            diffuse = self.diffuse * sky.diffuse(normal)
            diffuse = diffuse * self._enters(self.dielectric + (1.0 - self.dielectric) * power)
        specular = sky.specular(normal, to_eye, self.f0, self.roughness, self.f90)
        if self.sheen is not None:
            rough = self._sheen_roughness
            below = 1.0 - strongest(self.sheen) * sheen_cover(frame.n_v, rough)
            on_top = self.sheen * sky.diffuse(normal) * sheen_albedo(frame.n_v, rough)
            diffuse, specular = diffuse * below, specular * below + on_top
        if self.clearcoat is not None:
            above = normal if self.clearcoat_normal is None else self.clearcoat_normal
            share = self._coat_share(frame)
            coat, _, _ = sky.microfacets(above, to_eye, F.constant(1.0), self._coat_roughness)
            diffuse, specular = diffuse * (1.0 - share), specular * (1.0 - share) + coat * share
        return SkyLight(diffuse, specular)

    def occluded(self, light: Variable) -> Variable:
        return light if self.occlusion is None else light * self.occlusion

    def emitted(self, frame: Frame) -> Variable | None:
        if self.emission is None or self.clearcoat is None:
            return self.emission
        return self.emission * (1.0 - self._coat_share(frame))

    # ---- directions

    def _alphas(self) -> list[Variable]:
        """Alpha of each lobe of GGX, as in ``reflected``."""
        coat = [] if self.clearcoat is None else [self._coat_roughness]
        return [alpha_of(rough) for rough in (self.roughness, *coat)]

    def sample(self, frame: Frame, chosen: Variable, u: Variable, v: Variable) -> Variable:
        """By the cosine and by each lobe of GGX, alike often."""
        return sample_lobes(frame, self._alphas(), chosen, u, v)

    def pdf(self, frame: Frame, to_light: Variable) -> Variable:
        return lobes_pdf(frame, self._alphas(), to_light)


# Sheen, as of cloth (KHR_materials_sheen): Charlie's distribution, Neubelt and Pettineo's visibility.

LEAST_ROUGHNESS = 0.07
"""Smaller roughness is taken as this: the lobe has no width that a pixel could show."""
TABLE = 32
"""Entries along each axis of the table of albedos."""


def charlie(n_h: Variable, roughness: Variable) -> Variable:
    """FLOAT: the distribution of sheen (Estevez and Kulla 2017), (2 + 1/a) sin^(1/a) / (2 pi), a =
    roughness^2.

    n_h: cosine between normal and half vector. Differentiable in both.

    >>> round(evaluate(charlie(as_variable(0.0), as_variable(1.0))).item(), 4)
    0.4775
    """
    inverse = 1.0 / F.square(F.maximum(roughness, LEAST_ROUGHNESS))
    # A power has no derivative at 0.
    sine = F.sqrt(F.maximum((1.0 - n_h) * (1.0 + n_h), 1e-7))
    return (inverse + 2.0) * F.pow(sine, inverse) / (2.0 * math.pi)


@cache
def albedo_table() -> np.ndarray:
    """(TABLE, TABLE) float64: the share of uniform light that white sheen reflects, at most 1, by quadrature.

    Rows: roughness from 0 to 1.  Columns: square root of the cosine to the eye, from 0 to 1.
    """
    axis = np.linspace(0, 1, TABLE)
    cosine, angle = (np.arange(64) + 0.5) / 64, (np.arange(64) + 0.5) / 64 * np.pi
    n_l, turn = np.meshgrid(cosine, angle, indexing="ij")
    light = np.stack([np.sqrt(1 - n_l**2) * np.cos(turn), np.sqrt(1 - n_l**2) * np.sin(turn), n_l], axis=-1)
    n_v = np.maximum(axis, 0.03) ** 2
    eye = np.stack([np.sqrt(1 - n_v**2), np.zeros(TABLE), n_v], axis=-1)
    half = light[None] + eye[:, None, None]
    n_h = half[..., 2] / np.linalg.norm(half, axis=-1)
    inverse = 1 / np.maximum(axis, LEAST_ROUGHNESS)[:, None, None, None] ** 2
    sine = np.sqrt(np.maximum(1 - n_h**2, 1e-7))
    distribution = (2 + inverse) * sine**inverse / (2 * np.pi)
    visible = n_l / (4 * (n_l + n_v[:, None, None] - n_l * n_v[:, None, None]))
    return np.minimum((distribution * visible).mean(axis=(2, 3)) * 2 * np.pi, 1.0)


def sheen_albedo(cosine: Variable, roughness: Variable) -> Variable:
    """FLOAT: the share of uniform light that white sheen reflects to a direction. Differentiable in both.

    cosine: between the normal and the direction.  roughness: in [0, 1].

    >>> 0.1 < evaluate(sheen_albedo(as_variable(0.5), as_variable(0.5))).item() < 0.3
    True
    """
    return _looked_up(albedo_table(), "albedo of sheen", cosine, roughness)


@cache
def cover_table() -> np.ndarray:
    """(TABLE, TABLE) float64: the mean over even light, weighted by the cosine to it, of the larger of the
    albedos to the eye and to the light. Rows and columns as of ``albedo_table``.
    """
    albedo, axis = albedo_table(), np.linspace(0, 1, TABLE)
    # Midpoints of the squared cosine have equal weights.
    n_l = np.sqrt((np.arange(256) + 0.5) / 256)
    to_light = np.stack([np.interp(np.sqrt(n_l), axis, row) for row in albedo])
    return np.maximum(albedo[:, :, None], to_light[:, None]).mean(-1)


def sheen_cover(cosine: Variable, roughness: Variable) -> Variable:
    """FLOAT: the share of even light that white sheen keeps from a matt surface below (``under_sheen``).

    cosine: between the normal and the eye.  roughness: in [0, 1]. Differentiable in both.

    >>> evaluate(sheen_cover(as_variable(0.5), as_variable(0.5)) >= sheen_albedo(as_variable(0.5), as_variable(0.5))).item()
    1.0
    """
    return _looked_up(cover_table(), "cover of sheen", cosine, roughness)


def _looked_up(values: np.ndarray, name: str, cosine: Variable, roughness: Variable) -> Variable:
    table = Variable(FLOAT, (TABLE, TABLE), name=name, data=values[None])
    place = F.vec2(F.sqrt(F.clamp(cosine, 1e-4, 1.0)), F.clamp(roughness, 0.0, 1.0))
    return F.sample(table, place * ((TABLE - 1) / TABLE) + 0.5 / TABLE, "bilinear", "clamp")


def under_sheen(
    below: Variable, sheen: Variable, rough: Variable, n_l: Variable, n_v: Variable, n_h: Variable
) -> Variable:
    """VEC3: the BRDF with a layer of sheen; what is below is scaled down by what the sheen reflects.

    below: VEC3 BRDF without sheen.  sheen: VEC3 colour.  rough: FLOAT, at least LEAST_ROUGHNESS. Cosines must
    be positive.
    """
    visibility = 0.25 / (n_l + n_v - n_l * n_v)
    albedo = F.maximum(sheen_albedo(n_v, rough), sheen_albedo(n_l, rough))
    return sheen * (charlie(n_h, rough) * visibility) + below * (1.0 - strongest(sheen) * albedo)


def strongest(colour: Variable) -> Variable:
    """FLOAT: the largest component."""
    return F.maximum(F.maximum(colour.x, colour.y), colour.z)
