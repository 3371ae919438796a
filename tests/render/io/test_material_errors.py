"""Textures with transforms of their own, several materials, and glTF materials that are wrong."""

import json
import struct
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hostile_files import deep_png
from material_cases import full_material, png, textured_gltf

from dressi.errors import InputError
from dressi.render.formats import load_mesh, save_glb
from dressi.render.formats.gltf.frame import turned_normals
from dressi.render.mesh.material import bilinear
from dressi.render.mesh.primitives import pear

NOISE = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
CODES = NOISE / np.float32(255)


def loaded(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_mesh(path)


def two_maps(base, own, **more):
    """A material whose occlusion has a transform of its own."""
    return {
        "pbrMetallicRoughness": {"baseColorTexture": {"index": 0, **transform(base)}},
        "occlusionTexture": {"index": 0, **transform(own), **more},
    }


def transform(values):
    return {"extensions": {"KHR_texture_transform": values}} if values else {}


class TestTransforms:
    def test_one_transform_for_all_goes_into_the_uvs(self, tmp_path):
        values = {"scale": [2, 3], "offset": [0.25, 0.5], "rotation": 0.3}
        mesh = loaded(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], two_maps(values, values)))
        np.testing.assert_array_equal(mesh.material.occlusion, CODES[..., 0])
        c, s = np.cos(0.3), np.sin(0.3)
        expected = np.array([[0, 0], [2, 0], [2, 3], [0, 3]]) @ np.array([[c, -s], [s, c]]) + (0.25, 0.5)
        np.testing.assert_allclose(mesh.uvs[mesh.uv_faces[0]], expected[:3], atol=1e-6)

    def test_maps_with_their_own_keep_it(self, tmp_path):
        """Relative to that of the base colour, which goes into the UVs."""
        own = {"scale": [2, -1], "rotation": np.pi / 2, "offset": [0.5, 0.25]}
        path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], two_maps({"scale": [0.5, 1]}, own))
        mesh = loaded(path)
        np.testing.assert_array_equal(mesh.material.occlusion, CODES[..., 0])
        place = mesh.material.place("occlusion")
        np.testing.assert_allclose(place.matrix, [[0, -1], [-4, 0]], atol=1e-9)
        assert place.offset == (0.5, 0.25) and mesh.uvs.max(0).tolist() == [0.5, 1]
        save_glb(tmp_path / "a.glb", mesh)
        again = loaded(tmp_path / "a.glb").material.place("occlusion")
        np.testing.assert_allclose(again.matrix, place.matrix, atol=1e-6)

    def test_another_set_of_uvs(self, tmp_path):
        path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], two_maps({}, {}, texCoord=1))
        mesh = loaded(path)
        assert mesh.material.place("occlusion").uv_set == 1
        np.testing.assert_allclose(mesh.second_uvs[mesh.second_uv_faces[0, 0]], [1, 1])

        def change(document):
            del document["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_1"]

        path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], two_maps({}, {}, texCoord=1), change)
        with pytest.warns(UserWarning, match="has a occlusionTexture with the UVs TEXCOORD_1"):
            assert load_mesh(path).material.maps() == ()
        alone = {"occlusionTexture": {"index": 0, "texCoord": 1}}
        mesh = loaded(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], alone))
        assert mesh.material.maps() == ("occlusion",) and mesh.uvs[mesh.uv_faces[0, 0]].tolist() == [1, 1]

    def test_normals_turn_with_their_map(self):
        """A map that is turned or mirrored has the same directions in space."""
        normal = np.array([[[0.6, 0.0, 0.8]]])
        quarter = np.array([[0.0, 1], [-1, 0]])  # the map's u is the mesh's v, which goes down
        np.testing.assert_allclose(
            turned_normals(normal, (quarter, np.zeros(2)))[0, 0], [0, -0.6, 0.8], atol=1e-12
        )
        mirror = np.diag([-2.0, 3.0])
        np.testing.assert_allclose(
            turned_normals(normal, (mirror, np.zeros(2)))[0, 0], [-0.6, 0, 0.8], atol=1e-12
        )

    def test_a_squeezed_frame_is_a_placement(self, tmp_path):
        path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], two_maps({"scale": [0, 1]}, {}))
        found = loaded(path).material
        assert found.place("texture").matrix == ((0, 0), (0, 1)) and not found.place("occlusion").moves


def mr(**values):
    return {"pbrMetallicRoughness": values}


WRONG = [
    (mr(roughnessFactor=3), r"roughnessFactor 3.0 is not in \[0, 1\]; export it again"),
    (mr(metallicFactor=-1), "metallicFactor -1.0 is not in"),
    (mr(metallicFactor="shiny"), "t.gltf"),
    (mr(metallicFactor=None), "t.gltf"),
    (mr(baseColorFactor=[1, 1, 1]), "baseColorFactor must be 4 finite numbers"),
    ({"emissiveFactor": [0, -1, 0]}, "emissiveFactor .* is not in"),
    ({"alphaMode": "GLASS"}, "alphaMode is GLASS, not OPAQUE"),
    ({"alphaMode": "MASK", "alphaCutoff": -1}, "alphaCutoff -1.0"),
    ({"doubleSided": 1}, "doubleSided must be true or false, not 1"),
    ({"normalTexture": {"index": 7}}, "refers to entry 7 of textures, which has 1"),
    ({"normalTexture": {}}, "KeyError: 'index'"),
    ({"normalTexture": {"index": 0}}, "normal map is no map of normals.*is it a colour picture"),
    ({"normalTexture": {"index": 0, "scale": [1]}}, "scale must be 1 finite numbers"),
    ({"occlusionTexture": {"index": 0, "strength": 2}}, "strength 2.0 is not in"),
    ({"occlusionTexture": {"index": 0, "texCoord": "x"}}, "texCoord must be a whole number"),
    ({"occlusionTexture": {"index": 0, **transform({"scale": [1]})}}, "scale must be 2 finite numbers"),
    ({"extensions": {"KHR_materials_clearcoat": {"clearcoatFactor": 2}}}, "clearcoatFactor 2.0"),
]  # fmt: skip


@pytest.mark.parametrize(("material", "words"), WRONG)
def test_wrong_materials_are_refused(tmp_path, material, words):
    with pytest.raises(InputError, match=rf"t\.gltf.*{words}|{words}") as caught:
        load_mesh(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material))
    assert "t.gltf" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("grey", [128, 0, 255])
def test_grey_normal_maps_are_refused(tmp_path, grey):
    image = png(np.full((4, 4), grey, np.uint8))
    with pytest.raises(InputError, match=r"t\.gltf.*normal map is all grey"):
        load_mesh(textured_gltf(tmp_path / "t.gltf", [image], {"normalTexture": {"index": 0}}))


def test_truncated_images_are_named(tmp_path):
    path = tmp_path / "a.glb"
    save_glb(path, pear(8, 6, 64))
    data = bytearray(path.read_bytes())
    start = data.index(b"\x89PNG")
    data[start + 60 : -4] = bytes(len(data) - start - 64)
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=r"image 'a.glb: image 0 \(baseColorTexture\)'|a\.glb: image 0 \(base"
    ):
        load_mesh(path)
    broken = deep_png()[:80]
    with pytest.raises(InputError, match=r"t\.gltf: image 0 picture0 \(normalTexture\)"):
        load_mesh(textured_gltf(tmp_path / "t.gltf", [broken], {"normalTexture": {"index": 0}}))


def test_missing_images_are_named(tmp_path):
    def change(document):
        document["images"] = [{"uri": "gone.png"}]

    path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], {"occlusionTexture": {"index": 0}}, change)
    with pytest.raises(InputError, match=r"no file '.*gone\.png'"):
        load_mesh(path)

    def no_source(document):
        document["textures"] = [{"extensions": {"KHR_texture_basisu": {"source": 0}}}]

    path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], {"occlusionTexture": {"index": 0}}, no_source)
    with pytest.warns(UserWarning, match="occlusionTexture that is not a PNG, JPEG or WebP"):
        assert load_mesh(path).material.maps() == ()


def test_extensions(tmp_path):
    def needs(document):
        document["extensionsRequired"] = ["KHR_materials_sheen", "KHR_materials_volume"]

    with pytest.raises(InputError, match=r"t\.gltf' needs KHR_materials_volume, which"):
        load_mesh(textured_gltf(tmp_path / "t.gltf", [], {}, needs))

    def uses(document):
        document["extensionsUsed"] = [
            "KHR_materials_clearcoat",
            "KHR_materials_dispersion",
            "KHR_lights_punctual",
        ]

    with pytest.warns(UserWarning, match="uses .*KHR_materials_dispersion, which") as caught:
        load_mesh(textured_gltf(tmp_path / "t.gltf", [], {}, uses))
    assert len(caught) == 1


def test_blended_and_unlit_materials(tmp_path):
    clear = mr(baseColorFactor=[1, 1, 1, 0.25]) | {
        "alphaMode": "BLEND",
        "extensions": {"KHR_materials_unlit": {}},
    }
    mesh = loaded(textured_gltf(tmp_path / "t.gltf", [], clear))
    save_glb(tmp_path / "a.glb", mesh)
    for found in (mesh.material, loaded(tmp_path / "a.glb").material):
        assert (found.alpha_mode, found.alpha.tolist(), found.unlit) == ("blend", [[0.25]], True)
    # A pane needs no texture coordinates.
    bare = replace(mesh, uvs=None, uv_faces=None)
    save_glb(tmp_path / "a.glb", bare)
    assert loaded(tmp_path / "a.glb").material.alpha_mode == "blend"
    opaque = mr(baseColorTexture={"index": 0}) | {"alphaMode": "BLEND"}
    assert loaded(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], opaque)).material.alpha_mode == "opaque"


def test_several_materials(tmp_path, monkeypatch):
    def change(document):
        primitive = document["meshes"][0]["primitives"][0]
        document["meshes"][0]["primitives"].append({**primitive, "material": 1})
        document["materials"].append(
            {"name": "chrome", "doubleSided": True} | mr(roughnessFactor=0.25, baseColorTexture={"index": 0})
        )

    path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], {"emissiveFactor": [1, 0, 0]}, change)
    with pytest.warns(
        UserWarning, match="2 materials differ in double_sided; those of 'chrome' are used for all"
    ):
        mesh = load_mesh(path)
    found = mesh.material
    assert found.double_sided and found.alpha is None
    # The first two faces are red light without a texture, the others have the texture and a roughness of its own.
    uv = mesh.uvs[mesh.uv_faces].mean(1)
    rough, light = (
        bilinear(image, uv, found.wrap) for image in (found.metallic_roughness[..., 1:], found.emission_map)
    )
    np.testing.assert_allclose(rough[:, 0] * found.roughness, [1, 1, 0.25, 0.25], atol=1e-6)
    np.testing.assert_allclose(light * found.emission, [[1, 0, 0]] * 2 + [[0, 0, 0]] * 2, atol=1e-6)
    monkeypatch.setattr("dressi.render.mesh.joining._MARGIN", 5000)  # too large for an atlas
    words = "materials that differ in double_sided, emission, roughness; those of 'chrome'"
    with pytest.warns(UserWarning, match=words):
        found = load_mesh(path).material
    assert (found.roughness, found.emission, found.double_sided) == (0.25, (0, 0, 0), True)


def test_maps_without_uvs_are_left_out(tmp_path):
    def change(document):
        del document["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_0"]

    material = {"normalTexture": {"index": 0}} | mr(roughnessFactor=0.5)
    with pytest.warns(UserWarning, match="has no UVs for normalTexture of 'material 0'"):
        found = load_mesh(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material, change)).material
    assert found.roughness == 0.5 and found.maps() == ()


class TestTangents:
    def write(self, tmp_path, values, node):
        mesh = pear(8, 6, 4)
        mesh.material = full_material()
        save_glb(tmp_path / "a.glb", mesh)
        data = (tmp_path / "a.glb").read_bytes()
        size = struct.unpack_from("<I", data, 12)[0]
        text = (
            data[20 : 20 + size].rstrip().replace(b'"nodes":[{"mesh":0', b'"nodes":[{' + node + b'"mesh":0')
        )
        text += b" " * (-len(text) % 4)
        rest = bytearray(data[20 + size :])
        if values is not None:
            document = json.loads(text)
            index = document["meshes"][0]["primitives"][0]["attributes"]["TANGENT"]
            start = 8 + document["bufferViews"][document["accessors"][index]["bufferView"]]["byteOffset"]
            rest[start : start + 16] = np.asarray(values, "<f4").tobytes()
        head = struct.pack("<IIIII", 0x46546C67, 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
        (tmp_path / "a.glb").write_bytes(head + text + rest)
        return mesh, tmp_path / "a.glb"

    @pytest.mark.parametrize(
        "node", [b"", b'"scale":[2,2,2],', b'"scale":[-1,1,1],', b'"rotation":[0,0,1,0],']
    )
    def test_of_the_file_follow_their_node(self, tmp_path, node):
        """They equal those that are computed after the node was placed, mirrors included."""
        _, path = self.write(tmp_path, None, node)
        mesh = loaded(path)
        given = mesh.tangents()
        computed = mesh.moved(mesh.positions)
        computed.normals, computed.normal_faces = mesh.normals, mesh.normal_faces
        found = computed.tangents()
        assert mesh.file_tangents is not None and computed.file_tangents is None
        np.testing.assert_allclose(given.values[given.faces], found.values[found.faces], atol=1e-5)

    @pytest.mark.parametrize("values", [[0, 0, 0, 1], [1, 0, 0, 0.5], [np.inf, 0, 0, 1]])
    def test_that_are_no_directions_are_computed(self, tmp_path, values):
        _, path = self.write(tmp_path, values, b"")
        with pytest.warns(UserWarning, match="TANGENT that is no direction"):
            assert load_mesh(path).file_tangents is None

    def test_without_a_normal_map_they_are_left_out(self, data):
        """The bitangents of this file point the other way."""
        mesh = loaded(data / "meshes" / "Suzanne_512.glb")
        assert mesh.file_tangents is None and mesh.tangents().values.shape[1] == 4
