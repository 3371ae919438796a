"""The programs of faces, small: a made-up model instead of the one in DRESSI_DATA."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dressi.render import primitives
from dressi.render.faces import FaceModel, procedural_albedo, save_face_model

APPS = Path(__file__).resolve().parents[2] / "apps"
pytestmark = pytest.mark.vk


def test_figure_19_finds_a_face(run_script, tmp_path: Path):
    ball = primitives.icosphere(2)
    head = primitives.icosphere(2)
    head.positions = ball.positions * (7.0, 10.0, 8.0)
    modes = np.stack([head.positions * scale for scale in ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))])
    front = np.flatnonzero(ball.positions[:, 2] > 0.4)
    model = FaceModel(head, modes, landmarks=np.resize(front, 68), millimetres=10.0)
    save_face_model(tmp_path / "model.npz", model.with_albedo(*procedural_albedo(model, count=2)))
    options = ["--people", "1", "--size", "32", "--rows", "32", "--steps", "20", "--settings", "one view"]
    run_script(APPS / "human" / "figure19.py", *options)
    entry = json.loads((tmp_path / "figure19.json").read_text())
    found = entry["one view"]["summary"]
    assert found["found"]["similarity"]["mean"] < 0.8 * found["mean"]["similarity"]["mean"]
    assert entry["step_ms"]["processor"] > 0
    assert Image.open(tmp_path / "figure19.png").size == (3 * 32, 32)
    # A second run has nothing to look for: even the times are those of the first one.
    run_script(APPS / "human" / "figure19.py", *options)
    assert json.loads((tmp_path / "figure19.json").read_text()) == entry
