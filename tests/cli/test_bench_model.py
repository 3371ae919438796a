"""`dressi bench model`: predictions of every case for every record, without a device, a driver or a picture."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import refuses, run

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT
from dressi.cli.bench.names import CASES
from dressi.cli.plan_for import PlanFor, record
from dressi.config import shader_text
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import octasphere
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import PROFILES, UNBOUNDED, profile
from dressi.vk.plan.model import records
from dressi.vk.plan.model.records import CPU, DESKTOP, RECORDS, TILER
from dressi.vk.plan.predict.invocation import Invocation, Shader
from dressi.vk.plan.predict.loads import Load, Stores
from dressi.vk.plan.predict.stages import predict

CONTRACTED = CASES[CASES.index("convolution") :]
TINY = "--size 32 --texture-size 16 --steps 8".split()


def bench_model(case: str, folder: Path, *arguments: str) -> list[dict]:
    file = folder / "predictions.json"
    result = run("bench", "model", case, "--json", file, *arguments)
    assert result.returncode == 0, result.stderr
    assert f"dressi bench model {case}" in result.stdout
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    "case",
    [
        "image_fitting",
        "silhouette",
        "texture",
        "table2",
        "joint",
        "shading",
        "environment",
        "fit",
        *CONTRACTED,
    ],
)
def test_cases_are_predicted(case: str, tmp_path: Path):
    one = ("--profile", "mali_g76") if case == "table2" else ()
    for result in bench_model(case, tmp_path, *TINY, *one):
        assert (
            result["case"] == case and result["device"] is None and "nothing was drawn" in result["targets"]
        )
        stages, totals = result["stages"], result["totals"]
        assert stages and totals["seconds"] == pytest.approx(sum(s["seconds"] for s in stages))
        for stage in stages:
            assert 0 < stage["seconds"] < 1 and stage["measured"] is None
            assert stage["name"] == "copies" or (stage["invocations"] > 0 and stage["bytes"] > 0)


@pytest.mark.parametrize("model", RECORDS)
@pytest.mark.one_driver
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
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": ""},
        timeout=120,
        check=False,
    )
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
    face = bench_model(
        "silhouette", tmp_path, "--size", "1024", "--form", "face", "--device-model", "desktop"
    )
    for (result, recorded), most in ((outer, 0.15e-3), (face, 1e-3)):
        assert result["totals"]["walk"] <= DESKTOP.longest_walk
        assert result["totals"]["seconds"] < most
        assert recorded["totals"]["walk"] <= DESKTOP.longest_walk


def test_a_tiler_keeps_attachments_on_the_chip(tmp_path: Path):
    """Bytes that leave the chip; the same limits on a device that is no tiler move more."""
    limits = ("--profile", "mali_g76")
    kept, _ = bench_model("silhouette", tmp_path, *TINY, *limits, "--form", "face")
    moved, _ = bench_model(
        "silhouette", tmp_path, *TINY, *limits, "--form", "face", "--device-model", "integrated"
    )
    assert kept["device_model"]["tiler"] and not moved["device_model"]["tiler"]
    assert kept["totals"]["bytes"] < moved["totals"]["bytes"]


@pytest.mark.vk
def test_measurement_beside_the_prediction(tmp_path: Path):
    (result,) = bench_model("image_fitting", tmp_path, "--size", "16", "--measure")
    assert result["device"] and result["targets"] == f"drawn on {result['device']}"
    (stage,) = (s for s in result["stages"] if s["name"] != "copies")
    assert stage["measured"] > 0 and stage["ratio"] == pytest.approx(stage["seconds"] / stage["measured"])
    assert result["within_2"]["of"] in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["model"], "silhouette"),
        (["model", "sing"], "fit"),
        (["silhouette", "texture"], "bench model silhouette"),
        (["silhouette", "--device-model", "desktop"], "--device-model"),
        (["silhouette", "--measure"], "--measure"),
        (["model", "silhouette", "--device-model", "toaster"], "data_centre"),
        (["model", "silhouette", "--profile", "toaster"], "mali_g76"),
    ],
)
def test_bad_input(arguments: list[str], word: str):
    refuses(run("bench", *arguments), word)


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
    assert prediction.totals["walk"] == prediction.totals["chain"] == 100
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


def test_time_is_the_larger_of_work_and_chain_by_rounds_of_lanes():
    each = Invocation(100.0, 0.0, 50.0, 50.0)
    one, many = Load(1, each).seconds(DESKTOP), Load(100 * DESKTOP.lanes, each).seconds(DESKTOP)
    assert one == max(50 * DESKTOP.fetch_latency, 100 * DESKTOP.operation)
    assert many == pytest.approx(max(100 * 100 * DESKTOP.operation, 50 * DESKTOP.fetch_latency))
    assert Load(1, each).seconds(CPU) == max(50 * CPU.fetch_latency, 100 * CPU.operation)


def test_each_kind_of_storage_has_its_own_rate():
    """A thousand rounds of one texel, kept by each kind of storage in turn, take what the rate of that kind says."""
    rates = {"attachments": "store_rate", "images": "image_store_rate", "buffers": "buffer_store_rate"}
    for kind, rate in {**rates, "atomics": "atomic_rate"}.items():
        fast = replace(CPU, **dict.fromkeys(rates.values(), 1e30), atomic_rate=1e30)
        model = replace(fast, **{rate: 1e6})
        seconds = Load(1000 * CPU.lanes, Invocation(), Stores(**{kind: 1.0})).seconds(model)
        assert seconds == pytest.approx(1000 * CPU.lanes / 1e6)
    loads = Load(1000 * CPU.lanes, Invocation(loads=2.0)).seconds(CPU)
    assert loads == pytest.approx(2000 * CPU.lanes / CPU.buffer_fetch_rate)
