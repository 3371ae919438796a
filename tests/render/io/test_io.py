"""Meshes, images and strands in and out of files, and what files may cost."""

import base64
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zlib

import numpy as np
import pygltflib
import pytest
import trimesh
from hostile_files import chunk, deep_png, png, radiance, text_gltf, whole_folders
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from dressi.errors import InputError
from dressi.render import Mesh, StrandGeometry, linear_to_srgb, primitives
from dressi.render.formats import load_mesh, save_glb, save_mesh
from dressi.render.io import load_image, load_photos, read_image, write_json
from dressi.render.io.files import write_files
from dressi.render.io.images import decode, encode_png, resize, save_gif, save_png
from dressi.render.io.pixels import MOST_SCANS, encode_exr
from dressi.render.io.strands import line_strands, load_strands, save_strands


@pytest.fixture(scope="module")
def pear() -> Mesh:
    return primitives.pear(16, 16, 64)


def corners(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    return mesh.positions[mesh.faces], mesh.uvs[mesh.uv_faces]


@pytest.mark.parametrize("ending", [".glb", ".obj"])
def test_what_is_saved_is_what_is_loaded(tmp_path, pear, ending):
    save_mesh(tmp_path / f"pear{ending}", pear)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_mesh(tmp_path / f"pear{ending}")
    assert len(again.positions) == len(pear.positions) and again.is_closed()
    for now, before in zip(corners(again), corners(pear), strict=True):
        assert_allclose(now, before, atol=1e-6)
    assert_allclose(linear_to_srgb(again.texture), linear_to_srgb(pear.texture), atol=0.51 / 255)
    assert again.name == "pear"
    if ending == ".glb":
        smooth = pear.vertex_normals()[pear.faces]
        assert_allclose(again.normals[again.normal_faces], smooth, atol=1e-6)


def test_other_libraries_read_the_glb(tmp_path, pear):
    path = tmp_path / "pear.glb"
    save_glb(path, pear)
    scene = trimesh.load(path, force="mesh", process=False)
    assert len(scene.faces) == len(pear.faces)
    assert_allclose(scene.bounds, pear.bounds(), atol=1e-6)
    # trimesh flips v to OBJ's convention, which is the same picture upside down.
    assert_allclose(scene.visual.uv[scene.faces] * (1, -1) + (0, 1), corners(pear)[1], atol=1e-6)
    assert scene.visual.material.baseColorTexture.size == (64, 64)
    document = pygltflib.GLTF2().load(str(path))
    assert document.asset.version == "2.0" and document.materials[0].pbrMetallicRoughness.metallicFactor == 0
    total = os.path.getsize(path)
    magic, version, length = struct.unpack("<4sII", path.read_bytes()[:12])
    assert (magic, version, length) == (b"glTF", 2, total) and total % 4 == 0
    for view in document.bufferViews:
        assert view.byteOffset % 4 == 0
        assert view.byteOffset + view.byteLength <= document.buffers[0].byteLength


def test_obj_flips_v_fans_polygons_and_counts_backward(tmp_path):
    (tmp_path / "q.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nf -4/-4 -3/-3 -2/-2 -1/-1\n"
    )
    mesh = load_mesh(tmp_path / "q.obj")
    assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3]])
    assert_array_equal(mesh.uvs[mesh.uv_faces[0]], [[0, 1], [1, 1], [1, 0]])


def test_obj_takes_its_textures_from_its_own_folder_only(tmp_path):
    folder = tmp_path / "mesh"
    folder.mkdir()
    image = np.zeros((2, 2, 3))
    image[0, 0] = 1
    save_png(tmp_path / "secret.png", image)
    text = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl m\nf 1/1 2/2 3/3\n"
    (folder / "a.obj").write_text(text)
    (folder / "a.mtl").write_text("newmtl m\nKd 1 0 0\nmap_Kd ../secret.png\n")
    with pytest.warns(UserWarning, match=r"'\.\./secret\.png' is not beside it"):
        mesh = load_mesh(folder / "a.obj")
    (folder / "a.mtl").write_text("newmtl m\nKd 1 0 0\n")
    assert mesh.texture is None and mesh.color == (1, 0, 0)
    save_png(folder / "a_texture.png", image)
    with pytest.warns(UserWarning, match=r"'a_texture\.png' is used"):
        mesh = load_mesh(folder / "a.obj")
    assert_array_equal(mesh.texture, image)


def gltf(tmp_path, change=None, positions=None, index=(0, 1, 2), uri=None):
    """A small .gltf with one triangle whose document `change` may edit."""
    data = np.asarray(positions if positions is not None else np.eye(3), "<f4").tobytes()
    data += np.asarray(index, "<u2").tobytes() + b"\0\0"
    document = {
        "asset": {"version": "2.0"},
        "buffers": [
            {"byteLength": len(data), "uri": uri or "data:application/octet-stream;base64," + base64.b64encode(data).decode()}
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 0, "byteOffset": 36, "byteLength": 6}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"},
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
    }  # fmt: skip
    if change:
        change(document)
    path = tmp_path / "t.gltf"
    path.write_text(json.dumps(document))
    return path


def test_node_transforms_are_applied_and_mirrors_turn_faces(tmp_path):
    def change(document):
        document["nodes"] = [
            {"children": [1], "translation": [1, 2, 3]},
            {"mesh": 0, "scale": [2, 2, -2], "rotation": [0, 0, 0.5**0.5, 0.5**0.5]},
        ]

    mesh = load_mesh(gltf(tmp_path, change))
    quarter = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    expected = np.eye(3) * (2, 2, -2) @ quarter.T + (1, 2, 3)
    assert sorted(map(tuple, mesh.positions.round(5))) == sorted(map(tuple, expected.round(5)))
    before = np.cross(*(np.eye(3)[1:] - np.eye(3)[0])) * (1, 1, -1) @ quarter.T
    assert mesh.face_normals()[0] @ before > 0.9 * np.linalg.norm(before)


def test_primitives_are_merged_and_welded(tmp_path):
    def change(document):
        document["nodes"].append({"mesh": 0, "scale": [1, 1, -1]})
        document["scenes"][0]["nodes"] = [0, 1]

    mesh = load_mesh(gltf(tmp_path, change))
    assert len(mesh.faces) == 2 and len(mesh.positions) == 4


@pytest.mark.parametrize("uri", ["../t.bin", "/etc/passwd", "file:///etc/passwd", "http://x.test/a.bin", "..%2Ft.bin", "C:\\a.bin", "a/../../t.bin"])  # fmt: skip
def test_a_gltf_may_not_point_outside_its_folder(tmp_path, uri):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "t.bin").write_bytes(b"\0" * 44)
    with pytest.raises(InputError, match=r"t\.gltf.*refers to"):
        load_mesh(gltf(folder, uri=uri))


def test_a_link_that_leads_outside_is_outside(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "t.bin").write_bytes(b"\0" * 44)
    (folder / "t.bin").symlink_to(tmp_path / "t.bin")
    with pytest.raises(InputError, match="outside its folder"):
        load_mesh(gltf(folder, uri="t.bin"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["scenes"][0].update(nodes=[]), "no triangles"),
        (lambda d: d["meshes"][0]["primitives"][0].update(mode=1), "no triangles"),
        (lambda d: d["accessors"][0].update(count=9), "runs past"),
        (lambda d: d["bufferViews"][0].update(byteLength=999), "runs past"),
        (lambda d: d["buffers"][0].update(byteLength=999), "truncated"),
        (lambda d: d["nodes"][0].update(children=[0]), "ancestor"),
        (lambda d: d["nodes"][0].update(mesh=7), "entry 7 of meshes"),
        (lambda d: d["meshes"][0]["primitives"][0].update(attributes={"POSITION": "x"}), "cannot be used"),
        (lambda d: d.update(extensionsRequired=["KHR_materials_volume"]), "KHR_materials_volume"),
        (lambda d: d["asset"].update(version="1.0"), "glTF 1.0"),
        (lambda d: d["buffers"][0].update(uri="missing.bin"), r"no file.*missing\.bin"),
    ],
)
def test_damaged_gltf_is_refused(tmp_path, change, words):
    with pytest.raises(InputError, match=words):
        load_mesh(gltf(tmp_path, change))


def test_wrong_values_in_gltf_are_refused(tmp_path):
    with pytest.raises(InputError, match="out of range"):
        load_mesh(gltf(tmp_path, index=(0, 1, 3)))
    with pytest.raises(InputError, match=r"t\.gltf.*NaN"):
        load_mesh(gltf(tmp_path, positions=np.eye(3) * np.nan))
    with pytest.raises(InputError, match="degenerate"):
        load_mesh(gltf(tmp_path, positions=np.ones((3, 3))))


@pytest.mark.parametrize("ending", [".glb", ".gltf", ".obj", ".ply", ".off", ".stl"])
def test_what_is_no_mesh_is_refused_in_one_sentence(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    for content in (None, b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"hello world\n" * 20, b"{}", b"{"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            load_mesh(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="folder"):
        load_mesh(path)


@pytest.mark.parametrize("ending", [".glb", ".obj", ".ply", ".stl", ".off"])
@pytest.mark.filterwarnings("ignore")
def test_truncated_files_never_show_a_traceback(tmp_path, pear, ending):
    path = tmp_path / f"x{ending}"
    if ending in (".glb", ".obj"):
        save_mesh(path, pear)
    else:
        trimesh.Trimesh(pear.positions, pear.faces, process=False).export(path)
    whole = path.read_bytes()
    assert len(load_mesh(path).faces) == len(pear.faces)
    refused = 0
    for share in (0.01, 0.1, 0.35, 0.6, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * share)])
        try:
            load_mesh(path)  # a text file that ends after a whole face is a mesh
        except InputError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused >= (6 if ending in (".glb", ".ply") else 2)


def test_unknown_kinds_of_files_are_refused(tmp_path):
    (tmp_path / "a.fbx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"\.fbx.*give a \.glb"):
        load_mesh(tmp_path / "a.fbx")
    with pytest.raises(InputError, match=r"ends in \.glb or \.obj"):
        save_mesh(tmp_path / "a.fbx", primitives.cube())


def test_saving_replaces_whole_files_or_nothing(tmp_path, pear, monkeypatch):
    path = tmp_path / "a.glb"
    path.write_bytes(b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"a\.glb.*No space left"):
            save_glb(path, pear)
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["a.glb"]
    with pytest.raises(InputError, match=r"missing.*folder that exists"):
        save_glb(tmp_path / "missing" / "a.glb", pear)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folders_are_reported(tmp_path, pear):
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="writable"):
        save_glb(tmp_path / "a.glb", pear)


class TestImages:
    def test_png_keeps_code_values(self):
        codes = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
        from dressi.render.surface.color import srgb_to_linear

        again = decode(encode_png(srgb_to_linear(codes / 255)), "x")
        assert_array_equal((again * 255).round(), codes)

    def test_areas_keep_the_mean_and_are_exact_for_whole_factors(self):
        image = np.random.default_rng(0).random((6, 8, 3))
        assert_allclose(resize(image, (4, 3)), image.reshape(3, 2, 4, 2, 3).mean((1, 3)))
        assert_allclose(resize(image, (5, 4)).mean((0, 1)), image.mean((0, 1)))
        assert_allclose(resize(np.ones((4, 4)), (9, 7)), 1)
        ramp = np.tile((np.arange(8) + 0.5) / 8, (2, 1))
        assert_allclose(resize(ramp, (16, 2))[0, 1:-1], ((np.arange(16) + 0.5) / 16)[1:-1])

    def test_damaged_images_are_named(self, tmp_path):
        with pytest.raises(InputError, match="cannot read the image 'x'"):
            decode(b"not an image", "x")
        with pytest.raises(InputError, match="cannot read the image 'x'"):
            decode(encode_png(np.random.default_rng(0).random((64, 64, 3)))[:2000], "x")

    def test_gif_holds_every_frame(self, tmp_path):
        frames = np.random.default_rng(0).random((5, 8, 8, 3))
        save_gif(tmp_path / "a.gif", frames)
        with Image.open(tmp_path / "a.gif") as image:
            assert image.n_frames == 5 and image.size == (8, 8)


@pytest.mark.filterwarnings("ignore")
def test_real_meshes(data):
    expected = {
        "Avocado_512.glb": (363, 682, True), "BoomBox_512.glb": (3133, 6036, True), "Duck.glb": (2108, 4212, True),
        "spot_bob/spot.obj": (2930, 5856, True), "common/suzanne.obj": (505, 968, False),
        "stanford/Lucy100k.ply": (50002, 100000, False),
    }  # fmt: skip
    for name, (vertices, faces, textured) in expected.items():
        mesh = load_mesh(data / "meshes" / name)
        assert (len(mesh.positions), len(mesh.faces)) == (vertices, faces), name
        assert (mesh.texture is not None) == textured, name
        assert mesh.signed_volume() > 0, name


def test_json_holds_no_number_that_it_does_not_know(tmp_path):
    write_json(
        tmp_path / "a.json", {"a": [1.5, float("nan")], "b": {"c": float("inf"), "d": None}, "e": "text"}
    )
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == {"a": [1.5, None], "b": {"c": None, "d": None}, "e": "text"}


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    for target in (pipe, tmp_path):
        with pytest.raises(InputError, match="a folder, a device or a pipe"):
            write_files({file: b"new", target: b"new"})
    assert pipe.is_fifo() and not file.exists()


POINTS = np.arange(18, dtype=np.float32).reshape(6, 3)
STRANDS = StrandGeometry(POINTS, [0, 3, 6], np.arange(6) / 8, POINTS / 32, 0.5)


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_round_trip(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    found = load_strands(path)
    assert_array_equal(found.points, POINTS)
    assert_array_equal(found.colours, STRANDS.colours)
    assert found.offsets.tolist() == [0, 3, 6] and found.name == "a"
    if ending == ".hair":
        assert_array_equal(found.radius, STRANDS.radius)
        assert found.opacity.tolist() == [0.5]


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_damaged_files_are_refused(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(60):
        data = bytearray(whole[: rng.integers(len(whole))] if k % 2 else whole)
        for at in rng.integers(0, max(len(data), 1), 3 if data else 0):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            load_strands(path)
        except InputError as error:
            assert "a." in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_a_file_that_ends_early_is_truncated(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    whole = path.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=rf"a{ending}': it is truncated"):
            load_strands(path)


def test_a_strand_of_one_point_is_refused(tmp_path):
    head = struct.pack("<4s4I5f88s", b"HAIR", 2, 3, 3, 0, 1.0, 0.0, 1.0, 1.0, 1.0, b"")
    path = tmp_path / "one.hair"
    path.write_bytes(head + struct.pack("<2H", 1, 0) + bytes(36))
    with pytest.raises(InputError, match=r"one\.hair': strand 1 of 'one' has 1 point"):
        load_strands(path)


def test_promises_of_the_header_are_checked_before_memory(tmp_path):
    path = tmp_path / "large.hair"
    path.write_bytes(struct.pack("<4s4I5f88s", b"HAIR", 10**9, 10**9, 2, 1, *(1.0,) * 5, b""))
    with pytest.raises(InputError, match="above the limit"):
        load_strands(path)


def test_lines_of_primitives():
    places = np.eye(5)[:, :3]
    assert line_strands(places, np.array([0, 1, 1, 2, 3, 4])).offsets.tolist() == [0, 3, 5]
    assert line_strands(places, mode=2).count == 6 and line_strands(places, mode=3).count == 5
    with pytest.raises(InputError, match="two for each line"):
        line_strands(places, np.array([0, 1, 2]))


def taken(call):
    """MB of memory that a call which raises InputError takes, and what it says."""
    tracemalloc.start()
    with pytest.raises(InputError) as raised:
        call()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak, str(raised.value)


@pytest.mark.parametrize("mode", [4, 5, 6])
@pytest.mark.parametrize("empty", [True, False])
def test_gltf_primitives_that_share_a_long_accessor(tmp_path, mode, empty):
    document = json.loads(text_gltf())
    position = document["accessors"][0]
    del position["bufferView"]
    position["count"] = 2_000_000 if empty else 60_000
    if not empty:
        position["sparse"]["count"] = 1
    primitive = {"attributes": {"POSITION": 0}, "mode": mode}
    document["meshes"][0]["primitives"] = [primitive] * (400 if empty else 2000)
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    megabytes, said = taken(lambda: load_mesh(tmp_path / "a.gltf"))
    assert "above the limit of 10,000,000" in said and megabytes < 20


def test_gltf_elements_without_data(tmp_path):
    document = json.loads(text_gltf())
    document["accessors"][0]["count"] = 9_000_000
    del document["accessors"][0]["bufferView"]
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    megabytes, said = taken(lambda: load_mesh(tmp_path / "a.gltf"))
    assert "9,000,000 elements without data" in said and megabytes < 20


@pytest.mark.parametrize("gap", [" \n", "\t\n", "\r\n", "x" * 140 + "\n\n", " " * 127 + "\n"])
def test_radiance_heads_mean_one_size(tmp_path, gap):
    pytest.importorskip("cv2")
    body = radiance(16, 12)[-768:]
    head = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n{gap}"
    (tmp_path / "a.hdr").write_bytes(f"{head}-Y 12 +X 16\n\n-Y 20000 +X 30000\n".encode() + body * 2)
    try:
        assert load_image(tmp_path / "a.hdr").shape == (12, 16, 3)
    except InputError as error:
        assert "its head" in str(error)
    (tmp_path / "a.hdr").write_bytes(f"{head}-Y 7000 +X 7000\n".encode() + body)
    megabytes, said = taken(lambda: load_image(tmp_path / "a.hdr"))
    assert megabytes < 5 and ("truncated" in said or "its head" in said)


def test_a_long_head_of_radiance_takes_no_time(tmp_path):
    for line in (b"x" * 60_000, b"  x" * 20_000, b"x\n" * 30_000, b" \n" * 30_000, b"\n" * 60_000):
        (tmp_path / "a.hdr").write_bytes(b"#?RADIANCE\n" + line)
        with pytest.raises(InputError, match="its head"):
            load_image(tmp_path / "a.hdr")


@pytest.mark.parametrize("deep", [False, True])
def test_a_png_that_unpacks_to_more_than_its_pixels(deep):
    packed = zlib.compress(bytes(20_000_000), 1)
    whole = deep_png() if deep else png(4, 4, 8, 2, bytes(52))
    data = whole[:33] + chunk(b"IDAT", packed) + whole[-12:]
    megabytes, said = taken(lambda: decode(data, "a.png"))
    assert "unpacks to more bytes" in said and megabytes < 10
    assert decode(whole, "a.png").shape[-1] == 3


def test_interlaced_and_shallow_png_are_read(tmp_path):
    for mode in ("1", "L", "P", "LA", "RGBA"):
        Image.new(mode, (37, 1)).save(tmp_path / "a.png")
        assert read_image(tmp_path / "a.png").shape[:2] == (1, 37), mode


def test_a_jpeg_of_many_scans(tmp_path):
    Image.new("RGB", (16, 16)).save(tmp_path / "a.jpg", progressive=True)
    data = (tmp_path / "a.jpg").read_bytes()
    assert decode(data, "a.jpg").shape == (16, 16, 3)
    at = data.rindex(b"\xff\xda")
    _, said = taken(lambda: decode(data[:at] + data[at:-2] * (MOST_SCANS + 1) + data[-2:], "a.jpg"))
    assert "scans" in said


def test_a_damaged_exr_prints_nothing(tmp_path):
    whole = bytearray(encode_exr(np.random.default_rng(0).random((256, 64, 3)), half=True))
    rng = np.random.default_rng(1)
    for at in rng.integers(700, len(whole), 300):
        whole[at] ^= 255
    (tmp_path / "a.exr").write_bytes(bytes(whole))
    script = f"from dressi.render.io import load_image\ntry: load_image({str(tmp_path / 'a.exr')!r})\nexcept Exception as e: print(e)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1 and "a.exr" in done.stdout and not done.stderr


def test_views_of_one_photograph_are_refused_at_the_first(tmp_path, monkeypatch):
    from dressi.render.io import calibration

    folder = whole_folders(tmp_path)[0]
    document = json.loads((folder / "cameras.json").read_text())
    document["views"] = document["views"] * 5_000
    (folder / "cameras.json").write_text(json.dumps(document))
    looked = []
    plain = calibration.image_size
    monkeypatch.setattr(calibration, "image_size", lambda path: looked.append(path) or plain(path))
    with pytest.raises(InputError, match="lists 10000 views of 2 images"):
        load_photos(folder)
    assert len(looked) <= 2


def test_memory_that_ends_after_a_mesh_was_read_is_one_sentence(tmp_path, monkeypatch):
    def clean(self):
        raise MemoryError("no more")

    (tmp_path / "a.gltf").write_text(text_gltf())
    monkeypatch.setattr(Mesh, "clean", clean)
    with pytest.raises(InputError, match=r"a\.gltf.*MemoryError"):
        load_mesh(tmp_path / "a.gltf")


def test_a_head_of_numpy_that_is_no_python(tmp_path):
    folder = whole_folders(tmp_path)[0]
    (folder / "depth").mkdir()
    for name in ("0.npy", "1.npy"):
        head = "{'descr': '<f4', (((".ljust(118)
        (folder / "depth" / name).write_bytes(b"\x93NUMPY\1\0\x76\0" + head.encode() + bytes(768))
    with pytest.raises(InputError, match=r"0\.npy"):
        load_photos(folder, depth=True)
