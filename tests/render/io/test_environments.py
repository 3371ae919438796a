"""OpenEXR, 16-bit colour and environment maps: what is kept, and what is refused in one sentence."""

import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hostile_files import radiance
from numpy.testing import assert_allclose

from dressi.config import config
from dressi.errors import InputError
from dressi.render.io import load_environment, load_image, save_image
from dressi.render.io.images import image_size
from dressi.render.io.pixels import encode_exr

RNG = np.random.default_rng(4)
OpenEXR = pytest.importorskip("OpenEXR")


def written(path: Path, channels: dict[str, np.ndarray], **header: object) -> Path:
    stream = io.BytesIO()
    OpenEXR.File({"type": OpenEXR.scanlineimage, **header}, channels).write(stream)
    path.write_bytes(stream.getvalue())
    return path


class TestOpenEXR:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_floats_are_kept(self, tmp_path, channels):
        light = (RNG.normal(size=(5, 7, channels)) * 1e5).astype(np.float32)
        if channels == 4:
            light[..., 3] = RNG.uniform(0.1, 1, (5, 7))
        save_image(tmp_path / "a.exr", light, bits=32)
        found = load_image(tmp_path / "a.exr")
        assert found.dtype == np.float32 and found.shape == light.shape
        assert_allclose(found, light, rtol=3e-7 if channels == 4 else 0)
        assert image_size(tmp_path / "a.exr") == (7, 5)

    def test_halves_are_the_default(self, tmp_path):
        light = RNG.uniform(-2, 6e4, (4, 4, 3))
        save_image(tmp_path / "a.exr", light)
        assert np.array_equal(load_image(tmp_path / "a.exr"), light.astype(np.float16).astype(np.float32))
        with pytest.raises(InputError, match="end at 65504 and the image has 70000; save it with bits=32"):
            save_image(tmp_path / "a.exr", np.full((2, 2, 3), 7e4))
        with pytest.raises(InputError, match="16 or 32 bits"):
            save_image(tmp_path / "a.exr", light, bits=24)

    def test_code_values_are_clamped(self, tmp_path):
        save_image(tmp_path / "a.exr", np.array([[[-1.0, 0.5, 9.0, 0.25]]]), bits=32)
        codes = load_image(tmp_path / "a.exr", linear=False)
        assert_allclose(codes, [[[0, 0.735357, 1, 0.25]]], atol=1e-5)

    def test_a_transparent_pixel_has_no_colour(self, tmp_path):
        planes = {c: np.full((2, 2), v, np.float32) for c, v in zip("RGBA", (0.5, 0.25, 0, 0.5), strict=True)}
        planes["A"] = np.array([[0.5, 0], [0.5, 0.5]], np.float32)
        found = load_image(written(tmp_path / "a.exr", planes))
        assert found[0, 0].tolist() == [1, 0.5, 0, 0.5] and found[0, 1].tolist() == [0, 0, 0, 0]

    def test_what_is_no_flat_picture_of_colours_is_refused(self, tmp_path):
        plane, whole = np.zeros((4, 6), np.float32), np.zeros((4, 6), np.uint32)
        refused = {
            "its channels are Z; export channels R, G, B or Y": {"Z": plane},
            "its channels are integers": {"R": whole, "G": whole, "B": whole},
            "1 of its values are NaN or infinite": {"Y": np.pad([[np.float32(np.nan)]], ((2, 1), (3, 2)))},
        }
        for sentence, channels in refused.items():
            with pytest.raises(InputError, match=f"a.exr.*{sentence}"):
                load_image(written(tmp_path / "a.exr", channels))
        stream = io.BytesIO()
        parts = [OpenEXR.Part({"name": n}, {"Y": plane}) for n in "ab"]
        OpenEXR.File(parts).write(stream)
        (tmp_path / "a.exr").write_bytes(stream.getvalue())
        with pytest.raises(InputError, match="several parts or deep samples"):
            load_image(tmp_path / "a.exr")

    def test_many_channels_count_as_pixels(self, tmp_path):
        planes = {f"{c}": np.zeros((1000, 900), np.float16) for c in "RGBUVWXYZ"}
        path = written(tmp_path / "a.exr", planes, compression=OpenEXR.ZIP_COMPRESSION)
        with config(max_megapixels=1), pytest.raises(InputError, match="900x3000 pixels"):
            load_image(path)
        assert image_size(path) == (900, 1000)

    @pytest.mark.parametrize("kept", [5, 60, 200, 300, 0.5, 0.9, 0.999])
    def test_truncated_files(self, tmp_path, kept, capfd):
        data = encode_exr(RNG.random((40, 30, 3)), half=False)
        (tmp_path / "a.exr").write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
        with pytest.raises(InputError, match=r"cannot read the image '.*a.exr'"):
            load_image(tmp_path / "a.exr")
        assert capfd.readouterr().out == ""

    def test_without_the_library(self, tmp_path, monkeypatch):
        save_image(tmp_path / "a.exr", np.ones((2, 2)))
        monkeypatch.setitem(sys.modules, "OpenEXR", None)
        with pytest.raises(InputError, match=r"needs the package OpenEXR; pip install 'dressi\[images\]'"):
            load_image(tmp_path / "a.exr")
        with pytest.raises(InputError, match=r"writing .exr needs the package OpenEXR"):
            save_image(tmp_path / "b.exr", np.ones((2, 2)))


@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_16_bits_are_read_and_written_without_loss(tmp_path, ending, channels):
    pytest.importorskip("cv2")
    codes = RNG.integers(0, 65536, (9, 8, channels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_image(tmp_path / f"a.{ending}", codes / 65535, linear=False, bits=16)
        found = load_image(tmp_path / f"a.{ending}", linear=False)
    assert np.array_equal(np.round(found.astype(float) * 65535), codes)


class TestEnvironments:
    @pytest.mark.parametrize("ending", ["hdr", "exr"])
    def test_radiance_is_kept(self, tmp_path, ending):
        light = RNG.uniform(0, 1, (4, 8, 3)) * [[[1], [1], [1], [1], [30], [30], [900], [1]]]
        save_image(tmp_path / f"a.{ending}", light)
        found = load_environment(tmp_path / f"a.{ending}")
        assert found.dtype == np.float32 and found.shape == (4, 8, 3)
        assert np.all(np.abs(found - light).max(-1) <= light.max(-1) / 250)
        most = light.max(-1, keepdims=True)
        assert abs((found / most).mean() / (light / most).mean() - 1) < 1e-3

    def test_other_shapes_and_kinds_are_named(self, tmp_path):
        save_image(tmp_path / "a.exr", np.ones((4, 4, 1)))
        with pytest.warns(UserWarning, match="a.exr' has 4x4 pixels; equirectangular maps are twice as wide"):
            assert load_environment(tmp_path / "a.exr").shape == (4, 4, 3)
        save_image(tmp_path / "a.png", np.ones((4, 8, 4)))
        with pytest.warns(UserWarning, match="a.png' has 8 or 16 bits"):
            assert load_environment(tmp_path / "a.png").shape == (4, 8, 3)

    def test_light_is_finite_and_not_negative(self, tmp_path):
        light = np.ones((4, 8, 3))
        light[1, 2] = -0.5
        save_image(tmp_path / "a.exr", light)
        with pytest.raises(InputError, match=r"a.exr' has 3 negative values.*set them to 0"):
            load_environment(tmp_path / "a.exr")
        planes = {c: np.full((4, 8), np.inf, np.float32) for c in "RGB"}
        with pytest.raises(InputError, match="96 of its values are NaN or infinite"):
            load_environment(written(tmp_path / "b.exr", planes))

    def test_files_that_are_not_there_or_truncated(self, tmp_path):
        pytest.importorskip("cv2")
        with pytest.raises(InputError, match=r"none.hdr"):
            load_environment(tmp_path / "none.hdr")
        data = radiance(64, 32)
        (tmp_path / "a.hdr").write_bytes(data[: len(data) // 2])
        with pytest.raises(InputError, match=r"a.hdr.*truncated or damaged"):
            load_environment(tmp_path / "a.hdr")
        with config(max_megapixels=0.001), pytest.raises(InputError, match="64x32 pixels, above the limit"):
            (tmp_path / "a.hdr").write_bytes(data)
            load_environment(tmp_path / "a.hdr")

    def test_of_the_data(self, data):
        for file in sorted((data / "hdri").glob("*.hdr"))[:2]:
            light = load_environment(file)
            assert light.shape == (512, 1024, 3) and light.min() >= 0 and light.max() > 5
