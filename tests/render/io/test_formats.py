"""What formats keep: vertex colours, UVs and textures of meshes, and the depth and range of images."""

import base64
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hostile_files import ball, deep_png, radiance, text_gltf, text_ply, text_stl
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from typer.testing import CliRunner

from dressi.cli.commands import app
from dressi.config import config
from dressi.errors import InputError
from dressi.render import Node, Scene, linear_to_srgb, srgb_to_linear
from dressi.render.formats import load_mesh, load_scene, save_mesh, save_scene
from dressi.render.io import load_image, save_image, save_png
from dressi.render.io.images import encode_png
from dressi.render.mesh import Mesh, joining, primitives
from dressi.render.scene.geometry import geometry_of


def corner_colors(mesh: Mesh) -> np.ndarray:
    return mesh.colors[mesh.color_faces]


def in_order(positions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Rows sorted by position, so that two orders of vertices compare."""
    return values[np.lexsort(positions.round(5).T)]


class TestVertexColours:
    @pytest.mark.parametrize(("ending", "error"), [("glb", 1e-6), ("obj", 3e-6), ("ply", 0.51 / 255)])
    def test_they_are_kept_with_and_without_uvs(self, tmp_path, ending, error):
        bare = primitives.tetrahedron()
        bare.colors = np.random.default_rng(0).random((4, 3))
        for mesh in (ball(), bare):
            save_mesh(tmp_path / f"a.{ending}", mesh)
            again = load_mesh(tmp_path / f"a.{ending}")
            assert (again.uvs is None) == (mesh.uvs is None)
            assert len(again.positions) == len(mesh.positions)
            assert_allclose(again.positions[again.faces], mesh.positions[mesh.faces], atol=1e-6)
            codes = linear_to_srgb(corner_colors(again)), linear_to_srgb(corner_colors(mesh))
            assert_allclose(*codes, atol=error)

    def test_colours_that_differ_at_one_vertex_stay_on_their_faces(self, tmp_path):
        mesh = primitives.cube()
        mesh.colors = np.random.default_rng(1).random((12, 3))
        mesh.color_faces = np.repeat(np.arange(12)[:, None], 3, axis=1)
        for ending in ("glb", "obj", "ply"):
            save_mesh(tmp_path / f"a.{ending}", mesh)
            again = load_mesh(tmp_path / f"a.{ending}")
            assert len(again.positions) == 8, ending
            assert_allclose(corner_colors(again), corner_colors(mesh), atol=0.01)

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
            assert_allclose(found if linear else linear_to_srgb(found), expected, atol=1e-6)
        mesh = Mesh(shape.positions, shape.faces, colors=srgb_to_linear(codes[:, :3] / 255))
        save_mesh(tmp_path / "b.ply", mesh)
        again = trimesh.load(tmp_path / "b.ply", process=False)
        assert_array_equal(again.visual.vertex_colors[:, :3], codes[:, :3])

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
        with pytest.warns(UserWarning, match="vertex colours whose alpha"):
            mesh = load_mesh(tmp_path / "t.gltf")
        assert_allclose(np.unique(mesh.colors[:, 0]), np.unique(values[:, 0].astype(float) / most), atol=1e-6)
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
        assert_array_equal(split.colors[split.faces], corner_colors(mesh))
        assert_allclose(mesh.vertex_colors(), mesh.colors)
        assert_array_equal(primitives.cube().vertex_colors(), np.ones((8, 3)))

    def test_8_bit_numbers_in_an_obj_are_said(self, tmp_path):
        (tmp_path / "a.obj").write_text("v 0 0 0 255 0 0\nv 1 0 0 0 255 0\nv 0 1 0\nf 1 2 3\n")
        with pytest.warns(UserWarning, match="8-bit values"):
            mesh = load_mesh(tmp_path / "a.obj")
        assert_allclose(mesh.vertex_colors()[0], [1, 0, 0])


class TestPlyAndStl:
    def test_ply_keeps_uvs_normals_and_the_texture(self, tmp_path):
        mesh = ball()
        save_mesh(tmp_path / "a.ply", mesh)
        again = load_mesh(tmp_path / "a.ply")
        assert_allclose(again.uvs[again.uv_faces], mesh.uvs[mesh.uv_faces], atol=1e-6)
        assert_allclose(again.normals[again.normal_faces], mesh.normals[mesh.normal_faces], atol=1e-6)
        assert_allclose(linear_to_srgb(again.texture), linear_to_srgb(mesh.texture), atol=0.51 / 255)

    def test_ply_text_big_endian_mixed_polygons_and_corner_uvs(self, tmp_path):
        (tmp_path / "t.ply").write_text(text_ply(ball()))
        with pytest.warns(UserWarning, match=r"texture 'a\.png' is not beside it"):
            mesh = load_mesh(tmp_path / "t.ply")
        assert len(mesh.faces) == 32
        assert_allclose(linear_to_srgb(mesh.colors[0]), np.array([10, 20, 30]) / 255)
        head = (
            "ply\nformat binary_big_endian 1.0\nelement vertex 5\nproperty double x\nproperty double y\nproperty"
            " double z\nelement face 2\nproperty list uchar uint vertex_index\nproperty list uchar float"
            " texcoord\nend_header\n"
        )
        points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 2, 0]], ">f8")
        quad = b"\4" + np.array([0, 1, 2, 3], ">u4").tobytes() + b"\x08" + np.arange(8, dtype=">f4").tobytes()
        triangle = b"\3" + np.array([1, 4, 2], ">u4").tobytes() + b"\6" + np.zeros(6, ">f4").tobytes()
        (tmp_path / "b.ply").write_bytes(head.encode() + points.tobytes() + quad + triangle)
        mesh = load_mesh(tmp_path / "b.ply")
        assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3], [1, 4, 2]])
        assert_array_equal(mesh.uvs[mesh.uv_faces[1]], [[0, 0], [4, -4], [6, -6]])

    def test_stl_goes_out_and_in(self, tmp_path):
        mesh = primitives.icosphere(1)
        save_mesh(tmp_path / "a.stl", mesh)
        again = load_mesh(tmp_path / "a.stl")
        assert again.is_closed() and len(again.faces) == 80
        assert_allclose(again.positions[again.faces], mesh.positions[mesh.faces], atol=1e-6)
        assert len(trimesh.load(tmp_path / "a.stl").faces) == 80
        (tmp_path / "t.stl").write_text(text_stl(primitives.tetrahedron()))
        assert load_mesh(tmp_path / "t.stl").is_closed()

    def test_off_with_colours(self, tmp_path):
        (tmp_path / "a.off").write_text(
            "COFF # four\n3 1 0\n0 0 0 255 0 0\n1 0 0 0 255 0\n0 1 0 0 0 255\n3 0 1 2 9 9 9\n"
        )
        assert_array_equal(load_mesh(tmp_path / "a.off").vertex_colors(), np.eye(3))

    def test_the_colour_of_a_material_is_kept_without_texture_and_uvs(self, tmp_path):
        mesh = primitives.tetrahedron()
        mesh.color = (0.25, 0.5, 1.0)
        for ending in ("glb", "obj"):
            save_mesh(tmp_path / f"a.{ending}", mesh)
            again = load_mesh(tmp_path / f"a.{ending}")
            assert again.uvs is None and again.texture is None and len(again.faces) == 4
            assert again.color == pytest.approx(mesh.color, abs=1e-5)
        save_mesh(tmp_path / "a.ply", mesh)
        assert_allclose(load_mesh(tmp_path / "a.ply").vertex_colors()[0], mesh.color, atol=0.004)


class TestImages:
    def test_16_bits_are_kept(self, tmp_path):
        pytest.importorskip("cv2")
        values = np.random.default_rng(0).integers(0, 65536, (7, 9, 3)).astype(np.uint16)
        (tmp_path / "a.png").write_bytes(deep_png(values))
        codes = load_image(tmp_path / "a.png", linear=False)
        assert_array_equal((codes.astype(np.float64) * 65535).round(), values)
        for image in (codes, codes[..., :1], np.concatenate([codes, codes[..., :1]], axis=-1)):
            save_image(tmp_path / "b.png", image, linear=False, bits=16)
            assert_array_equal(load_image(tmp_path / "b.png", linear=False), image)
        light = load_image(tmp_path / "a.png")
        save_image(tmp_path / "b.png", light, bits=16)
        again = load_image(tmp_path / "b.png", linear=False)
        assert_array_equal((again.astype(np.float64) * 65535).round(), values)

    def test_16_bit_grey_needs_no_library(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "cv2", None)
        ramp = np.linspace(0, 1, 4096).reshape(64, 64)
        save_image(tmp_path / "a.png", ramp, linear=False, bits=16)
        assert_allclose(load_image(tmp_path / "a.png", linear=False)[..., 0], ramp, atol=1e-5)

    def test_radiance_keeps_what_is_above_1(self, tmp_path):
        pytest.importorskip("cv2")
        light = np.random.default_rng(1).random((8, 16, 3)) * 10.0 ** np.arange(-2, 6)[:, None, None]
        save_image(tmp_path / "a.hdr", light)
        found = load_image(tmp_path / "a.hdr")
        assert found.dtype == np.float32
        assert (np.abs(found - light).max(-1) <= light.max(-1) / 128).all()
        (tmp_path / "b.hdr").write_bytes(radiance(4, 3))
        flat = np.random.default_rng(3).integers(1, 255, (3, 4, 4)).astype(np.float32)
        assert_allclose(load_image(tmp_path / "b.hdr"), flat[..., :3] / 256, atol=0.5 / 256)

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
        assert_allclose(load_image(tmp_path / f"a.{ending}"), image, atol=0.01)
        assert_allclose(load_image(tmp_path / f"a.{ending}", linear=False), linear_to_srgb(image), atol=0.01)

    def test_alpha_is_straight_and_not_converted(self, tmp_path):
        image = np.full((4, 4, 4), 0.25)
        save_image(tmp_path / "a.png", image[None])
        assert_allclose(load_image(tmp_path / "a.png"), image, atol=0.004)
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
    positions = np.concatenate([small.positions, large.positions + 9])
    faces = np.concatenate([small.faces, large.faces + len(small.positions)])
    both = Mesh(positions, faces, colors=np.random.default_rng(0).random((len(positions), 3)))
    parts = joining.components(both)
    assert both.component_count() == len(parts) == 2
    assert sorted(len(part.faces) for part in parts) == [12, 32]
    assert parts[0].face_areas().sum() > parts[1].face_areas().sum()
    assert sum(part.face_areas().sum() for part in parts) == pytest.approx(both.face_areas().sum())
    assert all(part.is_closed() and part.colors is not None for part in parts)
    assert primitives.torus().component_count() == 1


def test_the_path_comes_first(tmp_path):
    cube = primitives.cube()
    for save, what, value in ((save_scene, "scene", Scene([Node(cube)])), (save_mesh, "mesh", cube)):
        with pytest.raises(InputError, match=rf"save_{what}\(path, {what}\) takes the path first, not a "):
            save(value, tmp_path / "a.glb")


# ---- files whose parts differ: each face keeps what the file gives it, and losses are named

SQUARES = "".join(f"v {x} {y} 0\n" for y in (0, 1) for x in range(4))
FACES = ("f 1/1 2/2 6/3 5/4\n", "f 2/1 3/2 7/3 6/4\n", "f 3/1 4/2 8/3 7/4\n")
PLAIN = tuple("f " + " ".join(c.split("/")[0] for c in face.split()[1:]) + "\n" for face in FACES)


def wavefront(folder: Path, mtl: str, body: str) -> Path:
    (folder / "a.mtl").write_text(mtl)
    (folder / "a.obj").write_text(
        "mtllib a.mtl\n" + SQUARES + "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt 3 0\nvt 3 2\nvt 0 2\n" + body
    )
    return folder / "a.obj"


def albedo(mesh: Mesh, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and colours of a point in each face, sorted by the places. weights: (3,) of its corners."""
    at = (mesh.positions[mesh.faces] * weights[:, None]).sum(1)
    colour = np.broadcast_to(mesh.color, at.shape)
    if mesh.texture is not None:
        colour = mesh.sample_texture((mesh.uvs[mesh.uv_faces] * weights[:, None]).sum(1))
    if mesh.colors is not None:
        colour = colour * (mesh.colors[mesh.color_faces] * weights[:, None]).sum(1)
    return at, colour


def assert_alike(mesh: Mesh, parts: list[Mesh]) -> None:
    """The mesh has the colour of the parts, at points of each face that lie in many texels."""
    for weights in np.random.default_rng(0).dirichlet((1, 1, 1), 12):
        at, colour = albedo(mesh, weights)
        others = [albedo(part, weights) for part in parts]
        for where, expected in zip(*(np.concatenate(one) for one in zip(*others, strict=True)), strict=True):
            near = np.abs(at - where).sum(1)
            assert near.min() < 1e-9
            assert_allclose(colour[near.argmin()], expected, atol=1e-5)


def test_colours_of_materials(tmp_path):
    mtl = "newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 0.5\n"
    path = wavefront(tmp_path, mtl, f"{PLAIN[0]}usemtl red\n{PLAIN[1]}usemtl blue\n{PLAIN[2]}")
    scene = load_scene(path)
    assert [node.name for node in scene] == ["a", "red", "blue"]
    blue = (0, 0, float(srgb_to_linear(np.array(0.5))))
    assert [node.geometry.mesh.color for node in scene] == [(1, 1, 1), (1, 0, 0), blue]
    mesh = load_mesh(path)
    assert len(mesh.positions) == 8 and mesh.texture is None
    assert_alike(mesh, [node.geometry.mesh for node in scene])


def test_textures_of_materials_share_an_atlas(tmp_path):
    random = np.random.default_rng(1)
    for name, size in (("a", (5, 7)), ("b", (8, 3))):
        save_png(tmp_path / f"{name}.png", random.random((*size, 3)))
    mtl = "newmtl a\nmap_Kd a.png\nPr 0.25\nnewmtl b\nmap_Kd b.png\nPr 0.75\nnewmtl c\nKd 0 1 0\n"
    repeated = FACES[1].replace("/2", "/5").replace("/3", "/6").replace("/4", "/7")
    body = f"usemtl a\n{FACES[0]}usemtl b\n{repeated}usemtl c\n{PLAIN[2]}"
    path = wavefront(tmp_path, mtl, body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh, scene = load_mesh(path), load_scene(path)
    assert [node.geometry.mesh.texture is None for node in scene] == [False, False, True]
    assert_alike(mesh, [node.geometry.mesh for node in scene])
    # Roughness differs between the materials, so that it is a map now.
    texture = np.repeat(mesh.material.metallic_roughness[..., 1:], 3, 2)
    rough = Mesh(mesh.positions, mesh.faces, mesh.uvs, mesh.uv_faces, texture=texture)
    found = np.sort(albedo(rough, np.full(3, 1 / 3))[1][:, 0] * mesh.material.roughness)
    assert_allclose(found, [0.25] * 2 + [0.75] * 2 + [1] * 2, atol=1e-6)
    path.write_text(path.read_text().replace("vt 3 2", "vt 300 200"))
    with (
        config(max_megapixels=1),
        pytest.raises(InputError, match=r"2\.9.* megapixels.*load_scene keeps materials apart"),
    ):
        load_mesh(path)


def test_textures_of_a_ply(tmp_path):
    for name, colour in (("r", (1, 0, 0)), ("g", (0, 1, 0))):
        save_png(tmp_path / f"{name}.png", np.tile(np.array(colour, float), (2, 2, 1)))
    (tmp_path / "a.ply").write_text(
        "ply\nformat ascii 1.0\ncomment TextureFile r.png\ncomment TextureFile g.png\nelement vertex"
        " 4\nproperty float x\n"
        "property float y\nproperty float z\nelement face 2\nproperty list uchar int vertex_indices\n"
        "property list uchar float texcoord\nproperty int texnumber\nend_header\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
        "3 0 1 2 6 0 0 1 0 1 1 1\n3 0 2 3 6 0 0 1 1 0 1 0\n"
    )
    at, colour = albedo(load_mesh(tmp_path / "a.ply"), np.full(3, 1 / 3))
    assert_allclose(colour[at[:, 0].argsort()], [[1, 0, 0], [0, 1, 0]], atol=1e-6)


def test_colours_of_faces_of_an_off(tmp_path):
    (tmp_path / "a.off").write_text(
        "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2 255 0 0\n3 0 2 3 0 255 0 255\n"
    )
    mesh = load_mesh(tmp_path / "a.off")
    assert_array_equal(mesh.colors[mesh.color_faces[:, 0]], [[1, 0, 0], [0, 1, 0]])


def rigged(folder: Path, change=lambda document: None) -> Path:
    """A triangle with a morph target and a skin, whose joint is moved, in a node that is moved elsewhere."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4")
    mode, normals = (np.array([[0, 0, z]] * 3, "<f4") for z in (2, 1))
    arrays = [points, mode, np.zeros((3, 4), "<u2"), np.eye(4, dtype="<f4")[[0, 0, 0]], normals]
    data = b"".join(a.tobytes() for a in arrays)
    starts = np.cumsum([0] + [a.nbytes for a in arrays])
    kinds = [(5126, "VEC3"), (5126, "VEC3"), (5123, "VEC4"), (5126, "VEC4"), (5126, "VEC3")]
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"byteLength": len(data), "uri": "data:;base64," + base64.b64encode(data).decode()}],
        "bufferViews": [{"buffer": 0, "byteOffset": int(s), "byteLength": a.nbytes} for s, a in zip(starts, arrays)],
        "accessors": [{"bufferView": k, "componentType": c, "count": 3, "type": t} for k, (c, t) in enumerate(kinds)],
        "meshes": [
            {
                "primitives": [
                    {"attributes": {"POSITION": 0, "JOINTS_0": 2, "WEIGHTS_0": 3, "NORMAL": 4}, "targets": [{"POSITION": 1}]}
                ],
                "weights": [0.5],
            }
        ],
        "nodes": [
            {"mesh": 0, "skin": 0, "translation": [100, 0, 0]},
            {"translation": [0, 5, 0], "rotation": [0.5**0.5, 0, 0, 0.5**0.5]},
        ],
        "skins": [{"joints": [1]}],
        "scenes": [{"nodes": [0, 1]}],
    }  # fmt: skip
    change(document)
    (folder / "a.gltf").write_text(json.dumps(document))
    return folder / "a.gltf"


@pytest.mark.parametrize("kind", ["morph", "skin", "both"])
def test_one_mesh_stands_as_its_morph_targets_and_skins_say(tmp_path, kind):
    def change(document):
        if kind == "morph":
            del document["nodes"][0]["skin"], document["skins"]
        if kind == "skin":
            del document["meshes"][0]["primitives"][0]["targets"], document["meshes"][0]["weights"]

    path = rigged(tmp_path, change)
    mesh, node = load_mesh(path), load_scene(path)[0]
    found = geometry_of(node.geometry).lists()
    place = np.eye(4) if node.to_world is None else node.to_world
    assert_allclose(mesh.positions, found["positions"] @ place[:3, :3].T + place[:3, 3], atol=1e-6)
    height = 0.0 if kind == "skin" else 1.0
    corner = {"morph": (100, 0, height)}.get(kind, (0, 5 - height, 0))
    assert_allclose(mesh.positions[0], corner, atol=1e-6)
    normal = (0, 0, 1) if kind == "morph" else (0, -1, 0)
    assert_allclose(mesh.normals, np.tile(normal, (len(mesh.normals), 1)), atol=1e-6)


PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float"
    " z\n{0}element face 1\n"
    "property list uchar int vertex_indices\n{1}end_header\n0 0 0{2}\n1 0 0{2}\n0 1 0{2}\n3 0 1 2\n{3}"
)
ALPHA = "".join(f"property uchar {name}\n" for name in ("red", "green", "blue", "alpha"))


def changed(change) -> str:
    document = json.loads(text_gltf())
    change(document)
    return json.dumps(document)


LOSSES = {
    "lines.obj": ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nl 1 2\nl 2 3\np 1\n", "2 lines, 1 points are not read"),
    "normals.obj": ("v 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nf 1//1 2//1 3//1\nf 3 2 1\n", "no normals, so none are used"),
    "edges.ply": (PLY.format("", "element edge 1\nproperty int a\n", "", "0\n"), r"elements that are not read.*edge \(1\)"),
    "alpha.ply": (PLY.format(ALPHA, "", " 1 2 3 4", ""), "alpha of its colours was left out"),
    "both.off": ("COFF\n3 1 0\n0 0 0 9 9 9\n1 0 0 9 9 9\n0 1 0 9 9 9\n3 0 1 2 255 0 0\n", "colours of faces were left out"),
    "index.off": ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 7\n", "numbers of a colour map"),
    "nearest.gltf": (
        changed(lambda d: (d["textures"][0].update(sampler=0), d.update(samplers=[{"minFilter": 9984}]))),
        r"NEAREST.*texels are interpolated",
    ),
    "points.gltf": (
        changed(lambda d: d["meshes"][0]["primitives"].append({"attributes": {"POSITION": 0}, "mode": 0})),
        "1 primitives of points",
    ),
    "scenes.gltf": (changed(lambda d: d["scenes"].append({"nodes": [0]})), "2 scenes; scene 0 is read"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_lost_is_named(tmp_path, name):
    text, words = LOSSES[name]
    (tmp_path / name).write_text(text)
    with pytest.warns(UserWarning, match=words):
        load_mesh(tmp_path / name)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("d 0.5", "d of its materials"),
        ("map_Bump x.png", "map_Bump"),
        ("map_Kd -s 2 2 1 a.png", "options -s"),
    ],
)
def test_what_a_material_loses_is_named(tmp_path, key, words):
    save_png(tmp_path / "a.png", np.ones((2, 2, 3)))
    with pytest.warns(UserWarning, match=words):
        load_mesh(wavefront(tmp_path, f"newmtl m\n{key}\n", f"usemtl m\n{FACES[0]}"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ply", PLY.format("", "", "", "").replace("vertex 3", "vertex 2").replace("face 1", "face 0")),
        ("a.obj", "v 0 0 0\nv 1 1 1\n"),
        ("a.off", "OFF\n2 0 0\n0 0 0\n1 1 1\n"),
    ],
)
def test_a_point_cloud_is_called_one(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(
        InputError, match=rf"{name}': it is a point cloud of 2 vertices.*; load_scene draws clouds"
    ):
        load_mesh(tmp_path / name)


def test_what_a_picture_loses_is_named(tmp_path):
    frames = [Image.new("RGBA", (2, 2), (9, 9, 9, 9 * k)) for k in range(2)]
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="several pictures, of which the first is read"):
        load_image(tmp_path / "a.tif")
    exif = Image.Exif()
    exif[274] = 6
    frames[0].convert("RGB").save(tmp_path / "a.jpg", exif=exif)
    with pytest.warns(
        UserWarning, match=r"orientation 6 of its EXIF\); its pixels are read as they are stored"
    ):
        load_image(tmp_path / "a.jpg")
    frames[0].save(tmp_path / "t.png")
    with pytest.warns(UserWarning, match=r"alpha of the texture '.*t\.png' was left out"):
        load_mesh(wavefront(tmp_path, "newmtl m\nmap_Kd t.png\n", f"usemtl m\n{FACES[0]}"))


def test_a_picture_is_of_the_kind_that_its_name_says(tmp_path):
    with pytest.raises(InputError, match=r"would be a PNG; name a file that ends in \.png"):
        save_png(tmp_path / "a.jpg", np.ones((2, 2, 3)))
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    run = [str(tmp_path / "a.obj"), "--size", "8x8", "--picture"]
    assert CliRunner().invoke(app, ["view", *run, str(tmp_path / "a.jpg")]).exit_code == 0
    assert (tmp_path / "a.jpg").read_bytes().startswith(b"\xff\xd8")
    assert CliRunner().invoke(app, ["view", *run, str(tmp_path / "a.xyz")]).exit_code != 0
