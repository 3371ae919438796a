"""Figures and tables that applications draw."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

from dressi.render import ring, save_mesh
from dressi.render.fit import Dataset, Observations
from dressi.render.mesh.primitives import bumpy_ellipsoid

APPS = Path(__file__).resolve().parents[2] / "apps"


@pytest.fixture
def run(run_script, tmp_path: Path):
    """Runs an application by its name and gives its folder."""

    def main(name: str, *options: str) -> Path:
        run_script(next(APPS.rglob(f"{name}.py")), *options)
        return tmp_path

    return main


def test_enlarge_and_shift(run):
    """Sharp corners lose a part of their margin without boxes, and near margins hide what lies behind without Shift."""
    folder = run("figure5", "--size", "48")
    differ = json.loads((folder / "figure5.json").read_text())
    assert differ["a"] == 0 and min(differ[name] for name in "bcd") > 0.01
    assert Image.open(folder / "figure5.png").size == (4 * 48, 2 * 48)


def test_pictures_of_the_guides(run):
    """Coverage and derivatives differ between the forms, and the sun throws a shadow."""
    folder = run("guide_pictures", "--size", "24")
    forms = np.asarray(Image.open(folder / "forms.png"), int)[:, :, :3]
    columns = [forms[:, 28 * k : 28 * k + 24] for k in range(3)]
    assert all((c[24:].min(axis=-1) < 128).any() and (c[:24] > 200).any() for c in columns)
    assert forms.shape[1] == 80 and (columns[0] != columns[1]).any() and (columns[1] != columns[2]).any()
    shadows = np.asarray(Image.open(folder / "shadows.png"), int)
    assert (shadows[:, :24] - shadows[:, 28:52]).max() > 100


def test_one_formula_from_antialiasing_to_softras(run):
    folder = run("figure6", "--size", "40", "--faces", "100")
    figures = json.loads((folder / "figure6.json").read_text())
    changed = [figures[name]["changed"] for name in ("(d) edges", "(b) mode default", "(c) mode softras")]
    assert 0 < changed[0] < changed[2] and changed[1] < changed[2] and changed[2] > 0.4
    assert (folder / "figure6.png").stat().st_size > 1000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options for a figure of thumbnails of a small target."""
    mesh = tmp_path_factory.mktemp("target") / "ellipsoid.glb"
    save_mesh(mesh, bumpy_ellipsoid(2))
    options = "--size 24 --subdivisions 1 --target-faces 60 --samples 500 --save 2 --total 4"
    return ["--mesh", str(mesh), *options.split()]


def test_cells_go_on_where_they_stopped(run, small):
    cells = ("--cells", "edges")
    folder = run("figure10", *small, *cells, "--steps", "2")
    part = json.loads((folder / "edges.json").read_text())
    assert part["steps"] == 2 and [step for step, _ in part["curve"]] == [0, 2]
    run("figure10", *small, *cells, "--steps", "4")
    whole = json.loads((folder / "edges.json").read_text())
    assert whole["curve"][:2] == part["curve"] and [step for step, _ in whole["curve"]] == [0, 2, 4]
    assert np.isfinite([distance for _, distance in whole["curve"]]).all() and whole["seed"] == 0
    assert (folder / "figure10.png").exists() and (folder / "figure11.png").exists()
    assert not list((folder / "states").iterdir())


def test_cells_side_by_side_are_what_they_are_alone(run, small, tmp_path: Path):
    def curve(folder: Path) -> list[list[float]]:
        return json.loads((folder / "face_K2_r2.json").read_text())["curve"]

    both = curve(run("figure10", *small, "--cells", "face K1 r2", "face K2 r2", "--steps", "2"))
    run("figure10", *small, "--cells", "face K2 r2", "--steps", "2", "--out", str(tmp_path / "alone"))
    assert_allclose(curve(tmp_path / "alone"), both, rtol=1e-5)


def test_fits_of_other_targets_are_not_compared(run, small, capsys):
    run("figure10", *small, "--cells", "edges", "--steps", "2")
    with pytest.raises(SystemExit):
        run("figure10", *small, "--cells", "outer r1", "--start-radius", "0.2", "--steps", "2")
    assert "start_radius 0.5, not 0.2; give an --out" in capsys.readouterr().err


def test_gradients_by_all_parameters(run):
    """The outer form integrates to the change of the loss by positions, pose, focal length, texture and coordinates."""
    options = "--estimator outer --mesh convex --size 48 --samples 8 --radius-px 4".split()
    rows = json.loads((run("gradient_test", *options) / "gradient_test.json").read_text())
    assert len(rows) == 5
    for row in rows:
        assert row["worst"] <= 0.02 and abs(row["median"] - 1) <= 0.02, row


def test_perturbed_cameras_are_measured(run, tmp_path: Path):
    options = ("--size", "16", "16", "--views", "3", "--steps", "6", "--terms", "silhouettes")
    file = run("pose_refinement", *options) / "pose_refinement.json"
    (entry,) = json.loads(file.read_text()).values()
    assert 0.3 < entry["before"]["mean_degrees"] <= entry["before"]["max_degrees"] < 3.0
    assert np.isfinite(list(entry["after"].values())).all() and 0 < entry["iou"] <= 1
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    before = file.read_text()
    run("pose_refinement", *options)  # entries that are there are kept
    assert file.read_text() == before


_PATH = Path(__file__).resolve().parents[2] / "apps" / "fit_table.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("fit_table", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_holes_are_what_a_silhouette_surrounds(table):
    mask = np.zeros((1, 9, 9))
    mask[:, 2:7, 2:7] = 1
    mask[:, 4, 3:5] = 0
    assert np.argwhere(table.holes(mask)[0]).tolist() == [[4, 3], [4, 4]]


def test_the_spread_of_seeds(table):
    rows = [{"surface": {"relative_chamfer": x}, "heldout": {"iou": 1 - x}} for x in (0.1, 0.2, 0.3)]
    found = table.spread(rows)
    assert (found["seeds"], found["least_heldout_iou"]) == (3, 0.7)
    assert found["range"] == pytest.approx(1.0) and found["deviation"] == pytest.approx(0.5)


def test_a_seed_turns_the_start_and_changes_the_pictures(table):
    size = (24, 24)
    y, x = np.mgrid[:24, :24] - 11.5
    masks = np.repeat((np.hypot(x, y) < 8).astype(np.float32)[None], 4, axis=0)
    colors = masks[..., None] * np.linspace(0.2, 0.8, 4)[:, None, None, None] * np.ones(3)
    box = np.array([[-1.0] * 3, [1.0] * 3])
    train = Observations(ring(np.zeros(3), 1.0, 4, size), masks, colors)
    scene = Dataset(train, None, np.zeros(3), 1.0, box, np.array([0.0, 1, 0]))
    again, other = table.varied(scene, 1), table.varied(scene, 2)
    np.testing.assert_array_equal(again.train.masks, table.varied(scene, 1).train.masks)
    assert (again.train.masks != other.train.masks).any()
    assert 0 < (again.train.masks != masks).mean() < 0.1
    start, turned = (found - found.mean(0) for found in (scene.start(1).positions, again.start(1).positions))
    assert np.abs(start - turned).max() > 0.05
    assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(turned[0]))
