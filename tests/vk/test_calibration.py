"""What work costs on a device: measured, kept, and never in the way of a right result."""

import json

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT
from dressi.config import config
from dressi.vk.plan.cost import CostModel
from dressi.vk.plan.substage import Mode
from dressi.vk.run import calibration
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk


def test_measured_once_and_kept(device, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "_known", {})
    with config(cache=tmp_path):
        measured = calibration.calibrate(device)
        assert measured.lanes >= 1 and measured.stage >= 1 and measured.fetch >= 1
        (file,) = (tmp_path / "calibration").iterdir()
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.cost_of(device) == measured
        for broken in ("", "[]", "{}", json.dumps({"lanes": -1}), file.read_text()[:-1]):
            file.write_text(broken)
            monkeypatch.setattr(calibration, "_known", {})
            assert calibration.cost_of(device) == calibration.CPU
    with config(cache=None):
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.cost_of(device) == calibration.CPU


def test_a_device_with_slow_fragments_gets_dispatches(device):
    x = Variable(FLOAT, (9, 7), 2, name="x", data=np.random.default_rng(0).random((2, 7, 9)))
    blurred = F.lookup(F.sqrt(x) + 1.0, F.linear_index((9, 7)))
    found = []
    for cost in (CostModel(stage=0, fetch=1e6), CostModel(stage=0, fetch=1e6, compute=True)):
        with VulkanExecutor(Program({"y": blurred}), device, cost=cost) as run:
            modes = {s.mode for s in run.plan.sub_stages}
            assert modes == {Mode.COMPUTE if cost.compute else Mode.FRAGMENT}
            run.run()
            found.append(run.recv(blurred))
    assert (found[0] == found[1]).all()
