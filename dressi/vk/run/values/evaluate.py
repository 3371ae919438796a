"""``evaluate``: values of Variables on a shared device, without an engine."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.program import Program
from ....ad.transform.rewrite import substitute
from ....ad.transform.simplify import simplify
from ....ad.traversal import leaves, structure
from ....errors import GraphError
from ..device.device import Device
from ..executor import VulkanExecutor
from ..measure.calibration import model_of
from ..workspace import Workspace
from .evaluations import in_form

KEPT = 16
"""Programs that an Evaluator keeps, the least recently used one being dropped."""


class _Kept(NamedTuple):
    leaves: list[Variable]  # in place of those of the caller's graph
    outputs: list[Variable]
    executor: VulkanExecutor
    sent: dict[Variable, np.ndarray]  # data of leaves that lies on the device


class Evaluator:
    """Programs on one device, found by the structure of what they compute. A picture that is drawn again with other
    vertices only sends the vertices; nothing is planned or built."""

    def __init__(self, device: Device):
        self.device = device
        self._workspace = Workspace(device, device.limits)
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def __call__(self, outputs: Sequence[Variable], values: Mapping[Variable, Any]) -> list[np.ndarray]:
        """Values of the outputs for these values of leaves, or their own data. Raises GraphError."""
        given = leaves(outputs)
        kept = self._program(outputs, given)
        arrays: dict[Variable, np.ndarray] = {}
        for leaf, stand_in in zip(given, kept.leaves, strict=True):
            array = leaf.conform(values[leaf], copy=False) if leaf in values else leaf.data
            if array is None:
                raise GraphError(
                    f"{leaf} has no values; pass them to evaluate, or give it data (made at {leaf.where})"
                )
            if kept.sent.get(stand_in) is not array:
                arrays[stand_in] = array
            if array is leaf.data:  # nobody changes it
                kept.sent[stand_in] = array
            else:
                kept.sent.pop(stand_in, None)
        self._workspace.send_many(arrays)
        kept.executor.run()
        found = [kept.executor.recv_async(v) for v in kept.outputs]
        return [v.as_given(value.result()) for v, value in zip(outputs, found, strict=True)]

    def _program(self, outputs: Sequence[Variable], given: Sequence[Variable]) -> _Kept:
        key = structure(outputs, given)
        if key not in self._kept:
            stand_ins = [Variable(v.vtype, v.size, v.batch, channels=v.channels, name=v.name) for v in given]
            own = substitute(outputs, dict(zip(given, stand_ins, strict=True)))
            # An output that is a leaf needs no program, but a place in its answer.
            program = simplify(Program({str(k): v for k, v in enumerate(own)}))
            executor = VulkanExecutor(
                program, self.device, cost=model_of(self.device), workspace=self._workspace
            )
            # What was simplified away is not sent.
            self._workspace.hold(stand_ins)
            self._kept[key] = _Kept(
                stand_ins, [program.outputs[str(k)] for k in range(len(own))], executor, {}
            )
            while len(self._kept) > KEPT:
                self._end(self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return self._kept[key]

    def _end(self, kept: _Kept) -> None:
        kept.executor.close()
        self._workspace.release(kept.leaves)

    def close(self) -> None:
        """Release everything on the device."""
        if self.device.handle is None:
            return
        while self._kept:
            self._end(self._kept.popitem()[1])
        self._workspace.close()


def evaluate(
    outputs: Any, values: Mapping[Variable, Any] | None = None, *, device: Device | str | int | None = None
) -> Any:
    """Values of Variables on a device, now: of one Variable, or of a sequence or mapping of them in the same form.

    outputs: what is wanted. values: arrays for leaves, instead of their own data. device: a ``Device``; or a name, an
    index or None, which is opened once and shared by all calls of a thread. Arrays are float32 or int32 of shape
    (batch, H, W) + vtype.shape; lists made by ``Variable.of`` come back as lists. A graph of the same structure is not
    built again, whatever its leaves hold. Within an optimisation use ``DressiAD.evaluate``, which reads the leaves that
    the steps have updated. Raises GraphError.

    >>> from dressi import F, Variable, evaluate, gradient
    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> float(evaluate(F.sum(x * x)).item())
    55.0
    >>> evaluate(gradient(F.sum(x * x), x))[0].tolist()
    [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    for v in values or ():
        if not isinstance(v, Variable) or not v.is_leaf:
            raise GraphError(f"values are given to leaf Variables, not to {v!r}")

    def read(wanted: list[Variable]) -> list[np.ndarray]:
        return _evaluator(device)(wanted, values or {}) if wanted else []

    return in_form(outputs, read, lambda v: v)


_devices: dict[tuple[int, int, str | int | None], Device] = {}
_evaluators: dict[Device, Evaluator] = {}


def shared_device(wanted: str | int | None = None) -> Device:
    """The device of this name or index, opened by the first call of this thread and closed when the process exits."""
    key = (os.getpid(), threading.get_ident(), wanted)
    if key not in _devices or _devices[key].handle is None:
        _devices[key] = Device.open(wanted)
    return _devices[key]


def _evaluator(device: Device | str | int | None) -> Evaluator:
    device = device if isinstance(device, Device) else shared_device(device)
    for closed in [d for d in _evaluators if d.handle is None]:
        del _evaluators[closed]
    if device not in _evaluators:
        _evaluators[device] = Evaluator(device)
    return _evaluators[device]


@atexit.register
def _close() -> None:
    """Close the evaluators of this process and thread before their devices."""
    here = (os.getpid(), threading.get_ident())
    for key, device in _devices.items():
        if key[:2] == here and device in _evaluators:
            device.work.exiting = True
            _evaluators.pop(device).close()
