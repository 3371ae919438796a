"""The materials of a glTF file: base colour, metallic-roughness maps and the layers that extensions add."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import shown
from dressi.render.io.formats.gltf_document import Document
from dressi.render.io.formats.gltf_frame import Frame, resampled, turned_normals
from dressi.render.io.pixels import Pixels, decode_pixels
from dressi.render.mesh import Material

_WRAPS = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_SLOTS = (
    "baseColorTexture", "normalTexture", "metallicRoughnessTexture", "occlusionTexture", "emissiveTexture",
    "clearcoatTexture", "clearcoatRoughnessTexture",
)  # fmt: skip
"""The textures that are read. The first that a material has determines the UVs of the mesh."""
_CLEARCOAT, _SHEEN = "KHR_materials_clearcoat", "KHR_materials_sheen"
_STRENGTH = "KHR_materials_emissive_strength"


class Materials:
    """The materials of a document; methods raise InputError naming the file."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path
        self._pixels: dict[int, Pixels] = {}

    def slots(self, index: int | None) -> dict[str, dict[str, Any]]:
        """References to textures by slot, in the order of ``_SLOTS``."""
        if index is None:
            return {}
        entry = self.document.item("materials", index)
        found = {**entry, **entry.get("pbrMetallicRoughness", {})}
        found.update(entry.get("extensions", {}).get(_CLEARCOAT, {}))
        return {slot: found[slot] for slot in _SLOTS if found.get(slot) is not None}

    def frame(self, index: int | None) -> Frame:
        """The UVs that become those of the mesh: of the base colour where it has a texture."""
        return next((Frame.read(self.document, slot) for slot in self.slots(index).values()), Frame())

    def factor(self, index: int | None) -> np.ndarray:
        """(4,) linear base colour and alpha."""
        if index is None:
            return np.ones(4)
        shading = self.document.item("materials", index).get("pbrMetallicRoughness", {})
        return self._numbers(shading, "baseColorFactor", (1.0, 1.0, 1.0, 1.0))

    def chosen(self, used: list[int | None]) -> int | None:
        """The material of the mesh: the first with a base colour texture, else with any texture, else the first.

        Warns when textures of others, or factors that differ, are left out."""
        found = [index for index in dict.fromkeys(used) if index is not None]
        textured = [index for index in found if "baseColorTexture" in self.slots(index)]
        first = next(iter(textured or [i for i in found if self.slots(i)] or found), None)
        if len(textured) > 1:
            self._warn(f"has {len(textured)} textured materials; only the first texture is used")
        if first is not None:
            others = [self.factors(index) for index in found if index != first]
            own = self.factors(first)
            differ = sorted({name for other in others for name in own if other[name] != own[name]})
            if differ:
                self._warn(
                    f"has {len(found)} materials that differ in {', '.join(differ)}; those of"
                    f" '{self.name(first)}' are used for all"
                )
        return first

    def name(self, index: int) -> str:
        """What the file calls a material."""
        return shown(self.document.item("materials", index).get("name") or f"material {index}")

    def factors(self, index: int) -> dict[str, Any]:
        """All numbers of a material but the base colour, as fields of `Material`."""
        entry = self.document.item("materials", index)
        shading, layers = entry.get("pbrMetallicRoughness", {}), entry.get("extensions", {})
        coat, sheen = layers.get(_CLEARCOAT, {}), layers.get(_SHEEN, {})
        strength = self._number(layers.get(_STRENGTH, {}), "emissiveStrength", 1.0, np.inf)
        glow = self._numbers(entry, "emissiveFactor", (0.0, 0.0, 0.0), np.inf) * strength
        sides = entry.get("doubleSided", False)
        if not isinstance(sides, bool):
            raise InputError(
                f"'{self.path}': doubleSided must be true or false, not {shown(sides)}; export it again"
            )
        return {
            "metallic": self._number(shading, "metallicFactor", 1.0),
            "roughness": self._number(shading, "roughnessFactor", 1.0),
            "normal_scale": self.document.number(entry.get("normalTexture", {}), "scale", 1.0),
            "occlusion_strength": self._number(entry.get("occlusionTexture", {}), "strength", 1.0),
            "emission": tuple(glow.tolist()),
            "double_sided": sides,
            "clearcoat": self._number(coat, "clearcoatFactor", 0.0),
            "clearcoat_roughness": self._number(coat, "clearcoatRoughnessFactor", 0.0),
            "sheen_color": tuple(self._numbers(sheen, "sheenColorFactor", (0.0, 0.0, 0.0)).tolist()),
            "sheen_roughness": self._number(sheen, "sheenRoughnessFactor", 0.0),
        }

    def _number(self, entry: dict[str, Any], key: str, default: float, most: float = 1.0) -> float:
        return float(self._numbers({key: [entry.get(key, default)]}, key, (default,), most)[0])

    def _numbers(
        self, entry: dict[str, Any], key: str, default: tuple[float, ...], most: float = 1.0
    ) -> np.ndarray:
        values = self.document.numbers(entry, key, default)
        if not ((values >= 0) & (values <= most)).all():
            given = values.tolist() if len(values) > 1 else values[0]
            within = "[0, 1]" if most == 1 else "[0, infinity)"
            raise InputError(f"'{self.path}': {key} {given} is not in {within}; export it again")
        return values

    # ---- with maps

    def read(self, index: int, uvs: np.ndarray | None) -> tuple[np.ndarray | None, Material]:
        """The linear base colour texture (H, W, 3) or None, and everything else of a material.

        uvs: (U, 2) of the mesh in the frame of ``frame``; None: maps are left out with a warning.
        """
        slots = self.slots(index)
        if slots and uvs is None:
            self._warn(
                f"has no UVs for {', '.join(slots)} of '{self.name(index)}'; textures were left out, and factors kept"
            )
        wrap = self._wrap(index)
        maps = {} if uvs is None else self._maps(index, slots, uvs, wrap)
        texture, alpha = maps.pop("texture", None), maps.pop("alpha", None)
        material = Material(
            **self.factors(index),
            **maps,
            **self._cut(index, alpha),
            wrap=self._wrap(index),
            name=self.name(index),
        )
        self._left_out(index)
        try:
            return texture, material.validate()
        except InputError as error:
            raise InputError(f"'{self.path}': {error}") from None

    def _maps(
        self, index: int, slots: dict[str, dict[str, Any]], uvs: np.ndarray, wrap: tuple[str, str]
    ) -> dict[str, np.ndarray]:
        base = self.frame(index)
        found: dict[str, np.ndarray] = {}
        for slot, reference in slots.items():
            frame = Frame.read(self.document, reference)
            if frame.uv_set != base.uv_set:
                self._warn(
                    f"has a {slot} with the UVs TEXCOORD_{frame.uv_set}, and a mesh has one set of UVs here"
                    f" (TEXCOORD_{base.uv_set}); this map was left out"
                )
                continue
            pixels = self.image(reference, slot)
            if pixels is None:
                continue
            turn = frame.after(base)
            for name, values in _channels(slot, pixels).items():
                if turn is None:
                    found[name] = values
                    continue
                values = resampled(values, turn, wrap, uvs)
                if values is None:
                    self._warn(
                        f"has a {slot} with a texture transform of its own that does not repeat with the UVs of the mesh;"
                        " this map was left out"
                    )
                    break
                found[name] = turned_normals(values, turn) if name == "normal" else values
        return found

    def _cut(self, index: int, alpha: np.ndarray | None) -> dict[str, Any]:
        """alpha: (H, W) of the base colour texture."""
        entry = self.document.item("materials", index)
        mode = entry.get("alphaMode", "OPAQUE")
        if mode not in ("OPAQUE", "MASK", "BLEND"):
            raise InputError(
                f"'{self.path}': alphaMode is {shown(mode)}, not OPAQUE, MASK or BLEND; export it again"
            )
        factor = np.float32(self.factor(index)[3])
        alpha = np.full((1, 1), factor) if alpha is None else alpha * factor
        # Exporters write BLEND for materials that are opaque.
        if mode == "OPAQUE" or (mode == "BLEND" and alpha.min() == 1):
            return {}
        if mode == "BLEND":
            self._warn("is blended by alpha, which is not drawn here; it is cut out where alpha is below 0.5")
            return {"alpha": alpha, "alpha_mode": "mask"}
        cutoff = self._number(entry, "alphaCutoff", 0.5, np.inf)
        return {"alpha": alpha, "alpha_mode": "mask", "alpha_cutoff": cutoff}

    def _wrap(self, index: int) -> tuple[str, str]:
        found = []
        for reference in self.slots(index).values():
            sampler = self.document.item("textures", reference["index"]).get("sampler")
            entry = {} if sampler is None else self.document.item("samplers", sampler)
            modes = [entry.get(key, 10497) for key in ("wrapS", "wrapT")]
            if not all(type(mode) is int and mode in _WRAPS for mode in modes):
                raise InputError(
                    f"'{self.path}': a sampler wraps by {shown(modes)}, which glTF lacks; export it again"
                )
            found.append((_WRAPS[modes[0]], _WRAPS[modes[1]]))
        if len(set(found)) > 1:
            self._warn(f"has textures that wrap in different ways; all {'/'.join(found[0])} along u/v here")
        return found[0] if found else ("repeat", "repeat")

    def image(self, reference: dict[str, Any], slot: str) -> Pixels | None:
        """The pixels of a texture; None with a warning when it is of no kind that is read."""
        texture = self.document.item("textures", reference["index"])
        source = texture.get(
            "source", texture.get("extensions", {}).get("EXT_texture_webp", {}).get("source")
        )
        if source is None:
            self._warn(f"has a {slot} that is not a PNG, JPEG or WebP image and was left out")
            return None
        entry = self.document.item("images", source)
        if source not in self._pixels:
            data = (
                self.document.uri(entry["uri"])
                if "uri" in entry
                else self.document.view(entry["bufferView"])[0]
            )
            name = f" {shown(entry['name'])}" if "name" in entry else ""
            self._pixels[source] = decode_pixels(bytes(data), f"{self.path}: image {source}{name} ({slot})")
        return self._pixels[source]

    def _left_out(self, index: int) -> None:
        """Warn of textures and layers of a material that are not read."""
        layers = self.document.item("materials", index).get("extensions", {})
        unread = [
            key
            for name in (_CLEARCOAT, _SHEEN)
            for key in ("clearcoatNormalTexture", "sheenColorTexture", "sheenRoughnessTexture")
            if key in layers.get(name, {})
        ]
        if unread:
            self._warn(f"has {', '.join(unread)}, which are not read; factors are used alone")

    def _warn(self, text: str) -> None:
        warnings.warn(f"'{self.path}' {text}", stacklevel=8)


def _channels(slot: str, pixels: Pixels) -> dict[str, np.ndarray]:
    """Maps by their fields of `Material` that one image holds; "texture" is the base colour. Grey counts as each of
    red, green and blue."""
    light = slot in ("baseColorTexture", "emissiveTexture")
    values = pixels.linear() if light else pixels.codes()
    rgb = np.repeat(values, 3, axis=-1) if values.shape[-1] == 1 else values[..., :3]
    match slot:
        case "baseColorTexture":
            alpha = {"alpha": values[..., 3]} if values.shape[-1] == 4 else {}
            return {"texture": rgb, **alpha}
        case "normalTexture":
            return {"normal": 2 * rgb - 1}
        case "metallicRoughnessTexture":
            return {"metallic_roughness": np.ascontiguousarray(rgb[..., [2, 1]])}
        case "occlusionTexture":
            return {"occlusion": np.ascontiguousarray(rgb[..., 0])}
        case "emissiveTexture":
            return {"emission_map": rgb}
        case "clearcoatTexture":
            return {"clearcoat_map": np.ascontiguousarray(rgb[..., 0])}
        case _:
            return {"clearcoat_roughness_map": np.ascontiguousarray(rgb[..., 1])}
