"""The samples: short enough to be read at a glance, and each finds what it looks for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dressi.errors import DressiError

FOLDER = Path(__file__).resolve().parents[2] / "apps" / "samples"
SAMPLES = sorted(file for file in FOLDER.glob("*.py") if file.stem != "sample_tools")

# Options that make it quick, and what it must reach: figure -> (least, most).
BARS: dict[str, tuple[str, dict[str, tuple[float, float]]]] = {
    "triangle": ("--steps 120 --size 32", {"corner_error_pixels": (0, 0.1)}),
    "cube": ("--steps 220 --size 16", {"geometry_error": (0, 0.02), "colour_error": (0, 0.02)}),
    "earth": ("--steps 80 --size 64", {"texture_psnr": (30, 200)}),
    "pose": ("--steps 120 --size 32", {"angle_degrees": (0, 1)}),
    "envphong": ("--steps 200 --size 48", {"environment_psnr": (30, 200), "strength": (0.57, 0.63), "exponent": (18, 22)}),
    "mesh_fit": ("--steps 150 --size 48", {"iou": (0.95, 1), "chamfer": (0, 0.03)}),
    "camera_position": ("--steps 150 --size 48", {"relative": (0, 0.02)}),
    "custom_function": ("--steps 200 --size 32", {"fog_error": (0, 0.01), "exposure": (1.95, 2.05)}),
    "custom_brdf": ("--steps 150 --size 32", {"colour_error": (0, 0.03), "roughness": (0.33, 0.37)}),
}  # fmt: skip


def test_every_sample_has_a_bar():
    assert {sample.stem for sample in SAMPLES} == set(BARS)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda file: file.stem)
def test_a_sample_is_short(sample: Path):
    lines = sample.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 45
    assert sum(line.startswith(("import ", "from ")) for line in lines) <= 4


@pytest.mark.vk
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda file: file.stem)
def test_a_sample_finds_what_it_looks_for(sample: Path, tmp_path: Path):
    from dressi.vk.run.device.choose import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))
    options, bars = BARS[sample.stem]
    result = subprocess.run(
        [sys.executable, sample, "--headless", "--out", tmp_path, *options.split()],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(FOLDER.parents[1])}, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)[sample.stem]
    wrong = {
        name: figures[name] for name, (least, most) in bars.items() if not least <= figures[name] <= most
    }
    assert not wrong
    assert (tmp_path / f"{sample.stem}.png").stat().st_size > 100
