"""The maps that a material fit optimises: their parameters, their ranges, and what they become at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ...io.images import resize
from ...mesh import Mesh
from ...mesh.material import Material
from ...surface.color import linear_to_srgb, srgb_to_linear
from ...surface.transfer import decoded
from ..textures.charts import charted, dilated
from ..textures.pyramid import Pyramid

LEAST = 0.02
"""Distance from the ends of [0, 1] at which maps start: at the ends a sigmoid has no derivative."""
WEIGHTS = {"albedo": 1e-6, "normal": 2e-4, "roughness": 4e-6, "metallic": 4e-6, "emission": 4e-6}
"""Weights of the sums of squared differences of neighbouring texels."""
RATES = {"albedo": 0.15, "normal": 0.002, "roughness": 0.1, "metallic": 0.1, "emission": 0.1}
"""Learning rates of Adam at the first step; albedo, roughness and metallic are logits."""


class Maps:
    """The optimised maps of a mesh. parts: names of them.  size: (W, H).

    ``given`` are Variables by the names of ``render``'s material, and "texture"; ``pyramids`` hold the parameters, by part.
    Albedo (as sRGB codes), roughness and metallic are sigmoids of their parameters, so that they stay in [0, 1]. Normals are
    those of the mesh, tilted by two parameters and normalised. Emission is squared.
    """

    def __init__(self, mesh: Mesh, parts: tuple[str, ...], size: tuple[int, int]):
        self.mesh, self.size = mesh, size
        material = mesh.material or Material()
        self.pyramids: dict[str, Pyramid] = {}
        self.given: dict[str, Variable] = {}
        self.values: dict[str, Variable] = {}
        """What is read at the end, by part: codes of albedo, normals and factors as they are."""
        if "albedo" in parts:
            self.values["albedo"] = F.sigmoid(self._learn("albedo", _logit(self._codes())))
            self.given["texture"] = decoded(self.values["albedo"])
        if "normal" in parts:
            start = _image(material.normal, (0.0, 0.0, 1.0), size)
            tilt = self._learn("normal", start[..., :2] / np.maximum(start[..., 2:], 0.1))
            self.values["normal"] = self.given["normal"] = F.normalize(F.vec3(tilt, 1.0))
        both = _image(material.metallic_roughness, (1.0, 1.0), size)
        for k, (part, factor) in enumerate(
            (("metallic", material.metallic), ("roughness", material.roughness))
        ):
            if part in parts:
                values = F.sigmoid(self._learn(part, _logit(both[..., k : k + 1] * factor)))
                self.values[part] = self.given[part] = values
        if "emission" in parts:
            start = _image(material.emission_map, (1.0, 1.0, 1.0), size) * material.emission
            root = self._learn("emission", np.sqrt(np.maximum(start, 1e-3)))
            self.values["emission"] = self.given["emission"] = root * root

    def _learn(self, part: str, start: np.ndarray) -> Variable:
        self.pyramids[part] = Pyramid(self.size, start, part)
        return self.pyramids[part].texture

    def _codes(self) -> np.ndarray:
        """(H, W, 3) sRGB codes of the base colour, factor included."""
        start = _image(self.mesh.texture, (1.0, 1.0, 1.0), self.size)
        return linear_to_srgb(start * np.asarray(self.mesh.color))


def with_maps(base: Mesh, values: Mapping[str, np.ndarray], size: tuple[int, int]) -> Mesh:
    """The mesh with maps of ``size`` (W, H), ``values`` by part as (1, H, W, ...); texels outside of all charts are filled.
    Values of other names are left out."""
    mesh = replace(base, material=replace(base.material or Material()))
    inside = charted(mesh, size)
    found = {
        part: dilated(np.asarray(values[part], np.float64)[0], inside) for part in RATES if part in values
    }
    material = mesh.material
    assert material is not None
    if "albedo" in found:
        mesh.texture, mesh.color = srgb_to_linear(np.clip(found["albedo"], 0, 1)), (1.0, 1.0, 1.0)
    if "normal" in found:
        material.normal, material.normal_scale = found["normal"], 1.0
    if found.keys() & {"metallic", "roughness"}:
        both = _image(material.metallic_roughness, (1.0, 1.0), size)
        both = both * (material.metallic, material.roughness)
        for k, part in enumerate(("metallic", "roughness")):
            both[..., k] = np.clip(found.get(part, both[..., k]), 0, 1)
        material.metallic_roughness, material.metallic, material.roughness = both, 1.0, 1.0
    if "emission" in found:
        material.emission, material.emission_map = (1.0, 1.0, 1.0), found["emission"]
    return mesh


def _image(values: np.ndarray | None, default: tuple[float, ...], size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) of a map, resampled, or of its default."""
    if values is None:
        return np.broadcast_to(np.asarray(default), (size[1], size[0], len(default))).copy()
    return resize(np.asarray(values, np.float64), size)


def _logit(values: np.ndarray) -> np.ndarray:
    inside = np.clip(values, LEAST, 1 - LEAST)
    return np.log(inside / (1 - inside))
