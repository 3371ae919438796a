"""Fixtures of the renderer's tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from tiny_fits import TinyFits, fits_on

from dressi.ad.graph import Variable
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.render.drawing import pixels
from dressi.render.fit.phases import remeshed
from dressi.render.fit.start import carved
from dressi.vk.run.execution.executor import VulkanExecutor


class Runs:
    """Evaluates Variables on a device. The same Variables again run the same plan: leaves with new data are
    sent to it."""

    def __init__(self, device, stack: ExitStack):
        self._device, self._stack = device, stack
        self._built: dict[tuple[Variable, ...], tuple[VulkanExecutor, dict[Variable, np.ndarray]]] = {}

    def __call__(self, outputs: Sequence[Variable]) -> list[np.ndarray]:
        key = tuple(outputs)
        if key not in self._built:
            program = simplify(Program({f"output {k}": v for k, v in enumerate(outputs)}))
            executor = self._stack.enter_context(VulkanExecutor(program, self._device))
            self._built[key] = executor, {v: v.data for v in program.leaves if v.data is not None}
        executor, sent = self._built[key]
        new = {v: v.data for v, data in sent.items() if v.data is not data}
        if new:
            executor.send_many(new)
            sent.update(new)
        executor.run()
        return [executor.recv(v) for v in executor.program.outputs.values()]


@pytest.fixture
def run(device) -> Iterator[Callable[[Sequence[Variable]], list[np.ndarray]]]:
    """Evaluates Variables on a device: the executor that the checks of the oracle's tests take."""
    with ExitStack() as stack:
        yield Runs(device, stack)


@pytest.fixture
def engines(make_engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures are drawn by engines on the device of the test, none of which stays open."""
    pixels.close_engines()
    monkeypatch.setattr(pixels, "default_engine", make_engine)
    yield
    pixels.close_engines()


@pytest.fixture(scope="module")
def tiny_fits(device) -> TinyFits:
    return fits_on(device)


@pytest.fixture(autouse=True)
def coarse_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """In fits, first shapes are carved, and folded surfaces made anew, on grids that fit pictures of a few
    dozen pixels: 256 cells along a side take ten seconds."""
    monkeypatch.setattr(remeshed, "CELLS", 32)
    monkeypatch.setattr(carved, "CELLS", 48)
