"""`dressi fit --optimize`: material, light and exposure beside the shape."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run

from dressi.cli.fitting.show import Bar, disagreement
from dressi.cli.interrupt import Stop
from dressi.render.formats import load_mesh, save_mesh
from dressi.render.mesh.material import Material
from dressi.render.mesh.primitives import pear

pytestmark = [pytest.mark.usefixtures("driver"), pytest.mark.release]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "pear.glb"
    mesh = pear(16, 12, 32)
    mesh.material = Material(roughness=0.4)
    save_mesh(path, mesh)
    return path


COMMAND = (
    "--size 32 --views 5 --steps 48 --texture-size 32 --optimize albedo,roughness,light,exposure".split()
)


class Polls:
    """The phase wherever progress is told; what follows a round is told at its last step, and counts once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.phases: dict[int, str] = {}
        shown = Bar.__call__
        monkeypatch.setattr(
            Bar,
            "__call__",
            lambda bar, now: (self.phases.setdefault(now.done, now.phase), shown(bar, now))[1],
        )

    def of_the_material(self) -> int:
        return list(self.phases.values()).count("material")


@pytest.fixture(scope="module")
def gone_on(target: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Polls]:
    """The folder of a fit that was stopped where its material is recovered, and went on; what the second part told."""
    folder = tmp_path_factory.mktemp("fit")
    # From the shape itself, so that one round is enough for it.
    command = ("fit", "--target", target, "--init", target, *COMMAND, "--out", folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        polls = Polls(monkeypatch)
        monkeypatch.setattr(Stop, "__call__", lambda stop: polls.of_the_material() == 3)
        stopped = run(*command)
        assert stopped.returncode != 0 and "--resume goes on" in stopped.stderr
        polls.phases.clear()
        monkeypatch.setattr(Stop, "__call__", lambda stop: False)
        done = run(*command, "--resume")
    assert done.returncode == 0, done.stderr
    return folder, polls


def test_a_mesh_under_unknown_light(gone_on: tuple[Path, Polls]):
    folder, _ = gone_on
    report = json.loads((folder / "report.json").read_text())
    assert report["plan"]["material"]["stages"] > 0
    assert report["material"]["light"] == "HarmonicsLight" and len(report["material"]["exposures"]) == 5
    phases = [line.split(",")[1] for line in (folder / "loss.csv").read_text().splitlines()[1:]]
    assert phases.count("material") == 40 and phases[-1] == "material"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = load_mesh(folder / "result.glb")
    assert mesh.material is not None and mesh.material.metallic_roughness is not None
    light = json.loads((folder / "light.json").read_text())
    assert light["kind"] == "HarmonicsLight" and np.shape(light["coefficients"]) == (16, 3)


def test_a_material_that_was_stopped_goes_on(gone_on: tuple[Path, Polls]):
    """And nothing else again. That its numbers are those of a fit that was not stopped, ``test_kept.py`` shows."""
    folder, polls = gone_on
    assert set(polls.phases.values()) == {"material"}
    assert not list(folder.glob("*.npz"))


def test_what_it_refuses(target: Path, tmp_path: Path):
    command = ("fit", "--target", target, "--out", tmp_path)
    for arguments, text in (
        (("--optimize", "albedo,shininess"), "shininess"),
        (("--optimize", ""), "nothing"),
        (("--light", target), "--optimize"),
        (("--optimize", "albedo", "--light", tmp_path / "none.hdr"), "none.hdr"),
    ):
        refuses(run(*command, *arguments), text)


def test_photographs_of_a_shiny_thing_are_said_to_contradict_each_other():
    train = {"iou": 0.98, "exposed_inside": 18.7}
    report = {"metrics": {"train": train}, "confidence": {"mean": 0.5}}
    found = disagreement(report)
    assert found is not None and "18.7 dB" in found and "--optimize" in found
    assert disagreement({"metrics": {"train": train}}) is None  # drawn pictures
    for other in ({"exposed_inside": 25.0}, {"iou": 0.8}, {"exposed_inside": None}):
        assert disagreement({**report, "metrics": {"train": {**train, **other}}}) is None
    assert disagreement({**report, "material": {}}) is None
