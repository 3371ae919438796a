"""Values that are read while steps run."""

import gc
import itertools
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from graphs import optimising

import dressi
from dressi import Device, DeviceError, DressiAD, F, GraphError, InputError, Variable, adam
from dressi.ad.graph.types import FLOAT, INT, MAT3, VEC3
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.queue import Pace
from dressi.vk.run.device.transfer import SLOTS


def fit(device, *, record: bool = True) -> DressiAD:
    rng = np.random.default_rng(0)
    target = Variable(VEC3, (16, 16), name="target", data=rng.random((1, 16, 16, 3)))
    image = Variable(VEC3, (16, 16), name="image", data=np.zeros((1, 16, 16, 3)))
    ad = DressiAD(device)
    ad.set_loss(F.sum(F.dot(image - target, image - target)), record=record)
    ad.set_optimizer(adam(0.05), [image])
    ad.set_output("brighter", image * 2.0)
    return ad


@pytest.mark.parametrize("record", [True, False], ids=["recorded", "asked"])
@pytest.mark.one_driver
def test_handles_have_the_values_of_their_time(device, record):
    """Leaves, outputs and the loss, of steps behind which others are queued."""
    with fit(device, record=record) as ad, fit(device, record=record) as waiting:
        (image,), (its,) = ad.parameters, waiting.parameters
        handles, expected = [], []
        for n in (1, 5, 2):
            ad.step(n)
            handles += [ad.recv_async(name) for name in (image, "brighter")]
            waiting.step(n)
            expected += [waiting.recv(name) for name in (its, "brighter")]
        handles.append(ad.recv_async("loss"))
        expected.append(waiting.recv("loss"))
        ad.send(image, np.zeros(image.shape))
        ad.step(3)
        for handle, value in zip(handles, expected, strict=True):
            assert handle.result().tobytes() == value.tobytes()
            assert handle.done() and handle.result() is handle.result()


def test_neither_the_call_nor_later_steps_wait(device, monkeypatch):
    with fit(device) as ad:
        ad.step()
        ad.recv("brighter")  # its program is made at the first reading
        ad.wait()
        waits = []
        wait = Commands.wait
        monkeypatch.setattr(
            Commands, "wait", lambda self, *ticket: (waits.append(ticket), wait(self, *ticket))[1]
        )
        busy = ad.executor.commands
        monkeypatch.setattr(busy, "done", lambda ticket: ticket == 0)  # a device that takes its time
        handles = []
        for _ in range(3):
            handles.append(ad.recv_async("brighter"))
            ad.step(2)
        assert all(ticket == (0,) for ticket in waits) and not handles[0].done()
        monkeypatch.undo()
        ad.wait()
        assert all(handle.done() for handle in handles)


def test_types_arrive_whole(device):
    rng = np.random.default_rng(2)
    arrays = [rng.random((2, 3, 2, 3, 3)), np.arange(5).reshape(1, 1, 5), rng.random((3, 7, 1))]
    domains = [(MAT3, (2, 3), 2), (INT, (5, 1), 1), (FLOAT, (1, 7), 3)]
    with DressiAD(device) as ad:
        for k, (array, domain) in enumerate(zip(arrays, domains, strict=True)):
            v = Variable(*domain, data=array)
            ad.set_output(str(k), v + v)
        ad.step()
        for handle, array in zip([ad.recv_async(str(k)) for k in range(3)], arrays, strict=True):
            assert np.allclose(handle.result(), 2 * array, rtol=1e-6)


@pytest.mark.one_driver
def test_many_unread_handles_share_a_few_buffers(device):
    with fit(device) as ad:
        (image,) = ad.parameters
        handles = []
        for _ in range(3 * SLOTS):
            ad.step()
            handles.append(ad.recv_async(image))
        assert len(ad._workspace.transfers._slots) <= SLOTS
        values = [handle.result() for handle in handles]
        assert all((a != b).any() for a, b in itertools.pairwise(values))


def test_handles_outlive_builds_and_the_engine(device):
    with fit(device) as ad:
        ad.step(2)
        early, expected = ad.recv_async("brighter"), ad.recv("brighter")
        ad.set_output("darker", ad.parameters[0] * 0.5)
        ad.step()
        late, last = ad.recv_async("darker"), ad.recv("darker")
    assert (early.result() == expected).all() and (late.result() == last).all()


def test_reading_in_vain(device):
    ad = fit(device)
    ad.step()
    with pytest.raises(GraphError, match="no output 'darker'"):
        ad.recv_async("darker")
    with pytest.raises(GraphError, match="not kept"):
        ad.executor.recv_async(ad.parameters[0] * 3.0)
    handle, errors = ad.recv_async("loss"), []

    def elsewhere() -> None:
        for use in (handle.done, handle.result, lambda: ad.recv_async("loss")):
            try:
                use()
            except DeviceError as error:
                errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(errors) == 3 and all("thread" in text for text in errors)
    ad.close()
    with pytest.raises(InputError, match="closed"):
        ad.recv_async("loss")
    with pytest.raises(InputError, match="closed"):
        ad.step()


def test_a_closed_device_has_no_more_values():
    device = Device.open()
    ad = fit(device)
    ad.step()
    handle = ad.recv_async("loss")
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        handle.result()
    ad.close()


@pytest.mark.release
@pytest.mark.one_driver
def test_steps_sends_and_reads_allocate_nothing(device, monkeypatch):
    """Neither Python memory nor objects on the device, once everything was used."""
    monkeypatch.setattr(device.work, "pace", Pace())  # tables that others filled may grow at any time
    with fit(device) as ad:
        target = next(v for v in ad.program().leaves if v.name == "target")
        values = np.random.default_rng(1).random(target.shape)

        def work(rounds: int) -> None:
            for k in range(rounds):
                if k % 3 == 0:
                    ad.send(target, values)
                ad.step(1 + k % 2)
                handle = ad.recv_async("brighter")
                ad.recv("loss")
                handle.result()
            ad.losses().clear()

        # A device that falls behind takes more slots: all that the ring may have are in use once before anything is counted.
        for handle in [ad.recv_async("brighter") for _ in range(SLOTS)]:
            handle.result()
        work(60)
        objects, slots = device.live_objects(), len(ad._workspace.transfers._slots)
        gc.collect()
        tracemalloc.start(4)
        work(60)
        gc.collect()
        before = tracemalloc.take_snapshot()
        work(300)
        gc.collect()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
        assert device.live_objects() == objects and len(ad._workspace.transfers._slots) == slots
        ours = tracemalloc.Filter(
            True, f"{Path(dressi.__file__).parent}/*", all_frames=True
        )  # other threads allocate, too
        lines = after.filter_traces([ours]).compare_to(before.filter_traces([ours]), "lineno")
        grown = sum(line.size_diff for line in lines)
        assert grown < 300 * 16, lines[:5]  # less than one small Python object a step


@pytest.mark.one_driver
def test_an_engine_that_its_generator_closes_after_the_collector_did(device):
    """The collector registers the engine to be closed, and then ends the generator that holds it, which closes it."""

    def steps():
        with DressiAD(device) as ad:
            ad.set_output("twice", Variable.of(2.0) * 2.0)
            while True:
                yield ad.recv("twice")

    class Holder:
        """Refers to itself: only the collector frees it."""

    holder = Holder()
    holder.self, holder.steps = holder, steps()
    assert next(holder.steps).item() == 4.0
    del holder
    gc.collect()
    with DressiAD(device) as ad:
        assert ad.evaluate(Variable.of(3.0) * 1.0).item() == 3.0


def test_waiting_waits_for_outputs_alone(device):
    with DressiAD(device) as ad:
        ad.set_output("y", F.sin(Variable.of(np.ones((8, 8)))))
        ad.step()
        ad.wait()
        assert not device.work._under_way


@pytest.mark.parametrize("wrong", [20_000_000, 4, -1])
def test_a_wrong_counter_is_an_error(device, wrong):
    x = Variable.of(np.ones((8, 8)), name="x")
    with optimising(device, F.sum(F.square(x)), adam(0.1), [x]) as ad:
        ad.step(3)
        counter = ad._objective.counter
        ad._workspace.send_many({counter: np.full(counter.shape, wrong)})
        with pytest.raises(DeviceError, match="at most 3 were submitted"):
            ad.losses()
        ad._workspace.send_many({counter: np.full(counter.shape, 3)})
        assert len(ad.losses()) == 3
