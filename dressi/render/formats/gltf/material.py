"""The materials of a glTF file: base colour, metallic-roughness maps and the layers that extensions add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....errors import shown
from ...core.materials import GLTF, Map, Placement, range_text
from ...io.files import Damaged
from ...io.images import resize
from ...io.pixels import Pixels, decode_pixels
from ...mesh import Material
from .document import GLOSSY, Document

_WRAPS = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
NEAREST = (9728, 9984, 9986)
"""Filters that take one texel, of samplers."""
BASE = GLTF["base"].image
UNLIT = "extensions/KHR_materials_unlit"
GLOSS = f"extensions/{GLOSSY}"
DIELECTRIC = 0.04
"""Reflectance of what is no metal."""


def metallic_of(diffuse: np.ndarray, specular: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(..., 3) base colours and (...) metallic of linear colours (..., 3), as Khronos converts them
    (glTF, KHR_materials_pbrSpecularGlossiness, examples/convert-between-workflows): metallic solves the
    quadratic equation that both models have in common for brightness.

    >>> [part.round(3).tolist() for part in metallic_of(np.array([0.5, 0, 0]), np.full(3, 0.04))]
    [[0.5, 0.0, 0.0], 0.0]
    """
    light = np.array([0.299, 0.587, 0.114], diffuse.dtype)
    matte, gloss = (np.sqrt((color * color) @ light) for color in (diffuse, specular))
    left = (1 - specular.max(-1)) / (1 - DIELECTRIC)
    half = (matte * left + gloss) / (2 * DIELECTRIC) - 1
    # Brightnesses below that of a dielectric would make the root imaginary.
    root = np.sqrt(half * half + np.maximum(gloss / DIELECTRIC - 1, 0))
    metallic = np.where(gloss < DIELECTRIC, 0.0, np.clip(root - half, 0, 1))
    share = metallic[..., None]
    dull = diffuse * left[..., None] / np.maximum(1 - share, 1e-6)
    bright = (specular - DIELECTRIC * (1 - share)) / np.maximum(share, 1e-6)
    return np.clip(dull + share**2 * (bright - dull), 0, 1), metallic


class Materials:
    """The materials of a document; methods raise InputError."""

    def __init__(self, document: Document):
        self.document = document
        self._pixels: dict[int, Pixels] = {}
        self._entries: dict[int, dict[str, Any]] = {}

    def entry(self, index: int) -> dict[str, Any]:
        """A material of the file, of metallic and roughness."""
        if index not in self._entries:
            entry = self.document.item("materials", index)
            self._entries[index] = self._unglossed(entry, index) if _inner(entry, GLOSS) else entry
        return self._entries[index]

    def _unglossed(self, entry: dict[str, Any], index: int) -> dict[str, Any]:
        """A material with KHR_materials_pbrSpecularGlossiness by ``metallic_of``, texel by texel."""
        document, gloss = self.document, entry["extensions"][GLOSSY]
        diffuse, specular, shine = (
            self._numbers(entry, f"{GLOSS}/{key}", np.ones(count)).astype(np.float32)
            for key, count in (("diffuseFactor", 4), ("specularFactor", 3), ("glossinessFactor", 1))
        )
        names = ("diffuseTexture", "specularGlossinessTexture")
        given = {name: gloss[name] for name in names if name in gloss}
        frames = [Frame.read(document, one) for one in given.values()]
        if len(frames) == 2 and not frames[0].is_same(frames[1]):
            document.warn(
                f"has a {names[1]} of '{self.name(index)}' with other UVs than its {names[0]}; it was left"
                " out"
            )
            del given[names[1]]
        images = {name: pixels.linear() for name, one in given.items() if (pixels := self.image(one, name))}
        size = tuple(np.max([image.shape[1::-1] for image in images.values()], axis=0)) if images else (1, 1)
        rows = [np.ones((size[1], size[0], 4), np.float32) for _ in names]
        for row, name in zip(rows, names, strict=True):
            if name in images:
                image = resize(images[name], size)
                row[..., : 3 if image.shape[-1] == 1 else image.shape[-1]] = image
        base, metallic = metallic_of(rows[0][..., :3] * diffuse[:3], rows[1][..., :3] * specular)
        surface: dict[str, Any] = {"baseColorFactor": [*base[0, 0].tolist(), float(diffuse[3])]}
        rough = np.stack([np.ones_like(metallic), 1 - rows[1][..., 3] * shine, metallic], axis=-1)
        own = given[next(iter(images))] if images else {}
        if images:
            surface["baseColorFactor"][:3] = [1.0] * 3
            base = np.concatenate([base, rows[0][..., 3:]], axis=-1)
            surface["baseColorTexture"] = self._made(own, base)
        if np.ptp(rough, axis=(0, 1)).any():
            surface["metallicRoughnessTexture"] = self._made(own, (rough * 65535 + 0.5).astype(np.uint16))
        else:
            surface |= {"roughnessFactor": float(rough[0, 0, 1]), "metallicFactor": float(rough[0, 0, 2])}
        return entry | {"pbrMetallicRoughness": surface}

    def _made(self, reference: dict[str, Any], values: np.ndarray) -> dict[str, Any]:
        """A reference like another, to a texture of these pixels."""
        images, textures = (self.document.json.setdefault(kind, []) for kind in ("images", "textures"))
        self._pixels[len(images)] = Pixels(values)
        textures.append(self.document.item("textures", reference["index"]) | {"source": len(images)})
        images.append({})
        return reference | {"index": len(textures) - 1}

    def slots(self, index: int | None) -> dict[str, dict[str, Any]]:
        """References to textures by slots, in the table's order. The first determines the UVs of the mesh."""
        if index is None:
            return {}
        entry = self.entry(index)
        slots = dict.fromkeys(row.map.slot for row in GLTF.parameters if row.map is not None)
        return {slot: inner for slot in slots if (inner := _inner(entry, slot)) is not None}

    def frame(self, index: int | None) -> Frame:
        """The UVs that become those of the mesh: of the base colour where it has a texture."""
        frame = next((Frame.read(self.document, slot) for slot in self.slots(index).values()), Frame())
        # A matrix that brings all UVs onto a line has no inverse.
        return Frame(frame.uv_set) if abs(np.linalg.det(frame.matrix)) <= 1e-12 else frame

    def second(self, index: int | None) -> int | None:
        """The other set of UVs that maps of a material use, the first of several."""
        base = self.frame(index).uv_set
        sets = [Frame.read(self.document, slot).uv_set for slot in self.slots(index).values()]
        return next((uv_set for uv_set in sets if uv_set != base), None)

    def factor(self, index: int | None) -> np.ndarray:
        """(4,) linear base colour and alpha."""
        if index is None:
            return np.ones(4)
        entry = self.entry(index)
        return self._numbers(entry, GLTF["base"].key, (1.0, 1.0, 1.0, 1.0))

    def differ(self, used: list[int | None]) -> bool:
        """Whether materials have maps, or differ in more than the base colour."""
        factors = [{} if index is None else self.factors(index) for index in used]
        return any(self.slots(index) for index in used) or any(one != factors[0] for one in factors)

    def chosen(self, used: list[int | None]) -> int | None:
        """The material of the mesh: the first with a base colour texture, else with any texture, else the
        first.

        Warns when textures of others, or factors that differ, are left out."""
        given = [index for index in dict.fromkeys(used) if index is not None]
        textured = [index for index in given if BASE.slot in self.slots(index)]
        first = next(iter(textured or [i for i in given if self.slots(i)] or given), None)
        if len(textured) > 1:
            self.document.warn(
                f"has {len(textured)} textured materials; only the first texture is used, and load_scene"
                " keeps all"
            )
        if first is not None:
            own = self.factors(first)
            others = [self.factors(index) for index in given if index != first]
            differ = sorted({name for other in others for name in own if other[name] != own[name]})
            if differ:
                self.document.warn(
                    f"has {len(given)} materials that differ in {', '.join(differ)}; those of"
                    f" '{self.name(first)}' are used for all; load_scene keeps materials apart"
                )
        return first

    def name(self, index: int) -> str:
        """What the file calls a material."""
        return shown(self.document.item("materials", index).get("name") or f"material {index}")

    def factors(self, index: int) -> dict[str, Any]:
        """All numbers of a material but the base colour, as fields of `Material`."""
        entry = self.entry(index)
        factors: dict[str, Any] = {}
        for what, row in GLTF.factors.items():
            default = row.default if row.file_default is None else row.file_default
            values = self._numbers(entry, row.key, np.atleast_1d(default), row.least, row.most)
            if row.strength:
                values = values * self._numbers(entry, row.strength, (1.0,), most=np.inf)
            factors[what] = tuple(values.tolist()) if np.ndim(row.default) else float(values[0])
        sides = entry.get("doubleSided", False)
        if not isinstance(sides, bool):
            raise Damaged(f"doubleSided must be true or false, not {shown(sides)}")
        return factors | {"double_sided": sides, "unlit": _inner(entry, UNLIT) is not None}

    def _numbers(
        self, entry: dict[str, Any], path: str, default: Sequence[float] | np.ndarray, least=0.0, most=1.0
    ) -> np.ndarray:
        place, _, key = path.rpartition("/")
        inner = (_inner(entry, place) if place else entry) or {}
        if len(default) == 1 and key in inner:
            inner = {key: [inner[key]]}
        values = self.document.numbers(inner, key, tuple(default))
        if not ((values >= least) & (values <= most)).all():
            given = values.tolist() if len(values) > 1 else values[0]
            raise Damaged(f"{key} {given} is not in {range_text(least, most)}")
        return values

    # ---- with maps

    def read(
        self, index: int, uvs: np.ndarray | None, second: np.ndarray | None = None
    ) -> tuple[np.ndarray | None, Material]:
        """The linear base colour texture (H, W, 3) or None, and everything else of a material.

        uvs: (U, 2) of the mesh in the frame of ``frame``.  second: of the set ``second``. Maps without theirs
        are left out with a warning.
        """
        slots = self.slots(index)
        if slots and uvs is None:
            names = ", ".join(map(_name, slots))
            self.document.warn(
                f"has no UVs for {names} of '{self.name(index)}'; textures were left out, and factors kept"
            )
        samplers = [self._sampler(slot) for slot in slots.values()] if uvs is not None else []
        if any(s.get(key) in NEAREST for s in samplers for key in ("magFilter", "minFilter")):
            self.document.warn(
                f"has textures of '{self.name(index)}' whose sampler takes the nearest texel (NEAREST), which"
                " is not read here; texels are interpolated"
            )
        maps, places = ({}, {}) if uvs is None else self._maps(index, slots, second is not None)
        texture, alpha = maps.pop("texture", None), maps.pop("alpha", None)
        material = Material(
            **self.factors(index),
            **maps,
            **self._cut(index, alpha),
            placements=places,
            wrap=next((self._wrap(slot) for slot in slots.values()), ("repeat", "repeat")),
            name=self.name(index),
        )
        return texture, material.validate()

    def _maps(
        self, index: int, slots: dict[str, dict[str, Any]], second: bool
    ) -> tuple[dict[str, np.ndarray], dict[str, Placement]]:
        """The maps by their fields, and where those lie that do not lie at the UVs as they are."""
        base, other = self.frame(index), self.second(index)
        wrap = next((self._wrap(slot) for slot in slots.values()), None)
        maps: dict[str, np.ndarray] = {}
        places: dict[str, Placement] = {}
        for slot, reference in slots.items():
            frame, name = Frame.read(self.document, reference), _name(slot)
            is_other = frame.uv_set != base.uv_set
            if is_other and (frame.uv_set != other or not second):
                self.document.warn(
                    f"has a {name} with the UVs TEXCOORD_{frame.uv_set}, and a mesh has no such set here"
                    f" beside TEXCOORD_{base.uv_set}; this map was left out"
                )
                continue
            pixels = self.image(reference, name)
            if pixels is None:
                continue
            matrix, offset = frame.after(Frame() if is_other else base)
            (a, b), (c, d) = matrix.tolist()
            (x, y), own = offset.tolist(), self._wrap(reference)
            place = Placement(int(is_other), ((a, b), (c, d)), (x, y), None if own == wrap else own)
            for image in (BASE, *GLTF.maps.values()):
                values = _channels(image, pixels) if image.slot == slot else None
                if values is not None:
                    maps[image.field] = (
                        turned_normals(values, matrix) if image.signed and place.moves else values
                    )
                    if place != Placement():
                        places[image.field] = place
        return maps, places

    def _cut(self, index: int, alpha: np.ndarray | None) -> dict[str, Any]:
        """alpha: (H, W) of the base colour texture."""
        mode = self.entry(index).get("alphaMode", "OPAQUE")
        if mode not in ("OPAQUE", "MASK", "BLEND"):
            raise Damaged(f"alphaMode is {shown(mode)}, not OPAQUE, MASK or BLEND")
        factor = np.float32(self.factor(index)[3])
        alpha = np.full((1, 1), factor) if alpha is None else alpha * factor
        # Exporters write BLEND for materials that are opaque.
        if mode == "OPAQUE" or (mode == "BLEND" and alpha.min() == 1):
            return {}
        return {"alpha": alpha, "alpha_mode": mode.lower()}

    def _wrap(self, reference: dict[str, Any]) -> tuple[str, str]:
        """Of a reference to a texture, along u and v."""
        entry = self._sampler(reference)
        modes = [entry.get(key, 10497) for key in ("wrapS", "wrapT")]
        if not all(type(mode) is int and mode in _WRAPS for mode in modes):
            raise Damaged(f"a sampler wraps by {shown(modes)}, which glTF lacks")
        return _WRAPS[modes[0]], _WRAPS[modes[1]]

    def _sampler(self, reference: dict[str, Any]) -> dict[str, Any]:
        sampler = self.document.item("textures", reference["index"]).get("sampler")
        return {} if sampler is None else self.document.item("samplers", sampler)

    def image(self, reference: dict[str, Any], slot: str) -> Pixels | None:
        """The pixels of a texture; None with a warning when it is of no kind that is read."""
        texture = self.document.item("textures", reference["index"])
        webp = texture.get("extensions", {}).get("EXT_texture_webp", {}).get("source")
        source = texture.get("source", webp)
        if source is None:
            self.document.warn(f"has a {slot} that is not a PNG, JPEG or WebP image and was left out")
            return None
        entry = self.document.item("images", source)
        if source not in self._pixels:
            data = (
                self.document.uri(entry["uri"])
                if "uri" in entry
                else self.document.view(entry["bufferView"])[0]
            )
            called = f" {shown(entry['name'])}" if "name" in entry else ""
            name = f"{self.document.path}: image {source}{called} ({slot})"
            self._pixels[source] = decode_pixels(bytes(data), name)
        return self._pixels[source]


def _inner(entry: dict[str, Any], path: str) -> Any:
    """What stands at keys joined by "/"; None where there is nothing."""
    inner: Any = entry
    for key in path.split("/"):
        inner = None if inner is None else inner.get(key)
    return inner


def _name(slot: str) -> str:
    return slot.rpartition("/")[2]


def _channels(image: Map, pixels: Pixels) -> np.ndarray | None:
    """A map of one image, which may hold several; None without its channels. Grey counts as any colour."""
    values = pixels.linear() if image.light else pixels.codes()
    values = np.repeat(values, 3, axis=-1) if values.shape[-1] == 1 else values
    if max(image.columns) >= values.shape[-1]:
        return None
    values = values[..., image.columns[0] if image.width == 0 else image.columns]
    return 2 * values - 1 if image.signed else np.ascontiguousarray(values)


# Which UVs a texture of a glTF file uses, and where maps then lie.


@dataclass(frozen=True, eq=False)
class Frame:
    """A set of UVs and what KHR_texture_transform does to them: ``uv @ matrix.T + offset``."""

    uv_set: int = 0
    matrix: np.ndarray = field(default_factory=lambda: np.eye(2))
    offset: np.ndarray = field(default_factory=lambda: np.zeros(2))

    @staticmethod
    def read(document: Document, reference: dict[str, Any]) -> Frame:
        """That of a reference to a texture. Raises InputError for numbers that are none."""
        transform = reference.get("extensions", {}).get("KHR_texture_transform", {})
        uv_set = document.whole({"texCoord": 0, **reference, **transform}, "texCoord")
        angle = document.number(transform, "rotation", 0.0)
        c, s = np.cos(angle), np.sin(angle)
        # Scale, then rotate, then shift.
        matrix = np.array([[c, s], [-s, c]]) * document.numbers(transform, "scale", (1.0, 1.0))
        return Frame(uv_set, matrix, document.numbers(transform, "offset", (0.0, 0.0)))

    def apply(self, uvs: np.ndarray) -> np.ndarray:
        """(n, 2) of the file to those that look up texels."""
        return uvs @ self.matrix.T + self.offset

    def is_same(self, other: Frame) -> bool:
        """Whether texels lie at the same places."""
        parts = (self.matrix, other.matrix), (self.offset, other.offset)
        return self.uv_set == other.uv_set and all(np.array_equal(*pair) for pair in parts)

    def is_upright(self) -> bool:
        """Whether u and v grow in the directions of the file's: there is no rotation or mirror."""
        scale = np.diag(self.matrix)
        return bool((scale > 0).all() and np.allclose(self.matrix, np.diag(scale)))

    def after(self, base: Frame) -> tuple[np.ndarray, np.ndarray]:
        """(2, 2) and (2,) from the UVs of another frame of the same set to those of this one."""
        matrix = self.matrix @ np.linalg.inv(base.matrix)
        return np.round(matrix, 12) + 0.0, np.round(self.offset - matrix @ base.offset, 12) + 0.0


def transform_entry(matrix: np.ndarray, offset: np.ndarray) -> dict[str, Any] | None:
    """KHR_texture_transform of a motion of UVs; None for one that shears, which it cannot say.

    >>> transform_entry(np.diag([2.0, 1.0]), np.zeros(2))
    {'scale': [2.0, 1.0]}
    """
    across = float(np.hypot(*matrix[:, 0]))
    c, s = (matrix[0, 0] / across, -matrix[1, 0] / across) if across else (1.0, 0.0)
    down = s * matrix[0, 1] + c * matrix[1, 1]
    if not np.allclose(np.array([[c, s], [-s, c]]) * (across, down), matrix, atol=1e-6):
        return None
    angle, entry = float(np.arctan2(s, c)), {}
    if offset.any():
        entry["offset"] = offset.tolist()
    if angle:
        entry["rotation"] = angle
    if (across, down) != (1.0, 1.0):
        entry["scale"] = [across, float(down)]
    return entry


def turned_normals(normal: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Normals (H, W, 3) along the tangents of the map's UVs as those along the tangents of the mesh's UVs: x
    and y are rotated or mirrored as the matrix (2, 2) does, without its scale."""
    left, _, right = np.linalg.svd(turn)
    back = (left @ right).T  # the inverse of the rotation or mirror; v points down, y up
    x, y = normal[..., 0], -normal[..., 1]
    return np.stack(
        [back[0, 0] * x + back[0, 1] * y, -(back[1, 0] * x + back[1, 1] * y), normal[..., 2]], axis=-1
    ).astype(normal.dtype)
