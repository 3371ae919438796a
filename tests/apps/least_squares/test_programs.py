"""Programs of least squares run, and find what is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare import GraphEnergy
from problem import Problem
from residual_graphs import Dense, Drawn, start

from dressi import F, InputError, Variable
from dressi.config import config
from dressi.render import load_mesh, save_mesh
from dressi.render.mesh.primitives import cube

APP = Path(__file__).resolve().parents[3] / "apps" / "least_squares" / "rendering" / "face.py"


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


POSE_APP = Path(__file__).resolve().parents[3] / "apps" / "least_squares" / "rendering" / "pose.py"


def test_pose_and_focal_length_are_found(run_script, tmp_path: Path):
    box = cube()
    save_mesh(tmp_path / "box.obj", box.moved(box.positions * (1.0, 0.6, 0.35)))
    options = ("--mesh", str(tmp_path / "box.obj"), "--starts", "1", "--size", "64")
    words = run_script(POSE_APP, *options, "--rates", "0.1", "--focal")
    entry = json.loads((tmp_path / "pose.json").read_text())["box"]
    assert words.startswith("box, ") and (tmp_path / "box-curves.png").is_file()
    assert entry["levenberg_marquardt"]["largest"] < 0.3
    (curve,) = entry["levenberg_marquardt"]["curves"]
    assert curve[0]["degrees"] > 5 and curve[0]["focal"] > 0.01
    assert curve[-1]["focal"] < 0.005 and curve[-1]["shift"] < 0.01


def test_the_data_folder_is_named(run_script, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DATA", "")
    with pytest.raises(InputError, match="DRESSI_DATA"):
        run_script(POSE_APP, "--mesh", "cow")


APPS = Path(__file__).resolve().parents[3] / "apps" / "least_squares"


@pytest.fixture
def run(run_script, data: Path, tmp_path: Path):
    """Runs a program by its name; gives what it writes into the JSON file of that name."""

    def main(name: str, *options: str, file: str = "") -> dict[str, Any]:
        with config(data=data):
            run_script(APPS / f"{name}.py", *options)
        assert (tmp_path / f"{name}.png").is_file() or file
        return json.loads((tmp_path / f"{file or name}.json").read_text())

    return main


@pytest.mark.release
def test_a_face_is_pasted_in_one_step(run):
    row = run("poisson_editing")
    assert row["excess"] < 1e-5 and row["inner_iterations"] == [pytest.approx(12, abs=4)]


@pytest.mark.release
def test_the_cat_reaches_the_optimum(run):
    row = run("image_warping", "--every", "4")
    assert row["excess"] < 1e-5


@pytest.mark.release
def test_the_cat_is_dragged(run):
    row = run("image_warping", "--every", "8", "--poses", "3", "--steps", "4", file="image_warping_drag")
    assert len(row["costs"]) == 13
    assert row["costs"][-1] > row["costs"][4]  # farther poses cost more


@pytest.mark.release
def test_the_frames_agree_along_the_flow(run):
    row = run("optical_flow", "--steps", "1", "--iterations", "20")
    assert row["difference_before"] == pytest.approx(9.93, abs=0.01)
    assert row["difference_after"] < 0.35 * row["difference_before"]


@pytest.mark.release
def test_shading_costs_less_after_every_step(run):
    row = run("shape_from_shading", "--steps", "4")
    assert row["initial"] == pytest.approx(128.722776, rel=1e-6)
    assert row["costs"] == sorted(row["costs"], reverse=True) and row["final"] < 80


@pytest.mark.release
def test_depths_begin_at_those_of_the_frame_before(run):
    row = run("depth_stream", "--every", "8", "--rounds", "1", "--hold", "2")
    first, second, moved, last = row["frames"]
    assert second["cost"] < second["cost_from_its_own"] == pytest.approx(first["cost"], rel=1e-3)
    assert (
        moved["cost"] == pytest.approx(moved["cost_from_its_own"], rel=1e-3) and last["cost"] < moved["cost"]
    )


FOLDER = Path(__file__).resolve().parents[3] / "apps" / "least_squares"


@pytest.fixture
def settings(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRESSI_DATA", str(data))


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("name", "options", "share"),
    [
        ("arap_mesh", "--method lm --steps 6 --iterations 60 --forcing 0", 0.2),
        ("embedded_deformation", "--method gn --steps 3 --iterations 100", 0.2),
        ("cotangent_smoothing", "--steps 3", 0.65),
    ],
)
def test_a_program_lowers_its_cost(run_script, name: str, options: str, share: float, tmp_path: Path):
    words = run_script(FOLDER / f"{name}.py", *options.split())
    assert words.startswith(f"{name}: cost ")
    row = json.loads((tmp_path / f"{name}.json").read_text())
    assert row["final"] < share * row["initial"] and row["scipy"]["final"] <= row["final"] * (1 + 1e-6)
    assert len(load_mesh(tmp_path / f"{name}.ply").positions) in (42, 386)
    assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("name", "options"), [("intrinsic_images", "--size 24 --steps 100"), ("volumetric_arap", "--grid 2 4 2")]
)
def test_programs_of_opt_find_the_optimum(run_script, name: str, options: str, tmp_path: Path):
    run_script(FOLDER / "paper" / f"{name}.py", *options.split())
    row = json.loads((tmp_path / f"{name}.json").read_text())
    assert abs(row["excess"]) < 1e-4 and (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.usefixtures("settings")
def test_meshes_are_as_good_as_those_of_direct_solves(run_script, tmp_path: Path):
    run_script(FOLDER / "paper" / "meshes.py", "--quick", "--only", "cotangent_smoothing")
    (row,) = json.loads((tmp_path / "meshes.json").read_text())
    assert abs(row["excess"]) < 1e-5 and row["vertices"] == 162 and None not in row["cpu_to_1e-3"]


@pytest.mark.usefixtures("settings")
def test_costs_in_the_table_are_those_of_the_references(run_script, tmp_path: Path):
    run_script(FOLDER / "compare.py", "--only", "laplacian", "cotangent_smoothing")
    rows = json.loads((tmp_path / "compare.json").read_text())
    assert [row["name"] for row in rows] == ["laplacian", "cotangent_smoothing"]
    for row, optimum in zip(rows, (18.621117842, 7.49838721), strict=True):
        assert row["final"] == pytest.approx(optimum, rel=1e-6)
        assert row["scipy"]["final"] == pytest.approx(optimum, rel=1e-8)


def test_jacobians_of_graphs_are_those_of_differences():
    x = Variable.of(np.random.default_rng(0).normal(size=(5, 7, 2)), name="x")
    y = Variable.of(np.random.default_rng(1).normal(size=(5, 7)), name="y")
    right, below = F.shift(x, -1, 0, "zero"), F.shift(y, 0, -1, "zero")
    residuals = (x * y - right, F.shift(y, 1, 1, "zero") * below, F.square(x.y))
    drawn = Drawn(residuals, (x, y))
    at = start(drawn)
    found = GraphEnergy(Problem("some", residuals, [x, y])).jacobian(at).toarray()
    np.testing.assert_allclose(found, Dense(drawn).jacobian(at), atol=1e-8)
