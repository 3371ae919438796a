"""Materials in glTF files: every map and factor, in and out, and what is wrong with files."""

import io
import json
import struct
import warnings
from dataclasses import fields, replace

import numpy as np
import pygltflib
import pytest
import trimesh
from hostile_files import deep_png
from material_cases import full_material, png, textured_gltf
from PIL import Image

from dressi.errors import InputError
from dressi.render.formats import load_mesh, save_glb, save_mesh
from dressi.render.materials import GLTF, Placement
from dressi.render.mesh import Material
from dressi.render.mesh.primitives import pear
from dressi.render.surface.color import srgb_to_linear

FLAT = png(np.full((2, 2, 3), (128, 128, 255), np.uint8))
NOISE = np.random.default_rng(0).integers(0, 256, (4, 6, 4)).astype(np.uint8)
MAPS = tuple(GLTF.maps)


def quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_mesh(path)


def chunks(path):
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + size]), data[28 + size :]


def bumpy(material):
    mesh = pear(12, 8, 4)
    second = {"second_uvs": mesh.uvs * 0.5, "second_uv_faces": mesh.uv_faces}
    return replace(mesh, material=material, **second)


class TestRoundTrip:
    def test_every_field(self, tmp_path):
        before = full_material()
        before.placements |= {"clearcoat_roughness_map": Placement(1)}
        save_glb(tmp_path / "a.glb", bumpy(before))
        after = quietly(tmp_path / "a.glb").material
        for field in fields(Material):
            value, back = getattr(before, field.name), getattr(after, field.name)
            assert field.name in MAPS or value != field.default, "the test has a default"
            if field.name == "placements":
                assert back.keys() == value.keys()
                for what, place in value.items():
                    assert (back[what].uv_set, back[what].wrap) == (place.uv_set, place.wrap), what
                    np.testing.assert_allclose(back[what].matrix, place.matrix, atol=1e-6)
                    np.testing.assert_allclose(back[what].offset, place.offset, atol=1e-6)
            elif field.name in (*MAPS, "emission"):
                np.testing.assert_allclose(back, value, atol=1e-6, err_msg=field.name)
            else:
                assert back == value, field.name

    @pytest.mark.parametrize("name", ["Avocado", "BoomBox", "BarramundiFish", "Suzanne"])
    def test_real_files_keep_their_codes(self, tmp_path, data, name):
        before = quietly(data / "meshes" / f"{name}_512.glb")
        save_glb(tmp_path / "a.glb", before)
        after = quietly(tmp_path / "a.glb")
        assert repr(after.material) == repr(before.material) and before.material.metallic == 1
        assert "metallic_roughness" in before.material.maps()
        np.testing.assert_array_equal(after.texture, before.texture)
        for what in before.material.maps():
            np.testing.assert_array_equal(getattr(after.material, what), getattr(before.material, what))

    def test_a_mesh_without_material_is_a_rough_dielectric(self, tmp_path):
        save_glb(tmp_path / "a.glb", bumpy(None))
        found = quietly(tmp_path / "a.glb").material
        assert (found.metallic, found.roughness, found.maps()) == (0, 1, ())

    def test_normals_of_16_bits(self, tmp_path):
        normal = full_material().normal - 1e-4
        for bits, error in ((8, 1 / 255), (16, 1 / 65535)):
            save_glb(tmp_path / "a.glb", bumpy(Material(normal=normal)), normal_bits=bits)
            found = quietly(tmp_path / "a.glb").material.normal
            assert 0.02 * error < np.abs(found - normal).max() <= 1.01 * error

    def test_occlusion_of_equal_size_shares_the_image(self, tmp_path):
        random = np.random.default_rng(0)
        both, plane = random.integers(0, 256, (4, 4, 2)) / 255, random.integers(0, 256, (4, 4)) / 255
        material = Material(metallic_roughness=both, occlusion=plane)
        save_glb(tmp_path / "a.glb", replace(bumpy(material), texture=None))
        document, _ = chunks(tmp_path / "a.glb")
        assert len(document["images"]) == 1
        found = quietly(tmp_path / "a.glb").material
        np.testing.assert_allclose(found.metallic_roughness, both, atol=1e-6)
        np.testing.assert_allclose(found.occlusion, plane, atol=1e-6)

    def test_bright_emission_maps_keep_their_scale(self, tmp_path):
        glow = np.array([[[8.0, 2.0, 0.0]]])
        save_glb(tmp_path / "a.glb", bumpy(Material(emission=(0.5, 0.5, 0.5), emission_map=glow)))
        found = quietly(tmp_path / "a.glb").material
        np.testing.assert_allclose(found.emission * found.emission_map[0, 0], [4, 1, 0], rtol=0.02)


def test_the_file_follows_the_specification(tmp_path):
    """Alignment, bounds, MIME types and references, and other libraries read it."""
    path = tmp_path / "a.glb"
    save_glb(path, bumpy(full_material()))
    document, binary = chunks(path)
    assert len(path.read_bytes()) % 4 == 0 and len(binary) % 4 == 0
    used = {view["bufferView"] for kind in ("accessors", "images") for view in document[kind]}
    assert used == set(range(len(document["bufferViews"])))
    for view in document["bufferViews"]:
        assert view["byteOffset"] % 4 == 0 and view["byteOffset"] + view["byteLength"] <= len(binary)
    attributes = document["meshes"][0]["primitives"][0]["attributes"]
    assert set(attributes) == {"POSITION", "NORMAL", "TANGENT", "TEXCOORD_0", "TEXCOORD_1"}
    arrays = {
        name: np.frombuffer(
            binary, "<f4", document["accessors"][i]["count"] * {"VEC2": 2, "VEC3": 3, "VEC4": 4}[document["accessors"][i]["type"]],
            document["bufferViews"][document["accessors"][i]["bufferView"]]["byteOffset"],
        ).reshape(document["accessors"][i]["count"], -1)
        for name, i in attributes.items()
    }  # fmt: skip
    accessor = document["accessors"][attributes["POSITION"]]
    assert accessor["min"] == arrays["POSITION"].min(0).tolist()
    assert accessor["max"] == arrays["POSITION"].max(0).tolist()
    assert np.abs(np.linalg.norm(arrays["TANGENT"][:, :3], axis=1) - 1).max() < 1e-6
    assert np.abs((arrays["TANGENT"][:, :3] * arrays["NORMAL"]).sum(1)).max() < 1e-6
    assert set(np.abs(arrays["TANGENT"][:, 3])) == {1.0}
    for image in document["images"]:
        view = document["bufferViews"][image["bufferView"]]
        start = view["byteOffset"]
        assert image["mimeType"] == "image/png" and "target" not in view
        Image.open(io.BytesIO(binary[start : start + view["byteLength"]])).verify()
    wraps = [(sampler["wrapS"], sampler["wrapT"]) for sampler in document["samplers"]]
    assert wraps[0] == (33648, 33071) and len(set(wraps)) == len(wraps) == 3
    material = document["materials"][0]
    assert sorted(document["extensionsUsed"]) == sorted([*material["extensions"], "KHR_texture_transform"])
    assert max(material["emissiveFactor"]) <= 1 and material["alphaMode"] == "MASK"

    other = next(iter(trimesh.load(path).geometry.values())).visual.material
    assert (other.metallicFactor, other.roughnessFactor, other.doubleSided) == (0.75, 0.5, True)
    assert other.normalTexture.size == (3, 5) and other.alphaMode == "MASK"
    assert other.metallicRoughnessTexture.size == (5, 3) and other.emissiveTexture.size == (1, 1)
    found = pygltflib.GLTF2().load(str(path)).materials[0]
    assert found.normalTexture.scale == 1.5 and found.occlusionTexture.strength == 0.25
    assert found.extensions["KHR_materials_emissive_strength"]["emissiveStrength"] == 4


class TestIn:
    def test_defaults_of_the_standard(self, tmp_path):
        assert quietly(textured_gltf(tmp_path / "t.gltf", [], None)).material is None
        found = quietly(textured_gltf(tmp_path / "t.gltf", [], {})).material
        assert (found.metallic, found.roughness, found.emission, found.name) == (
            1,
            1,
            (0, 0, 0),
            "material 0",
        )
        assert (found.alpha_mode, found.double_sided, found.wrap) == ("opaque", False, ("repeat", "repeat"))

    def test_channels_and_colour_spaces(self, tmp_path):
        material = {
            "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicRoughnessTexture": {"index": 0}},
            "occlusionTexture": {"index": 0, "strength": 0.5}, "emissiveTexture": {"index": 0}, "emissiveFactor": [1, 0, 0],
            "alphaMode": "MASK",
        }  # fmt: skip
        mesh = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material))
        codes, found = NOISE / np.float32(255), mesh.material
        np.testing.assert_array_equal(found.metallic_roughness, codes[..., [2, 1]])
        np.testing.assert_array_equal(found.occlusion, codes[..., 0])
        np.testing.assert_array_equal(found.alpha, codes[..., 3])
        np.testing.assert_array_equal(found.emission_map, mesh.texture)
        assert found.occlusion_strength == 0.5 and found.alpha_cutoff == 0.5
        linear = np.where(codes < 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
        np.testing.assert_allclose(mesh.texture, linear[..., :3], atol=1e-6)

    @pytest.mark.parametrize("size", [(1, 1), (3, 5)])
    def test_grey_images_count_for_all_channels(self, tmp_path, size):
        grey = png(NOISE[: size[0], : size[1], 0])
        material = {
            "pbrMetallicRoughness": {
                "baseColorTexture": {"index": 0},
                "metallicRoughnessTexture": {"index": 0},
            },
            "occlusionTexture": {"index": 0},
        }
        found = quietly(textured_gltf(tmp_path / "t.gltf", [grey], material)).material
        codes = NOISE[: size[0], : size[1], :1] / np.float32(255)
        np.testing.assert_array_equal(found.metallic_roughness, codes.repeat(2, axis=-1))
        np.testing.assert_array_equal(found.occlusion, codes[..., 0])

    def test_images_of_16_bits(self, tmp_path):
        grey = np.array([[0, 300, 40001, 65535]], np.uint16)
        material = {"occlusionTexture": {"index": 0}}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [png(grey)], material)).material
        np.testing.assert_allclose(found.occlusion, grey / 65535, atol=1e-7)
        color = deep_png(np.array([[[32768, 32868, 65535]]], np.uint16))
        material = {"normalTexture": {"index": 0, "scale": -2}}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [color], material)).material
        np.testing.assert_allclose(
            found.normal[0, 0], np.array([32768, 32868, 65535]) / 32767.5 - 1, atol=1e-6
        )
        assert found.normal_scale == -2

    @pytest.mark.parametrize(
        ("modes", "wrap"), [((33071, 33648), ("clamp", "mirror")), ((10497, 33071), ("repeat", "clamp"))]
    )
    def test_wrap_modes(self, tmp_path, modes, wrap):
        def change(document):
            document["samplers"] = [{"wrapS": modes[0], "wrapT": modes[1]}]
            document["textures"][0]["sampler"] = 0

        material = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}
        mesh = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE), FLAT], material, change))
        assert mesh.material.wrap == wrap
        # Half a texel beyond the border: the texel at it, its mirror, or the one at the other end.
        beyond = mesh.sample_texture(np.array([-0.5 / 6, 2.5 / 4]))
        np.testing.assert_allclose(beyond, mesh.texture[2, -1 if wrap[0] == "repeat" else 0])
        material["normalTexture"] = {"index": 1}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE), FLAT], material, change)).material
        assert (found.wrap_of("texture"), found.wrap_of("normal")) == (wrap, ("repeat", "repeat"))

    def test_layers(self, tmp_path):
        material = {
            "extensions": {
                "KHR_materials_clearcoat": {"clearcoatFactor": 0.5, "clearcoatRoughnessTexture": {"index": 0}},
                "KHR_materials_sheen": {"sheenColorFactor": [0, 0.5, 1], "sheenRoughnessFactor": 0.25},
                "KHR_materials_emissive_strength": {"emissiveStrength": 5},
            },
            "emissiveFactor": [0, 0, 0.5],
        }  # fmt: skip
        path = textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material)
        found = quietly(path).material
        assert (found.clearcoat, found.sheen_color, found.sheen_roughness) == (0.5, (0, 0.5, 1), 0.25)
        assert found.emission == (0, 0, 2.5) and found.clearcoat_roughness == 0
        np.testing.assert_array_equal(found.clearcoat_roughness_map, NOISE[..., 1] / np.float32(255))
        material["extensions"]["KHR_materials_sheen"]["sheenColorTexture"] = {"index": 0}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material)).material
        linear = srgb_to_linear(NOISE[..., :3] / 255)
        np.testing.assert_allclose(found.sheen_color_map, linear, atol=1e-6)


class TestObj:
    def test_round_trip(self, tmp_path):
        before = replace(full_material(), emission_map=np.full((2, 2, 3), 1.0), clearcoat_map=None)
        save_mesh(tmp_path / "a b.obj", bumpy(before))
        after = quietly(tmp_path / "a b.obj").material
        for what in ("metallic", "roughness", "emission", "clearcoat", "clearcoat_roughness"):
            assert getattr(after, what) == getattr(before, what)
        for what in ("metallic_roughness", "normal", "emission_map"):
            np.testing.assert_allclose(getattr(after, what), getattr(before, what), atol=1e-6)
        assert after.maps() == ("metallic_roughness", "normal", "emission_map")
        save_mesh(tmp_path / "b.obj", bumpy(None))
        assert quietly(tmp_path / "b.obj").material is None

    def write(self, tmp_path, lines):
        save_mesh(tmp_path / "a.obj", bumpy(None))
        path = tmp_path / "a.mtl"
        path.write_text(path.read_text() + lines)
        return tmp_path / "a.obj"

    def test_maps_of_two_sizes_and_options(self, tmp_path):
        (tmp_path / "rough.png").write_bytes(png(NOISE[..., 0]))
        (tmp_path / "metal.png").write_bytes(png(NOISE[:1, :1, 0]))
        (tmp_path / "flat.png").write_bytes(FLAT)
        text = "map_Pr rough.png\nmap_Pm metal.png\nPm 0.5\nnorm -bm 1.0 flat.png\nKe 0 0 0\n"
        found = quietly(self.write(tmp_path, text)).material
        assert (found.roughness, found.metallic, found.emission) == (1, 0.5, (0, 0, 0))
        np.testing.assert_allclose(found.metallic_roughness[..., 1], NOISE[..., 0] / 255, atol=1e-6)
        np.testing.assert_allclose(found.metallic_roughness[..., 0], NOISE[0, 0, 0] / 255, atol=1e-6)
        assert found.normal.shape == (2, 2, 3)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("Pr 3\n", "roughness is 3"),
            ("Pm shiny\n", "Pm of its material is 'shiny'"),
            ("Ke 1\n", "Ke of its"),
        ],
    )
    def test_wrong_keys_are_refused(self, tmp_path, text, words):
        with pytest.raises(InputError, match=rf"a\.obj'.*{words}"):
            load_mesh(self.write(tmp_path, text))

    def test_missing_maps_are_named(self, tmp_path):
        with pytest.warns(UserWarning, match=r"map_Pr 'gone\.png' was left out: it is not beside it"):
            assert load_mesh(self.write(tmp_path, "map_Pr gone.png\n")).material is None
