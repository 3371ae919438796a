"""The properties of glTF 2.0 materials."""

from __future__ import annotations

from math import inf

from ...ad.types import VEC3
from .learned import Radiance, Share, Tilt
from .parameter import BaseColour, Map, MaterialKind, Modulated, Normals, Occlusion, Parameter

PBR = "pbrMetallicRoughness"
COAT = "extensions/KHR_materials_clearcoat"
SPECULAR = "extensions/KHR_materials_specular"
THROUGH = "extensions/KHR_materials_transmission"
SHEEN = "extensions/KHR_materials_sheen"
GLOW = "extensions/KHR_materials_emissive_strength/emissiveStrength"
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
BOTH = Map("metallic_roughness", f"{PBR}/metallicRoughnessTexture", "bg")

GLTF = MaterialKind(
    "glTF 2.0",
    (
        BaseColour(
            "base", VEC3, WHITE, "colour, linear",
            key=f"{PBR}/baseColorFactor", map=Map("texture", f"{PBR}/baseColorTexture", "rgb", light=True),
            learned=Share(0.15, 1e-6, "albedo"),
        ),
        Parameter(
            "metallic", default=0.0, text="0 for a dielectric, 1 for a metal", optional=False,
            key=f"{PBR}/metallicFactor", file_default=1.0, map=BOTH, column=0, mtl="Pm", mtl_map="map_Pm",
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "roughness", default=1.0, text="perceptual: GGX has alpha = roughness**2", optional=False,
            key=f"{PBR}/roughnessFactor", file_default=1.0, map=BOTH, column=1, mtl="Pr", mtl_map="map_Pr",
            learned=Share(0.1, 4e-6),
        ),
        Normals(
            "normal", VEC3, 1.0, "normals in tangent space, x along the tangent (u grows), y along the bitangent (+Y up as in"
            " OpenGL and glTF), z along the normal; the scale multiplies x and y",
            least=-inf, most=inf, factor="normal_scale", key="normalTexture/scale",
            map=Map("normal", "normalTexture", "rgb", signed=True), mtl_map="norm",
            learned=Tilt(0.002, 2e-4),
        ),
        Occlusion(
            "occlusion", default=1.0, text="share of the ambient light that arrives: 1 + strength * (occlusion - 1)",
            factor="occlusion_strength", key="occlusionTexture/strength", map=Map("occlusion", "occlusionTexture", "r"),
        ),
        Parameter(
            "emission", VEC3, BLACK, "linear radiance that the surface gives off", most=inf,
            key="emissiveFactor", strength=GLOW, map=Map("emission_map", "emissiveTexture", "rgb", light=True, most=inf),
            mtl="Ke", mtl_map="map_Ke",
            learned=Radiance(0.1, 4e-6),
        ),
        Modulated(
            "alpha", default=0.5, text="that of the base colour, factor included; \"mask\" cuts out where it is below the cutoff",
            most=inf, factor="alpha_cutoff", key="alphaCutoff", map=Map("alpha", f"{PBR}/baseColorTexture", "a"),
        ),
        Parameter(
            "ior", default=1.5, most=inf, text="index of refraction of dielectrics; 0 reflects all",
            key="extensions/KHR_materials_ior/ior",
        ),
        Parameter(
            "specular", default=1.0, text="strength of the reflection of dielectrics",
            key=f"{SPECULAR}/specularFactor", map=Map("specular_map", f"{SPECULAR}/specularTexture", "a"),
        ),
        Parameter(
            "specular_color", VEC3, WHITE, "colour of the reflection of dielectrics at normal incidence, linear", most=inf,
            key=f"{SPECULAR}/specularColorFactor",
            map=Map("specular_color_map", f"{SPECULAR}/specularColorTexture", "rgb", light=True),
        ),
        Parameter(
            "transmission", text="share of the light that enters and goes straight through, tinted by the base colour",
            key=f"{THROUGH}/transmissionFactor", map=Map("transmission_map", f"{THROUGH}/transmissionTexture", "r"),
        ),
        Parameter(
            "clearcoat", text="strength of a clear layer of index 1.5 on top",
            key=f"{COAT}/clearcoatFactor", map=Map("clearcoat_map", f"{COAT}/clearcoatTexture", "r"), mtl="Pc",
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "clearcoat_roughness", text="of the clear layer", needs="clearcoat", mtl="Pcr",
            key=f"{COAT}/clearcoatRoughnessFactor",
            map=Map("clearcoat_roughness_map", f"{COAT}/clearcoatRoughnessTexture", "g"),
            learned=Share(0.1, 4e-6),
        ),
        Normals(
            "clearcoat_normal", VEC3, 1.0, "normals of the clear layer, as the normal map; without it, those of the geometry",
            least=-inf, most=inf, factor="clearcoat_normal_scale", key=f"{COAT}/clearcoatNormalTexture/scale",
            map=Map("clearcoat_normal", f"{COAT}/clearcoatNormalTexture", "rgb", signed=True), needs="clearcoat",
        ),
        Parameter(
            "sheen", VEC3, BLACK, "colour of the retro-reflection of cloth, linear", factor="sheen_color",
            key=f"{SHEEN}/sheenColorFactor",
            map=Map("sheen_color_map", f"{SHEEN}/sheenColorTexture", "rgb", light=True),
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "sheen_roughness", text="of the sheen", needs="sheen", key=f"{SHEEN}/sheenRoughnessFactor",
            map=Map("sheen_roughness_map", f"{SHEEN}/sheenRoughnessTexture", "a"),
            learned=Share(0.1, 4e-6),
        ),
    ),
)  # fmt: skip
