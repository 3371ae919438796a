"""Programs of operations on a device, one for each signature, and their gradients."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ..ad import functional as F
from ..ad.graph import Domain, Variable, domain_of
from ..ad.program import Program
from ..ad.transform.gradient import gradient
from ..ad.transform.simplify import simplify
from ..config import config
from ..vk.plan.options import PlanOptions
from ..vk.run.device.device import Device
from ..vk.run.executor import VulkanExecutor
from ..vk.run.measure.calibration import model_of
from ..vk.run.values.evaluate import shared_device
from ..vk.run.workspace import Workspace
from .layout import Layout, Parts, Spec, computed, spec_of
from .operation import Operation

KEPT = 64
"""Signatures that are kept, the least recently used one being dropped."""
OPTIONS = PlanOptions(cache_static=False)
"""Nothing is kept from call to call: inputs are new in every one."""

Seeds = Sequence[np.ndarray | None]
"""The gradient by each output; None is zero."""
Choice = tuple[bool, ...]


class Kept:
    """An operation for one signature: the program of its outputs, and of each set of gradients that was asked for."""

    def __init__(self, operation: Operation, given: Sequence[Spec], workspace: Workspace):
        self._workspace = workspace
        self._layouts = operation.layouts(*given)
        names = (*operation.names, *(f"table {k}" for k in range(len(given))))
        self._inputs = [layout.leaves(name) for layout, name in zip(self._layouts, names)]
        self._outputs = [_whole(parts) for parts in operation.graph(*self._inputs)]
        shapes = operation.outputs(*given[: len(operation.names)])
        self._results = [computed(parts, shape) for parts, shape in zip(self._outputs, shapes, strict=True)]
        self._seeds = [layout.leaves("gradient") for layout in self._results]
        self._forward: VulkanExecutor | None = None
        self._backward: dict[tuple[Choice, Choice], VulkanExecutor] = {}

    def forward(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs."""
        if self._forward is None:
            self._forward = self._made([v for parts in self._outputs for v in parts])
        return self._run(self._forward, self._sent(self._inputs, self._layouts, arrays), self._results)

    def backward(
        self, arrays: Sequence[np.ndarray], seeds: Seeds, wanted: Sequence[bool]
    ) -> list[np.ndarray]:
        """The gradients of sum(seed * output) by the wanted inputs."""
        key = tuple(wanted), tuple(seed is not None for seed in seeds)
        if key not in self._backward:
            self._backward[key] = self._made(self._gradients(*key))
        sent = self._sent(self._inputs, self._layouts, arrays)
        given = [k for k, seed in enumerate(seeds) if seed is not None]
        leaves, layouts = [self._seeds[k] for k in given], [self._results[k] for k in given]
        sent |= self._sent(leaves, layouts, [seed for seed in seeds if seed is not None])
        results = [layout for layout, want in zip(self._layouts, wanted) if want]
        return self._run(self._backward[key], sent, results)

    def _gradients(self, wanted: Choice, seeded: Choice) -> list[Variable]:
        total = F.constant(0.0)
        for seeds, outputs, given in zip(self._seeds, self._outputs, seeded, strict=True):
            for seed, y in zip(seeds, outputs, strict=True):
                if given and not y.vtype.is_int:
                    total = total + F.sum(F.sum_components(F.hadamard(seed, y)))
        return gradient(total, [v for parts, want in zip(self._inputs, wanted) if want for v in parts])

    def _made(self, outputs: Sequence[Variable]) -> VulkanExecutor:
        program = simplify(Program({str(k): v for k, v in enumerate(outputs)}))
        device = self._workspace.device
        return VulkanExecutor(
            program, device, options=OPTIONS, cost=model_of(device), workspace=self._workspace
        )

    @staticmethod
    def _sent(
        leaves: Sequence[Parts], layouts: Sequence[Layout], arrays: Sequence[np.ndarray]
    ) -> dict[Variable, np.ndarray]:
        return {
            leaf: values
            for parts, layout, array in zip(leaves, layouts, arrays, strict=True)
            for leaf, values in zip(parts, layout.split(array), strict=True)
        }

    def _run(
        self, executor: VulkanExecutor, sent: Mapping[Variable, np.ndarray], results: Sequence[Layout]
    ) -> list[np.ndarray]:
        self._workspace.send_many({leaf: values for leaf, values in sent.items() if leaf in executor.leaves})
        executor.run()
        outputs = executor.program.outputs
        readers = [executor.recv_async(outputs[str(k)]) for k in range(len(outputs))]
        values = iter([reader.result() for reader in readers])
        return [layout.join([next(values) for _ in layout.vtypes]) for layout in results]

    def close(self) -> None:
        """Release everything on the device."""
        for executor in (self._forward, *self._backward.values()):
            if executor is not None:
                executor.close()
        self._workspace.release(v for parts in (*self._inputs, *self._seeds) for v in parts)


def _whole(parts: Parts) -> Parts:
    """The Variables of one output, all with the domain of the largest."""
    width, height = (max(v.size[k] for v in parts) for k in range(2))
    domain: Domain = domain_of((width, height), max(v.batch for v in parts))
    return tuple(v if v.domain == domain else F.expand(v, domain.batch, domain.size) for v in parts)


class Engine:
    """Runs operations on one device."""

    def __init__(self, device: Device):
        self.device = device
        self._workspace = Workspace(device, device.limits)
        self._kept: OrderedDict[tuple[Operation, tuple[Spec, ...]], Kept] = OrderedDict()

    def forward(self, operation: Operation, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of an operation. Raises InputError, DressiErrors."""
        whole = operation.complete(arrays)
        return self._program(operation, whole).forward(whole)

    def backward(
        self,
        operation: Operation,
        arrays: Sequence[np.ndarray],
        seeds: Seeds,
        wanted: Sequence[bool],
    ) -> list[np.ndarray]:
        """The gradients of sum(seed * output) by the wanted inputs, with the shapes of these."""
        whole = operation.complete(arrays)
        return self._program(operation, whole).backward(whole, seeds, wanted)

    def _program(self, operation: Operation, arrays: Sequence[np.ndarray]) -> Kept:
        key = (operation, tuple(spec_of(array) for array in arrays))
        if key not in self._kept:
            self._kept[key] = Kept(operation, key[1], self._workspace)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].close()
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        """Release everything on the device. Idempotent."""
        while self._kept:
            self._kept.popitem()[1].close()
        self._workspace.close()


_chosen = threading.local()
_engines: dict[tuple[int, int, str | int | None], Engine] = {}


@contextmanager
def using(device: Device) -> Iterator[Engine]:
    """Inside of the block ``engine`` runs on this device, which stays open; its programs are released at the end."""
    found, before = Engine(device), getattr(_chosen, "engine", None)
    _chosen.engine = found
    try:
        yield found
    finally:
        _chosen.engine = before
        found.close()


def engine() -> Engine:
    """The engine of this thread: that of the block of ``using``, or one on the device of DRESSI_DEVICE, or on the best one.
    Raises DeviceErrors."""
    chosen = getattr(_chosen, "engine", None)
    if chosen is not None:
        return chosen
    key = (os.getpid(), threading.get_ident(), config.device)
    if key not in _engines or _engines[key].device.handle is None:
        _engines[key] = Engine(shared_device(config.device))
    return _engines[key]


@atexit.register
def close_engines() -> None:
    """Close the engines of this process and thread, before their devices."""
    here = (os.getpid(), threading.get_ident())
    for key in [key for key in _engines if key[:2] == here]:
        found = _engines.pop(key)
        if found.device.handle is not None:
            found.device.work.exiting = True
            found.close()
