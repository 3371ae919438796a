"""Small files that ask for much are refused before they cost it."""

import json
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from hostile_files import chunk, deep_png, png, radiance, text_gltf, whole_folders

from dressi.errors import InputError
from dressi.render.formats import load_mesh
from dressi.render.io import load_image, load_photos, read_image
from dressi.render.io.exr import encode_exr
from dressi.render.io.images import decode
from dressi.render.io.pixels import MOST_SCANS

pytestmark = pytest.mark.one_driver


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
    if empty:
        del position["bufferView"]
        position["count"] = 2_000_000
    else:
        position["count"] = 60_000
        position["sparse"]["count"] = 1
        del position["bufferView"]
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
    from PIL import Image

    for mode, depth in (("1", 1), ("L", 8), ("P", 8), ("LA", 8), ("RGBA", 8)):
        Image.new(mode, (37, 1)).save(tmp_path / "a.png")
        assert read_image(tmp_path / "a.png").shape[:2] == (1, 37), (mode, depth)


def test_a_jpeg_of_many_scans(tmp_path):
    from PIL import Image

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
    from dressi.render.mesh import Mesh

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
