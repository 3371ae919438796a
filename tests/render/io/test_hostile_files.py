"""Files that attack: they reach no other file, start no program, and cost neither time nor memory."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hostile_files import ball, deep_png, png, radiance, text_gltf, text_ply, whole_folders
from PIL import Image

from dressi.config import config
from dressi.errors import InputError
from dressi.render.formats import load_mesh, save_mesh
from dressi.render.io import load_image, load_photos, read_image, save_png
from dressi.render.io.images import decode, has_alpha, image_size, save_image
from dressi.render.io.pixels import encode_exr

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n8 8 scale showpage\n%%EOF\n"


def mesh_with_texture(folder: Path, content: bytes, name: str = "t.png") -> Path:
    """An OBJ whose material names a file of that content."""
    text = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl m\nf 1/1 2/2 3/3\n"
    (folder / "a.obj").write_text(text)
    (folder / "a.mtl").write_text(f"newmtl m\nmap_Kd {name}\n")
    (folder / name).write_bytes(content)
    return folder / "a.obj"


class TestImages:
    def test_an_eps_named_as_a_texture_starts_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a program was started"))
        monkeypatch.setattr(subprocess, "check_call", lambda *a, **k: pytest.fail("a program was started"))
        for name in ("t.png", "t.eps"):
            with pytest.raises(InputError, match="not PNG, JPEG"):
                load_mesh(mesh_with_texture(tmp_path, EPS, name))
        with pytest.raises(InputError, match="not PNG, JPEG"):
            decode(EPS, "x")

    @pytest.mark.parametrize("kind", ["PPM", "ICNS", "PCX", "TGA", "DDS", "SGI", "IM"])
    def test_other_kinds_that_pillow_knows_are_not_opened(self, tmp_path, kind):
        Image.new("RGB", (16, 16)).save(tmp_path / "a.png", kind)
        with pytest.raises(InputError, match="not PNG, JPEG"):
            read_image(tmp_path / "a.png")

    @pytest.mark.parametrize("side", [13_000, 30_000])
    def test_large_pictures_are_refused_before_they_are_decoded(self, tmp_path, side, monkeypatch):
        row = b"\0" * (1 + 3 * side)
        data = png(side, side, 8, 2, row)  # the head alone tells
        monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was decoded"))
        for call in (lambda: decode(data, "big.png"), lambda: load_mesh(mesh_with_texture(tmp_path, data))):
            with pytest.raises(
                InputError,
                match=rf"{side}x{side} pixels.*64 megapixels.*DRESSI_MAX_MEGAPIXELS={side * side // 10**6}",
            ):
                call()

    def test_every_kind_has_its_size_checked(self, tmp_path):
        picture = Image.new("RGB", (1300, 1000))
        files = {}
        for kind in ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP"):
            picture.save(tmp_path / kind, kind)
            files[kind] = (tmp_path / kind).read_bytes()
        picture.save(tmp_path / "x", "WEBP", lossless=True)
        files["lossless"] = (tmp_path / "x").read_bytes()
        Image.new("RGBA", (1300, 1000)).save(tmp_path / "x", "WEBP")
        files["alpha"] = (tmp_path / "x").read_bytes()
        files["deep"] = deep_png(np.zeros((1000, 1300, 3), np.uint16))
        files["hdr"] = radiance(1300, 1000)
        files["exr"] = encode_exr(np.zeros((1000, 1300, 1)), half=True)
        for name, data in files.items():
            with (
                config(max_megapixels=1),
                pytest.raises(InputError, match=r"1300x1000 pixels.*limit of 1 mega"),
            ):
                decode(data, name)
            (tmp_path / "f").write_bytes(data)
            assert image_size(tmp_path / "f") == (1300, 1000), name

    def test_heads_tell_of_the_alpha_that_is_decoded(self, tmp_path):
        for kind in ("PNG", "TIFF", "WEBP", "GIF", "JPEG"):
            for mode in ("L", "RGB", "LA", "RGBA", "P"):
                picture = Image.new(mode, (4, 3))
                if kind == "JPEG" and mode != "L":
                    picture = picture.convert("RGB")
                picture.save(tmp_path / "a", kind)
                assert has_alpha(tmp_path / "a") == (read_image(tmp_path / "a").shape[-1] == 4), (kind, mode)
        Image.new("P", (4, 3)).save(tmp_path / "a", "PNG", transparency=0)
        assert has_alpha(tmp_path / "a") and read_image(tmp_path / "a").shape[-1] == 4
        for channels in (1, 3, 4):
            save_image(tmp_path / "a.exr", np.ones((3, 4, channels)))
            assert has_alpha(tmp_path / "a.exr") == (channels == 4)
        (tmp_path / "a").write_bytes(b"nothing")
        with pytest.raises(InputError, match="cannot read the image"):
            has_alpha(tmp_path / "a")

    def test_the_limit_is_an_environment_variable(self, monkeypatch):
        monkeypatch.setenv("DRESSI_MAX_MEGAPIXELS", "7")
        assert config.max_megapixels == 7
        monkeypatch.setenv("DRESSI_MAX_MEGAPIXELS", "-1")
        with pytest.raises(InputError, match="DRESSI_MAX_MEGAPIXELS='-1'"):
            decode(deep_png(), "x")

    def test_numbers_of_unknown_range_are_refused(self, tmp_path):
        Image.fromarray(np.full((4, 4), 3.5, np.float32)).save(tmp_path / "a.tif")
        with pytest.raises(InputError, match="32-bit values"):
            load_image(tmp_path / "a.tif")


class TestOtherFiles:
    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    @pytest.mark.parametrize("name", ["a.obj", "a.glb", "a.ply", "a.png"])
    def test_pipes_are_not_waited_for(self, tmp_path, name):
        os.mkfifo(tmp_path / name)
        raised: list[BaseException] = []

        def load() -> None:
            try:
                (load_image if name.endswith("png") else load_mesh)(tmp_path / name)
            except InputError as error:
                raised.append(error)

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        thread.join(10)
        assert raised and "not a regular file" in str(raised[0])

    def test_huge_files_are_refused_by_their_size(self, tmp_path):
        for name in ("a.ply", "a.obj", "a.png"):
            with open(tmp_path / name, "wb") as stream:
                stream.truncate(1 << 40)
            with pytest.raises(InputError, match="1,099,511,627,776 bytes"):
                (load_image if name.endswith("png") else load_mesh)(tmp_path / name)

    def test_a_ply_takes_its_texture_from_its_own_folder_only(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        save_png(tmp_path / "secret.png", np.ones((2, 2, 3)))
        for name in ("../secret.png", str(tmp_path / "secret.png"), "file:///etc/passwd"):
            (folder / "t.ply").write_text(text_ply(ball()).replace("a.png", name))
            with pytest.warns(UserWarning, match="is not beside it"):
                assert load_mesh(folder / "t.ply").texture is None

    def test_textures_behind_links_that_lead_outside_are_not_read(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        path = mesh_with_texture(folder, b"")
        save_png(tmp_path / "secret.png", np.ones((2, 2, 3)))
        (folder / "t.png").unlink()
        (folder / "t.png").symlink_to(tmp_path / "secret.png")
        with pytest.warns(UserWarning, match="is not beside it"):
            assert load_mesh(path).texture is None
        (folder / "a.mtl").unlink()
        (folder / "a_texture.png").symlink_to(tmp_path / "secret.png")
        with (
            pytest.warns(UserWarning),
            pytest.raises(InputError, match=r"a_texture\.png', outside its folder"),
        ):
            load_mesh(path)

    @pytest.mark.parametrize("place", ["0.png", "mask/0.png", "mask"])
    def test_photographs_and_masks_behind_such_links_are_refused(self, tmp_path, place):
        folder = whole_folders(tmp_path / "in")[0]
        assert len(load_photos(folder).names) == 2
        outside = tmp_path / "outside"
        (folder / place).rename(outside)
        (folder / place).symlink_to(outside)
        with pytest.raises(InputError, match="outside its folder"):
            load_photos(folder)

    def test_a_texture_without_a_name(self, tmp_path):
        with pytest.warns(UserWarning, match="its texture '' is not beside it"):
            path = mesh_with_texture(tmp_path, b"x")
            (tmp_path / "a.mtl").write_text("newmtl m\nmap_Kd\n")
            assert load_mesh(path).texture is None


@pytest.mark.filterwarnings("ignore")
class TestNumbers:
    @pytest.mark.parametrize("index", ["9" * 30, "-" + "9" * 30, "9223372036854775807", "1e3", "0"])
    def test_obj_indices(self, tmp_path, index):
        (tmp_path / "a.obj").write_text(f"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 {index}\n")
        with pytest.raises(InputError, match=r"a\.obj.*(line 4|refers to number)"):
            load_mesh(tmp_path / "a.obj")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda d: d["bufferViews"][0].update(byteLength=-48), "byteLength must be a whole number"),
            (lambda d: d["bufferViews"][0].update(byteOffset=-4), "byteOffset must be a whole number"),
            (lambda d: d["bufferViews"][0].update(byteStride=2), "byteStride 2 is less"),
            (lambda d: d["bufferViews"][0].update(byteStride=1 << 40), "runs past"),
            (lambda d: d["buffers"][0].update(byteLength=-1), "byteLength must be"),
            (lambda d: d["accessors"][0].update(count=1 << 28), "limit of 10,000,000"),
            (lambda d: d["accessors"][0].update(count=-1), "count must be"),
            (lambda d: d["accessors"][0].update(count=True), "count must be"),
            (lambda d: d["accessors"][0].update(type="MAT9"), "has the type MAT9"),
            (lambda d: d["accessors"][0].update(componentType=1), "component type 1"),
            (lambda d: d["accessors"][0]["sparse"].update(count=4), "replaces 4 of 3"),
            (lambda d: d["accessors"][0]["sparse"]["indices"].update(bufferView=0, componentType=5125), "not there"),
            (lambda d: d["accessors"][2].update(count=2), "2 COLOR_0 for 3"),
            (lambda d: d["nodes"][0].update(scale=[1, float("nan"), 1]), "NaN, which is not a JSON number"),
            (lambda d: d["nodes"][0].update(matrix=[1] * 15), "matrix must be 16 finite"),
            (lambda d: d["nodes"][1].update(rotation=[0, 0, 0, 0]), "no quaternion"),
            (lambda d: d["nodes"][2].update(children=[1]), "its own ancestor"),
            (lambda d: d["materials"][0]["pbrMetallicRoughness"].update(baseColorFactor=[1, 2, 1, 1]), r"not in \[0, 1\]"),
            (lambda d: d["materials"][0]["pbrMetallicRoughness"].update(baseColorFactor=[1]), "baseColorFactor must be 4"),
        ],
    )  # fmt: skip
    def test_gltf_numbers(self, tmp_path, change, words):
        document = json.loads(text_gltf())
        (tmp_path / "t.gltf").write_text(json.dumps(document))
        assert len(load_mesh(tmp_path / "t.gltf").faces) == 2
        change(document)
        (tmp_path / "t.gltf").write_text(json.dumps(document))
        with pytest.raises(InputError, match=words):
            load_mesh(tmp_path / "t.gltf")

    def test_infinite_numbers_of_json_are_refused(self, tmp_path):
        text = text_gltf().replace("[1, 0.5, 1, 1]", "[1e999, 0, 0, 1]")
        (tmp_path / "t.gltf").write_text(text)
        with pytest.raises(InputError, match="baseColorFactor must be 4 finite"):
            load_mesh(tmp_path / "t.gltf")

    def test_counts_of_headers_are_compared_with_the_file(self, tmp_path):
        for name, text in (
            ("a.ply", "ply\nformat ascii 1.0\nelement vertex {n}\nproperty float x\nproperty float y\nproperty float z\n"
                      "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n"),
            ("b.ply", "ply\nformat binary_little_endian 1.0\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\n"
                      "element face {n}\nproperty list uchar int vertex_indices\nend_header\n"),
            ("a.off", "OFF\n{n} 1 0\n0 0 0\n"),
        ):  # fmt: skip
            for count, words in ((9_000_000, "truncated"), (1 << 40, "limit of"), (-1, "header|truncated")):
                (tmp_path / name).write_text(text.format(n=count))
                with pytest.raises(InputError, match=words):
                    load_mesh(tmp_path / name)

    def test_a_larger_limit_opens_larger_meshes(self, tmp_path):
        save_mesh(tmp_path / "a.ply", ball())
        with (
            config(max_faces=31),
            pytest.raises(InputError, match=r"above the limit of 31.*DRESSI_MAX_FACES=32"),
        ):
            load_mesh(tmp_path / "a.ply")
        with config(max_faces=32):
            assert len(load_mesh(tmp_path / "a.ply").faces) == 32

    def test_calibrations_with_numbers_that_are_none(self, tmp_path):
        plain, transforms, *_ = whole_folders(tmp_path)
        for folder, name in ((plain, "cameras.json"), (transforms, "transforms.json")):
            text = (folder / name).read_text()
            for old, new in (
                ('"bbox": [', '"bbox": [NaN, ['),
                ('"bbox"', '"k1": 1e999, "bbox"'),
                ("1", "1" * 5000),
            ):
                (folder / name).write_text(text.replace(old, new, 1))
                with pytest.raises(InputError, match=name.replace(".", r"\.")):
                    load_photos(folder)
        with config(max_megapixels=1):
            (transforms / "transforms.json").write_text(text)
            assert len(load_photos(transforms).names) == 2
            with pytest.raises(InputError, match="2 photographs of 3000x2000 pixels are 12 megapixels"):
                load_photos(transforms, (3000, 2000))


@pytest.mark.filterwarnings("ignore")
class TestCosts:
    def scene(self, nodes: int, primitives: int) -> str:
        document = json.loads(text_gltf())
        document["meshes"][0]["primitives"] *= primitives
        document["nodes"] = [{"mesh": 0, "translation": [k, 0, 0]} for k in range(nodes)]
        document["scenes"] = [{"nodes": list(range(nodes))}]
        return json.dumps(document)

    @pytest.mark.parametrize(("nodes", "primitives"), [(3000, 1), (1, 400)])
    def test_one_list_of_vertices_is_decoded_once(self, tmp_path, nodes, primitives, monkeypatch):
        from dressi.render.formats.gltf.document import Document

        decoded = []
        plain = Document._accessor
        monkeypatch.setattr(Document, "_accessor", lambda self, *a: decoded.append(a[0]) or plain(self, *a))
        (tmp_path / "t.gltf").write_text(self.scene(nodes, primitives))
        mesh = load_mesh(tmp_path / "t.gltf")
        assert len(mesh.faces) == nodes * primitives and sorted(decoded) == [0, 1, 2, 3]

    def test_scenes_that_multiply_are_refused(self, tmp_path):
        (tmp_path / "t.gltf").write_text(self.scene(300, 300))
        with pytest.raises(InputError, match="places 90,000 primitives"):
            load_mesh(tmp_path / "t.gltf")

    def test_a_long_chain_of_nodes(self, tmp_path):
        document = json.loads(text_gltf())
        document["nodes"] = [{"children": [k + 1], "translation": [1, 0, 0]} for k in range(5000)] + [
            {"mesh": 0}
        ]
        document["scenes"] = [{"nodes": [0]}]
        (tmp_path / "t.gltf").write_text(json.dumps(document))
        assert load_mesh(tmp_path / "t.gltf").bounds()[0, 0] == pytest.approx(5000)


@pytest.mark.parametrize("seed", [100, 150, 200])
@pytest.mark.release("150", "200")
def test_hostile_files_load_or_are_refused(seed: int):
    """A few of those that `python -m hostile_files` tries for hours."""
    root = Path(__file__).parents[3]
    paths = [str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "hostile_files", "--count", "50", "--seed", str(seed), "--memory", "512"],
        capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert '"files": 50' in done.stdout
