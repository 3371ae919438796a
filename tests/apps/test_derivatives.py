"""Programs of derivatives count few operations and find what they look for."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

DERIVATIVES = Path(__file__).resolve().parents[2] / "apps" / "derivatives"


def results(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    """What the program, run as a user does, writes with --json."""
    monkeypatch.setattr("sys.argv", [program, "--quick", "--json", str(folder / "found.json"), *options])
    monkeypatch.syspath_prepend(str(DERIVATIVES))
    runpy.run_path(str(DERIVATIVES / program), run_name="__main__")
    return json.loads((folder / "found.json").read_text())


def test_counts_are_below_those_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = results("counts.py", tmp_path, monkeypatch)["rows"]
    totals = {row["name"]: row["adds"] + row["multiplies"] for row in rows}
    assert totals["harmonics"] <= 42 + 132 and totals["dynamics"] <= 147 and totals["spacetime"] <= 419


@pytest.mark.vk
def test_normals_are_found_under_known_light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = results("lighting.py", tmp_path, monkeypatch, "--out", str(tmp_path))
    assert found["degrees"]["start"] > 10.0 and found["degrees"]["median"] < 1.0 and found["iterations"] < 6


@pytest.mark.vk
def test_a_superquadric_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = results("superquadric.py", tmp_path, monkeypatch, "--out", str(tmp_path))
    assert found["error"] < 0.005 and found["newton"] < 30
