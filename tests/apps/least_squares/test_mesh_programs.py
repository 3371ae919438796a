"""The programs of the mesh energies, and the table of all energies, run to their end."""

import json
from pathlib import Path

import numpy as np
import pytest
from compare import GraphEnergy
from problem import Problem
from residual_graphs import Dense, Drawn, start

from dressi import F, Variable
from dressi.render import load_mesh

FOLDER = Path(__file__).resolve().parents[3] / "apps" / "least_squares"
pytestmark = pytest.mark.vk


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
