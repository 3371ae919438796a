"""`dressi bench`: every case runs, tiny; the protocol; what it predicts; what it says to bad input. Nothing
is said about speed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import refuses, run
from rich.table import Table

from dressi import FLOAT, Device, DeviceError, DressiAD, F, NoDriverError, Variable
from dressi.ad.graph.program import Program
from dressi.cli.bench import cases, work
from dressi.cli.bench import run as bench_run
from dressi.cli.bench.cases import CASES as CASES_OF
from dressi.cli.bench.cases import profile_counts
from dressi.cli.bench.names import CASES, PREDICTED, RIVALS, TABLES
from dressi.cli.bench.rasterizers import Deodr
from dressi.cli.bench.request import DEFAULTS, MESHES, Request, cameras, deformed, load
from dressi.cli.bench.run import WARM_UP, difference, in_turns
from dressi.cli.bench.suite import Processor, units_of
from dressi.cli.bench.work import without_values
from dressi.cli.commands import app
from dressi.cli.core.plan_for import PlanFor, record
from dressi.cli.core.terminal import table_console
from dressi.config import shader_text
from dressi.render.drawing.draw import draw
from dressi.render.formats import FORMATS, save_mesh
from dressi.render.mesh.primitives import octasphere
from dressi.render.objectives.metrics import iou
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, UNBOUNDED, DeviceLimits, profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.model import records
from dressi.vk.plan.model.device import AHEAD
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, RECORDS, TILER
from dressi.vk.plan.predict.stages import predict, step_bytes
from dressi.vk.plan.predict.work import Invocation, Load, Shader, Stores

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


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "silhouette" else pytest.mark.release) for case in CASES]
)
def test_every_case_runs(case, driver, mesh, tmp_path, capsys, monkeypatch):
    # Other plans that share most shaders with the first: one Function a pass makes hundreds of pipelines of a
    # material.
    other = replace(DEFAULT, without=("fuse_horizontally",))
    monkeypatch.setattr(cases, "ABLATION", {"full": DEFAULT, "other": other})
    few = {name: PROFILES[name] for name in ("minimum", "mali_g76")}
    monkeypatch.setattr(cases, "PROFILES", few)  # all are planned for by `dressi bench model`
    monkeypatch.setattr(work, "SKY", (16, 8))
    # No times are compared, and the second engine needs no pipelines of its own.
    monkeypatch.setattr(bench_run, "WARM_UP", 2)
    monkeypatch.setattr(Device, "trim", lambda *_: None)
    if case not in ("silhouette", "convolution"):
        # It takes a plan of its own. What reading a loss takes is asked of two cases.
        monkeypatch.setattr(bench_run, "_read_every_step", lambda *_: 1.0)
    results = bench(case, tmp_path, *TINY, "--mesh", mesh)
    assert {result["case"] for result in results} == {case}
    for result in results:
        assert {"functions", "substages", "stages"} <= set(result["plan"])
        times = "first_build_ms step_ms device_ms longest_submission_ms step_and_read_loss_ms"
        for name in f"{times} bytes copy_bandwidth".split():
            assert result[name] > 0, name
        assert result["device"] and result["driver"] and result["quality"]["steps"] == 2
        # The gradient by inverse UV is one of an expectation, and steps of `joint` compare other views: one
        # may go up.
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
        assert not against[1]["same_plan"]
        assert [r["phase"] for r in results[::2]] == ["geometry", "texture", "roughness"]
    assert all(("losses" in result) == (case == "figure9") for result in results)
    if case == "figure9":
        counts = {(r["phase"], len(r["losses"]), len(r["distances"])) for r in results}
        assert counts == {("geometry", 2, 2), ("texture", 2, 0)}
        assert all(0 < far < 1 for far in results[0]["distances"])


def test_sub_stages_grow_with_fewer_attachments():
    """Unlimited, 8 and 4 attachments in the cross-platform application, where nothing becomes a dispatch
    instead; stages are nearly as many. The table itself plans with the shipped options."""
    request = Request.parse("table2", size="128", views=1, batches=1)
    trials = list(CASES_OF["table2"](replace(request, profile="mali_g76"), without_values))
    works = {trial.facts["phase"]: trial.work for trial in trials}
    assert [set(t.facts["profile_plan"]) for t in trials] == [{"before_cache", "after_cache"}] * 2
    assert all(t.options == DEFAULT and t.limits == profile("mali_g76") and t.model == TILER for t in trials)
    subpasses = replace(DEFAULT, without=("choose_lowering", "join_dispatches", "run_on_active_blocks"))
    for (phase, measured), cached in product(works.items(), (False, True)):
        options = replace(subpasses, cache_static=cached)
        plans = [profile_counts(measured, name, options) for name in ("desktop", "uhd620", "mali_g76")]
        sub_stages, stages = ([plan[key] for plan in plans] for key in ("substages", "stages"))
        case = phase, cached, sub_stages, stages
        assert sub_stages == sorted(sub_stages) and sub_stages[0] < sub_stages[-1], case
        assert max(stages) - min(stages) <= max(1, 0.1 * max(stages)), case


@pytest.mark.release
def test_options_reach_the_results(driver: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MESA_SHADER_CACHE_DISABLE", "true")
    options = "--cold --profile minimum --views 2 --peels 2 --radius-px 3 --form face".split()
    result, recorded = bench("silhouette", tmp_path, *TINY, *options)
    assert recorded["label"] == "loss recorded" and recorded["against"]["label"] == result["label"] == ""
    assert recorded["plan"]["step_substages"] > result["plan"]["step_substages"]
    assert result["cold"] and not result["driver_cache"] and result["warm_build_ms"] is None
    assert result["profile"] == "minimum"
    expected = {"views": 2, "peels": 2, "radius_px": 3, "size": [16, 16], "mesh": "small", "faces": 684}
    assert expected.items() <= result["settings"].items()


def test_a_peer_that_is_not_there(driver, mesh, tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("deodr.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deodr", None)
    result, _ = bench("silhouette", tmp_path, *TINY, "--mesh", mesh, "--peer", "deodr")
    assert result["peers"]["deodr"]["step_ms"] is None
    assert "pip install deodr==" in result["peers"]["deodr"]["error"]
    assert "pip install deodr==" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    "case, peer",
    [(case, peer) for case in CASES[CASES.index("convolution") :] for peer in RIVALS[case]],
)
def test_contractions_of_peers_are_the_same(device: Device, case: str, peer: str):
    pytest.importorskip(peer)
    request = Request.parse(case, views=2, size="16", steps=3, batches=1, peer=peer, peels=1, channels=3)
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
        noise = rng.normal(0, 0.05, 41) + 5 * disturbed * rng.choice([-1, 1], 41)
        judged = difference(common + 0.1 + noise, common)
        low, high = judged["interval"]
        assert low <= judged["ms"] <= high
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
        ("sing", "silhouette"),
        ("silhouette --size 0", "--size"),
        ("silhouette --size a", "--size"),
        ("silhouette --size 1000000", "most"),
        ("silhouette --size 1000000x16", "limit"),
        ("silhouette --views 0", "--views"),
        ("silhouette --views 1000000", "--views"),
        ("silhouette --steps 0", "--steps"),
        ("silhouette --batches 0", "--batches"),
        ("silhouette --peels 9", "--peels"),
        ("silhouette --form round", "face"),
        ("silhouette --radius-px -1", "--radius-px"),
        ("silhouette --radius-px 99 --size 32", "--radius-px"),
        ("silhouette --target wet", "soft"),
        ("silhouette --mesh huge", "small"),
        ("silhouette --mesh /nowhere.glb", "/nowhere.glb"),
        ("silhouette --profile toaster", "mali_g76"),
        ("silhouette --peer you", "deodr"),
        ("silhouette --json /", "--json"),
        ("silhouette --device Voodoo", "Voodoo"),
        ("silhouette --device-model desktop", "--device-model"),
        ("silhouette --measure", "--measure"),
        ("silhouette texture", "bench model silhouette"),
        ("texture --peer deodr", "silhouette"),
        ("texture --texture-size -4", "--texture-size"),
        ("texture --texture-gradient wrong", "inverse_uv"),
        ("model", "silhouette"),
        ("model sing", "fit"),
        ("model silhouette --device-model toaster", "data_centre"),
        ("model silhouette --profile toaster", "mali_g76"),
    ],
)
def test_bad_input(arguments: str, word: str, driver: None):
    result = run("bench", *arguments.split())
    refuses(result, word)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_results_do_not_replace_what_is_no_file(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refuses(run("bench", "silhouette", "--json", pipe), "not a regular file")
    assert pipe.is_fifo()


NAMES = "views size texture_size texture_gradient form target mesh profile device steps batches"
SMALL = ("--size", "16", "--texture-size", "8", "--mesh", "small")
Measure = Callable[[Request], tuple[list[dict[str, Any]], list[Exception]]]


def test_the_help_lists_every_peer_and_every_kind_of_mesh():
    peers = run("bench", "--help").stdout.partition("--peer")[2].partition("--channels")[0]
    assert all(re.search(rf"\b{name}\b", peers) for names in RIVALS.values() for name in names)
    target = run("fit", "--help").stdout.partition("--target ")[2].partition("--photos")[0]
    kinds = {ending for ending, kind in FORMATS.items() if kind.load}
    assert {f".{kind}" for kind in re.findall(r"\.(\w{3,4})\b", target)} == kinds


def test_a_table_in_a_pipe_keeps_its_cells_whole(capsys: pytest.CaptureFixture[str]):
    text = "a cell of more than a hundred characters " * 4
    table = Table("what", *("column" for _ in range(24)))
    table.add_row("x", *(text.strip() for _ in range(24)))
    table_console().print(table)
    assert capsys.readouterr().out.count(text.strip()) == 24


def good(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
    settings = {"size": list(request.sizes[0]), "faces": 684, "views": 1}
    facts = {"case": request.case, "label": "", "settings": settings, "device": "D", "driver": "d"}
    return [{**facts, "step_ms": 1.0, "quality": {}, "batches": request.batches}], []


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Callable[[Measure], list[str]]:
    """Replaces what measures, and gives the cases that it was asked for."""

    def replace(measure: Measure) -> list[str]:
        asked: list[str] = []

        def record(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
            asked.append(request.case)
            return measure(request)

        monkeypatch.setattr("dressi.cli.bench.suite.measured", record)
        return asked

    return replace


def failing(case: str, error: BaseException) -> Measure:
    def measure(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
        if request.case == case:
            raise error
        return good(request)

    return measure


def suite(out: Path, *more: str):
    return run("bench", "all", "--out", out, *SMALL, *more)


def test_every_case_has_its_parts():
    given = {**dict.fromkeys(NAMES.split()), "peels": 3, "radius_px": 2.0}
    found = [unit for case in CASES for unit in units_of(case, given)]
    assert list(dict.fromkeys(unit.case for unit in found)) == list(CASES)
    of_table4 = [unit for unit in found if unit.case == "table4"]
    assert len(of_table4) == len(DEFAULTS["table4"].sizes) * len(DEFAULTS["table4"].meshes)
    assert len({unit.name for unit in found}) == len(found)
    requests = [unit.request() for unit in found]
    assert all(request.device == "all" and request.batches <= 31 for request in requests)
    assert {request.case for request in requests if request.peer} == set(RIVALS)
    assert sum(len(r.sizes) * len(r.models) * len(r.textures) for r in requests) == len(found)


def test_all_cases_are_measured_and_shown(measures, tmp_path: Path):
    asked = measures(good)
    result = suite(tmp_path)
    assert result.returncode == 0, result.stderr
    assert asked == list(CASES) and "report.html" in result.stdout
    assert len(list(tmp_path.glob("*.json"))) == len(CASES) + 1
    for case in ("figure9", "texture"):
        (one,) = json.loads((tmp_path / f"{case}-small-16-8.json").read_text())
        assert one["when"]
    # A second run has nothing to do, unless it is told to.
    assert "measured already" in suite(tmp_path).stderr and asked == list(CASES)
    suite(tmp_path, "--fresh")
    assert asked == 2 * list(CASES)


def test_tables_are_printed_beside_the_paper_and_a_record(measures, tmp_path: Path):
    measure = measures(good)
    record, folder = tmp_path / "gpu.json", tmp_path / "tables"
    peers = {"nvdiffrast": {"step_ms": 0.5, "ours_over_theirs": 0.6}}
    ((one,), _) = good(Request.parse("table4", size="256", peer=None))
    record.write_text(json.dumps([{**one, "device": "GPU", "step_ms": 0.3, "peers": peers}]))
    result = run("bench", "tables", "--quick", "--out", folder, "--against", record)
    assert result.returncode == 0, result.stderr
    assert set(measure) == set(TABLES) and (folder / "tables.md").read_text() in result.stdout
    line = "| 256 pixels | 0.304 | 1.06 | 8.05 | 0.300 | 1.00 | 0.500 | ×0.60 |"
    assert (
        line in result.stdout
        and "here, GPU | here, D | nvdiffrast beside GPU | GPU over nvdiffrast" in result.stdout
    )
    assert json.loads((folder / "tables.json").read_text()).keys() == set(TABLES)
    (folder / "bench.json").unlink()
    refuses(run("bench", "tables", "--out", folder, "--against", tmp_path / "nothing.json"), "nothing.json")


def test_a_case_that_fails_is_a_row_and_is_tried_again(measures, tmp_path: Path):
    measures(failing("texture", DeviceError("no memory is left\ndetails")))
    result = suite(tmp_path)
    assert result.returncode == 0 and "1 parts failed" in result.stderr
    html = (tmp_path / "report.html").read_text()
    assert 'id="failed"' in html and "no memory is left" in html
    assert "details" not in html.split("<body")[1].split("<script")[0]
    asked = measures(good)
    suite(tmp_path)
    assert asked == ["texture"] and 'id="failed"' not in (tmp_path / "report.html").read_text()


def test_a_trial_and_a_device_that_fail_are_rows(measures, tmp_path: Path):
    def measure(request: Request):
        results, _ = good(request)
        error = DeviceError("too large")
        broken = {"case": request.case, "label": "b", "error": str(error), "exception": error}
        return [*results, broken], [DeviceError("the second device is lost")]

    measures(measure)
    assert suite(tmp_path).returncode == 0
    html = (tmp_path / "report.html").read_text()
    assert "too large" in html and "the second device is lost" in html


def test_ctrl_c_keeps_what_was_measured(measures, tmp_path: Path):
    measures(failing("texture", KeyboardInterrupt()))
    result = suite(tmp_path)
    assert result.returncode == 130 and "the same command goes on" in result.stderr
    assert (tmp_path / "silhouette-small-16-8.json").exists() and (tmp_path / "report.html").is_file()
    assert not (tmp_path / "texture-small-16-8.json").exists()
    asked = measures(good)
    assert suite(tmp_path).returncode == 0
    assert asked == list(CASES[CASES.index("texture") :])


def test_a_part_that_ends_the_program_twice_is_a_row(measures, tmp_path: Path):
    class Killed(BaseException):
        pass

    measures(failing("texture", Killed()))
    for _ in range(2):
        with pytest.raises(Killed):
            suite(tmp_path)
    asked = measures(good)
    result = suite(tmp_path)
    assert result.returncode == 0 and "texture" not in asked and "material" in asked
    assert "`dressi bench texture " in result.stderr and "alone may show why" in result.stderr


def test_results_of_other_options_are_not_mixed(measures, tmp_path: Path):
    measures(good)
    suite(tmp_path)
    refuses(suite(tmp_path, "--steps", "7"), "other options", "--fresh")


def test_damaged_lists_of_what_was_measured(measures, tmp_path: Path):
    measures(good)
    for text in ("{", '{"options": {}}', "[]"):
        (tmp_path / "bench.json").write_text(text)
        refuses(suite(tmp_path), "bench.json")


def test_without_a_driver_nothing_is_written_as_measured(measures, tmp_path: Path):
    measures(failing("image_fitting", NoDriverError("there is no Vulkan driver; install one")))
    refuses(suite(tmp_path), "no Vulkan driver")
    assert [file.name for file in tmp_path.iterdir()] == ["bench.json"]


@pytest.mark.parametrize(
    "words",
    [("all", "silhouette"), ("all", "--json", "a.json"), ("all", "--cold"), ("all", "--peer", "deodr"), ("all", "--measure"), ("all", "--quick"), ("texture", "--quick"),
     ("texture", "--fresh"), ("texture", "--out", "a"), ("all", "--size", "none"), ("all", "--out", "/dev/null/a")],
)  # fmt: skip
def test_options_that_do_not_belong_there(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuses(run("bench", *words))


def test_the_time_of_other_programs():
    before, after = Processor(all=10.0, own=2.0), Processor(all=16.0, own=4.0)
    cores = os.cpu_count() or 1
    assert after.others_since(before, 8.0) == pytest.approx(4.0 / (8.0 * cores))
    assert Processor(None, 1.0).others_since(before, 8.0) is None
    now = Processor.read()
    assert now.own > 0 and (now.all is None or now.all > now.own)


PREDICTIONS = "image_fitting silhouette texture table2 joint shading environment fit".split()
MODEL_TINY = "--size 32 --texture-size 16 --steps 8".split()


def bench_model(case: str, folder: Path, *arguments: str) -> list[dict]:
    file = folder / "predictions.json"
    result = run("bench", "model", case, "--json", file, *arguments)
    assert result.returncode == 0, result.stderr
    assert f"dressi bench model {case}" in result.stdout
    return json.loads(file.read_text())


@pytest.mark.parametrize("case", [*PREDICTIONS, *CASES[CASES.index("convolution") :]])
def test_cases_are_predicted(case: str, tmp_path: Path):
    one = ("--profile", "mali_g76") if case == "table2" else ()
    for result in bench_model(case, tmp_path, *MODEL_TINY, *one):
        assert result["case"] == case and result["device"] is None
        assert "nothing was drawn" in result["targets"]
        stages, totals = result["stages"], result["totals"]
        assert stages and totals["seconds"] == pytest.approx(sum(s["seconds"] for s in stages))
        for stage in stages:
            assert 0 < stage["seconds"] < 1 and stage["measured"] is None
            assert stage["name"] == "copies" or (stage["invocations"] > 0 and stage["bytes"] > 0)


@pytest.mark.parametrize("model", RECORDS)
def test_contractions_are_predicted_for_every_record(model: str, tmp_path: Path):
    for case, size in (("slice", "64"), ("pyramid", "64"), ("blur", "1024")):
        (result,) = bench_model(case, tmp_path, "--size", size, "--device-model", model)
        # Parts of the sums for eleven weights lie beside each other in one image, which holds few enough.
        assert 0 < result["totals"]["seconds"] < 1


WITHOUT_DRIVER = """
import sys
from dressi.cli import main
for words in (sys.argv[1:4] + ["--size", "32"], ["fit", "--plan", "--json", "--size", "16", "--target", sys.argv[4]]):
    try:
        main(words)
    except SystemExit as stop:
        assert stop.code == 0, stop.code
"""


@pytest.mark.release
def test_no_driver_is_needed(tmp_path: Path):
    """Predictions and the plan of a fit, in a process that finds no driver."""
    save_mesh(tmp_path / "sphere.glb", octasphere(1))
    arguments = ("bench", "model", "image_fitting", str(tmp_path / "sphere.glb"))
    command = [sys.executable, "-c", WITHOUT_DRIVER, *arguments]
    env = {**os.environ, "VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": ""}
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "device model desktop" in result.stdout and "there is no Vulkan driver" in result.stderr
    planned = json.loads(result.stdout[result.stdout.index("\n{") :])
    assert planned["planned_for"]["device_model"] == "desktop"
    assert list(planned["rounds"]) == ["shape 1", "shape 2", "texture"]


def test_a_record_brings_its_limits_and_a_profile_its_record():
    assert set(records.PROFILES) == set(PROFILES)
    for name, model in RECORDS.items():
        target = record(name, None)
        assert target.model is model and target.limits == profile(target.name)
    for name in PROFILES:
        assert record(None, name).model is records.PROFILES[name]
    assert record("tiler", "minimum") == PlanFor("minimum", profile("minimum"), TILER)
    assert record(None, None).model is DESKTOP


def test_the_goals_on_the_desktop_record(tmp_path: Path):
    """The predictions that the design promises: serial walks and times of the default forms."""
    outer = bench_model("silhouette", tmp_path, "--size", "256", "--device-model", "desktop")
    more = ("--size", "1024", "--form", "face", "--device-model", "desktop")
    face = bench_model("silhouette", tmp_path, *more)
    for (result, recorded), most in ((outer, 0.15e-3), (face, 1e-3)):
        assert result["totals"]["walk"] <= DESKTOP.longest_walk
        assert result["totals"]["seconds"] < most
        assert recorded["totals"]["walk"] <= DESKTOP.longest_walk


def test_a_tiler_keeps_attachments_on_the_chip(tmp_path: Path):
    """Bytes that leave the chip; the same limits on a device that is no tiler move more."""
    options = (*MODEL_TINY, "--profile", "mali_g76", "--form", "face")
    kept, _ = bench_model("silhouette", tmp_path, *options)
    moved, _ = bench_model("silhouette", tmp_path, *options, "--device-model", "integrated")
    assert kept["device_model"]["tiler"] and not moved["device_model"]["tiler"]
    assert kept["totals"]["bytes"] < moved["totals"]["bytes"]


@pytest.mark.vk
def test_measurement_beside_the_prediction(tmp_path: Path):
    (result,) = bench_model("image_fitting", tmp_path, "--size", "16", "--measure")
    assert result["device"] and result["targets"] == f"drawn on {result['device']}"
    (stage,) = (s for s in result["stages"] if s["name"] != "copies")
    assert stage["measured"] > 0 and stage["ratio"] == pytest.approx(stage["seconds"] / stage["measured"])
    assert result["within_2"]["of"] in (0, 1)


# ---- what is counted
def step_of(y: Variable, leaf: Variable, model=CPU, limits=UNBOUNDED):
    plan = build_plan(Program({}, ((leaf, leaf + y),)), limits, shader_text, cost=model)
    return predict(plan, model)


def test_bytes_and_invocations_are_those_of_the_images():
    x = Variable(FLOAT, (32, 8), name="x")
    (stage,) = step_of(x * 2.0, x).stages
    assert stage.invocations == 32 * 8 and stage.bytes == 2 * 4 * 32 * 8 and stage.fetches == 32 * 8
    made = (F.mul(x, 2.0).creator, (x + x).creator, F.constant(2.0).creator)
    assert stage.operations == 32 * 8 * sum(f.operations for f in made if f is not None)
    assert stage.walk == 0 and stage.chain == 1 and stage.barriers == stage.launches == 1


def test_loops_and_dependent_fetches_are_chains():
    x = Variable(FLOAT, (100, 1), name="x")
    prediction = step_of(F.sum(x, "x"), x)
    assert prediction.totals["walk"] == 100 and prediction.totals["chain"] == -(-100 // AHEAD)
    index = F.lookup(F.linear_index((100, 1)) + 0 * F.to_int(x), 3)
    hopping = F.lookup(x, F.lookup(F.to_int(x), F.lookup(F.to_int(x), index)))
    s = step_of(hopping, x)
    assert s.totals["walk"] == 0 and s.totals["chain"] >= 3


def test_recomputed_values_count_for_every_texel_that_asks():
    x = Variable(FLOAT, (64, 64), name="x")
    shifted = F.shift(F.square(x), 1, 0) + F.shift(F.square(x), 0, 1)
    plan = build_plan(Program({"y": shifted}), UNBOUNDED, shader_text)
    (s,) = plan.sub_stages
    each = Shader(s).run(s.outputs, s.body)
    square, shift = (F.square(x).creator, F.shift(x, 1, 0).creator)
    assert square is not None and shift is not None
    assert each.reads == 2 and each.operations == 2 * square.operations + 2 * shift.operations + 2


def test_wide_devices_wait_beside_their_work_and_cpu_drivers_inside_of_it():
    each = Invocation(100.0, 0.0, 50.0, 40.0)
    waits = 40 * DESKTOP.fetch_latency
    for count in (1, 100 * DESKTOP.lanes):
        work = max(count, DESKTOP.lanes) * 100 / DESKTOP.fragment_rate
        assert Load(count, each).seconds(DESKTOP) == pytest.approx(work + waits)
    assert Load(1, each).seconds(CPU) == max(40 * CPU.fetch_latency, 100 * CPU.operation)
    few, more = (Load(n * CPU.lanes + 1, Invocation(1e6)).seconds(CPU) for n in (0, 1))
    assert more == pytest.approx(2 * few), "a second round"
    drawn = Load(1, each, draws=3).seconds(DATA_CENTRE) - Load(1, each).seconds(DATA_CENTRE)
    assert drawn == pytest.approx(DATA_CENTRE.raster + 3 * DATA_CENTRE.draw)


def test_predictions_stand_beside_a_file_of_measured_stages(tmp_path: Path):
    (result,) = bench_model("image_fitting", tmp_path, "--size", "16", "--device-model", "data_centre")
    for stage in result["stages"]:
        stage["measured"] = 3e-5
    result["stages"].append({**result["stages"][0], "functions": "Other"})
    file = tmp_path / "measured.json"
    file.write_text(
        json.dumps({"cases": {"image_fitting": [result], "unknown": [result | {"case": "unknown"}]}})
    )
    shown = run("bench", "model", "--against", file)
    assert shown.returncode == 0 and "predicted by 'data_centre'" in shown.stdout
    assert "1 of 3 measured Stages are in no plan of today" in shown.stdout
    for content, word in (
        ("{", "cannot be read"),
        ("[1]", "no file of measured Stages"),
        ("[]", "measure again"),
    ):
        file.write_text(content)
        refused = run("bench", "model", "--against", file)
        assert refused.returncode == 2 and word in refused.stderr
    stage = {"name": "compute 16x16", "functions": "Mul", "measured": "long"}
    for wrong in ([{"stages": [stage]}], [{"stages": [], "settings": 3}], {"cases": 3}):
        file.write_text(json.dumps(wrong))
        refused = run("bench", "model", "--against", file)
        assert refused.returncode == 2 and "no file of measured Stages" in refused.stderr
    file.write_text(json.dumps([result]))
    refused = run("bench", "model", "texture", "--against", file)
    assert refused.returncode == 2 and "it has image_fitting" in refused.stderr


def test_each_kind_of_storage_has_its_own_rate():
    """A thousand rounds of one texel, kept by each kind of storage in turn, take what the rate of that kind
    says."""
    rates = {"attachments": "store_rate", "images": "image_store_rate", "buffers": "buffer_store_rate"}
    for kind, rate in {**rates, "atomics": "atomic_rate"}.items():
        fast = replace(CPU, **dict.fromkeys(rates.values(), 1e30), atomic_rate=1e30)
        model = replace(fast, **{rate: 1e6})
        seconds = Load(1000 * CPU.lanes, Invocation(), Stores(**{kind: 1.0})).seconds(model)
        assert seconds == pytest.approx(1000 * CPU.lanes / 1e6)
    loads = Load(1000 * CPU.lanes, Invocation(loads=2.0)).seconds(CPU)
    assert loads == pytest.approx(2000 * CPU.lanes / CPU.buffer_fetch_rate)
