"""What formats keep: vertex colours, UVs and textures of meshes, and the depth and range of images."""

import json
import sys

import numpy as np
import pytest
import trimesh
from hostile_files import ball, deep_png, radiance, text_gltf, text_ply, text_stl
from PIL import Image

from dressi.errors import InputError
from dressi.render import Node, Scene
from dressi.render.formats import load_mesh, save_mesh, save_scene
from dressi.render.io import load_image, save_image
from dressi.render.io.images import encode_png
from dressi.render.mesh import Mesh, components, primitives
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear


def corner_colors(mesh: Mesh) -> np.ndarray:
    return mesh.colors[mesh.color_faces]


def in_order(positions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Rows sorted by position, so that two orders of vertices compare."""
    return values[np.lexsort(positions.round(5).T)]


class TestVertexColours:
    @pytest.mark.parametrize(("ending", "error"), [("glb", 1e-6), ("obj", 3e-6), ("ply", 0.51 / 255)])
    def test_they_are_kept_with_and_without_uvs(self, tmp_path, ending, error):
        bare = primitives.tetrahedron()
        for mesh in (
            ball(),
            Mesh(bare.positions, bare.faces, colors=np.random.default_rng(0).random((4, 3))),
        ):
            save_mesh(tmp_path / f"a.{ending}", mesh)
            again = load_mesh(tmp_path / f"a.{ending}")
            assert (again.uvs is None) == (mesh.uvs is None)
            assert len(again.positions) == len(mesh.positions)
            np.testing.assert_allclose(again.positions[again.faces], mesh.positions[mesh.faces], atol=1e-6)
            codes = linear_to_srgb(corner_colors(again)), linear_to_srgb(corner_colors(mesh))
            np.testing.assert_allclose(*codes, atol=error)

    def test_colours_that_differ_at_one_vertex_stay_on_their_faces(self, tmp_path):
        mesh = primitives.cube()
        mesh.colors = np.random.default_rng(1).random((12, 3))
        mesh.color_faces = np.repeat(np.arange(12)[:, None], 3, axis=1)
        for ending in ("glb", "obj", "ply"):
            save_mesh(tmp_path / f"a.{ending}", mesh)
            again = load_mesh(tmp_path / f"a.{ending}")
            assert len(again.positions) == 8, ending
            np.testing.assert_allclose(corner_colors(again), corner_colors(mesh), atol=0.01)

    def test_other_libraries_read_and_write_the_same_colours(self, tmp_path):
        codes = np.random.default_rng(2).integers(0, 256, (4, 4)).astype(np.uint8)
        codes[:, 3] = 255
        shape = primitives.tetrahedron()
        other = trimesh.Trimesh(shape.positions, shape.faces, vertex_colors=codes, process=False)
        expected = in_order(shape.positions, codes[:, :3] / 255)
        for ending, linear in (("ply", False), ("obj", False), ("glb", True)):
            other.export(tmp_path / f"a.{ending}")
            mesh = load_mesh(tmp_path / f"a.{ending}")
            found = in_order(mesh.positions, mesh.vertex_colors())
            np.testing.assert_allclose(found if linear else linear_to_srgb(found), expected, atol=1e-6)
        mesh = Mesh(shape.positions, shape.faces, colors=srgb_to_linear(codes[:, :3] / 255))
        save_mesh(tmp_path / "b.ply", mesh)
        again = trimesh.load(tmp_path / "b.ply", process=False)
        np.testing.assert_array_equal(again.visual.vertex_colors[:, :3], codes[:, :3])

    @pytest.mark.parametrize(
        ("kind", "dtype", "most"), [(5126, "<f4", 1), (5121, "u1", 255), (5123, "<u2", 65535)]
    )
    def test_gltf_colours_of_every_component_type_are_linear(self, tmp_path, kind, dtype, most):
        document = json.loads(text_gltf())
        values = (np.linspace(0, 1, 12).reshape(3, 4) * most).astype(dtype)
        document["buffers"].append({"byteLength": values.nbytes})
        (tmp_path / "c.bin").write_bytes(values.tobytes())
        document["buffers"][1]["uri"] = "c.bin"
        document["bufferViews"].append({"buffer": 1, "byteLength": values.nbytes})
        document["accessors"][2] |= {"bufferView": 6, "componentType": kind, "normalized": kind != 5126}
        (tmp_path / "t.gltf").write_text(json.dumps(document))
        with pytest.warns(UserWarning, match="alpha of vertex colours"):
            mesh = load_mesh(tmp_path / "t.gltf")
        np.testing.assert_allclose(
            np.unique(mesh.colors[:, 0]), np.unique(values[:, 0].astype(float) / most), atol=1e-6
        )
        assert mesh.color == (1.0, 0.5, 1.0)

    def test_materials_of_several_colours_become_vertex_colours(self, tmp_path):
        document = json.loads(text_gltf())
        document["materials"] = [
            {"pbrMetallicRoughness": {"baseColorFactor": [*rgb, 1]}} for rgb in ((1, 0, 0), (0, 0, 0.5))
        ]
        first = document["meshes"][0]["primitives"][0]
        first["attributes"].pop("COLOR_0")
        document["meshes"].append({"primitives": [first | {"material": 1}]})
        document["nodes"][2]["mesh"] = 1
        (tmp_path / "t.gltf").write_text(json.dumps(document))
        mesh = load_mesh(tmp_path / "t.gltf")
        assert mesh.color == (1, 1, 1)
        assert sorted(mesh.colors.tolist()) == [[0, 0, 0.5], [1, 0, 0]]

    def test_colours_survive_what_is_done_to_meshes(self):
        mesh = ball()
        assert mesh.subdivide().colors.shape == (66, 3)
        assert mesh.with_faces(np.arange(5)).color_faces.shape == (5, 3)
        assert mesh.moved(mesh.positions * 2).colors is mesh.colors
        split = mesh.split_at_seams(normals=True)
        np.testing.assert_array_equal(split.colors[split.faces], corner_colors(mesh))
        np.testing.assert_allclose(mesh.vertex_colors(), mesh.colors)
        np.testing.assert_array_equal(primitives.cube().vertex_colors(), np.ones((8, 3)))

    def test_8_bit_numbers_in_an_obj_are_said(self, tmp_path):
        (tmp_path / "a.obj").write_text("v 0 0 0 255 0 0\nv 1 0 0 0 255 0\nv 0 1 0\nf 1 2 3\n")
        with pytest.warns(UserWarning, match="8-bit values"):
            mesh = load_mesh(tmp_path / "a.obj")
        np.testing.assert_allclose(mesh.vertex_colors()[0], [1, 0, 0])


class TestPlyAndStl:
    def test_ply_keeps_uvs_normals_and_the_texture(self, tmp_path):
        mesh = ball()
        save_mesh(tmp_path / "a.ply", mesh)
        again = load_mesh(tmp_path / "a.ply")
        np.testing.assert_allclose(again.uvs[again.uv_faces], mesh.uvs[mesh.uv_faces], atol=1e-6)
        np.testing.assert_allclose(
            again.normals[again.normal_faces], mesh.normals[mesh.normal_faces], atol=1e-6
        )
        np.testing.assert_allclose(
            linear_to_srgb(again.texture), linear_to_srgb(mesh.texture), atol=0.51 / 255
        )

    def test_ply_text_big_endian_mixed_polygons_and_corner_uvs(self, tmp_path):
        (tmp_path / "t.ply").write_text(text_ply(ball()))
        with pytest.warns(UserWarning, match=r"texture 'a\.png' is not beside it"):
            mesh = load_mesh(tmp_path / "t.ply")
        assert len(mesh.faces) == 32
        np.testing.assert_allclose(linear_to_srgb(mesh.colors[0]), np.array([10, 20, 30]) / 255)
        head = (
            "ply\nformat binary_big_endian 1.0\nelement vertex 5\nproperty double x\nproperty double y\nproperty double z\n"
            "element face 2\nproperty list uchar uint vertex_index\nproperty list uchar float texcoord\nend_header\n"
        )
        points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 2, 0]], ">f8")
        quad = b"\4" + np.array([0, 1, 2, 3], ">u4").tobytes() + b"\x08" + np.arange(8, dtype=">f4").tobytes()
        triangle = b"\3" + np.array([1, 4, 2], ">u4").tobytes() + b"\6" + np.zeros(6, ">f4").tobytes()
        (tmp_path / "b.ply").write_bytes(head.encode() + points.tobytes() + quad + triangle)
        mesh = load_mesh(tmp_path / "b.ply")
        np.testing.assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3], [1, 4, 2]])
        np.testing.assert_array_equal(mesh.uvs[mesh.uv_faces[1]], [[0, 0], [4, -4], [6, -6]])

    def test_stl_goes_out_and_in(self, tmp_path):
        mesh = primitives.icosphere(1)
        save_mesh(tmp_path / "a.stl", mesh)
        again = load_mesh(tmp_path / "a.stl")
        assert again.is_closed() and len(again.faces) == 80
        np.testing.assert_allclose(again.positions[again.faces], mesh.positions[mesh.faces], atol=1e-6)
        assert len(trimesh.load(tmp_path / "a.stl").faces) == 80
        (tmp_path / "t.stl").write_text(text_stl(primitives.tetrahedron()))
        assert load_mesh(tmp_path / "t.stl").is_closed()

    def test_off_with_colours(self, tmp_path):
        (tmp_path / "a.off").write_text(
            "COFF # four\n3 1 0\n0 0 0 255 0 0\n1 0 0 0 255 0\n0 1 0 0 0 255\n3 0 1 2 9 9 9\n"
        )
        np.testing.assert_array_equal(load_mesh(tmp_path / "a.off").vertex_colors(), np.eye(3))

    def test_the_colour_of_a_material_is_kept(self, tmp_path):
        mesh = primitives.tetrahedron()
        mesh.color = (0.25, 0.5, 1.0)
        save_mesh(tmp_path / "a.obj", mesh)
        assert load_mesh(tmp_path / "a.obj").color == pytest.approx(mesh.color, abs=1e-5)
        save_mesh(tmp_path / "a.ply", mesh)
        np.testing.assert_allclose(load_mesh(tmp_path / "a.ply").vertex_colors()[0], mesh.color, atol=0.004)


class TestImages:
    def test_16_bits_are_kept(self, tmp_path):
        pytest.importorskip("cv2")
        values = np.random.default_rng(0).integers(0, 65536, (7, 9, 3)).astype(np.uint16)
        (tmp_path / "a.png").write_bytes(deep_png(values))
        codes = load_image(tmp_path / "a.png", linear=False)
        np.testing.assert_array_equal((codes.astype(np.float64) * 65535).round(), values)
        for image in (codes, codes[..., :1], np.concatenate([codes, codes[..., :1]], axis=-1)):
            save_image(tmp_path / "b.png", image, linear=False, bits=16)
            np.testing.assert_array_equal(load_image(tmp_path / "b.png", linear=False), image)
        light = load_image(tmp_path / "a.png")
        save_image(tmp_path / "b.png", light, bits=16)
        again = load_image(tmp_path / "b.png", linear=False)
        np.testing.assert_array_equal((again.astype(np.float64) * 65535).round(), values)

    def test_16_bit_grey_needs_no_library(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "cv2", None)
        ramp = np.linspace(0, 1, 4096).reshape(64, 64)
        save_image(tmp_path / "a.png", ramp, linear=False, bits=16)
        np.testing.assert_allclose(load_image(tmp_path / "a.png", linear=False)[..., 0], ramp, atol=1e-5)

    def test_radiance_keeps_what_is_above_1(self, tmp_path):
        pytest.importorskip("cv2")
        light = np.random.default_rng(1).random((8, 16, 3)) * 10.0 ** np.arange(-2, 6)[:, None, None]
        save_image(tmp_path / "a.hdr", light)
        found = load_image(tmp_path / "a.hdr")
        assert found.dtype == np.float32
        assert (np.abs(found - light).max(-1) <= light.max(-1) / 128).all()
        (tmp_path / "b.hdr").write_bytes(radiance(4, 3))
        flat = np.random.default_rng(3).integers(1, 255, (3, 4, 4)).astype(np.float32)
        np.testing.assert_allclose(load_image(tmp_path / "b.hdr"), flat[..., :3] / 256, atol=0.5 / 256)

    def test_without_the_library_a_sentence_says_so(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "cv2", None)
        (tmp_path / "a.hdr").write_bytes(radiance(4, 3))
        with pytest.raises(InputError, match=r"a\.hdr' needs OpenCV; pip install 'dressi\[images\]'"):
            load_image(tmp_path / "a.hdr")
        with pytest.raises(InputError, match="pip install"):
            save_image(tmp_path / "b.hdr", np.ones((2, 2, 3)))
        (tmp_path / "d.png").write_bytes(deep_png())
        with pytest.warns(UserWarning, match="16 bits a channel, of which 8 are read"):
            assert load_image(tmp_path / "d.png").shape == (12, 16, 3)

    @pytest.mark.parametrize("ending", ["png", "bmp", "tif", "webp", "jpg"])
    def test_kinds_out_and_in(self, tmp_path, ending):
        image = np.full((8, 8, 3), 0.5)
        save_image(tmp_path / f"a.{ending}", image)
        np.testing.assert_allclose(load_image(tmp_path / f"a.{ending}"), image, atol=0.01)
        np.testing.assert_allclose(
            load_image(tmp_path / f"a.{ending}", linear=False), linear_to_srgb(image), atol=0.01
        )

    def test_alpha_is_straight_and_not_converted(self, tmp_path):
        image = np.full((4, 4, 4), 0.25)
        save_image(tmp_path / "a.png", image[None])
        np.testing.assert_allclose(load_image(tmp_path / "a.png"), image, atol=0.004)
        assert Image.open(tmp_path / "a.png").getpixel((0, 0)) == (137, 137, 137, 64)
        with pytest.raises(InputError, match=r"alpha.*\.png"):
            save_image(tmp_path / "a.jpg", image)

    @pytest.mark.parametrize(
        ("image", "words"),
        [
            (np.full((2, 2, 3), np.nan), "12 values that are NaN"),
            (np.zeros((2, 2, 2)), r"\(H, W, 3\)"),
            (np.zeros((3, 2, 2, 3)), r"\(3, 2, 2, 3\)"),
            (np.zeros((2, 2, 3), np.uint8), "divide code values by 255"),
        ],
    )
    def test_what_is_no_image_is_refused(self, tmp_path, image, words):
        with pytest.raises(InputError, match=words):
            save_image(tmp_path / "a.png", image)
        with pytest.raises(InputError, match=words):
            encode_png(image)
        with pytest.raises(InputError, match=r"ends in \.png"):
            save_image(tmp_path / "a.xyz", np.zeros((2, 2)))

    def test_real_radiance_files(self, data):
        pytest.importorskip("cv2")
        light = load_image(data / "hdri" / "venice_sunset_1k.hdr")
        assert light.shape == (512, 1024, 3) and light.min() >= 0 and light.max() > 1000


def test_components_are_counted_and_parted():
    small, large = primitives.cube(0.5), ball()
    both = Mesh(
        np.concatenate([small.positions, large.positions + 9]),
        np.concatenate([small.faces, large.faces + len(small.positions)]),
        colors=np.random.default_rng(0).random((8 + len(large.positions), 3)),
    )
    parts = components(both)
    assert both.component_count() == len(parts) == 2
    assert [len(part.faces) for part in parts] == [12, 32] or [len(part.faces) for part in parts] == [32, 12]
    assert parts[0].face_areas().sum() > parts[1].face_areas().sum()
    assert sum(part.face_areas().sum() for part in parts) == pytest.approx(both.face_areas().sum())
    assert all(part.is_closed() and part.colors is not None for part in parts)
    assert primitives.torus().component_count() == 1


def test_the_path_comes_first(tmp_path):
    cube = primitives.cube()
    for save, what, value in ((save_scene, "scene", Scene([Node(cube)])), (save_mesh, "mesh", cube)):
        with pytest.raises(InputError, match=rf"save_{what}\(path, {what}\) takes the path first, not a "):
            save(value, tmp_path / "a.glb")
