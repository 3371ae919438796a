"""glTF materials in Mitsuba 3, for comparisons: files read by pygltflib, and the BRDF of glTF 2.0 as a plugin.

Nothing here uses this package's loaders or shading, so that a mistake in those shows.
"""

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drjit as dr
import mitsuba as mi
import numpy as np
import pygltflib
from PIL import Image

mi.set_variant("llvm_ad_rgb")
if dr.detail.llvm_version()[0] < 16:
    # Older ones end the process in the middle of a compilation.
    raise ImportError("libLLVM is older than 16; get a newer one, as by `apt-get install libllvm19`")

LEAST_ROUGHNESS = 0.045
"""Mirrors reflect lights without extent in no pixel; both renderers take smaller roughness as this."""
DTYPES = {5121: np.uint8, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


@dataclass
class Model:
    """The first primitive of a glTF file in the world, and its material."""

    positions: np.ndarray
    normals: np.ndarray
    tangents: np.ndarray | None
    uvs: np.ndarray
    faces: np.ndarray
    images: dict[str, np.ndarray]
    """uint8 (H, W, 3): base, orm, normal, emission; those that there are."""


def read_model(path: Path) -> Model:
    """A file of one mesh, one node and one material, as Khronos's samples are; factors of 1."""
    gltf = pygltflib.GLTF2().load(str(path))
    assert gltf is not None
    blob = gltf.binary_blob()

    def view(index: int) -> bytes:
        part = gltf.bufferViews[index]
        return blob[part.byteOffset or 0 :][: part.byteLength]

    def array(index: int) -> np.ndarray:
        part = gltf.accessors[index]
        width = WIDTHS[part.type]
        values = np.frombuffer(view(part.bufferView)[part.byteOffset or 0 :], DTYPES[part.componentType])
        return values[: part.count * width].reshape(part.count, width)

    def image(texture: Any) -> np.ndarray:
        source = gltf.images[gltf.textures[texture.index].source]
        return np.array(Image.open(io.BytesIO(view(source.bufferView))).convert("RGB"))

    primitive, node = gltf.meshes[0].primitives[0], gltf.nodes[0]
    x, y, z, w = node.rotation or (0.0, 0.0, 0.0, 1.0)
    turn = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    assert node.matrix is None and node.scale is None and node.translation is None
    material = gltf.materials[primitive.material]
    shading = material.pbrMetallicRoughness
    maps = {
        "base": shading.baseColorTexture, "orm": shading.metallicRoughnessTexture,
        "normal": material.normalTexture, "emission": material.emissiveTexture,
    }  # fmt: skip
    names = primitive.attributes
    tangents = None
    if names.TANGENT is not None:
        tangents = array(names.TANGENT).astype(np.float64)
        tangents = np.concatenate([tangents[:, :3] @ turn.T, tangents[:, 3:]], axis=1)
    return Model(
        array(names.POSITION) @ turn.T, array(names.NORMAL) @ turn.T, tangents, array(names.TEXCOORD_0).astype(np.float64),
        array(primitive.indices).reshape(-1, 3), {name: image(t) for name, t in maps.items() if t is not None},
    )  # fmt: skip


def shape(model: Model, bsdf: dict[str, Any]) -> mi.Mesh:
    """The model as a Mitsuba mesh with tangents as an attribute of the vertices."""
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(bsdf)
    mesh = mi.Mesh(
        "model", len(model.positions), len(model.faces), has_vertex_normals=True, has_vertex_texcoords=True, props=properties,
    )  # fmt: skip
    tangents = (
        model.tangents if model.tangents is not None else np.tile([1.0, 0, 0, 1], (len(model.positions), 1))
    )
    mesh.add_attribute("vertex_tangent", 3, tangents[:, :3].ravel())
    mesh.add_attribute("vertex_sign", 1, tangents[:, 3].ravel())
    values = mi.traverse(mesh)
    values["vertex_positions"] = model.positions.astype(np.float32).ravel()
    values["vertex_normals"] = model.normals.astype(np.float32).ravel()
    values["vertex_texcoords"] = model.uvs.astype(np.float32).ravel()
    values["faces"] = model.faces.astype(np.uint32).ravel()
    values.update()
    return mesh


def texture(image: np.ndarray, raw: bool) -> dict[str, Any]:
    """raw: whether the codes are values, not sRGB colours."""
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(image)), "raw": raw}


def gltf_bsdf(model: Model) -> dict[str, Any]:
    """``GltfBSDF`` of the material."""
    found = {
        "type": "gltf",
        "base": texture(model.images["base"], False),
        "orm": texture(model.images["orm"], True),
    }
    if "normal" in model.images:
        found |= {
            "normal": texture(model.images["normal"], True),
            "tangent": {"type": "mesh_attribute", "name": "vertex_tangent"},
            "sign": {"type": "mesh_attribute", "name": "vertex_sign"},
        }
    return found


def principled_bsdf(model: Model) -> dict[str, Any]:
    """Mitsuba's own ``principled`` in ``normalmap``: its parameters have the names of glTF's, its formulas are others."""
    orm = model.images["orm"]
    found = {
        "type": "principled", "base_color": texture(model.images["base"], False), "specular": 0.5,
        "roughness": texture(orm[..., 1:2], True), "metallic": texture(orm[..., 2:3], True),
    }  # fmt: skip
    if "normal" in model.images:
        found = {"type": "normalmap", "normalmap": texture(model.images["normal"], True), "bsdf": found}
    return {"type": "twosided", "bsdf": found}


class GltfBSDF(mi.BSDF):
    """glTF 2.0, appendix B, with a tangent-space normal map; sampled by cosine or by visible GGX normals."""

    def __init__(self, properties: mi.Properties):
        mi.BSDF.__init__(self, properties)
        self.base, self.orm = properties["base"], properties["orm"]
        self.normal = properties.get("normal")
        self.tangent, self.sign = properties.get("tangent"), properties.get("sign")
        flags = mi.BSDFFlags.DiffuseReflection | mi.BSDFFlags.GlossyReflection | mi.BSDFFlags.SpatiallyVarying
        flags = flags | mi.BSDFFlags.FrontSide | mi.BSDFFlags.BackSide
        self.m_components = [flags]
        self.m_flags = flags

    def frame(self, si: Any, active: Any) -> Any:
        """The frame of the normal that the map means, in the local frame of the interpolated normal."""
        if self.normal is None:
            return mi.Frame3f(mi.Vector3f(0, 0, 1))
        texel = 2 * mi.Vector3f(self.normal.eval_3(si, active)) - 1
        n, t = si.sh_frame.n, mi.Vector3f(self.tangent.eval_3(si, active))
        b = dr.cross(n, t) * dr.select(self.sign.eval_1(si, active) < 0, -1.0, 1.0)
        return mi.Frame3f(si.to_local(dr.normalize(t * texel.x + b * texel.y + n * texel.z)))

    def material(self, si: Any, active: Any) -> tuple[Any, Any, Any]:
        orm = mi.Color3f(self.orm.eval_3(si, active))
        return mi.Color3f(self.base.eval(si, active)), orm.z, dr.square(dr.maximum(orm.y, LEAST_ROUGHNESS))

    def glossy(self, v: Any, metallic: Any) -> Any:
        """The share of samples that follow the microfacets. None are visible where the normal of the map turns away."""
        return dr.select(v.z > 1e-4, 0.5 + 0.4 * metallic, 0)

    def values(self, si: Any, wo: Any, active: Any) -> tuple[Any, Any]:
        """The BRDF times the cosine, and the density of ``sample``."""
        base, metallic, alpha = self.material(si, active)
        frame = self.frame(si, active)
        v, light = frame.to_local(si.wi), frame.to_local(wo)
        h = dr.normalize(v + light)
        n_l, n_v = dr.maximum(light.z, 1e-4), dr.maximum(v.z, 1e-4)
        n_h, v_h = dr.clip(h.z, 0, 1), dr.clip(dr.dot(v, h), 0, 1)
        a2 = alpha * alpha
        d = a2 / (math.pi * dr.square(dr.square(n_h) * (a2 - 1) + 1))
        vis = 0.5 / (n_l * dr.sqrt(n_v * n_v * (1 - a2) + a2) + n_v * dr.sqrt(n_l * n_l * (1 - a2) + a2))
        away = (1 - v_h) ** 5
        dielectric = dr.lerp(base / math.pi, mi.Color3f(d * vis), 0.04 + 0.96 * away)
        metal = d * vis * (base + (1 - base) * away)
        value = dr.lerp(dielectric, metal, metallic) * n_l
        facets = mi.MicrofacetDistribution(mi.MicrofacetType.GGX, dr.sqrt(a2), True)
        glossy = facets.pdf(v, h) / (4 * dr.maximum(v_h, 1e-6))
        density = dr.lerp(n_l / math.pi, glossy, self.glossy(v, metallic))
        lit = active & (light.z > 0)
        return value & lit, dr.select(lit, density, 0)

    def eval(self, context: Any, si: Any, wo: Any, active: Any = True) -> Any:
        return self.values(si, wo, active)[0]

    def pdf(self, context: Any, si: Any, wo: Any, active: Any = True) -> Any:
        return self.values(si, wo, active)[1]

    def eval_pdf(self, context: Any, si: Any, wo: Any, active: Any = True) -> tuple[Any, Any]:
        return self.values(si, wo, active)

    def sample(
        self, context: Any, si: Any, sample1: Any, sample2: Any, active: Any = True
    ) -> tuple[Any, Any]:
        _, metallic, alpha = self.material(si, active)
        frame = self.frame(si, active)
        v = frame.to_local(si.wi)
        half, _ = mi.MicrofacetDistribution(mi.MicrofacetType.GGX, alpha, True).sample(v, sample2)
        matt = mi.warp.square_to_cosine_hemisphere(sample2)
        found = dr.zeros(mi.BSDFSample3f)
        found.wo = frame.to_world(dr.select(sample1 < self.glossy(v, metallic), mi.reflect(v, half), matt))
        value, found.pdf = self.values(si, found.wo, active)
        found.eta = 1.0
        found.sampled_type = mi.UInt32(+mi.BSDFFlags.GlossyReflection)
        return found, value / found.pdf & (active & (found.pdf > 0))

    def to_string(self) -> str:
        return "GltfBSDF[]"


class DirectLight(mi.SamplingIntegrator):
    """Light that arrives without a reflection before, and what the surface emits. Without ``shadows`` nothing hides a light,
    as in a rasteriser without shadow maps."""

    def __init__(self, properties: mi.Properties):
        mi.SamplingIntegrator.__init__(self, properties)
        self.shadows = properties.get("shadows", True)
        self.emission = properties.get("emission")

    def sample(self, scene: Any, sampler: Any, ray: Any, medium: Any = None, active: Any = True) -> tuple:
        context = mi.BSDFContext()
        si = scene.ray_intersect(ray, active)
        hit = active & si.is_valid()
        bsdf = si.bsdf(ray)
        total = mi.Color3f(0)
        if self.emission is not None:
            total += mi.Color3f(self.emission.eval(si, hit)) & hit
        light, weight = scene.sample_emitter_direction(si, sampler.next_2d(hit), self.shadows, hit)
        value, density = bsdf.eval_pdf(context, si, si.to_local(light.d), hit)
        share = dr.select(light.delta, 1, balance(light.pdf, density))
        total += (value * weight * share) & (hit & (light.pdf > 0))
        sky = scene.environment()
        if sky is not None:
            chosen, weight = bsdf.sample(context, si, sampler.next_1d(hit), sampler.next_2d(hit), hit)
            away = si.spawn_ray(si.to_world(chosen.wo))
            free = hit & (chosen.pdf > 0)
            if self.shadows:
                free &= ~scene.ray_test(away, free)
            there = dr.zeros(mi.SurfaceInteraction3f)
            there.wi = -away.d
            seen = dr.zeros(mi.DirectionSample3f)
            seen.d = away.d
            share = balance(chosen.pdf, sky.pdf_direction(si, seen, free))
            total += (weight * sky.eval(there, free) * share) & free
        return total, hit, []

    def to_string(self) -> str:
        return "DirectLight[]"


def balance(a: Any, b: Any) -> Any:
    """Weight of a sample of density a where another way of sampling has density b."""
    return dr.select(a > 0, a / (a + b), 0)


mi.register_bsdf("gltf", GltfBSDF)
mi.register_integrator("direct_light", DirectLight)


def sun(towards: np.ndarray, irradiance: float) -> dict[str, Any]:
    direction = [-float(x) for x in towards]
    return {
        "type": "directional",
        "direction": direction,
        "irradiance": {"type": "rgb", "value": [irradiance] * 3},
    }


def sky(light: np.ndarray) -> dict[str, Any]:
    """An equirectangular map whose centre is -Z; in Mitsuba the left border is there. Its first and last rows are the poles,
    while those of the map are half a texel away."""
    height = len(light)
    rows = np.clip(np.linspace(-0.5, height - 0.5, height), 0, height - 1)
    low, part = np.floor(rows).astype(int), (rows % 1)[:, None, None]
    light = light[low] * (1 - part) + light[np.minimum(low + 1, height - 1)] * part
    half = mi.ScalarTransform4f().rotate([0, 1, 0], 180)
    return {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(light, np.float32)), "to_world": half}


def picture(
    model: Model, bsdf: dict[str, Any], light: dict[str, Any], integrator: dict[str, Any], camera: dict[str, Any],
    size: int, samples: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(H, W, 4) linear, and the standard error of each value by the halves of the samples. camera: eye, target, fov in degrees, near."""
    view = mi.ScalarTransform4f().look_at(
        origin=list(camera["eye"]), target=list(camera["target"]), up=[0, 1, 0]
    )
    scene = mi.load_dict({
        "type": "scene", "shape": shape(model, bsdf), "light": light, "integrator": integrator,
        "sensor": {
            "type": "perspective", "fov": camera["fov"], "to_world": view, "near_clip": camera["near"], "far_clip": 1e4,
            "film": {"type": "hdrfilm", "width": size, "height": size, "rfilter": {"type": "box"}, "pixel_format": "rgba"},
            "sampler": {"type": "independent"},
        },
    })  # fmt: skip
    # Parts keep the memory of a wavefront small.
    parts = 2 * math.ceil(samples * size * size / 2**22)
    drawn = [
        np.array(mi.render(scene, spp=max(1, samples // parts), seed=i), np.float64) for i in range(parts)
    ]
    first, second = (sum(drawn[k::2]) / (parts // 2) for k in range(2))
    return (first + second) / 2, np.abs(first - second) / 2
