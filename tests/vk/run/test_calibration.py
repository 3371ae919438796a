"""What work costs on a device: measured, kept, and never in the way of a right result."""

import json
import math
import os
from dataclasses import asdict, replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT
from dressi.config import config
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, INTEGRATED, LAVAPIPE, TILER, record_of
from dressi.vk.plan.substage import Compute, Fragment
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.measure import calibration
from dressi.vk.run.measure.bounds import FIGURES, Bounds
from dressi.vk.run.measure.sampling import willing

pytestmark = pytest.mark.vk
NVIDIA, AMD = 0x10DE, 0x1002


@pytest.mark.one_driver
def test_figures_are_measured(device):
    measured = calibration.measure(device)
    figures = [x for x in asdict(measured).values() if not isinstance(x, str | bool)]
    assert all(0 < x < math.inf for x in figures) and measured.name == device.name
    assert measured.lanes >= 1 and measured.stage >= 1 and measured.fetch >= 1


@pytest.mark.one_driver
@pytest.mark.parametrize(
    "make", ["_chain", "_passes", "_fetching", "_sampling", "_walking", "_drawing", "_updating"]
)
def test_what_is_timed_is_computed_in_every_step(make, device):
    arguments = {"_chain": ((8, 8), 32), "_updating": ()}.get(make, (16,))
    program = getattr(calibration, make)(*arguments)
    with VulkanExecutor(program, device, cost=willing(CPU)) as run:
        assert not run.plan.static.sub_stages and run.plan.sub_stages


@pytest.fixture
def gpu(device, tmp_path, monkeypatch):
    """A stand-in for a GPU of the class DESKTOP. (it, what its next runs measure: factors on its class)"""
    factors: list[dict[str, float]] = []

    def run(_):
        changed = factors.pop(0) if len(factors) > 1 else factors[0]
        figures = {
            name: type(x)(x * changed.get(name, 1)) for name in FIGURES if (x := getattr(DESKTOP, name))
        }
        return replace(DESKTOP, name=device.name, **figures)

    monkeypatch.setattr(device, "physical", replace(device.physical, type="discrete"))
    monkeypatch.setattr(calibration, "guess_of", lambda _: DESKTOP)
    monkeypatch.setattr(calibration, "measure", run)
    monkeypatch.setattr(calibration, "_known", {})
    monkeypatch.setattr(calibration, "_told", set())
    with config(cache=tmp_path):
        yield device, factors


def kept(folder):
    return sorted((folder / "calibration").iterdir()) if (folder / "calibration").exists() else []


@pytest.mark.one_driver
@pytest.mark.parametrize("cached", [True, False])
def test_a_gpu_is_measured_once_with_and_without_a_cache(gpu, tmp_path, cached):
    device, factors = gpu
    factors[:] = [{"fill_rate": 0.5}, {"fill_rate": 1 / 64}, {"fill_rate": 0.25}, {"fill_rate": 9}]
    with config(cache=tmp_path if cached else None):
        model = calibration.model_of(device)
        assert model.fill_rate == DESKTOP.fill_rate / 4 and model.fetch_rate == DESKTOP.fetch_rate
        assert calibration.model_of(device) is model and len(factors) == 1
    assert len(kept(tmp_path)) == cached


@pytest.mark.one_driver
@pytest.mark.parametrize("change", [
    {"vertex_rate": math.nan}, {"vertex_rate": math.inf}, {"vertex_rate": DESKTOP.vertex_rate * 17},
    {"barrier": 0}, {"barrier": -1e-6}, {"lanes": 1.5}, {"lanes": True}, {"lanes": 10**4000}, {"tiler": 1},
    {"bilinear_error": 1e-30}, {"longest_walk": 1 << 30}, {"name": []}, {"more": 1},
], ids=str)  # fmt: skip
def test_a_file_with_bad_numbers_is_measured_anew(gpu, tmp_path, monkeypatch, change):
    device, factors = gpu
    factors[:] = [{"fill_rate": 0.5}]
    calibration.model_of(device)
    (file,) = kept(tmp_path)
    good = file.read_text()
    factors[:] = [{"fill_rate": 2}]
    for text, factor in (
        (good, 0.5),
        (json.dumps({**json.loads(good), **change}), 2),
        (good[:-1], 2),
        ("[]", 2),
    ):
        file.write_text(text)
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.model_of(device).fill_rate == factor * DESKTOP.fill_rate


@pytest.mark.one_driver
def test_runs_that_do_not_agree_are_not_kept(gpu, tmp_path):
    device, factors = gpu
    factors[:] = [{"fill_rate": f} for f in (1 / 16, 1 / 2, 8, 64)]
    assert calibration.model_of(device).fill_rate == DESKTOP.fill_rate / 2 and not kept(tmp_path)


@pytest.mark.one_driver
def test_nonsense_in_every_run_names_the_device_once(gpu, tmp_path, monkeypatch):
    device, factors = gpu
    factors[:] = [{"vertex_rate": 1000, "fill_rate": 0.5}]
    with pytest.warns(
        RuntimeWarning, match=r"driver .*vertex_rate 5e\+12 \(its class: 5e\+09\);.*driver's makers"
    ) as told:
        assert calibration.model_of(device) is DESKTOP
        monkeypatch.setattr(calibration, "_known", {})
        assert calibration.model_of(device) is DESKTOP
    assert len(told) == 1 and "fill_rate" not in str(told[0].message) and not kept(tmp_path)


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
    assert record_of("cpu", name="llvmpipe (LLVM 15.0.6, 256 bits)") is CPU
    assert record_of("cpu", name="llvmpipe (LLVM 22.1.8, 256 bits)") is LAVAPIPE
    assert record_of("integrated") is INTEGRATED and record_of("integrated", tiler=True) is TILER
    assert record_of("discrete") is DESKTOP and record_of("discrete", vendor=NVIDIA) is DESKTOP


@pytest.mark.one_driver
@pytest.mark.parametrize(
    ("vendor", "name", "record"),
    [
        (NVIDIA, "NVIDIA A100-SXM4-40GB", DATA_CENTRE),
        (NVIDIA, "NVIDIA H100 80GB HBM3", DATA_CENTRE),
        (NVIDIA, "NVIDIA H100 PCIe (NVK GH100)", DATA_CENTRE),
        (NVIDIA, "NVIDIA H200", DATA_CENTRE),
        (NVIDIA, "NVIDIA H800", DATA_CENTRE),
        (NVIDIA, "NVIDIA B200", DATA_CENTRE),
        (NVIDIA, "NVIDIA GB200", DATA_CENTRE),
        (NVIDIA, "NVIDIA GH200 480GB", DATA_CENTRE),
        (AMD, "AMD Instinct MI250X (RADV ALDEBARAN)", DATA_CENTRE),
        (AMD, "AMD Instinct MI300X", DATA_CENTRE),
        (NVIDIA, "NVIDIA GeForce RTX 4080", DESKTOP),
        (NVIDIA, "NVIDIA RTX A1000", DESKTOP),
        (NVIDIA, "Quadro GV100", DESKTOP),
        (AMD, "AMD Radeon RX 6800 XT (RADV NAVI21)", DESKTOP),
        (0x8086, "Some B200 of another vendor", DESKTOP),
    ],
)
def test_data_centre_gpus_are_known_by_name(vendor, name, record, device, monkeypatch):
    monkeypatch.setattr(device, "physical", replace(device.physical, type="discrete", vendor_id=vendor))
    monkeypatch.setattr(device, "name", name)
    assert device.record is record


def test_a_device_that_prefers_dispatches_is_weighed_by_them():
    """Slow fragments make no texel cheap for work that is dispatched."""
    model = replace(
        DESKTOP, prefers_dispatches=True, fragment_rate=DESKTOP.fragment_rate / 30, store_rate=1e9
    )
    assert (model.operation, model.fetch, model.store) == (DESKTOP.operation, DESKTOP.fetch, DESKTOP.store)


@pytest.mark.one_driver
def test_a_cpu_may_have_many_cores(device, monkeypatch):
    """Its rates may be as many times those of the record, which is of two; its latencies may not."""
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    bounds = Bounds.of(CPU, device)
    assert bounds.hold("compute_rate", 200 * CPU.compute_rate) and bounds.hold("lanes", 64 * CPU.lanes)
    assert bounds.hold("vertex_rate", CPU.vertex_rate) and not bounds.hold("barrier", 64 * CPU.barrier)
    assert not Bounds(DESKTOP).hold("compute_rate", 200 * DESKTOP.compute_rate)
