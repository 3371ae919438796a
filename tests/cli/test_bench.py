"""`dressi bench`: every case runs, tiny; the protocol; what it says to bad input. Nothing is said about speed."""

import json
import os
import sys
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dressi import Device, DressiAD, Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT
from dressi.cli import main
from dressi.cli.bench import cases, materials, protocol
from dressi.cli.bench.cases import CASES as CASES_OF
from dressi.cli.bench.cases import profile_counts
from dressi.cli.bench.meshes import MESHES, cameras, deformed, load
from dressi.cli.bench.names import CASES, PREDICTED
from dressi.cli.bench.pairs import difference
from dressi.cli.bench.peers import Deodr
from dressi.cli.bench.protocol import WARM_UP, in_turns
from dressi.cli.bench.request import DEFAULTS, Request
from dressi.cli.bench.targets import without_values
from dressi.cli.commands import app
from dressi.config import shader_text
from dressi.render.drawing.draw import draw
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import octasphere
from dressi.render.objectives.metrics import iou
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import PROFILES, DeviceLimits, profile
from dressi.vk.plan.model import records
from dressi.vk.plan.model.records import TILER
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.predict.traffic import step_bytes

TINY = "--size 16 --texture-size 8 --form outer --peels 1 --steps 2 --batches 1".split()


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mesh") / "sphere.glb"
    save_mesh(path, octasphere(1))
    return path


def bench(case: str, folder: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    file = folder / "results.json"
    app(["bench", case, *map(str, arguments), "--json", str(file)], standalone_mode=False)
    return json.loads(file.read_text())


@pytest.mark.vk
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "silhouette" else pytest.mark.release) for case in CASES]
)
def test_every_case_runs(
    case: str,
    driver: None,
    mesh: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    # Other plans that share most shaders with the first: one Function a pass makes hundreds of pipelines of a material.
    other = replace(DEFAULT, fuse_horizontally=False)
    monkeypatch.setattr(cases, "ABLATION", {"full": DEFAULT, "other": other})
    few = {name: PROFILES[name] for name in ("minimum", "mali_g76")}
    monkeypatch.setattr(cases, "PROFILES", few)  # all are planned for by `dressi bench model`
    monkeypatch.setattr(materials, "SKY", (16, 8))
    monkeypatch.setattr(protocol, "WARM_UP", 2)  # no times are compared,
    monkeypatch.setattr(
        Device, "trim", lambda *_: None
    )  # and the second engine needs no pipelines of its own
    if case not in ("silhouette", "convolution"):
        # It takes a plan of its own. What reading a loss takes is asked of two cases.
        monkeypatch.setattr(protocol, "_read_every_step", lambda *_: 1.0)
    results = bench(case, tmp_path, *TINY, "--mesh", mesh)
    assert {result["case"] for result in results} == {case}
    for result in results:
        assert {"functions", "substages", "stages"} <= set(result["plan"])
        for name in (
            "first_build_ms",
            "step_ms",
            "device_ms",
            "longest_submission_ms",
            "step_and_read_loss_ms",
            "bytes",
            "copy_bandwidth",
        ):
            assert result[name] > 0, name
        assert result["device"] and result["driver"] and result["quality"]["steps"] == 2
        # The gradient by inverse UV is one of an expectation, and steps of `joint` compare other views: one may go up.
        if case not in ("table5", "joint"):
            assert result["quality"]["last_loss"] < result["quality"]["first_loss"]
        assert result["peers"] == {}
        assert sum(stage["bytes"] for stage in result["stages"]) <= result["bytes"]
    assert f"dressi bench {case}" in capsys.readouterr().out
    if case in ("table2", "table3"):
        # Other ways to the same numbers.
        compared = [result["agreement"] for result in results if "agreement" in result]
        assert len(compared) == len(results) - len({result["phase"] for result in results})
        assert all(a["image"] <= 1e-5 and a["gradient"] <= 1e-5 for a in compared)
    assert {r["planned_for"]["options"] for r in results if case != "table3"} <= {"shipped"}
    if case == "table2":
        assert [r["profile"] for r in results] == [*few, *few]
        planned = [(r["planned_for"]["limits"].split()[0], r["planned_for"]["device_model"]) for r in results]
        assert planned == [(name, records.PROFILES[name].name) for name in few] * 2
    if case == "table3":
        plans = [result["plan"] for result in results]
        assert plans[0]["stages"] <= plans[1]["stages"] and plans[0]["substages"] < plans[1]["substages"]
        against = [result["against"] for result in results]
        assert against[0] is None and against[1]["label"] == results[0]["label"]
        assert not against[1]["same_plan"] and [r["phase"] for r in results[::2]] == [
            "geometry",
            "texture",
            "roughness",
        ]
    assert all(("losses" in result) == (case == "figure9") for result in results)
    if case == "figure9":
        assert (tmp_path / "results.png").stat().st_size > 1000
        counts = {(r["phase"], len(r["losses"]), len(r["distances"])) for r in results}
        assert counts == {("geometry", 2, 2), ("texture", 2, 0)}
        assert all(0 < far < 1 for far in results[0]["distances"])


def test_sub_stages_grow_with_fewer_attachments():
    """Unlimited, 8 and 4 attachments in the cross-platform application, where nothing becomes a dispatch instead;
    stages are nearly as many. The table itself plans with the shipped options."""
    left_out = "texture_size texture_gradient form mesh device steps target profile peer json_file".split()
    options = {"views": 1, "peels": 3, "radius_px": 2.0, "batches": 1, "cold": False}
    request = Request.parse("table2", size="128", **options, **dict.fromkeys(left_out))
    trials = list(CASES_OF["table2"](replace(request, profile="mali_g76"), without_values))
    works = {trial.facts["phase"]: trial.work for trial in trials}
    assert [set(t.facts["profile_plan"]) for t in trials] == [{"before_cache", "after_cache"}] * 2
    assert all(t.options == DEFAULT and t.limits == profile("mali_g76") and t.model == TILER for t in trials)
    subpasses = replace(DEFAULT, choose_lowering=False, run_on_active_blocks=False)
    for (phase, work), cached in product(works.items(), (False, True)):
        by_name = (
            profile_counts(work, name, replace(subpasses, cache_static=cached))
            for name in ("desktop", "uhd620", "mali_g76")
        )
        ordered = list(by_name)
        sub_stages = [plan["substages"] for plan in ordered]
        stages = [plan["stages"] for plan in ordered]
        assert sub_stages == sorted(sub_stages) and sub_stages[0] < sub_stages[-1], (
            phase,
            cached,
            sub_stages,
        )
        assert max(stages) - min(stages) <= max(1, 0.1 * max(stages)), (phase, cached, stages)


@pytest.mark.release
@pytest.mark.vk
def test_options_reach_the_results(driver: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MESA_SHADER_CACHE_DISABLE", "true")
    options = (
        "--cold",
        "--profile",
        "minimum",
        "--views",
        "2",
        "--peels",
        "2",
        "--radius-px",
        "3",
        "--form",
        "face",
    )
    result, recorded = bench("silhouette", tmp_path, *TINY, *options)
    assert recorded["label"] == "loss recorded" and recorded["against"]["label"] == result["label"] == ""
    assert recorded["plan"]["step_substages"] > result["plan"]["step_substages"]
    assert result["cold"] and not result["driver_cache"] and result["warm_build_ms"] is None
    assert result["profile"] == "minimum"
    expected = {"views": 2, "peels": 2, "radius_px": 3, "size": [16, 16], "mesh": "small", "faces": 684}
    assert expected.items() <= result["settings"].items()


@pytest.mark.vk
def test_a_peer_that_is_not_there(
    driver: None, mesh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    for name in [name for name in sys.modules if name.startswith("deodr.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deodr", None)
    result, _ = bench("silhouette", tmp_path, *TINY, "--mesh", mesh, "--peer", "deodr")
    assert result["peers"]["deodr"]["step_ms"] is None
    assert "pip install deodr==" in result["peers"]["deodr"]["error"]
    assert "pip install deodr==" in capsys.readouterr().err


@pytest.mark.vk
def test_a_peer_does_the_same_task(device: Device, mesh: Path, tmp_path: Path):
    pytest.importorskip("deodr")
    model, views = load(str(mesh)).mesh, cameras(2, (48, 48))
    masks, _ = draw(deformed(model), views, lambda: DressiAD(device))
    start, _ = draw(model, views, lambda: DressiAD(device))
    peer = Deodr(model, views.matrices, masks, (0.01, 0.001), 60)
    peer.run(60)
    reached, _ = draw(model.moved(peer.positions()), views, lambda: DressiAD(device))
    assert iou(reached, masks) > iou(start, masks) + 0.02
    result, _ = bench("silhouette", tmp_path, *TINY, "--mesh", mesh, "--peer", "deodr")
    assert result["peers"]["deodr"]["step_ms"] > 0 and result["peers"]["deodr"]["quality"]["iou"] > 0.5


@pytest.mark.vk
@pytest.mark.parametrize(
    "case, peer",
    [
        *((case, "torch") for case in CASES[CASES.index("convolution") :]),
        ("matmul", "numpy"),
        ("convolution", "halide"),
        ("slice", "halide"),
    ],
)
def test_contractions_of_peers_are_the_same(device: Device, case: str, peer: str):
    pytest.importorskip(peer)
    request = Request.parse(
        case, views=2, size="16", texture_size=None, texture_gradient=None, form=None, mesh=None, device=None, steps=3,
        batches=1, target=None, profile=None, peer=peer, cold=False, json_file=None, peels=1, radius_px=2.0, channels=3,
    )  # fmt: skip
    (trial,) = CASES_OF[case](request, without_values)
    rival = trial.work.peers[peer]()
    rival.run(3)
    with trial.engine(device) as engine:
        engine.step(3)
        found = engine.recv([trial.work.parameter, *trial.work.others][-1])
    np.testing.assert_allclose(np.squeeze(found), np.squeeze(rival.positions()), rtol=1e-5, atol=1e-6)


def test_runs_take_turns():
    calls = []
    a, b, c = (lambda n, name=name: calls.append((name, n)) for name in "abc")
    times, cpu = in_turns([[a, b], [c]], 4)
    assert [len(row) for row in times] == [len(row) for row in cpu] == [4, 4, 4]
    warm, timed = calls[:6], calls[6:]
    assert [sum(n for name, n in warm if name == wanted) for wanted in "abc"] == [WARM_UP] * 3
    untimed, batches = timed[::2], timed[1::2]
    assert [(name, 1) for name, _ in batches] == untimed
    assert all(sorted(name for name, _ in batches[k : k + 3]) == list("abc") for k in range(0, 12, 3))
    assert len({n for name, n in batches if name in "ab"}) == 1


def test_intervals_hold_the_true_difference():
    """Of 400 intervals about as many miss as they should, whatever disturbs both runs or single batches."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        common = 10 * rng.random(41)
        disturbed = rng.random(41) < 0.1
        found = difference(
            common + 0.1 + rng.normal(0, 0.05, 41) + 5 * disturbed * rng.choice([-1, 1], 41), common
        )
        low, high = found["interval"]
        assert low <= found["ms"] <= high
        missed += not low <= 0.1 <= high
    assert missed <= 0.05 * 400 + 3 * np.sqrt(0.05 * 400)
    assert difference([1.0] * 5, [0.0] * 5)["interval"] is None
    six = difference([3.0, 1.0, 2.0, 6.0, 5.0, 4.0], [0.0] * 6)
    assert six["interval"] == [1.0, 6.0] and six["ms"] == 3.5 and six["rounds"] == 6


def test_bytes_are_those_of_the_images():
    x = Variable(FLOAT, (16, 8), name="x")
    plan = build_plan(Program({}, ((x, x + 1.0),)), DeviceLimits(), shader_text)
    assert step_bytes(plan) == 2 * 4 * 16 * 8


def test_the_meshes_are_of_the_sizes_promised():
    counts = {name: len(load(name).mesh.faces) for name in MESHES}
    assert counts == {"small": 684, "medium": 13_944, "large": 50_880}
    small = load("small").mesh
    assert np.linalg.norm(small.positions, axis=1).max() <= 1 + 1e-9
    assert np.linalg.norm(deformed(small).positions, axis=1).max() < 1.2
    assert set(DEFAULTS) == set(PREDICTED)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["sing"], "silhouette"),
        (["silhouette", "--size", "0"], "--size"),
        (["silhouette", "--size", "a"], "--size"),
        (["silhouette", "--views", "0"], "--views"),
        (["silhouette", "--steps", "0"], "--steps"),
        (["silhouette", "--batches", "0"], "--batches"),
        (["silhouette", "--peels", "9"], "--peels"),
        (["silhouette", "--form", "round"], "face"),
        (["silhouette", "--radius-px", "-1"], "--radius-px"),
        (["silhouette", "--radius-px", "99", "--size", "32"], "--radius-px"),
        (["silhouette", "--target", "wet"], "soft"),
        (["silhouette", "--mesh", "huge"], "small"),
        (["silhouette", "--mesh", "/nowhere.glb"], "/nowhere.glb"),
        (["silhouette", "--profile", "toaster"], "mali_g76"),
        (["silhouette", "--peer", "you"], "deodr"),
        (["texture", "--peer", "deodr"], "silhouette"),
        (["texture", "--texture-size", "-4"], "--texture-size"),
        (["texture", "--texture-gradient", "wrong"], "inverse_uv"),
        (["silhouette", "--json", "/"], "--json"),
        (["silhouette", "--device", "Voodoo 2"], "Voodoo 2"),
        (["silhouette", "--size", "1000000"], "most"),
        (["silhouette", "--size", "1000000x16"], "limit"),
        (["silhouette", "--views", "1000000"], "--views"),
    ],
)
def test_bad_input(
    arguments: list[str],
    word: str,
    driver: None,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own
    with pytest.raises(SystemExit) as stop:
        main(["bench", *arguments])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == ""
    assert said.err.startswith("dressi: error: ") and len(said.err.splitlines()) == 1 and word in said.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_results_do_not_replace_what_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SystemExit) as stop:
        main(["bench", "silhouette", "--json", str(pipe)])
    assert stop.value.code == 2 and "not a regular file" in capsys.readouterr().err and pipe.is_fifo()
