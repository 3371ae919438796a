"""What work costs on a device: measured, kept, and never in the way of a right result."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT
from dressi.config import config
from dressi.vk.plan.model.records import CPU, DESKTOP, INTEGRATED, TILER, record_of
from dressi.vk.plan.substage import Compute, Fragment
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.measure import calibration

pytestmark = pytest.mark.vk


def test_measured_once_and_kept(device, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "_known", {})
    with config(cache=tmp_path):
        measured = calibration.calibrate(device)
        figures = [x for x in asdict(measured).values() if not isinstance(x, str | bool)]
        assert all(0 < x < math.inf for x in figures) and measured.name == device.name
        assert measured.lanes >= 1 and measured.stage >= 1 and measured.fetch >= 1
        (file,) = (tmp_path / "calibration").iterdir()
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.model_of(device) == measured
        for broken in ("", "[]", "{}", json.dumps({"lanes": -1}), file.read_text()[:-1]):
            file.write_text(broken)
            monkeypatch.setattr(calibration, "_known", {})
            assert calibration.model_of(device) == CPU
    with config(cache=None):
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.model_of(device) == CPU


def test_a_device_with_slow_fragments_gets_dispatches(device):
    x = Variable(FLOAT, (9, 7), 2, name="x", data=np.random.default_rng(0).random((2, 7, 9)))
    blurred = F.lookup(F.sqrt(x) + 1.0, F.linear_index((9, 7)))
    found = []
    slow = CPU.weighing(stage=0, fetch=1e6)
    for cost in (slow, replace(slow, prefers_dispatches=True)):
        with VulkanExecutor(Program({"y": blurred}), device, cost=cost) as run:
            modes = {type(s.work) for s in run.plan.sub_stages}
            assert modes == {Compute if cost.prefers_dispatches else Fragment}
            run.run()
            found.append(run.recv(blurred))
    assert (found[0] == found[1]).all()


def test_the_record_of_a_device_is_that_of_its_class():
    assert record_of("cpu") is CPU and record_of("cpu", tiler=True) is CPU
    assert record_of("integrated") is INTEGRATED and record_of("integrated", tiler=True) is TILER
    assert record_of("discrete") is DESKTOP
