"""glTF 2.0 out: one self-contained GLB."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from dressi.render.io.files import write_files
from dressi.render.io.formats.glb_material import material_entries
from dressi.render.io.formats.gltf_document import BINARY_CHUNK, JSON_CHUNK, MAGIC
from dressi.render.mesh import Mesh


def save_glb(path: str | os.PathLike, mesh: Mesh, *, normal_bits: int = 8) -> None:
    """Write one self-contained GLB: split at seams, normals, UVs, vertex colours (``COLOR_0``, linear floats), albedo as
    an 8-bit sRGB PNG, and the material with its maps as 8-bit PNGs; a rough dielectric without one. A mesh with a normal map
    gets its `tangents` (``TANGENT``).

    normal_bits: of the normal map, 8 or 16; 16 needs OpenCV.  Emission above 1 is written by an extension, as are clearcoat
    and sheen. The file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> open(path, "rb").read(4)
    b'glTF'
    """
    mesh.validate()
    entries = material_entries(mesh, normal_bits=normal_bits)
    bumpy = mesh.uvs is not None and mesh.material is not None and mesh.material.normal is not None
    split = mesh.split_at_seams(normals=True, tangents=bumpy)
    columns: dict[str, tuple[np.ndarray | None, str]] = {
        "POSITION": (split.positions, "VEC3"),
        "NORMAL": (split.normals, "VEC3"),
        "TANGENT": (split.tangents, "VEC4"),
        "TEXCOORD_0": (split.uvs, "VEC2"),
        "COLOR_0": (split.colors, "VEC3"),
    }
    views: list[bytes] = []
    accessors: list[dict[str, Any]] = []
    attributes: dict[str, int] = {}
    for name, (values, kind) in columns.items():
        if values is not None:
            attributes[name] = len(accessors)
            accessors.append(
                {"bufferView": len(views), "componentType": 5126, "count": len(values), "type": kind}
            )
            views.append(values.astype("<f4").tobytes())
    positions = split.positions.astype(np.float32)
    accessors[0] |= {"min": positions.min(0).tolist(), "max": positions.max(0).tolist()}
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
        "materials": [entries.entry],
        "accessors": accessors,
    }
    wrap = ("repeat", "repeat") if mesh.material is None else mesh.material.wrap
    document |= entries.textures(wrap, len(views))
    views += entries.images
    if entries.extensions:
        document["extensionsUsed"] = entries.extensions
    write_files({Path(path): _file(document, views, index_view)})


def _file(document: dict[str, Any], views: list[bytes], index_view: int) -> bytes:
    """A GLB; the views up to that of the indices are of vertices, those behind it images."""
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
    return data + struct.pack("<II", len(binary), BINARY_CHUNK) + binary
