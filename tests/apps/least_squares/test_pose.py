"""The pose of a box and the focal length of the cameras are found from silhouettes."""

import json
from pathlib import Path

import pytest

from dressi.errors import InputError
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import cube

APP = Path(__file__).resolve().parents[3] / "apps" / "least_squares" / "rendering" / "pose.py"


@pytest.mark.vk
def test_pose_and_focal_length_are_found(run_script, tmp_path: Path):
    box = cube()
    save_mesh(tmp_path / "box.obj", box.moved(box.positions * (1.0, 0.6, 0.35)))
    options = ("--mesh", str(tmp_path / "box.obj"), "--starts", "1", "--size", "64")
    words = run_script(APP, *options, "--rates", "0.1", "--focal")
    entry = json.loads((tmp_path / "pose.json").read_text())["box"]
    assert words.startswith("box, ") and (tmp_path / "box-curves.png").is_file()
    assert entry["levenberg_marquardt"]["largest"] < 0.3
    (curve,) = entry["levenberg_marquardt"]["curves"]
    assert curve[0]["degrees"] > 5 and curve[0]["focal"] > 0.01
    assert curve[-1]["focal"] < 0.005 and curve[-1]["shift"] < 0.01


def test_the_data_folder_is_named(run_script, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DATA", "")
    with pytest.raises(InputError, match="DRESSI_DATA"):
        run_script(APP, "--mesh", "cow")
