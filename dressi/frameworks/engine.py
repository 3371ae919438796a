"""Programs of operations on a device, one for each signature, their gradients, and the thread that they run on."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from ..ad import functional as F
from ..ad.graph import Domain, Variable, domain_of
from ..ad.graph.program import Program
from ..ad.graph.user_code import user_level
from ..ad.transform.gradient import gradient
from ..ad.transform.simplify import simplify
from ..config import config
from ..errors import DeviceError
from ..vk.plan.core.options import PlanOptions
from ..vk.run.default import shared_device
from ..vk.run.device.device import Device
from ..vk.run.device.external import device_with
from ..vk.run.device.memory import from_planes
from ..vk.run.execution.executor import VulkanExecutor
from ..vk.run.execution.workspace import Workspace
from ..vk.run.measure.calibration import model_of
from .crossing import HOST, Crossing, Cuda, CudaCrossing, TensorOf
from .operation import Layout, Operation, Parts, Spec, computed, spec_of

KEPT = 64
"""Signatures that are kept, the least recently used one being dropped."""
OPTIONS = PlanOptions(cache_static=False)
"""Nothing is kept from call to call: inputs are new in every one."""

Arrays = Sequence[Any]
"""Arrays of NumPy, or tensors where the engine's ``Crossing`` takes them from."""
Seeds = Sequence[Any | None]
"""The gradient by each output; None is zero."""
Choice = tuple[bool, ...]


class Call:
    """A program with what goes in and out of it in every call."""

    def __init__(
        self,
        outputs: Sequence[Variable],
        inputs: Sequence[Parts],
        seeds: Sequence[Parts],
        workspace: Workspace,
        crossing: Crossing,
    ):
        device, self._workspace, self._crossing = workspace.device, workspace, crossing
        program = simplify(Program({str(k): v for k, v in enumerate(outputs)}))
        self._executor = VulkanExecutor(
            program, device, options=OPTIONS, cost=model_of(device), workspace=workspace
        )
        read = self._executor.leaves
        self.inputs = [[k for k, leaf in enumerate(parts) if leaf in read] for parts in inputs]
        self.seeds = [[k for k, leaf in enumerate(parts) if leaf in read] for parts in seeds]
        self.leaves = _chosen_of(inputs, self.inputs)
        with device.undo_on_error():
            self._in = workspace.inlet(self.leaves, crossing.exchange)
            self._of_seeds = workspace.inlet(_chosen_of(seeds, self.seeds), crossing.exchange)
            self._outputs = [self._executor.program.outputs[str(k)] for k in range(len(outputs))]
            self._images = [self._executor.images(v) for v in self._outputs]
            flat = [image for images in self._images for image in images]
            self._out = crossing.exchange(workspace.commands, flat, upload=False)

    def __call__(self, inputs: Arrays | None, seeds: Arrays) -> list[Any]:
        """The values of the outputs. inputs: for ``leaves``; None: they hold them already."""
        sent = [] if inputs is None else [(self._in, inputs)]
        sent += [(self._of_seeds, seeds)] if seeds else []
        for inlet, values in sent:
            inlet.fill(values)
        with self._crossing.over(self._out):
            for inlet, _ in sent:
                inlet.submit()
            self._executor.run()
            self._out.submit()
        self._workspace.warn_of_clamped()  # of calls before, where the host has not waited for this one
        texels, found = iter(self._out.texels), []
        for v, images in zip(self._outputs, self._images, strict=True):
            planes = [next(texels) for _ in images]
            found.append(from_planes(v, planes, self._workspace.limits.tiling(v)))
        return found

    def close(self) -> None:
        """Release everything on the device."""
        self._crossing.settle()
        self._workspace.commands.wait()
        for exchange in (self._in, self._of_seeds, self._out):
            exchange.destroy()
        self._executor.close()


def _chosen_of(parts: Sequence[Parts], numbers: Sequence[Sequence[int]]) -> list[Variable]:
    return [leaves[k] for leaves, chosen in zip(parts, numbers, strict=True) for k in chosen]


class Kept:
    """An operation for one signature: the program of its outputs, and of each set of gradients asked for.

    Every forward call has a number. A backward call that names it, while the inputs of that call still lie on
    the device, does not send them again.
    """

    def __init__(self, operation: Operation, given: Sequence[Spec], workspace: Workspace, crossing: Crossing):
        self._workspace, self._crossing = workspace, crossing
        self._layouts = operation.layouts(*given)
        names = (*operation.names, *(f"table {k}" for k in range(len(given))))
        self._inputs = [layout.leaves(name) for layout, name in zip(self._layouts, names)]
        self._outputs = [_whole(parts) for parts in operation.graph(*self._inputs)]
        shapes = operation.outputs(*given[: len(operation.names)])
        self._results = [computed(parts, shape) for parts, shape in zip(self._outputs, shapes, strict=True)]
        self._seeds = [layout.leaves("gradient") for layout in self._results]
        self._calls: dict[tuple[Choice, Choice] | None, Call] = {}
        self._number, self._held = 0, dict[Variable, int]()

    def forward(self, arrays: Arrays) -> tuple[list[Any], int]:
        """The outputs, and the number of the call."""
        if None not in self._calls:
            outputs = [v for parts in self._outputs for v in parts]
            self._calls[None] = self._call(outputs, [])
        self._number += 1
        return self._joined(self._run(None, arrays, [], self._number), self._results), self._number

    def _call(self, outputs: Sequence[Variable], seeds: Sequence[Parts]) -> Call:
        return Call(outputs, self._inputs, seeds, self._workspace, self._crossing)

    def backward(self, arrays: Arrays, seeds: Seeds, wanted: Sequence[bool], number: int | None) -> list[Any]:
        """The gradients of sum(seed * output) by the wanted inputs. number: of the forward call."""
        key = tuple(wanted), tuple(seed is not None for seed in seeds)
        if key not in self._calls:
            self._calls[key] = self._call(self._gradients(*key), self._seeds)
        if number is None:
            number = self._number = self._number + 1
        layouts = [layout for layout, want in zip(self._layouts, wanted) if want]
        return self._joined(self._run(key, arrays, seeds, number), layouts)

    def _run(self, key: tuple[Choice, Choice] | None, arrays: Arrays, seeds: Seeds, number: int) -> list[Any]:
        call = self._calls[key]
        inputs = None
        if any(self._held.get(leaf) != number for leaf in call.leaves):
            inputs = _split(self._layouts, arrays, call.inputs)
        found = call(inputs, _split(self._results, seeds, call.seeds) if seeds else [])
        self._held.update(dict.fromkeys(call.leaves, number))
        return found

    @staticmethod
    def _joined(values: Arrays, layouts: Sequence[Layout]) -> list[Any]:
        parts = iter(values)
        return [layout.join([next(parts) for _ in layout.vtypes]) for layout in layouts]

    def _gradients(self, wanted: Choice, seeded: Choice) -> list[Variable]:
        total = F.constant(0.0)
        for seeds, outputs, given in zip(self._seeds, self._outputs, seeded, strict=True):
            for seed, y in zip(seeds, outputs, strict=True):
                if given and not y.vtype.is_int:
                    total = total + F.sum(F.sum_components(F.hadamard(seed, y)))
        return gradient(total, [v for parts, want in zip(self._inputs, wanted) if want for v in parts])

    def close(self) -> None:
        """Release everything on the device."""
        for call in self._calls.values():
            call.close()
        self._workspace.release(v for parts in (*self._inputs, *self._seeds) for v in parts)


def _split(
    layouts: Sequence[Layout], arrays: Sequence[Any | None], numbers: Sequence[Sequence[int]]
) -> list[Any]:
    """The values of the leaves with these numbers, of each array."""
    found = []
    for layout, array, chosen in zip(layouts, arrays, numbers, strict=True):
        if chosen and array is not None:
            parts = layout.split(array)
            found += [parts[k] for k in chosen]
    return found


def _whole(parts: Parts) -> Parts:
    """The Variables of one output, all with the domain of the largest."""
    width, height = (max(v.size[k] for v in parts) for k in range(2))
    domain: Domain = domain_of((width, height), max(v.batch for v in parts))
    return tuple(v if v.domain == domain else F.expand(v, domain.batch, domain.size) for v in parts)


class Ticket(NamedTuple):
    """Names a call of forward."""

    kept: weakref.ref[Kept]
    number: int


class Engine:
    """Runs operations on one device, with arrays that reach it by ``crossing``."""

    def __init__(self, device: Device, crossing: Crossing = HOST):
        self.device, self.crossing = device, crossing
        self._workspace = Workspace(device, device.limits)
        self._kept: OrderedDict[tuple[Operation, tuple[Spec, ...]], Kept] = OrderedDict()

    def forward(self, operation: Operation, arrays: Arrays) -> tuple[list[Any], Ticket]:
        """The outputs of an operation, and a ticket for ``backward``. Raises InputError, DressiErrors."""
        whole = operation.complete(arrays)
        kept = self._program(operation, whole)
        values, number = kept.forward(whole)
        return values, Ticket(weakref.ref(kept), number)

    def backward(
        self,
        operation: Operation,
        arrays: Arrays,
        seeds: Seeds,
        wanted: Sequence[bool],
        ticket: Ticket | None = None,
    ) -> list[Any]:
        """The gradients of sum(seed * output) by the wanted inputs, with the shapes of these. ticket: of the
        forward call with these arrays; they are sent again without it or when other calls followed."""
        whole = operation.complete(arrays)
        kept = self._program(operation, whole)
        number = ticket.number if ticket is not None and ticket.kept() is kept else None
        found = kept.backward(whole, seeds, wanted, number)
        shapes = [array.shape for array, want in zip(arrays, wanted) if want]
        return [values[tuple(map(slice, shape))] for values, shape in zip(found, shapes, strict=True)]

    def _program(self, operation: Operation, arrays: Arrays) -> Kept:
        key = (operation, tuple(spec_of(array) for array in arrays))
        if key not in self._kept:
            self._kept[key] = Kept(operation, key[1], self._workspace, self.crossing)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].close()
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        """Release everything on the device. Idempotent."""
        while self._kept:
            self._kept.popitem()[1].close()
        self.crossing.close()
        self._workspace.close()


_chosen = threading.local()
_engines: dict[tuple[int, int, str | int | None, int | None, TensorOf | None], Engine] = {}


@contextmanager
def using(device: Device) -> Iterator[Engine]:
    """``engine`` runs on this device inside of the block, which releases its programs, not the device."""
    found, before = Engine(device), getattr(_chosen, "engine", None)
    _chosen.engine = found
    try:
        yield found
    finally:
        _chosen.engine = before
        found.close()


def engine(index: int | None = None, tensor_of: TensorOf | None = None) -> Engine:
    """The engine of this thread: that of the block of ``using``, or one on the device of DRESSI_DEVICE, or on
    the best one. Raises DeviceErrors.

    index: of a device of CUDA, for tensors there; ``tensor_of`` makes those that lie at an address. Then the
    best device is the same GPU. Where the two do not reach each other, the crossing is ``HOST``.
    """
    chosen = getattr(_chosen, "engine", None)
    if chosen is not None:
        return chosen
    key = (os.getpid(), threading.get_ident(), config.device, index, tensor_of)
    if key not in _engines or not _engines[key].device.usable:
        made = None if index is None or tensor_of is None else _beside(index, tensor_of)
        _engines[key] = made or Engine(shared_device(config.device))
    return _engines[key]


def _beside(index: int, tensor_of: TensorOf) -> Engine | None:
    """An engine for tensors on a device of CUDA; None, with a warning, where they cannot reach it."""
    try:
        cuda = Cuda(index)
        device = shared_device(device_with(cuda.uuid) if config.device is None else config.device)
        return Engine(device, CudaCrossing(device, cuda, tensor_of))
    except DeviceError as error:
        warnings.warn(
            f"tensors on cuda:{index} go through the memory of the host, which is slower: {error}",
            RuntimeWarning,
            stacklevel=user_level(),
        )
    return None


@atexit.register
def close_engines() -> None:
    """Close the engines of this process and thread, before their devices."""
    here = (os.getpid(), threading.get_ident())
    for key in [key for key in _engines if key[:2] == here]:
        found = _engines.pop(key)
        if found.device.handle is not None:
            found.device.work.exiting = True
            found.close()


# One thread for all calls that frameworks make on threads of their own: a Vulkan device belongs to one.
#
# JAX calls back from its runtime, and PyTorch runs the backward pass of tensors of CUDA on threads of theirs.

Result = TypeVar("Result")


class Worker:
    """A thread that runs functions one after the other."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="dressi", daemon=True).start()

    def _serve(self) -> None:
        while True:
            task, future = self._tasks.get()
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)
            del task, future  # a GPU's memory should not wait for the next task

    def run(self, task: Callable[[], Result]) -> Result:
        """What the function returns, or raises, there."""
        future: Future[Result] = Future()
        self._tasks.put((task, future))
        return future.result()


_worker: Worker | None = None
_lock = threading.Lock()


def on_worker(task: Callable[[], Result]) -> Result:
    """The result of a function that runs on this process's thread for devices."""
    global _worker
    with _lock:
        if _worker is None or _worker.process != os.getpid():
            _worker = Worker()
    return _worker.run(task)


@atexit.register
def _close() -> None:
    if _worker is not None and _worker.process == os.getpid():
        _worker.run(close_engines)
