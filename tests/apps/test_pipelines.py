"""Image pipelines: short enough to be read at a glance, and each finds what it looks for."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "apps" / "pipelines"
# Options that make it quick, and what it must reach: figure -> (least, most).
BARS: dict[str, tuple[str, dict[str, tuple[float, float]]]] = {
    "spatial_transformer": ("--steps 250 --size 64", {"corner_error_pixels": (0, 0.1)}),
    "flow_warp": ("--steps 120 --size 48", {"mean_error_pixels": (0, 0.1)}),
    "slicing": ("--steps 60 --size 64", {"found_db": (30, 90)}),
}
LONG = (
    "burst",
    "chain",
    "deconvolution",
    "demosaicking",
    "fit_losses",
    "lens",
    "neural_texture",
    "plane_sweep",
    "tone_mapping",
)


@pytest.mark.parametrize("name", [*BARS, *LONG])
def test_a_pipeline_is_short(name: str):
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.vk
@pytest.mark.parametrize("name", BARS)
def test_a_pipeline_finds_what_it_looks_for(run_script, data: Path, tmp_path: Path, name: str):
    options, bars = BARS[name]
    run_script(
        FOLDER / f"{name}.py", *options.split(), "--data", str(data), "--json", str(tmp_path / "figures.json")
    )
    figures = json.loads((tmp_path / "figures.json").read_text())[name]
    for key, (least, most) in bars.items():
        assert least <= figures[key] <= most, f"{key} is {figures[key]}"
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
