"""`dressi fit --optimize`: material, light and exposure beside the shape."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run

from dressi.cli.fitting.show import Bar
from dressi.cli.interrupt import Stop
from dressi.render.formats import load_mesh, save_mesh
from dressi.render.mesh.material import Material
from dressi.render.mesh.primitives import pear

pytestmark = pytest.mark.usefixtures("driver")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "pear.glb"
    mesh = pear(16, 12, 32)
    mesh.material = Material(roughness=0.4)
    save_mesh(path, mesh)
    return path


SMALL = ("--size", "32", "--views", "5", "--steps", "36", "--texture-size", "32")


def test_a_mesh_under_unknown_light(target: Path, tmp_path: Path):
    done = run(
        "fit", "--target", target, "--out", tmp_path, *SMALL, "--optimize", "albedo,roughness,light,exposure"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["plan"]["material"]["stages"] > 0
    assert report["material"]["light"] == "HarmonicsLight" and len(report["material"]["exposures"]) == 5
    phases = [line.split(",")[1] for line in (tmp_path / "loss.csv").read_text().splitlines()[1:]]
    assert phases.count("material") == 30 and phases[-1] == "material"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = load_mesh(tmp_path / "result.glb")
    assert mesh.material is not None and mesh.material.metallic_roughness is not None
    light = json.loads((tmp_path / "light.json").read_text())
    assert light["kind"] == "HarmonicsLight" and np.shape(light["coefficients"]) == (16, 3)


def test_what_it_refuses(target: Path, tmp_path: Path):
    command = ("fit", "--target", target, "--out", tmp_path)
    for arguments, text in (
        (("--optimize", "albedo,shininess"), "shininess"),
        (("--optimize", ""), "nothing"),
        (("--light", target), "--optimize"),
        (("--optimize", "albedo", "--light", tmp_path / "none.hdr"), "none.hdr"),
    ):
        refuses(run(*command, *arguments), text)


@pytest.mark.one_driver
def test_a_material_that_was_stopped_goes_on(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stopped where vertices move; the numbers are those of a run that was not stopped."""
    steps: dict[int, str] = {}  # each once: what follows a round is told at its last step
    shown = Bar.__call__
    monkeypatch.setattr(
        Bar, "__call__", lambda bar, now: (steps.setdefault(now.done, now.phase), shown(bar, now))[1]
    )

    def material() -> int:
        return list(steps.values()).count("material")

    command = ("fit", "--target", target, *SMALL, "--steps", "72", "--optimize", "albedo")
    assert run(*command, "--out", tmp_path / "whole").returncode == 0
    polls = material()
    steps.clear()
    monkeypatch.setattr(Stop, "__call__", lambda stop: material() == 3)
    stopped = run(*command, "--out", tmp_path / "part")
    assert stopped.returncode != 0 and "--resume goes on" in stopped.stderr
    steps.clear()
    monkeypatch.setattr(Stop, "__call__", lambda stop: False)
    assert run(*command, "--out", tmp_path / "part", "--resume").returncode == 0
    assert material() == polls - 3 and "shape" not in steps.values()
    for name in ("result.glb", "loss.csv"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "part").glob("*.npz"))
