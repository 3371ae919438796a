"""A few identity weights and the pose of a head are found from one small picture."""

import json
from pathlib import Path

import pytest

from dressi.errors import InputError

APP = Path(__file__).resolve().parents[3] / "apps" / "least_squares" / "rendering" / "face.py"


@pytest.mark.vk
def test_weights_are_found(run_script, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRESSI_DATA", str(data))
    words = run_script(APP, "--modes", "4", "--size", "64", "--rates")
    entry = json.loads((tmp_path / "face.json").read_text())
    assert words.startswith("vertices ") and (tmp_path / "views.png").is_file()
    found = entry["levenberg_marquardt"][-1]
    assert entry["start"]["vertices_mm"] > 3 and found["vertices_mm"] < 0.3
    assert found["weights"] < 0.1 and found["degrees"] < 0.2


def test_a_missing_head_is_named(run_script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRESSI_DATA", str(tmp_path))
    with pytest.raises(InputError, match="ict_facekit"):
        run_script(APP, "--modes", "2")
