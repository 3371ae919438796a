"""The applications of materials and light, small."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dressi.render.formats import save_mesh
from dressi.render.io import save_image
from dressi.render.mesh.material import Material
from dressi.render.mesh.primitives import pear

APPS = Path(__file__).resolve().parents[2] / "apps"
pytestmark = pytest.mark.vk


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options: a pear with waves for maps, and a sky."""
    pytest.importorskip("cv2")
    folder = tmp_path_factory.mktemp("files")
    y, x = (np.mgrid[:16, :16] + 0.5) / 16
    wave = np.sin(4 * np.pi * x) * np.cos(2 * np.pi * y)
    normal = np.stack([0.4 * wave, np.zeros_like(wave), np.ones_like(wave)], axis=-1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    both = np.stack([np.zeros_like(wave), 0.5 + 0.3 * wave], axis=-1)
    material = Material(metallic=1.0, roughness=1.0, metallic_roughness=both, normal=normal)
    save_mesh(folder / "pear.glb", replace(pear(12, 8, 16), material=material))
    up = np.linspace(1.5, 0.1, 8)[:, None, None]
    save_image(
        folder / "sky.hdr", up * (0.6 + 0.4 * np.sin(np.arange(16) / 16 * 2 * np.pi))[:, None] * np.ones(3)
    )
    return ["--mesh", str(folder / "pear.glb"), "--environment", str(folder / "sky.hdr"), "--size", "32"]


def test_normals_come_closer(run_script, files: list[str], tmp_path: Path):
    options = ("--steps", "40", "--save", "20", "--views", "16", "--smoothness", "0")
    run_script(APPS / "figures" / "figure18.py", *files, *options)
    (row,) = json.loads((tmp_path / "figure18.json").read_text())["models"]
    assert [step for step, _ in row["curve"]] == [0, 20, 40]
    assert row["found"] < 0.7 * row["flat"] and row["texels"] > 50
    assert (tmp_path / "figure18.png").stat().st_size > 1000


@pytest.mark.release
def test_a_material_comes_closer(run_script, files: list[str], tmp_path: Path):
    run_script(
        APPS / "materials" / "material_recovery.py",
        *files,
        "--steps",
        "60",
        "--views",
        "3",
        "--texture-size",
        "16",
    )
    (row,) = json.loads((tmp_path / "material_recovery.json").read_text())["models"]
    assert row["psnr"] > 22 and row["psnr new light"] > 18 and row["metallic error"] < 0.2
    assert (tmp_path / "material_recovery.png").stat().st_size > 1000


@pytest.mark.release
def test_light_and_roughness_come_closer(run_script, files: list[str], tmp_path: Path):
    options = ("--steps", "60", "--save", "30", "--views", "4", "--finish", "glossy", "--sky", "16")
    run_script(APPS / "figures" / "figure17.py", *files, *options)
    (row,) = json.loads((tmp_path / "figure17.json").read_text())["fits"]
    (_, first, _), (_, last, _) = row["curve"]
    assert first < last and last > 14 and row["roughness error"] < 0.3
    assert (tmp_path / "figure17.png").stat().st_size > 1000


@pytest.mark.release
def test_an_object_is_relit(run_script, files: list[str], tmp_path: Path):
    run_script(APPS / "materials" / "relighting.py", *files)
    (row,) = json.loads((tmp_path / "relighting.json").read_text())["lights"]
    assert min(row["mean"]) >= 0 and 0.05 < max(row["mean"]) < 1
    assert (tmp_path / "relighting.png").stat().st_size > 1000
