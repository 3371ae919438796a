"""Every application runs to its end, small and without a window."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dressi.errors import DressiError

APPS = sorted((Path(__file__).resolve().parents[2] / "apps").glob("*.py"))


@pytest.mark.vk
@pytest.mark.parametrize("app", APPS, ids=lambda path: path.stem)
def test_an_application_lowers_its_loss(app: Path, tmp_path: Path):
    from dressi.vk.run.device import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))
    result = subprocess.run(
        [sys.executable, app, "--headless", "--steps", "20", "--size", "24", "--out", tmp_path / "out"],
        capture_output=True, text=True, env=os.environ, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    words = result.stdout.split()
    assert words[0] == "loss" and float(words[3].rstrip(",")) < float(words[1])
    assert any((tmp_path / "out").iterdir())
