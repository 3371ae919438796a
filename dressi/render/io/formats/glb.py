"""glTF 2.0 out: one self-contained GLB."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from dressi.render.io.files import write_files
from dressi.render.io.formats.gltf_document import BINARY_CHUNK, JSON_CHUNK, MAGIC
from dressi.render.io.images import encode_png
from dressi.render.mesh import Mesh


def save_glb(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write one self-contained GLB: split at seams, normals, UVs, vertex colours (``COLOR_0``, linear floats), albedo as
    an 8-bit sRGB PNG; rough dielectric.

    The file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> open(path, "rb").read(4)
    b'glTF'
    """
    split = mesh.validate().split_at_seams(normals=True)
    views: list[bytes] = [
        split.positions.astype("<f4").tobytes(),
        np.asarray(split.normals, dtype="<f4").tobytes(),
    ]
    positions = split.positions.astype(np.float32)
    accessors: list[dict[str, Any]] = [
        {"bufferView": 0, "componentType": 5126, "count": len(positions), "type": "VEC3",
         "min": positions.min(0).tolist(), "max": positions.max(0).tolist()},
        {"bufferView": 1, "componentType": 5126, "count": len(positions), "type": "VEC3"},
    ]  # fmt: skip
    attributes = {"POSITION": 0, "NORMAL": 1}
    if split.uvs is not None:
        attributes["TEXCOORD_0"] = len(accessors)
        accessors.append(
            {"bufferView": len(views), "componentType": 5126, "count": len(positions), "type": "VEC2"}
        )
        views.append(split.uvs.astype("<f4").tobytes())
    if split.colors is not None:
        attributes["COLOR_0"] = len(accessors)
        accessors.append(
            {"bufferView": len(views), "componentType": 5126, "count": len(positions), "type": "VEC3"}
        )
        views.append(split.colors.astype("<f4").tobytes())
    small = len(positions) < 65535
    accessors.append(
        {
            "bufferView": len(views),
            "componentType": 5123 if small else 5125,
            "count": split.faces.size,
            "type": "SCALAR",
        }
    )
    index_view = len(views)
    views.append(split.faces.astype("<u2" if small else "<u4").tobytes())
    material: dict[str, Any] = {
        "name": mesh.name,
        "pbrMetallicRoughness": {
            "baseColorFactor": [*(float(min(max(c, 0.0), 1.0)) for c in mesh.color), 1.0],
            "metallicFactor": 0.0,
            "roughnessFactor": 1.0,
        },
    }
    document: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "dressi"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "name": mesh.name}],
        "meshes": [
            {
                "primitives": [
                    {"attributes": attributes, "indices": len(accessors) - 1, "material": 0, "mode": 4}
                ]
            }
        ],
        "materials": [material],
        "accessors": accessors,
    }
    if mesh.texture is not None and split.uvs is not None:
        material["pbrMetallicRoughness"]["baseColorTexture"] = {"index": 0}
        document["textures"] = [{"source": 0, "sampler": 0}]
        document["samplers"] = [{"magFilter": 9729, "minFilter": 9729, "wrapS": 10497, "wrapT": 10497}]
        document["images"] = [{"bufferView": len(views), "mimeType": "image/png"}]
        views.append(encode_png(mesh.texture))
    binary, entries = b"", []
    for i, view in enumerate(views):
        entry: dict[str, Any] = {"buffer": 0, "byteOffset": len(binary), "byteLength": len(view)}
        if i <= index_view:
            entry["target"] = 34963 if i == index_view else 34962
        entries.append(entry)
        binary += view + b"\0" * (-len(view) % 4)
    document["bufferViews"] = entries
    document["buffers"] = [{"byteLength": len(binary)}]
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + len(binary)
    data = struct.pack("<III", MAGIC, 2, total) + struct.pack("<II", len(text), JSON_CHUNK) + text
    write_files({Path(path): data + struct.pack("<II", len(binary), BINARY_CHUNK) + binary})
