"""Materials in files, and what is refused."""

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
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from dressi.errors import InputError
from dressi.render import Material, srgb_to_linear
from dressi.render.core.materials import GLTF, Placement
from dressi.render.formats import load_mesh, save_glb, save_mesh
from dressi.render.formats.gltf.material import metallic_of, turned_normals
from dressi.render.mesh.material import bilinear
from dressi.render.mesh.primitives import pear

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
                    assert_allclose(back[what].matrix, place.matrix, atol=1e-6)
                    assert_allclose(back[what].offset, place.offset, atol=1e-6)
            elif field.name in (*MAPS, "emission"):
                assert_allclose(back, value, atol=1e-6, err_msg=field.name)
            else:
                assert back == value, field.name

    @pytest.mark.parametrize("name", ["Avocado", "BoomBox", "BarramundiFish", "Suzanne"])
    def test_real_files_keep_their_codes(self, tmp_path, data, name):
        before = quietly(data / "meshes" / f"{name}_512.glb")
        save_glb(tmp_path / "a.glb", before)
        after = quietly(tmp_path / "a.glb")
        assert repr(after.material) == repr(before.material) and before.material.metallic == 1
        assert "metallic_roughness" in before.material.maps()
        assert_array_equal(after.texture, before.texture)
        for what in before.material.maps():
            assert_array_equal(getattr(after.material, what), getattr(before.material, what))

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
        assert_allclose(found.metallic_roughness, both, atol=1e-6)
        assert_allclose(found.occlusion, plane, atol=1e-6)

    def test_bright_emission_maps_keep_their_scale(self, tmp_path):
        glow = np.array([[[8.0, 2.0, 0.0]]])
        save_glb(tmp_path / "a.glb", bumpy(Material(emission=(0.5, 0.5, 0.5), emission_map=glow)))
        found = quietly(tmp_path / "a.glb").material
        assert_allclose(found.emission * found.emission_map[0, 0], [4, 1, 0], rtol=0.02)


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
    arrays = {}
    for name, i in attributes.items():
        accessor, width = document["accessors"][i], int(document["accessors"][i]["type"][-1])
        start = document["bufferViews"][accessor["bufferView"]]["byteOffset"]
        arrays[name] = np.frombuffer(binary, "<f4", accessor["count"] * width, start).reshape(-1, width)
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
        factors = found.metallic, found.roughness, found.emission, found.name
        assert factors == (1, 1, (0, 0, 0), "material 0")
        assert (found.alpha_mode, found.double_sided, found.wrap) == ("opaque", False, ("repeat", "repeat"))

    def test_channels_and_colour_spaces(self, tmp_path):
        material = {
            "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicRoughnessTexture": {"index": 0}},
            "occlusionTexture": {"index": 0, "strength": 0.5}, "emissiveTexture": {"index": 0}, "emissiveFactor": [1, 0, 0],
            "alphaMode": "MASK",
        }  # fmt: skip
        mesh = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material))
        codes, found = NOISE / np.float32(255), mesh.material
        assert_array_equal(found.metallic_roughness, codes[..., [2, 1]])
        assert_array_equal(found.occlusion, codes[..., 0])
        assert_array_equal(found.alpha, codes[..., 3])
        assert_array_equal(found.emission_map, mesh.texture)
        assert found.occlusion_strength == 0.5 and found.alpha_cutoff == 0.5
        linear = np.where(codes < 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
        assert_allclose(mesh.texture, linear[..., :3], atol=1e-6)

    @pytest.mark.parametrize("size", [(1, 1), (3, 5)])
    def test_grey_images_count_for_all_channels(self, tmp_path, size):
        grey = png(NOISE[: size[0], : size[1], 0])
        both = mr(baseColorTexture={"index": 0}, metallicRoughnessTexture={"index": 0})
        material = both | {"occlusionTexture": {"index": 0}}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [grey], material)).material
        codes = NOISE[: size[0], : size[1], :1] / np.float32(255)
        assert_array_equal(found.metallic_roughness, codes.repeat(2, axis=-1))
        assert_array_equal(found.occlusion, codes[..., 0])

    def test_images_of_16_bits(self, tmp_path):
        grey = np.array([[0, 300, 40001, 65535]], np.uint16)
        material = {"occlusionTexture": {"index": 0}}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [png(grey)], material)).material
        assert_allclose(found.occlusion, grey / 65535, atol=1e-7)
        color = deep_png(np.array([[[32768, 32868, 65535]]], np.uint16))
        material = {"normalTexture": {"index": 0, "scale": -2}}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [color], material)).material
        assert_allclose(found.normal[0, 0], np.array([32768, 32868, 65535]) / 32767.5 - 1, atol=1e-6)
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
        assert_allclose(beyond, mesh.texture[2, -1 if wrap[0] == "repeat" else 0])
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
        assert_array_equal(found.clearcoat_roughness_map, NOISE[..., 1] / np.float32(255))
        material["extensions"]["KHR_materials_sheen"]["sheenColorTexture"] = {"index": 0}
        found = quietly(textured_gltf(tmp_path / "t.gltf", [png(NOISE)], material)).material
        linear = srgb_to_linear(NOISE[..., :3] / 255)
        assert_allclose(found.sheen_color_map, linear, atol=1e-6)


class TestObj:
    def test_round_trip(self, tmp_path):
        before = replace(full_material(), emission_map=np.full((2, 2, 3), 1.0), clearcoat_map=None)
        save_mesh(tmp_path / "a b.obj", bumpy(before))
        after = quietly(tmp_path / "a b.obj").material
        for what in ("metallic", "roughness", "emission", "clearcoat", "clearcoat_roughness"):
            assert getattr(after, what) == getattr(before, what)
        for what in ("metallic_roughness", "normal", "emission_map"):
            assert_allclose(getattr(after, what), getattr(before, what), atol=1e-6)
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
        assert_allclose(found.metallic_roughness[..., 1], NOISE[..., 0] / 255, atol=1e-6)
        assert_allclose(found.metallic_roughness[..., 0], NOISE[0, 0, 0] / 255, atol=1e-6)
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


REFUSED_NOISE = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
CODES = REFUSED_NOISE / np.float32(255)


def khronos(diffuse, specular):
    """The published program, line by line, of one colour."""
    dark, (b, s) = 0.04, [np.dot([0.299, 0.587, 0.114], np.square(c)) ** 0.5 for c in (diffuse, specular)]
    strength, metallic = 1 - max(specular), 0.0
    if s >= dark:
        b, c = b * strength / (1 - dark) + s - 2 * dark, dark - s
        metallic = min(max((-b + (b * b - 4 * dark * c) ** 0.5) / (2 * dark), 0), 1)
    one = np.asarray(diffuse) * strength / (1 - dark) / max(1 - metallic, 1e-6)
    two = (np.asarray(specular) - dark * (1 - metallic)) / max(metallic, 1e-6)
    return np.clip((1 - metallic**2) * one + metallic**2 * two, 0, 1), metallic


def test_specular_and_gloss_become_metallic_and_rough(tmp_path):
    grey, metallic = np.random.default_rng(3).random((2, 50))
    specular = 0.04 + metallic * (grey - 0.04)
    diffuse = grey * 0.96 * (1 - metallic) / (1 - specular)
    base, found = metallic_of(*(values[:, None].repeat(3, 1) for values in (diffuse, specular)))
    keep = (specular > 0.04) & (grey > 0.08)
    assert_allclose(found[keep], metallic[keep], atol=1e-9)
    assert_allclose(base[keep, 0], grey[keep], atol=1e-9)
    gloss = {"diffuseFactor": [0.5, 1, 1, 0.5], "specularFactor": [1, 0.5, 1], "glossinessFactor": 0.75}
    name, maps = "KHR_materials_pbrSpecularGlossiness", {"diffuseTexture": {"index": 0}}

    def needs(document):
        document["extensionsRequired"] = [name]

    def read(*pictures):
        return quietly(
            textured_gltf(
                tmp_path / "t.gltf",
                pictures,
                {"extensions": {name: gloss | maps}, "alphaMode": "BLEND"},
                needs,
            )
        )

    small = NOISE[::2, ::2]
    maps["specularGlossinessTexture"] = {"index": 1}
    mesh = read(png(NOISE), png(NOISE[::-1].copy()))
    linear, codes = srgb_to_linear(NOISE[..., :3] / 255), NOISE[..., 3] / 255
    for y, x in np.ndindex(4, 6):
        base, metal = khronos(linear[y, x] * (0.5, 1, 1), linear[3 - y, x] * (1, 0.5, 1))
        assert_allclose(mesh.texture[y, x], base, atol=1e-5)
        assert_allclose(
            mesh.material.metallic_roughness[y, x], [metal, 1 - 0.75 * codes[3 - y, x]], atol=1e-5
        )
    assert_allclose(mesh.material.alpha, codes * 0.5, atol=1e-6)
    assert read(png(NOISE), png(small)).material.metallic_roughness.shape == (4, 6, 2)
    maps.clear()
    base, metal = khronos((0.5, 1, 1), (1, 0.5, 1))
    mesh = read()
    assert_allclose(
        [*mesh.color, mesh.material.metallic, mesh.material.roughness], [*base, metal, 0.25], atol=1e-6
    )
    gloss["glossinessFactor"] = 2
    with pytest.raises(InputError, match=r"t\.gltf.*glossinessFactor 2.0 is not in"):
        read()


def noisy(tmp_path, material, *change):
    """A square with a picture of noise."""
    return textured_gltf(tmp_path / "t.gltf", [png(REFUSED_NOISE)], material, *change)


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
        mesh = quietly(noisy(tmp_path, two_maps(values, values)))
        assert_array_equal(mesh.material.occlusion, CODES[..., 0])
        c, s = np.cos(0.3), np.sin(0.3)
        expected = np.array([[0, 0], [2, 0], [2, 3], [0, 3]]) @ np.array([[c, -s], [s, c]]) + (0.25, 0.5)
        assert_allclose(mesh.uvs[mesh.uv_faces[0]], expected[:3], atol=1e-6)

    def test_maps_with_their_own_keep_it(self, tmp_path):
        """Relative to that of the base colour, which goes into the UVs."""
        own = {"scale": [2, -1], "rotation": np.pi / 2, "offset": [0.5, 0.25]}
        path = noisy(tmp_path, two_maps({"scale": [0.5, 1]}, own))
        mesh = quietly(path)
        assert_array_equal(mesh.material.occlusion, CODES[..., 0])
        place = mesh.material.place("occlusion")
        assert_allclose(place.matrix, [[0, -1], [-4, 0]], atol=1e-9)
        assert place.offset == (0.5, 0.25) and mesh.uvs.max(0).tolist() == [0.5, 1]
        save_glb(tmp_path / "a.glb", mesh)
        again = quietly(tmp_path / "a.glb").material.place("occlusion")
        assert_allclose(again.matrix, place.matrix, atol=1e-6)

    def test_another_set_of_uvs(self, tmp_path):
        path = noisy(tmp_path, two_maps({}, {}, texCoord=1))
        mesh = quietly(path)
        assert mesh.material.place("occlusion").uv_set == 1
        assert_allclose(mesh.second_uvs[mesh.second_uv_faces[0, 0]], [1, 1])

        def change(document):
            del document["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_1"]

        path = noisy(tmp_path, two_maps({}, {}, texCoord=1), change)
        with pytest.warns(UserWarning, match="has a occlusionTexture with the UVs TEXCOORD_1"):
            assert load_mesh(path).material.maps() == ()
        alone = {"occlusionTexture": {"index": 0, "texCoord": 1}}
        mesh = quietly(noisy(tmp_path, alone))
        assert mesh.material.maps() == ("occlusion",) and mesh.uvs[mesh.uv_faces[0, 0]].tolist() == [1, 1]

    def test_normals_turn_with_their_map(self):
        """A map that is turned or mirrored has the same directions in space."""
        normal = np.array([[[0.6, 0.0, 0.8]]])
        quarter = np.array([[0.0, 1], [-1, 0]])  # the map's u is the mesh's v, which goes down
        assert_allclose(turned_normals(normal, quarter)[0, 0], [0, -0.6, 0.8], atol=1e-12)
        mirror = np.diag([-2.0, 3.0])
        assert_allclose(turned_normals(normal, mirror)[0, 0], [-0.6, 0, 0.8], atol=1e-12)

    def test_a_squeezed_frame_is_a_placement(self, tmp_path):
        path = noisy(tmp_path, two_maps({"scale": [0, 1]}, {}))
        found = quietly(path).material
        assert found.place("texture").matrix == ((0, 0), (0, 1)) and not found.place("occlusion").moves


def mr(**values):
    return {"pbrMetallicRoughness": values}


@pytest.mark.parametrize(("material", "words"), [
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
])  # fmt: skip
def test_wrong_materials_are_refused(tmp_path, material, words):
    with pytest.raises(InputError, match=rf"t\.gltf.*{words}|{words}") as caught:
        load_mesh(noisy(tmp_path, material))
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
    with pytest.raises(InputError, match=r"a\.glb: image 0 \(baseColorTexture\)"):
        load_mesh(path)
    broken = deep_png()[:80]
    with pytest.raises(InputError, match=r"t\.gltf: image 0 picture0 \(normalTexture\)"):
        load_mesh(textured_gltf(tmp_path / "t.gltf", [broken], {"normalTexture": {"index": 0}}))


def test_missing_images_are_named(tmp_path):
    def change(document):
        document["images"] = [{"uri": "gone.png"}]

    path = noisy(tmp_path, {"occlusionTexture": {"index": 0}}, change)
    with pytest.raises(InputError, match=r"no file '.*gone\.png'"):
        load_mesh(path)

    def no_source(document):
        document["textures"] = [{"extensions": {"KHR_texture_basisu": {"source": 0}}}]

    path = noisy(tmp_path, {"occlusionTexture": {"index": 0}}, no_source)
    with pytest.warns(UserWarning, match="occlusionTexture that is not a PNG, JPEG or WebP"):
        assert load_mesh(path).material.maps() == ()


def test_extensions(tmp_path):
    def needs(document):
        document["extensionsRequired"] = ["KHR_materials_sheen", "KHR_materials_volume"]

    with pytest.raises(InputError, match=r"t\.gltf': it needs KHR_materials_volume, which"):
        load_mesh(textured_gltf(tmp_path / "t.gltf", [], {}, needs))

    def uses(document):
        names = "materials_clearcoat", "materials_dispersion", "lights_punctual"
        document["extensionsUsed"] = [f"KHR_{name}" for name in names]

    with pytest.warns(UserWarning, match="uses .*KHR_materials_dispersion, which") as caught:
        load_mesh(textured_gltf(tmp_path / "t.gltf", [], {}, uses))
    assert len(caught) == 1


def test_blended_and_unlit_materials(tmp_path):
    clear = mr(baseColorFactor=[1, 1, 1, 0.25]) | {"alphaMode": "BLEND"}
    clear["extensions"] = {"KHR_materials_unlit": {}}
    mesh = quietly(textured_gltf(tmp_path / "t.gltf", [], clear))
    save_glb(tmp_path / "a.glb", mesh)
    for found in (mesh.material, quietly(tmp_path / "a.glb").material):
        assert (found.alpha_mode, found.alpha.tolist(), found.unlit) == ("blend", [[0.25]], True)
    # A pane needs no texture coordinates.
    bare = replace(mesh, uvs=None, uv_faces=None)
    save_glb(tmp_path / "a.glb", bare)
    assert quietly(tmp_path / "a.glb").material.alpha_mode == "blend"
    opaque = mr(baseColorTexture={"index": 0}) | {"alphaMode": "BLEND"}
    assert quietly(noisy(tmp_path, opaque)).material.alpha_mode == "opaque"


def test_several_materials(tmp_path, monkeypatch):
    def change(document):
        primitive = document["meshes"][0]["primitives"][0]
        document["meshes"][0]["primitives"].append({**primitive, "material": 1})
        document["materials"].append(
            {"name": "chrome", "doubleSided": True} | mr(roughnessFactor=0.25, baseColorTexture={"index": 0})
        )

    path = noisy(tmp_path, {"emissiveFactor": [1, 0, 0]}, change)
    with pytest.warns(
        UserWarning, match="2 materials differ in double_sided; those of 'chrome' are used for all"
    ):
        mesh = load_mesh(path)
    found = mesh.material
    assert found.double_sided and found.alpha is None
    # The first two faces are red light without a texture, the others have the texture and a roughness of its
    # own.
    uv = mesh.uvs[mesh.uv_faces].mean(1)
    rough, light = (
        bilinear(image, uv, found.wrap) for image in (found.metallic_roughness[..., 1:], found.emission_map)
    )
    assert_allclose(rough[:, 0] * found.roughness, [1, 1, 0.25, 0.25], atol=1e-6)
    assert_allclose(light * found.emission, [[1, 0, 0]] * 2 + [[0, 0, 0]] * 2, atol=1e-6)
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
        found = load_mesh(noisy(tmp_path, material, change)).material
    assert found.roughness == 0.5 and found.maps() == ()


class TestTangents:
    def write(self, tmp_path, values, node):
        mesh = pear(8, 6, 4)
        mesh.material = full_material()
        save_glb(tmp_path / "a.glb", mesh)
        data = (tmp_path / "a.glb").read_bytes()
        size = struct.unpack_from("<I", data, 12)[0]
        text = data[20 : 20 + size].rstrip()
        text = text.replace(b'"nodes":[{"mesh":0', b'"nodes":[{' + node + b'"mesh":0')
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
        mesh = quietly(path)
        given = mesh.tangents()
        computed = mesh.moved(mesh.positions)
        computed.normals, computed.normal_faces = mesh.normals, mesh.normal_faces
        found = computed.tangents()
        assert mesh.file_tangents is not None and computed.file_tangents is None
        assert_allclose(given.values[given.faces], found.values[found.faces], atol=1e-5)

    @pytest.mark.parametrize("values", [[0, 0, 0, 1], [1, 0, 0, 0.5], [np.inf, 0, 0, 1]])
    def test_that_are_no_directions_are_computed(self, tmp_path, values):
        _, path = self.write(tmp_path, values, b"")
        with pytest.warns(UserWarning, match="TANGENT that is no direction"):
            assert load_mesh(path).file_tangents is None

    def test_without_a_normal_map_they_are_left_out(self, data):
        """The bitangents of this file point the other way."""
        mesh = quietly(data / "meshes" / "Suzanne_512.glb")
        assert mesh.file_tangents is None and mesh.tangents().values.shape[1] == 4
