"""What work costs on a device: measured, kept, and never in the way of a right result."""

import copy
import json
import math
import os
from dataclasses import asdict, replace

import numpy as np
import pytest
from graphs import weighing

from dressi import FLOAT, Device, DressiAD, F, Variable
from dressi.ad.graph.program import Program
from dressi.config import config
from dressi.vk.plan.core.substage import Compute, Fragment
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, INTEGRATED, LAVAPIPE, TILER, record_of
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure import calibration
from dressi.vk.run.measure.calibration import Bounds, willing

NVIDIA, AMD = 0x10DE, 0x1002


@pytest.mark.one_driver
def test_figures_are_measured_within_the_time(device):
    """Here the clock stands still from the fifth program on: what is not measured by then is the class's."""
    steps = []

    class Watch(calibration._Stopwatch):
        def step(self, program, cost):
            steps.append(super().step(program, cost))
            self._end = 0.0 if len(steps) == 4 else self._end
            return steps[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "_Stopwatch", Watch)
        measured = calibration.measure(device)
    free = {"raster": 1.0, "draw": 1.0, "submission": 1.0, "wider": 1.0}  # what costs CPU drivers nothing
    told = asdict(replace(measured, **free))
    figures = [x for x in told.values() if not isinstance(x, str | bool)]
    assert all(0 < x < math.inf for x in figures) and measured.name == device.name
    assert not all(map(math.isnan, steps[:4])) and all(map(math.isnan, steps[4:])) and len(steps) > 9
    assert measured.fetch_latency == device.record.fetch_latency != measured.dispatch


@pytest.mark.one_driver
@pytest.mark.parametrize(
    "make, arguments",
    [
        ("_chain", ((8, 8), 32)), ("_passes", (16,)), ("_handing", ((8, 8), 4)), ("_reading", ((8, 8), 4)), ("_adding", ((8, 8),)),
        ("_sampling", ((8, 8), 4)), ("_walking", (16,)), ("_drawing", (16, (8, 8))), ("_updating", ()),
    ],
)  # fmt: skip
def test_what_is_timed_is_computed_in_every_step(make, arguments, device):
    program = getattr(calibration, make)(*arguments)
    with VulkanExecutor(program, device, cost=willing(CPU)) as run:
        assert not run.plan.static.sub_stages and run.plan.sub_stages


def seconds_told(monkeypatch, seconds):
    """What a stopwatch says of work that takes so many seconds, once after the other, and then the last ones for ever."""
    now, taken = [0.0], list(seconds)

    def timed(steps: int) -> float:
        taken.append(taken[0]) if len(taken) == 1 else None
        took = taken.pop(0) * steps
        now[0] += took
        return took

    monkeypatch.setattr(calibration.time, "perf_counter", lambda: now[0])
    return calibration._Stopwatch(None, 1.0)._settled(timed), now[0]


def test_a_time_settles_or_is_none(monkeypatch):
    """Short work is repeated until it takes milliseconds, after a warm-up; times that differ give none, within the time."""
    assert seconds_told(monkeypatch, [1e-5])[0] == pytest.approx(1e-5)
    slow = int(calibration.WARM / 1e-3)  # clocks that wake up
    assert seconds_told(monkeypatch, [1e-3] * slow + [2e-4])[0] == pytest.approx(2e-4)
    told, took = seconds_told(monkeypatch, [1.5**k for k in range(-40, 0)])
    assert math.isnan(told) and took < 4
    assert math.isnan(seconds_told(monkeypatch, [2.0])[0]) or seconds_told(monkeypatch, [2.0])[1] < 10


@pytest.fixture
def gpu(device, tmp_path, monkeypatch):
    """A stand-in for a GPU of the class DESKTOP. (it, the measurements that were made: factors on its class)"""
    factors: list[dict[str, float]] = []

    def run(_, seconds):
        factors.append({"fill_rate": 2.0 ** (len(factors) - 1)})
        return replace(DESKTOP, name=device.name, fill_rate=DESKTOP.fill_rate * factors[-1]["fill_rate"])

    monkeypatch.setattr(device, "physical", replace(device.physical, type="discrete"))
    monkeypatch.setattr(Device, "record", property(lambda _: DESKTOP))
    monkeypatch.setattr(calibration, "measure", run)
    monkeypatch.setattr(calibration, "_known", {})
    with config(cache=tmp_path):
        yield device, factors


def kept(folder):
    return sorted((folder / "calibration").iterdir()) if (folder / "calibration").exists() else []


@pytest.mark.one_driver
@pytest.mark.parametrize("cached", [True, False])
def test_a_gpu_is_measured_once(gpu, tmp_path, monkeypatch, cached):
    """For all Devices of a process, which another one has as another object, and for all processes with a cache."""
    device, made = gpu
    with config(cache=tmp_path if cached else None):
        model = calibration.model_of(device)
        another = copy.copy(device)
        with DressiAD(device) as ad:
            ad.recv(F.constant(1.0) + 1.0)
        assert calibration.model_of(another) is model and len(made) == 1
        monkeypatch.setattr(calibration, "_known", {})  # as a process that starts
        assert calibration.model_of(another).fill_rate == DESKTOP.fill_rate * (0.5 if cached else 1)
    assert len(kept(tmp_path)) == cached and len(made) == 2 - cached


@pytest.mark.one_driver
@pytest.mark.parametrize("change", [
    {"vertex_rate": math.nan}, {"vertex_rate": math.inf}, {"vertex_rate": DESKTOP.vertex_rate * 17},
    {"barrier": 0}, {"barrier": -1e-6}, {"lanes": 1.5}, {"lanes": True}, {"lanes": 10**4000}, {"tiler": 1},
    {"longest_walk": 1 << 30}, {"name": []}, {"more": 1}, {"method": 1},
], ids=str)  # fmt: skip
def test_a_file_with_bad_numbers_is_measured_anew(gpu, tmp_path, monkeypatch, change):
    device, made = gpu
    calibration.model_of(device)
    (file,) = kept(tmp_path)
    good = file.read_text()
    for count, text in enumerate((good, json.dumps({**json.loads(good), **change}), good[:-1], "[]")):
        file.write_text(text)
        monkeypatch.setattr(calibration, "_known", {})
        calibration.model_of(device)
        assert len(made) == 1 + count


@pytest.mark.one_driver
@pytest.mark.parametrize("seconds", [1e-12, 0.0, 1e3, math.nan])
def test_nonsense_is_the_class_and_nothing_is_said(device, monkeypatch, recwarn, seconds):
    """A clock that is wrong, or a machine that is busy, is no fault of a driver. Starts may take next to no time."""
    monkeypatch.setattr(calibration._Stopwatch, "step", lambda *_: seconds)
    monkeypatch.setattr(calibration._Stopwatch, "barrier", lambda _: seconds)
    found, guess = calibration.measure(device), device.record
    starts = {name: getattr(found, name) for name in ("barrier", "render_pass", "dispatch")}
    assert replace(guess, name=device.name, prefers_attachments=found.prefers_attachments, **starts) == found
    assert (
        all(getattr(guess, k) / 16 <= x <= getattr(guess, k) for k, x in starts.items()) and not recwarn.list
    )


def test_a_device_with_slow_fragments_gets_dispatches(device):
    x = Variable(FLOAT, (9, 7), 2, name="x", data=np.random.default_rng(0).random((2, 7, 9)))
    blurred = F.lookup(F.sqrt(x) + 1.0, F.linear_index((9, 7)))
    found = []
    slow = weighing(CPU, stage=0, fetch=1e6)
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
    assert (model.operation, model.fetch) == (DESKTOP.operation, DESKTOP.fetch)
    assert model.store == DESKTOP.rate / DESKTOP.image_store_rate


@pytest.mark.one_driver
def test_a_cpu_may_have_many_cores(device, monkeypatch):
    """Its rates may be as many times those of the record, which is of two; its latencies may not."""
    monkeypatch.setattr(device, "physical", replace(device.physical, type="cpu"))
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    bounds = Bounds.of(CPU, device)
    assert bounds.hold("compute_rate", 200 * CPU.compute_rate) and bounds.hold("lanes", 64 * CPU.lanes)
    assert bounds.hold("vertex_rate", CPU.vertex_rate) and not bounds.hold("barrier", 64 * CPU.barrier)
    assert not Bounds(DESKTOP).hold("compute_rate", 200 * DESKTOP.compute_rate)
