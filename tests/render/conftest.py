"""Fixtures of the renderer's tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.render.fit import Dataset, FitJob, FitOptions, FitResult, Progress, mesh_dataset
from dressi.render.mesh.primitives import pear
from dressi.vk.run.executor import VulkanExecutor


class Runs:
    """Evaluates Variables on a device. The same Variables again run the same plan: leaves with new data are sent to it."""

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


class TinyFits:
    """A small scene on a device, and fits to it that many tests look at: nobody may change what they return."""

    options = FitOptions(size=(24, 24), views=3, steps=30, texture_size=16, colours=False, joint=False)

    def __init__(self, device):
        self.device = device
        self.scene: Dataset = mesh_dataset(
            pear(16, 12, 32), self.options.views, self.options.size, self.make_engine
        )
        self.whole = cache(self._whole)

    def make_engine(self) -> DressiAD:
        return DressiAD(self.device)

    def _whole(self, form: str = "outer") -> tuple[FitResult, list[Progress]]:
        """The fit that nothing disturbs, and the progress it told."""
        seen: list[Progress] = []
        job = FitJob(self.scene, replace(self.options, form=form), self.make_engine)
        return job.run(progress=seen.append), seen


@pytest.fixture(scope="session")
def tiny_fits(device) -> TinyFits:
    return TinyFits(device)
