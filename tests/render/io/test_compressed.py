"""glTF files that Draco or meshoptimizer packed: they are the same meshes, or one sentence."""

import base64
import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dressi.errors import InputError
from dressi.render import load_mesh, primitives

MESH = primitives.icosphere(1)
POINTS, FACES = MESH.positions.astype("<f4"), MESH.faces.astype("<u4")
COLOURS = np.random.default_rng(0).integers(0, 256, (len(POINTS), 4)).astype("<u1")
COLOURS[:, 3] = 255
DRACO, MESHOPT = "KHR_draco_mesh_compression", "EXT_meshopt_compression"


def packed(name: str) -> tuple[list[bytes], dict]:
    """The parts of the buffer, and the document without it."""
    accessors = [
        {"componentType": kind, "count": count, "type": form, "normalized": kind == 5121}
        for kind, count, form in (
            (5126, len(POINTS), "VEC3"),
            (5121, len(POINTS), "VEC4"),
            (5125, FACES.size, "SCALAR"),
        )
    ]
    entry = {"attributes": {"POSITION": 0, "COLOR_0": 1}, "indices": 2}
    views = []
    if name == DRACO:
        draco = pytest.importorskip("DracoPy")
        extra = {3: POINTS, 5: COLOURS}
        parts = [draco.encode(POINTS, FACES, preserve_order=True, generic_attributes=extra)]
        entry["extensions"] = {DRACO: {"bufferView": 0, "attributes": {"POSITION": 3, "COLOR_0": 5}}}
        views = [{"buffer": 0, "byteLength": len(parts[0])}]
    else:
        meshopt = pytest.importorskip("meshopt")
        encode = meshopt.encode_gltf_buffer
        rows = [(POINTS, 12, "ATTRIBUTES"), (COLOURS, 4, "ATTRIBUTES"), (FACES.reshape(-1), 4, "TRIANGLES")]
        parts = [encode(values, mode) for values, _, mode in rows]
        for k, (values, stride, mode) in enumerate(rows):
            place = {"buffer": 0, "byteOffset": sum(map(len, parts[:k])), "byteLength": len(parts[k])}
            own = place | {"byteStride": stride, "count": len(values), "mode": mode}
            views.append({"buffer": 1, "byteLength": values.nbytes, "extensions": {MESHOPT: own}})
            accessors[k]["bufferView"] = k
        # Directions as octahedra, as gltfpack writes normals.
        entry["attributes"]["NORMAL"] = 3
        directions = np.c_[POINTS, np.ones(len(POINTS))].astype("<f4")
        parts.append(encode(meshopt.encode_filter_oct(directions, 4, 8), "ATTRIBUTES"))
        place = {"buffer": 0, "byteOffset": sum(map(len, parts[:3])), "byteLength": len(parts[3])}
        own = place | {"byteStride": 4, "count": len(POINTS), "mode": "ATTRIBUTES", "filter": "OCTAHEDRAL"}
        views.append({"buffer": 1, "byteLength": 4 * len(POINTS), "extensions": {MESHOPT: own}})
        accessors.append(accessors[1] | {"bufferView": 3, "componentType": 5120, "type": "VEC3"})
    return parts, {
        "asset": {"version": "2.0"}, "extensionsRequired": [name], "meshes": [{"primitives": [entry]}],
        "accessors": accessors, "bufferViews": views,
    }  # fmt: skip


def write(path, parts, document):
    data = b"".join(parts)
    uri = f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"
    unpacked = {"byteLength": 1 << 20, "extensions": {MESHOPT: {"fallback": True}}}
    document["buffers"] = [{"byteLength": len(data), "uri": uri}, unpacked]
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", [DRACO, MESHOPT])
def test_packed_meshes_are_the_same(tmp_path, name):
    mesh = load_mesh(write(tmp_path / "a.gltf", *packed(name)))
    rows = np.lexsort(mesh.positions.T), np.lexsort(POINTS.T)
    assert_allclose(mesh.positions[rows[0]], POINTS[rows[1]], atol=1e-6)
    assert_allclose(mesh.vertex_colors()[rows[0]], COLOURS[rows[1], :3] / 255, atol=1e-6)
    if name == MESHOPT:
        smooth = np.zeros_like(mesh.positions)
        smooth[mesh.faces] = mesh.normals[mesh.normal_faces]
        assert_allclose(smooth, mesh.positions, atol=0.02)  # of a ball
    corners = np.sort(mesh.positions[mesh.faces].reshape(-1, 9).sum(1))
    assert_allclose(corners, np.sort(POINTS[FACES].reshape(-1, 9).sum(1)), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [DRACO, MESHOPT])
def test_packed_meshes_that_cannot_be_read_are_one_sentence(tmp_path, monkeypatch, name):
    parts, document = packed(name)
    random = np.random.default_rng(1)
    refused = 0
    for _ in range(60):
        broken = bytearray(parts[0])
        for at in random.integers(0, len(broken), 4):
            broken[at] = random.integers(256)
        path = write(tmp_path / "a.gltf", [bytes(broken), *parts[1:]], document)
        try:
            load_mesh(path)
        except InputError as error:
            refused += 1
            assert "a.gltf" in str(error) and "\n" not in str(error)
    assert refused > 5
    document["accessors"][0]["count"] -= 1
    with pytest.raises(InputError, match=r"a\.gltf': "):
        load_mesh(write(tmp_path / "a.gltf", parts, document))
    document["accessors"][0]["count"] += 1
    library = {DRACO: "DracoPy", MESHOPT: "meshopt"}[name]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError, match=rf"needs the library {library}: pip install 'dressi\[compression\]'"
    ):
        load_mesh(write(tmp_path / "a.gltf", parts, document))


def test_a_copy_that_is_not_packed_needs_no_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshopt", None)
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    parts = [POINTS.tobytes(), FACES.tobytes()]
    packed = {MESHOPT: {"buffer": 0, "byteLength": 1, "byteStride": 12, "count": 1, "mode": "ATTRIBUTES"}}
    views = [
        {"buffer": 0, "byteLength": len(parts[0]), "extensions": packed},
        {"buffer": 0, "byteOffset": len(parts[0]), "byteLength": len(parts[1])},
    ]
    accessors = [
        {"bufferView": 0, "componentType": 5126, "count": len(POINTS), "type": "VEC3"},
        {"bufferView": 1, "componentType": 5125, "count": FACES.size, "type": "SCALAR"},
    ]
    entry = {"attributes": {"POSITION": 0}, "indices": 1}
    entry["extensions"] = {DRACO: {"bufferView": 0, "attributes": {"POSITION": 0}}}
    document = {
        "asset": {"version": "2.0"}, "extensionsUsed": [MESHOPT, DRACO], "meshes": [{"primitives": [entry]}],
        "accessors": accessors, "bufferViews": views,
    }  # fmt: skip
    mesh = load_mesh(write(tmp_path / "a.gltf", parts, document))
    assert_array_equal(np.sort(mesh.positions, axis=0), np.sort(POINTS, axis=0))
