"""Parts of glTF files in Mitsuba 3, for comparisons: their BSDF as a plugin, and meshes with the attributes that it reads."""

import math
from typing import Any

import drjit as dr
import numpy as np
from drjit_gltf import COAT, PBR, Surface, mi
from gltf_reader import Part

SURFACES: dict[str, Surface] = {}
"""Those that plugins refer to by name: properties hold no objects of Python."""


class GltfBSDF(mi.BSDF):
    """A ``Surface``, sampled by cosine, by visible GGX normals, and by those of the coat."""

    def __init__(self, properties: mi.Properties):
        mi.BSDF.__init__(self, properties)
        self.surface = SURFACES[properties["surface"]]
        self.coated = self.surface.part.value(COAT, None) is not None
        flags = mi.BSDFFlags.DiffuseReflection | mi.BSDFFlags.GlossyReflection | mi.BSDFFlags.SpatiallyVarying
        flags = flags | mi.BSDFFlags.FrontSide | mi.BSDFFlags.BackSide
        if self.surface.blends or self.surface.cuts:
            flags = flags | mi.BSDFFlags.Null
        self.m_components = [flags]
        self.m_flags = flags

    def lobes(self, si: Any, active: Any) -> list[tuple[Any, Any, Any]]:
        """Frames, alphas and shares of the lobes of GGX; what is left follows the cosine."""
        normal, coat_normal = self.surface.normals(si, active)
        view, each = si.to_world(si.wi), 0.3 if self.coated else 0.6
        found = [(mi.Frame3f(normal), self.surface.rough(si, active))]
        found += [(mi.Frame3f(coat_normal), self.surface.coat(si, active)[1])] if self.coated else []
        # None are visible where the normal of a map turns away.
        return [(frame, alpha, dr.select(dr.dot(frame.n, view) > 1e-4, each, 0.0)) for frame, alpha in found]

    def eval(self, context: Any, si: Any, wo: Any, active: Any = True) -> Any:
        return self.surface.reflected(si, si.to_world(wo), active) & mi.Bool(active)

    def pdf(self, context: Any, si: Any, wo: Any, active: Any = True) -> Any:
        view, light = si.to_world(si.wi), si.to_world(wo)
        lobes = self.lobes(si, active)
        rest, density = mi.Float(1), mi.Float(0)
        for frame, alpha, share in lobes:
            v, half = frame.to_local(view), frame.to_local(dr.normalize(view + light))
            facets = mi.MicrofacetDistribution(mi.MicrofacetType.GGX, alpha, True)
            density += share * facets.pdf(v, half) / (4 * dr.maximum(dr.dot(v, half), 1e-6))
            rest -= share
        density += rest * dr.maximum(dr.dot(lobes[0][0].n, light), 0) / math.pi
        return dr.select(mi.Bool(active), density, 0)

    def eval_pdf(self, context: Any, si: Any, wo: Any, active: Any = True) -> tuple[Any, Any]:
        return self.eval(context, si, wo, active), self.pdf(context, si, wo, active)

    def eval_null_transmission(self, si: Any, active: Any = True) -> Any:
        return mi.Color3f(1 - self.surface.alpha(si, active))

    def has_attribute(self, name: str, active: Any = True) -> Any:
        return name in ("emission", "roughness")

    def eval_attribute_3(self, name: str, si: Any, active: Any = True) -> Any:
        return mi.Color3f(self.surface.emitted(si, active)) & mi.Bool(active)

    def sample(
        self, context: Any, si: Any, sample1: Any, sample2: Any, active: Any = True
    ) -> tuple[Any, Any]:
        view, lobes = si.to_world(si.wi), self.lobes(si, active)
        direction = lobes[0][0].to_world(mi.warp.square_to_cosine_hemisphere(sample2))
        first = mi.Float(0)
        for frame, alpha, share in lobes:
            v = frame.to_local(view)
            half, _ = mi.MicrofacetDistribution(mi.MicrofacetType.GGX, alpha, True).sample(v, sample2)
            chosen = (sample1 >= first) & (sample1 < first + share)
            direction = dr.select(chosen, frame.to_world(mi.reflect(v, half)), direction)
            first += share
        found = dr.zeros(mi.BSDFSample3f)
        found.wo = si.to_local(direction)
        value, found.pdf = self.eval_pdf(context, si, found.wo, active)
        found.eta = 1.0
        found.sampled_type = mi.UInt32(+mi.BSDFFlags.GlossyReflection)
        return found, value / found.pdf & (mi.Bool(active) & (found.pdf > 0))

    def to_string(self) -> str:
        return "GltfBSDF[]"


mi.register_bsdf("gltf", GltfBSDF)


def shape(part: Part, number: int, bsdf: dict[str, Any] | None = None) -> mi.Mesh:
    """A part as a Mitsuba mesh, whose attributes of the vertices hold all but positions and normals."""
    name = f"{number} {part.name}"
    properties, count = mi.Properties(), len(part.positions)
    SURFACES[name] = Surface(part)
    properties["bsdf"] = mi.load_dict(bsdf or {"type": "gltf", "surface": name})
    mesh = mi.Mesh(
        name,
        count,
        len(part.faces),
        has_vertex_normals=True,
        has_vertex_texcoords=bool(part.uvs),
        props=properties,
    )
    attributes = {"colour": part.colours} | {
        f"uv{k}": np.pad(uv, ((0, 0), (0, 1))) for k, uv in enumerate(part.uvs)
    }
    if part.tangents is not None:
        attributes |= {"tangent": part.tangents[:, :3], "sign": np.repeat(part.tangents[:, 3:], 3, axis=1)}
    for key, rows in attributes.items():
        mesh.add_attribute(f"vertex_{key}", 3, rows.astype(np.float32).ravel())
    values = mi.traverse(mesh)
    values["vertex_positions"] = part.positions.astype(np.float32).ravel()
    values["vertex_normals"] = part.normals.astype(np.float32).ravel()
    if part.uvs:
        values["vertex_texcoords"] = part.uvs[0].astype(np.float32).ravel()
    values["faces"] = part.faces.astype(np.uint32).ravel()
    values.update()
    return mesh


def principled(part: Part) -> dict[str, Any]:
    """Mitsuba's own ``principled`` in ``normalmap``, without emission: its parameters have the names of glTF's, its formulas are
    others."""

    def texture(path: str, raw: bool, channels: slice) -> dict[str, Any]:
        pixels = np.ascontiguousarray(part.textures[path].pixels[..., channels])
        return {"type": "bitmap", "bitmap": mi.Bitmap(pixels), "raw": raw}

    both = f"{PBR}/metallicRoughnessTexture"
    found = {
        "type": "principled", "base_color": texture(f"{PBR}/baseColorTexture", False, slice(0, 3)), "specular": 0.5,
        "roughness": texture(both, True, slice(1, 2)), "metallic": texture(both, True, slice(2, 3)),
    }  # fmt: skip
    if "normalTexture" in part.textures:
        normals = texture("normalTexture", True, slice(0, 3))
        found = {"type": "normalmap", "normalmap": normals, "bsdf": found}
    return {"type": "twosided", "bsdf": found}
