"""`dressi devices`, and `dressi doctor --gpu`: drivers that are right pass, and each probe finds a driver
that computes wrongly."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import refuses, run, run_process

from dressi import Device, Variable
from dressi.cli.doctor import command as report
from dressi.cli.doctor import gpu_probes as probes
from dressi.cli.doctor import probe as processes
from dressi.cli.doctor.probe import Answer, ask, facts
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.glsl import writer
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.execution.workspace import Workspace
from dressi.vk.run.shaders import pipeline
from dressi.vk.run.shaders.pyglslang import Shader, compile_many


def refuses_in_one_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    refuses(result, *words)
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_devices_are_listed_with_their_limits():
    result = run("devices", "--json")
    if result.returncode == 2 and "no Vulkan driver" in result.stderr:
        pytest.skip("no Vulkan driver")
    listed = json.loads(result.stdout)
    assert sum(device["chosen"] for device in listed["devices"]) == 1
    for index, device in enumerate(listed["devices"]):
        assert device["index"] == index and device["name"] and device["driver"] and device["driver_version"]
        assert DeviceLimits(**device["limits"]).max_image_dimension >= 4096
    text = run("devices")
    assert text.returncode == 0
    for device in listed["devices"]:
        assert f"{device['index']}: {device['name']}" in text.stdout


def test_a_machine_without_a_driver():
    refuses_in_one_line(
        run_process("devices", VK_DRIVER_FILES="/nonexistent.json"),
        "no Vulkan driver",
        "/nonexistent.json",
        "install",
    )


def test_a_device_that_is_not_there_is_noted_by_the_list(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DEVICE", "Voodoo 2")
    result = run("devices", "--json")
    if result.returncode == 2:
        pytest.skip("no Vulkan driver")
    listed = json.loads(result.stdout)
    assert any("Voodoo 2" in note for note in listed["missing"])
    assert not any(device["chosen"] for device in listed["devices"])


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--foo"], "--foo"), (["devices", "--bar"], "--bar"), (["sing"], "sing")]
)
def test_what_the_parser_refuses(arguments: list[str], word: str):
    refuses_in_one_line(run(*arguments), word, "--help")


def test_no_command_shows_the_help():
    result = run()
    assert result.returncode == 0 and "devices" in result.stdout


def test_a_traceback_only_where_it_is_asked_for():
    result = run_process("devices", VK_DRIVER_FILES="/nonexistent.json", DRESSI_DEBUG="1")
    assert result.returncode != 0 and "Traceback" in result.stderr


COMPUTING = [name for name in probes.PROBES if name != "calibration"]
NOT_READ = {"seconds", "not noticed", "other operations beside others"}
"""Checks that do not look at values."""


@pytest.mark.parametrize("name", COMPUTING)
def test_a_driver_that_computes_right_passes(device: Device, name: str):
    wrong = [check for check in probes.PROBES[name](device) if not check.right]
    assert not wrong


@pytest.mark.parametrize("name", COMPUTING)
@pytest.mark.one_driver
def test_every_probe_finds_a_driver_that_computes_wrongly(device, name, monkeypatch):
    """Every twentieth value that comes from the device is changed."""
    honest = VulkanExecutor.recv

    def altered(self: VulkanExecutor, variable: Variable) -> np.ndarray:
        found = np.array(honest(self, variable))
        if self.device is device:
            found.reshape(-1)[::20] += 1
        return found

    monkeypatch.setattr(VulkanExecutor, "recv", altered)
    checks = probes.PROBES[name](device)
    if name == "beside_cpu" and not checks:
        pytest.skip("there is one CPU driver")
    assert {check.name for check in checks if check.right} <= NOT_READ
    assert any(not check.right for check in checks)


def folding(call: str) -> Callable[[Sequence[Shader]], list[bytes]]:
    """A compiler that moves constants of indices into an instruction which then finds the rest of the index
    outside: where an index falls, what is fetched without a guard is zero. Each fetch by ``call`` is one such
    instruction."""

    def compile(shaders: Sequence[Shader]) -> list[bytes]:
        def folded(shader: Shader) -> Shader:
            falls = re.search(r"-\s*(pixel|dressi_)", shader.source)
            text = re.sub(rf"{call}\((?!\w+, max\()", f"0 * {call}(", shader.source)
            return shader._replace(source=text) if falls else shader

        return compile_many([folded(shader) for shader in shaders])

    return compile


@pytest.mark.parametrize(
    ("call", "kinds"), [("texelFetch", {"texture", "dispatched texture"}), ("imageLoad", {"image"})]
)
def test_indices_that_a_compiler_folds_are_guarded(device, monkeypatch, call, kinds):
    """With such a compiler the probe is right because of the guard, and wrong without it."""
    monkeypatch.setattr(pipeline, "compile_many", folding(call))
    with Device(device.physical, validation=device.instance.validation) as own:
        assert all(check.right for check in probes.mirrored(own))
    monkeypatch.setattr(writer, "fetched_at", lambda texel: texel)
    with Device(device.physical, validation=device.instance.validation) as own:
        wrong = {tuple(check.name.split(", ")[:2]) for check in probes.mirrored(own) if not check.right}
    whole = ("map", "lookup", "function", "product")
    assert wrong >= {(name, kind) for name in whole for kind in kinds}


def test_products_that_a_compiler_fuses_are_found(device: Device, monkeypatch: pytest.MonkeyPatch):
    def fused(shaders: Sequence[Shader]) -> list[bytes]:
        texts = [
            re.sub(r"= (dressi_x\d+) \+ (dressi_x\d+);", r"= \1 + \2 * 1.0000001;", s.source) for s in shaders
        ]
        return compile_many([s._replace(source=text) for s, text in zip(shaders, texts, strict=True)])

    monkeypatch.setattr(pipeline, "compile_many", fused)
    with Device(device.physical, validation=device.instance.validation) as own:
        wrong = {check.name for check in probes.rounding(own) if not check.right}
    assert wrong == {f"{name}, {how}" for name in ("fused", "chain") for how in ("packed", "alone")}


@pytest.mark.one_driver
def test_a_sampler_that_breaks_its_promise_is_found(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "sampler_errors", lambda *_: {"bilinear": 0.0046, "nearest": 1.0})
    assert all(check.right for check in probes.sampler(device))  # as with 8 bits, which an H100 promises
    monkeypatch.setattr(probes, "sampler_errors", lambda *_: {"bilinear": 0.0079, "nearest": 1.0})
    assert not any(check.right for check in probes.sampler(device))


@pytest.mark.one_driver
def test_an_undefined_sum_that_nobody_notices_is_found(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Workspace, "saturated", lambda self: False)
    assert [check.name for check in probes.nan_scatter(device) if not check.right] == ["not noticed"]


@pytest.mark.one_driver
def test_a_rate_far_off_its_class_is_shown_and_not_judged(device: Device, monkeypatch: pytest.MonkeyPatch):
    model = device.record
    gpu: Any = SimpleNamespace(physical=SimpleNamespace(type="discrete"), record=model)
    monkeypatch.setattr(probes, "measure", lambda *_: replace(model, vertex_rate=1000 * model.vertex_rate))
    checks = {check.name: check for check in probes.calibration(gpu)}
    assert all(check.right for check in checks.values()) and checks["vertex_rate"].error == 1000


@pytest.mark.one_driver
def test_slow_submissions_are_wrong_on_a_gpu(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "LONGEST_SUBMISSION", 1e-9)
    monkeypatch.setattr(device, "physical", replace(device.physical, type="discrete"))
    (slow,) = [check for check in probes.submission(device) if not check.right]
    assert slow.name == "seconds" and float(slow.detail.split()[-2]) > 0


@pytest.mark.one_driver
def test_the_facts_of_a_device_are_plain_data(device: Device):
    found = json.loads(json.dumps(facts(device), allow_nan=False))
    assert found["device"]["name"] == device.name and found["conformance"].count(".") == 3
    assert found["memory_types"] and found["queue_families"] and found["memory_heaps"][0]["bytes"] > 0
    assert {"device_nodes", "container", "limits", "features"} <= set(found)


@pytest.mark.one_driver
def test_a_probe_in_a_process_of_its_own(device: Device):
    answer = ask("check", str(device.physical.index), "transfer")
    assert [check["name"] for check in answer.facts["checks"]] == ["floats", "integers"], answer
    assert all(check["right"] for check in answer.facts["checks"])


WHO = Answer({"device": {"name": "Some GPU", "driver": "some", "driver_version": "1.2"}})
GOOD = Answer({"checks": [probes.Check("x", 0.0, 1.0, "ULP").as_dict()], "seconds": 0.1})


def machine(said: Mapping[str, Answer]) -> processes.Ask:
    return lambda what, device, name="", **_: WHO if what == "facts" else said.get(name, GOOD)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(failure="does not answer within 60 s"), "does not answer"),
        (Answer(failure="crashes (SIGSEGV)"), "SIGSEGV"),
        (Answer({"error": "the device is lost"}), "the device is lost"),
        (Answer({"checks": [probes.Check("x", float("nan"), 1.0, "ULP").as_dict()]}), "NaN or infinite"),
        (Answer({}), "no checks"),
    ],
)
def test_a_driver_that_is_wrong_is_named_with_what_to_send(answer, words, tmp_path, capsys):
    found = report.judge(machine({"chain": answer}), 0)
    assert found["wrong"] == ["chain"]
    file = tmp_path / "found.json"
    assert json.loads(json.dumps(found, allow_nan=False))["facts"]["device"]["name"] == "Some GPU"
    report.show(found)
    assert words in capsys.readouterr().out
    said = report.verdict(found, file)
    assert "some 1.2 is wrong about chain" in said and f"send '{file}' to the makers" in said


@pytest.mark.vk
@pytest.mark.parametrize(("wrong", "code"), [({}, 0), ({"sums": Answer(failure="crashes (SIGBUS)")}, 1)])
def test_the_command_writes_one_file(wrong, code, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "ask", machine(wrong))
    file = tmp_path / "gpu.json"
    result = run("doctor", "--gpu", "--file", file)
    assert result.returncode == code and str(file) in result.stdout
    assert json.loads(file.read_text())["wrong"] == list(wrong)
