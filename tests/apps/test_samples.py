"""The samples: short enough to be read at a glance, and each finds what it looks for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def reaches(printed: str, sample: Path, folder: Path) -> None:
    """The figures that a sample printed are within its bars, and its picture is written."""
    bars, figures = BARS[sample.stem][1], json.loads(printed)[sample.stem]
    wrong = {
        name: figures[name] for name, (least, most) in bars.items() if not least <= figures[name] <= most
    }
    assert not wrong
    assert (folder / f"{sample.stem}.png").stat().st_size > 100


@pytest.mark.vk
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda file: file.stem)
def test_a_sample_finds_what_it_looks_for(run_script, sample: Path, tmp_path: Path):
    reaches(run_script(sample, *BARS[sample.stem][0].split()), sample, tmp_path)


@pytest.mark.vk
def test_a_sample_runs_as_a_program(run_script, tmp_path: Path):
    """By the command in its docstring, in a process of its own, which ends without a word."""
    sample = FOLDER / "triangle.py"
    result = subprocess.run(
        [sys.executable, sample, "--headless", "--out", tmp_path, *BARS["triangle"][0].split()],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(FOLDER.parents[1])}, timeout=300, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    reaches(result.stdout, sample, tmp_path)
