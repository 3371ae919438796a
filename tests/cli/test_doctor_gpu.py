"""`dressi doctor --gpu`: drivers that are right pass, and each probe finds a driver that computes wrongly."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import run

from dressi.ad.graph import Variable
from dressi.cli.doctor import gpu_probes as probes
from dressi.cli.doctor import gpu_report as report
from dressi.cli.doctor import probe as processes
from dressi.cli.doctor.gpu_facts import facts
from dressi.cli.doctor.probe import Answer, ask
from dressi.vk.run.device.device import Device
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.measure.calibration import guess_of
from dressi.vk.run.workspace import Workspace

COMPUTING = [name for name in probes.PROBES if name != "calibration"]
NOT_READ = {"seconds", "not noticed"}
"""Checks that do not look at values."""


@pytest.mark.vk
@pytest.mark.parametrize("name", COMPUTING)
def test_a_driver_that_computes_right_passes(device: Device, name: str):
    wrong = [check for check in probes.PROBES[name](device) if not check.right]
    assert not wrong


@pytest.mark.vk
@pytest.mark.parametrize("name", COMPUTING)
@pytest.mark.one_driver
def test_every_probe_finds_a_driver_that_computes_wrongly(
    device: Device, name: str, monkeypatch: pytest.MonkeyPatch
):
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


@pytest.mark.vk
@pytest.mark.one_driver
def test_an_undefined_sum_that_nobody_notices_is_found(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Workspace, "saturated", lambda self: False)
    assert [check.name for check in probes.nan_scatter(device) if not check.right] == ["not noticed"]


@pytest.mark.vk
@pytest.mark.one_driver
def test_a_rate_far_off_its_class_is_shown_and_not_judged(device: Device, monkeypatch: pytest.MonkeyPatch):
    model = guess_of(device)
    gpu: Any = SimpleNamespace(physical=SimpleNamespace(type="discrete"))
    monkeypatch.setattr(probes, "guess_of", lambda _: model)
    monkeypatch.setattr(probes, "measure", lambda *_: replace(model, vertex_rate=1000 * model.vertex_rate))
    checks = {check.name: check for check in probes.calibration(gpu)}
    assert all(check.right for check in checks.values()) and checks["vertex_rate"].error == 1000


@pytest.mark.vk
@pytest.mark.one_driver
def test_slow_submissions_are_wrong_on_a_gpu(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "LONGEST_SUBMISSION", 1e-9)
    monkeypatch.setattr(device, "physical", replace(device.physical, type="discrete"))
    (slow,) = [check for check in probes.submission(device) if not check.right]
    assert slow.name == "seconds" and float(slow.detail.split()[-2]) > 0


@pytest.mark.vk
@pytest.mark.one_driver
def test_the_facts_of_a_device_are_plain_data(device: Device):
    found = json.loads(json.dumps(facts(device), allow_nan=False))
    assert found["device"]["name"] == device.name and found["conformance"].count(".") == 3
    assert found["memory_types"] and found["queue_families"] and found["memory_heaps"][0]["bytes"] > 0
    assert {"device_nodes", "container", "limits", "features"} <= set(found)


@pytest.mark.vk
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
def test_a_driver_that_is_wrong_is_named_with_what_to_send(
    answer: Answer, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = report.judge(machine({"chain": answer}), 0)
    assert found["wrong"] == ["chain"]
    file = tmp_path / "found.json"
    report.write(found, file)
    assert json.loads(file.read_text())["facts"]["device"]["name"] == "Some GPU"
    report.show(found)
    assert words in capsys.readouterr().out
    said = report.verdict(found, file)
    assert "some 1.2 is wrong about chain" in said and f"send '{file}' to the makers" in said


@pytest.mark.vk
@pytest.mark.parametrize(("wrong", "code"), [({}, 0), ({"sums": Answer(failure="crashes (SIGBUS)")}, 1)])
def test_the_command_writes_one_file(
    wrong: Mapping[str, Answer], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "ask", machine(wrong))
    file = tmp_path / "gpu.json"
    result = run("doctor", "--gpu", "--file", file)
    assert result.returncode == code and str(file) in result.stdout
    assert json.loads(file.read_text())["wrong"] == list(wrong)
