"""Frames of videos."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from dressi.errors import InputError
from dressi.render.reconstruct.pictures import list_pictures
from dressi.render.reconstruct.video import choose, chosen_frames, moved


def test_motion_is_seen_by_most_tiles():
    picture = gaussian_filter(np.random.default_rng(0).normal(0, 200, (96, 128)), 1)
    assert moved(picture, np.roll(picture, (3, 4), (0, 1))) == pytest.approx(5)
    assert moved(picture, picture) == 0
    assert moved(np.zeros((96, 128)), np.zeros((96, 128))) == 0


def test_pauses_and_blur_are_passed_over():
    motion = np.concatenate([np.full(50, 0.02), np.zeros(200), np.full(50, 0.02)])
    sharpness = np.where(np.arange(300) % 2, 1.0, 0.2)
    found = choose(sharpness, motion)
    assert 16 <= len(found) <= 60 and (found % 2 == 1).all()
    assert ((found > 52) & (found < 250)).sum() <= 1
    assert len(choose(sharpness, motion / 100)) == 0


def film(path, shift: int, count: int = 30) -> None:
    av = pytest.importorskip("av")
    picture = gaussian_filter(np.random.default_rng(0).normal(128, 200, (64, 400, 3)), (1, 1, 0))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 96, 64, "yuv420p", 2_000_000
        for k in range(count):
            pixels = np.clip(picture[:, shift * k : shift * k + 96], 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def test_a_video_becomes_photographs(tmp_path):
    film(tmp_path / "a.mp4", 3)
    folder, said = chosen_frames(tmp_path / "a.mp4", tmp_path / "frames")
    found = list_pictures(folder)
    assert 16 <= len(found) <= 30 and f"{len(found)} of 30 frames" in said and found[0].size == (96, 64)
    found[0].path.write_bytes(b"kept")
    chosen_frames(tmp_path / "a.mp4", tmp_path / "frames")
    assert found[0].path.read_bytes() == b"kept"


def test_videos_that_show_nothing_new_are_refused(tmp_path):
    film(tmp_path / "still.mp4", 0)
    with pytest.raises(InputError, match="hardly moves"):
        chosen_frames(tmp_path / "still.mp4", tmp_path / "frames")
    film(tmp_path / "short.mp4", 3, 5)
    with pytest.raises(InputError, match="has 5 frames"):
        chosen_frames(tmp_path / "short.mp4", tmp_path / "frames")
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(InputError, match="cannot read the video"):
        chosen_frames(tmp_path / "bad.mp4", tmp_path / "frames")
