"""Every application runs to its end, small and without a window."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dressi.errors import DressiError

APPS = sorted((Path(__file__).resolve().parents[2] / "apps").glob("*.py"))
PATH_TEST = next(app for app in APPS if app.stem == "path_test")
FITS = [app for app in APPS if app.stem in ("image_fitting", "large_steps", "silhouette_fitting")]


def run(app: Path, out: Path, *options: str) -> str:
    """What the application prints."""
    from dressi.vk.run.device.choose import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))
    result = subprocess.run(
        [sys.executable, app, "--headless", "--out", out, *options],
        capture_output=True, text=True, env=os.environ, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert any(out.iterdir())
    return result.stdout


@pytest.mark.vk
@pytest.mark.parametrize("app", FITS, ids=lambda path: path.stem)
def test_an_application_lowers_its_loss(app: Path, tmp_path: Path):
    words = run(app, tmp_path / "out", "--steps", "20", "--size", "24").split()
    assert words[0] == "loss" and float(words[3].rstrip(",")) < float(words[1])


@pytest.mark.vk
def test_the_gradient_integrates_to_the_loss(tmp_path: Path):
    options = ("--mesh", "torus", "--radius-px", "3", "--views", "2", "--size", "64", "--again", "48")
    run(PATH_TEST, tmp_path, *options)
    alone, together = json.loads((tmp_path / "path_test.json").read_text())
    assert alone["views"] == 1 and together["views"] == 2
    assert abs(alone["median"] - 1) < 0.005 and abs(together["median"] - 1) < 0.005
