"""Every application runs to its end, small and without a window."""

import ast
import json
import sys
from pathlib import Path

import pytest

from dressi.errors import InputError

APPS = sorted((Path(__file__).resolve().parents[2] / "apps").glob("*.py"))
PATH_TEST = next(app for app in APPS if app.stem == "path_test")
RENDERERS = PATH_TEST.parent / "peers" / "renderer_comparison.py"
SCENES = RENDERERS.with_stem("scenes_in_mitsuba")
SCRIPTS = sorted(PATH_TEST.parent.rglob("*.py"))
FITS = [app for app in APPS if app.stem in ("image_fitting", "large_steps", "silhouette_fitting")]


def declared_options(tree: ast.AST) -> set[str]:
    """The attributes that ``add_argument``, or a shared ``options(..., steps=, size=, seed=)``, gives to what is parsed."""
    found = set[str]()
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        words = [w.value for w in call.args if isinstance(w, ast.Constant)]
        if name == "add_argument":
            words = [k.value.value for k in call.keywords if k.arg == "dest"] + words
            found.add(
                next((w for w in words if w[0] != "-" or w[1] == "-"), "").lstrip("-").replace("-", "_")
            )
        elif name == "options":
            found |= {k.arg for k in call.keywords if k.arg in ("size", "seed")}
    return found - {"headless"}


def test_every_option_of_a_script_is_read():
    unread = {}
    for script in SCRIPTS:
        tree = ast.parse(script.read_text(encoding="utf-8"))
        if any(
            isinstance(n, ast.FunctionDef) and n.name in ("options", "add_options") for n in ast.walk(tree)
        ):
            continue  # what others share; they read it
        nodes = [*ast.walk(tree)]
        read = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        unread[script.stem] = declared_options(tree) - read
        # --quick has other defaults and replaces nothing that is given.
        quick = [
            n for n in nodes if isinstance(n, (ast.If, ast.IfExp)) and ast.unparse(n.test).endswith(".quick")
        ]
        replaced = [
            t
            for n in quick
            if isinstance(n, ast.If)
            for a in n.body
            if isinstance(a, ast.Assign)
            for t in ast.walk(a.targets[0])
        ]
        replaced += [n.orelse for n in quick if isinstance(n, ast.IfExp)]
        unread[script.stem] |= {t.attr for t in replaced if isinstance(t, ast.Attribute)}
    assert {name: options for name, options in unread.items() if options} == {}


@pytest.mark.vk
@pytest.mark.parametrize("app", FITS, ids=lambda path: path.stem)
def test_an_application_lowers_its_loss(run_script, app: Path, tmp_path: Path):
    words = run_script(app, "--steps", "20", "--size", "24").split()
    assert any(tmp_path.iterdir())
    assert words[0] == "loss" and float(words[3].rstrip(",")) < float(words[1])


@pytest.mark.vk
def test_the_gradient_integrates_to_the_loss(run_script, tmp_path: Path):
    options = ("--mesh", "torus", "--radius-px", "3", "--views", "2", "--size", "64", "--again", "48")
    run_script(PATH_TEST, *options)
    alone, together = json.loads((tmp_path / "path_test.json").read_text())
    assert alone["views"] == 1 and together["views"] == 2
    assert abs(alone["median"] - 1) < 0.005 and abs(together["median"] - 1) < 0.005


@pytest.mark.vk
def test_gradients_by_places_weights_and_joints_integrate_to_the_loss(run_script, tmp_path: Path):
    run_script(PATH_TEST.parent / "scenes" / "scene_path_test.py", "--size", "48", "--samples", "16")
    figures = json.loads((tmp_path / "scene_path_test.json").read_text())
    assert figures.pop("options")["form"] == "outer" and set(figures) == {"place", "weights", "joints"}
    for family in figures.values():
        assert len(family["ratios"]) > 4 and abs(family["median"] - 1) < 0.02


@pytest.mark.vk
def test_the_motion_of_a_depth_camera_is_found(run_script, data: Path, tmp_path: Path):
    options = ("--data", str(data / "rgbd"), "--size", "80", "--steps", "60")
    run_script(PATH_TEST.with_stem("rgbd_pose"), *options)
    figures = json.loads((tmp_path / "rgbd_pose.json").read_text())
    assert figures["start"]["degrees"] > 2.5 and figures["found"]["degrees"] < 0.3
    assert figures["start"]["millimetres"] > 90 and figures["found"]["millimetres"] < 10


@pytest.mark.vk
def test_depths_bring_the_surface_nearer(run_script, tmp_path: Path):
    options = ("--size", "32", "--steps", "60", "--views", "6", "--variants", "depths")
    run_script(PATH_TEST.with_stem("depth_fit"), *options)
    (row,) = json.loads((tmp_path / "depth_fit.json").read_text())
    # With outlines alone: 0.091.
    assert row["distance"] < 0.07


@pytest.mark.vk
def test_colours_of_hidden_parts_follow_their_contours(run_script, tmp_path: Path):
    options = (
        "--scene",
        "torus",
        "--form",
        "contour",
        "--radius-px",
        "2",
        "--image",
        "colour",
        "--size",
        "40",
    )
    run_script(PATH_TEST.with_stem("contour_test"), *options, "--samples", "16", "--again", "0")
    (row,) = json.loads((tmp_path / "contour_test.json").read_text())
    assert abs(row["kinds"]["positions"]["median"] - 1) < 0.02
    assert abs(row["kinds"]["vertex colours"]["median"] - 1) < 1e-3


@pytest.mark.vk
def test_pictures_are_those_of_another_renderer(run_script, data: Path, tmp_path: Path):
    pytest.importorskip("mitsuba")
    options = ("--models", "BarramundiFish", "--skies", "--data", str(data), "--size", "64", "--samples", "4")
    try:
        run_script(RENDERERS, *options, "--spp", "64")
    except InputError as error:
        pytest.skip(str(error))
    figures = {row["with"]: row for row in json.loads((tmp_path / "renderer_comparison.json").read_text())}
    assert figures["shading"]["psnr"] > 35 and abs(figures["shading"]["ratio"] - 1) < 0.02
    assert figures["shadows"]["psnr"] < figures["shading"]["psnr"]


@pytest.mark.vk
def test_scenes_are_those_of_another_renderer(run_script, tmp_path: Path):
    pytest.importorskip("mitsuba")
    try:
        run_script(SCENES, "--quick", "--scenes", "arm")
    except InputError as error:
        pytest.skip(str(error))
    figures = json.loads((tmp_path / "scenes_in_mitsuba.json").read_text())
    assert figures["arm"]["opaque"] > 55 and min(figures["arm"]["nodes"].values()) > 45


@pytest.mark.vk
def test_a_missing_renderer_is_named(run_script, data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    for module in ("mitsuba_light", "mitsuba_gltf", "drjit_gltf"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for app in (RENDERERS, SCENES):
        with pytest.raises(InputError, match=r"pip install dressi\[peers\]"):
            run_script(app, "--data", str(data))


def test_missing_modules_of_node_are_named(run_script, tmp_path: Path):
    with pytest.raises(InputError, match="npm install three gltf-validator"):
        run_script(SCENES.with_stem("scenes_in_three"), "--scenes", "arm", "--modules", str(tmp_path))


@pytest.mark.vk
def test_layers_of_glass_are_drawn_and_moments_come_near(run_script, tmp_path: Path):
    options = ("--size", "48", "--layers", "1", "--rounds", "1", "--samples", "0")
    run_script(PATH_TEST.parent / "figures" / "layers.py", *options)
    (row,) = json.loads((tmp_path / "layers.json").read_text())
    assert 0 < row["moments error"] < 0.02 and set(row["costs"]["48"]) >= {"hard 1", "antialias 1", "moments"}
    assert (tmp_path / "layers.png").is_file()
