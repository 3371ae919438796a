"""The programs of the image energies, with few steps, on the data of the paper."""

import json
from pathlib import Path
from typing import Any

import pytest

from dressi.config import config

APPS = Path(__file__).resolve().parents[3] / "apps" / "least_squares"
pytestmark = [pytest.mark.vk, pytest.mark.release]


@pytest.fixture
def run(run_script, data: Path, tmp_path: Path):
    """Runs a program by its name; gives what it writes into the JSON file of that name."""

    def main(name: str, *options: str, file: str = "") -> dict[str, Any]:
        with config(data=data):
            run_script(APPS / f"{name}.py", *options)
        assert (tmp_path / f"{name}.png").is_file() or file
        return json.loads((tmp_path / f"{file or name}.json").read_text())

    return main


def test_a_face_is_pasted_in_one_step(run):
    row = run("poisson_editing")
    assert row["excess"] < 1e-5 and row["inner_iterations"] == [pytest.approx(12, abs=4)]


def test_the_cat_reaches_the_optimum(run):
    row = run("image_warping", "--every", "4")
    assert row["excess"] < 1e-5


def test_the_cat_is_dragged(run):
    row = run("image_warping", "--every", "8", "--poses", "3", "--steps", "4", file="image_warping_drag")
    assert len(row["costs"]) == 13
    assert row["costs"][-1] > row["costs"][4]  # farther poses cost more


def test_the_frames_agree_along_the_flow(run):
    row = run("optical_flow", "--steps", "1", "--iterations", "20")
    assert row["difference_before"] == pytest.approx(9.93, abs=0.01)
    assert row["difference_after"] < 0.35 * row["difference_before"]


def test_shading_costs_less_after_every_step(run):
    row = run("shape_from_shading", "--steps", "4")
    assert row["initial"] == pytest.approx(128.722776, rel=1e-6)
    assert row["costs"] == sorted(row["costs"], reverse=True) and row["final"] < 80


def test_depths_begin_at_those_of_the_frame_before(run):
    row = run("depth_stream", "--every", "8", "--rounds", "1", "--hold", "2")
    first, second, moved, last = row["frames"]
    assert second["cost"] < second["cost_from_its_own"] == pytest.approx(first["cost"], rel=1e-3)
    assert (
        moved["cost"] == pytest.approx(moved["cost_from_its_own"], rel=1e-3) and last["cost"] < moved["cost"]
    )
