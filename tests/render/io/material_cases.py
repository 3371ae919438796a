"""A material with everything, and small glTF files with textures."""

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dressi.render import Material, srgb_to_linear
from dressi.render.core.materials import GLTF, Placement


def full_material() -> Material:
    """Every field is other than its default, every map has a size of its own and values of 8 bits."""
    random = np.random.default_rng(5)

    def codes(*shape: int) -> np.ndarray:
        return random.integers(0, 256, shape) / 255

    normal = np.array([0.5, 0.5, 1.0]) + random.uniform(-0.2, 0.2, (5, 3, 3)) * (1, 1, 0)
    # Rows of the table that are not named below.
    others = {name: (0.375,) * 3 if np.ndim(row.default) else 0.375 for name, row in GLTF.factors.items()}
    named = {
        "metallic": 0.75,
        "roughness": 0.5,
        "metallic_roughness": codes(3, 5, 2),
        "normal": 2 * np.round(normal * 255) / 255 - 1,
        "normal_scale": 1.5,
        "occlusion": codes(2, 7),
        "occlusion_strength": 0.25,
        "emission": (0.0, 2.0, 4.0),
        "emission_map": srgb_to_linear(codes(1, 1, 3)),
        "alpha": codes(4, 4),
        "alpha_mode": "mask",
        "alpha_cutoff": 0.25,
        "double_sided": True,
        "clearcoat": 0.5,
        "clearcoat_roughness": 0.125,
        "clearcoat_map": codes(2, 3),
        "clearcoat_roughness_map": codes(3, 2),
        "sheen_color": (0.25, 0.5, 1.0),
        "sheen_roughness": 0.75,
        "sheen_color_map": srgb_to_linear(codes(2, 2, 3)),
        "sheen_roughness_map": codes(5, 1),
        "specular": 0.5,
        "specular_map": codes(4, 3),
        "specular_color": (0.5, 1.0, 0.25),
        "specular_color_map": srgb_to_linear(codes(3, 4, 3)),
        "transmission": 0.375,
        "transmission_map": codes(2, 6),
        "clearcoat_normal": 2 * np.round(normal[:2] * 255) / 255 - 1,
        "clearcoat_normal_scale": 0.5,
        "unlit": True,
        "placements": {
            "occlusion": Placement(0, ((0.0, 2.0), (-1.0, 0.0)), (0.25, 0.5), ("repeat", "mirror")),
            "normal": Placement(0, ((2.0, 0.0), (0.0, 3.0))),
            "clearcoat_map": Placement(wrap=("clamp", "clamp")),
        },
        "wrap": ("mirror", "clamp"),
        "name": "everything",
    }
    return Material(**others | named)


def png(codes: np.ndarray) -> bytes:
    """A PNG of code values: uint8 (H, W), (H, W, 3) or (H, W, 4), or uint16 (H, W)."""
    stream = io.BytesIO()
    Image.fromarray(codes).save(stream, "PNG")
    return stream.getvalue()


def textured_gltf(
    path: Path,
    images: list[bytes],
    material: dict[str, Any] | None,
    change: Callable[[dict[str, Any]], object] = lambda document: None,
    uvs: Any = ((0, 0), (1, 0), (1, 1), (0, 1)),
) -> Path:
    """Write a .gltf of a square with one texture an image; a second set of UVs is turned by half a turn."""
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "<f4")
    uvs = np.array(uvs, "<f4")
    parts = [points, uvs, 1 - uvs, np.array([0, 1, 2, 0, 2, 3], "<u2")]
    views, data = [], b""
    for part in parts:
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": part.nbytes})
        data += part.tobytes()
    kinds = [(5126, 4, "VEC3"), (5126, 4, "VEC2"), (5126, 4, "VEC2"), (5123, 6, "SCALAR")]
    primitive: dict[str, Any] = {
        "attributes": {"POSITION": 0, "TEXCOORD_0": 1, "TEXCOORD_1": 2},
        "indices": 3,
    }
    document: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": len(data), "uri": _data(data)}],
        "bufferViews": views,
        "accessors": [
            {"bufferView": i, "componentType": component, "count": count, "type": kind}
            for i, (component, count, kind) in enumerate(kinds)
        ],
        "meshes": [{"primitives": [primitive]}],
        "nodes": [{"mesh": 0}],
        "images": [{"uri": _data(image), "name": f"picture{i}"} for i, image in enumerate(images)],
        "textures": [{"source": i} for i in range(len(images))],
    }
    if material is not None:
        document["materials"] = [material]
        primitive["material"] = 0
    change(document)
    path.write_text(json.dumps(document))
    return path


def _data(content: bytes) -> str:
    return "data:;base64," + base64.b64encode(content).decode()
