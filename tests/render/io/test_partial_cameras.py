"""Models of COLMAP that hold some of the photographs."""

import shutil
import struct

import numpy as np
import pytest
from test_calibration import scene, write_colmap

from dressi.errors import InputError
from dressi.render.io import load_photos, save_png

__all__ = ["scene"]


def test_the_largest_of_several_models_is_taken(tmp_path, scene):
    folder = write_colmap(tmp_path / "p", scene, True, place="sparse/1")
    shutil.copytree(folder / "sparse" / "1", folder / "sparse" / "0")
    one = (folder / "sparse" / "0" / "images.bin").read_bytes()
    (folder / "sparse" / "0" / "images.bin").write_bytes(struct.pack("<Q", 1) + one[8 : 8 + 64 + 8 + 8])
    photos = load_photos(folder)
    assert len(photos.names) == 5 and any("2 models" in note for note in photos.notes)
    shutil.rmtree(folder / "sparse" / "1")
    with pytest.raises(InputError, match=r"4 of 5 images .* --cameras auto"):
        load_photos(folder)


def test_images_without_a_pose_are_left_out(tmp_path, scene):
    folder = write_colmap(tmp_path / "p", scene, False)
    save_png(folder / "images" / "lost.png", np.ones((36, 48, 3)))
    photos = load_photos(folder)
    assert len(photos.names) == 5 and any("lost.png" in note for note in photos.notes)
