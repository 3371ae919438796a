"""The phone video that is drawn of a scan, and the measure of what a fit makes of it."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dressi.render import load_mesh, save_mesh
from dressi.render.io import load_photos, save_image
from dressi.render.io.images import read_image
from dressi.render.mesh.primitives import pear

_APPS = Path(__file__).resolve().parents[2] / "apps" / "photographs"


def program(name: str):
    """What runs a program with arguments."""
    spec = importlib.util.spec_from_file_location(name, _APPS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)

    def call(*arguments: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [name, *map(str, arguments)])
            app.main()

    return call


@pytest.mark.vk
def test_a_scan_is_filmed_and_found(tmp_path: Path):
    call = program("phone_video")
    scan, video, fit = pear(12, 12, 32), tmp_path / "video", tmp_path / "fit"
    fit.mkdir()
    save_mesh(tmp_path / "scan.glb", scan)
    call("draw", "--mesh", tmp_path / "scan.glb", "--out", video, "--frames", 4, "--size", "32x24")
    photos = load_photos(video)
    assert photos.masks.shape == (4, 24, 32) and 0.02 < photos.masks.mean() < 0.5
    # The frames show the scan: its pixels are neither the table's nor all the same.
    inside = photos.images[photos.masks > 0]
    assert inside.std(0).min() > 0.01 and photos.images.std() > inside.std() / 2
    report = {"metrics": {"heldout": {"iou": 1.0}}, "time": {"total_s": 1.0}}
    (fit / "report.json").write_text(json.dumps(report))
    errors = []
    for scale in (1.0, 1.05):
        save_mesh(fit / "result.glb", load_mesh(video / "truth.glb").moved(scale * scan.positions))
        call("measure", "--video", video, "--fit", fit, "--json", tmp_path / "found.json")
        errors.append(json.loads((tmp_path / "found.json").read_text())["surface_percent"]["mean"])
    assert errors[0] < 0.1 < 0.5 < errors[1] < 3 and np.isfinite(errors).all()
    options = ("--size", "16x12", "--steps", 2, "--texture-size", 8, "--start", "hull", "--no-colours")
    program("held_out")(video, "--json", tmp_path / "rows.json", "--", *options)
    (row,) = json.loads((tmp_path / "rows.json").read_text()).values()
    assert 0 < row["iou"] < 1 and row["plain"] > 0 and row["cpu_s"] > 0.1
    made = tmp_path / "made"
    made.mkdir()
    for number, view in enumerate(photos.originals):
        assert view.mask is not None
        mask = read_image(view.mask)[..., 0]
        save_image(made / f"{view.image.name}.png", 0 * mask if number == 1 else mask)
    program("made_masks")(video, made, "--json", tmp_path / "masks.json")
    (row,) = json.loads((tmp_path / "masks.json").read_text()).values()
    assert row["iou"] == pytest.approx(0.75) and row["least_iou"] == 0 and row["over"] == 0
    assert row["wrong"] == [photos.originals[1].image.name]
