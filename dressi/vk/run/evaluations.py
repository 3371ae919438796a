"""Values read without a step: one program for each set of Variables, over the leaves of a workspace."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.program import Program
from ...ad.graph.traversal import leaves, structure
from ...ad.transform.rewrite import substitute
from ...ad.transform.simplify import simplify
from ...errors import GraphError
from .default import shared_device, shared_devices
from .device.device import Device
from .device.memory import DeviceImage
from .device.transfer import Readback
from .execution.executor import VulkanExecutor
from .execution.steps import Steps, running
from .execution.workspace import Workspace
from .measure.calibration import model_of

KEPT = 8  # programs that are kept, the least recently used one being dropped

MakeExecutor = Callable[..., VulkanExecutor]
Running = VulkanExecutor | Steps


class Evaluations:
    """Programs without updates. Each computes what is out of date since its last run.

    outputs: Variables by name. Those that are computed share one program, which computes all of them when one
    is asked for. Programs whose images were exported are kept until the end.
    """

    def __init__(self, workspace: Workspace, make: MakeExecutor):
        self.outputs: dict[str, Variable] = {}
        self._workspace, self._make = workspace, make
        self._kept: OrderedDict[Hashable, Running] = OrderedDict()
        self._keys: OrderedDict[tuple[Variable, ...], Hashable] = OrderedDict()
        self._exporting: dict[Running, None] = {}

    def read(self, variables: Sequence[Variable]) -> list[Readback]:
        """Present values, queued: nothing waits. All that is computed is computed together. Raises GraphError
        for a leaf without values."""
        computed = _computed(variables)
        values: dict[Variable, Readback] = {}
        if computed:
            executor, stored = self._up_to_date(computed)
            values |= {v: executor.recv_async(stored[v]) for v in computed}
        given = list(dict.fromkeys(v for v in variables if v.is_leaf))
        self._workspace.hold(given)
        values |= {v: self._workspace.read(v) for v in given}
        values = {v: value.then(v.as_given) for v, value in values.items()}
        return [values[v] for v in variables]

    def wait(self) -> None:
        """Wait until all programs are done. They share the device's commands, so any one of them is asked."""
        for executor in list(self._kept.values())[:1]:
            executor.wait()

    def read_one(self, variable: Variable) -> Readback:
        """The present value of a Variable; of an output, together with the others."""
        if variable.is_leaf:
            return self.read([variable])[0]
        executor, stored = self._up_to_date(self._with_outputs(variable))
        return executor.recv_async(stored[variable]).then(variable.as_given)

    def images(self, variable: Variable) -> list[DeviceImage]:
        """The images that hold a Variable, up to date behind everything queued; they stay until ``close``."""
        if variable.is_leaf:
            return self._workspace.keep(variable)
        executor, stored = self._up_to_date(self._with_outputs(variable))
        self._exporting[executor] = None
        return executor.images(stored[variable])

    def _with_outputs(self, variable: Variable) -> list[Variable]:
        computed = _computed(self.outputs.values())
        return computed if variable in computed else [variable]

    def _up_to_date(self, variables: Sequence[Variable]) -> tuple[Running, dict[Variable, Variable]]:
        """The program that has computed these, and its own Variables for them."""
        executor = self.executor(variables)
        executor.refresh()
        outputs = executor.program.outputs
        return executor, {v: outputs[str(k)] for k, v in enumerate(variables)}

    @property
    def running(self) -> Running:
        """The program that computes all outputs. Raises GraphError where there are none."""
        if not (computed := _computed(self.outputs.values())):
            raise GraphError("nothing to compute; call set_loss and set_optimizer, or set_output")
        return self.executor(computed)

    def executor(self, variables: Sequence[Variable]) -> Running:
        """The program that computes the Variables; equal graphs over the same leaves share one."""
        key = self._key(tuple(variables))
        if key not in self._kept:
            program = Program({str(k): v for k, v in enumerate(variables)})
            self._kept[key] = running(simplify(program), self._workspace, self._make)
            spare = [k for k, executor in self._kept.items() if executor not in self._exporting]
            for old in spare[:-KEPT]:
                self._kept.pop(old).close()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _key(self, variables: tuple[Variable, ...]) -> Hashable:
        """The leaves and the structure of a graph. Kept for the Variables read last: a loss that is read
        after every step is not traversed again, which takes longer than a small step."""
        if variables not in self._keys:
            given = tuple(leaves(variables))
            self._keys[variables] = (given, structure(variables, given))
            if len(self._keys) > KEPT:
                self._keys.popitem(last=False)
        self._keys.move_to_end(variables)
        return self._keys[variables]

    def close(self) -> None:
        """Close all of them."""
        self._exporting.clear()
        self._keys.clear()
        while self._kept:
            self._kept.popitem()[1].close()


def _computed(variables: Iterable[Variable]) -> list[Variable]:
    """Those that are no leaves, once each."""
    return list(dict.fromkeys(v for v in variables if not v.is_leaf))


def named(outputs: dict[str, Variable], name: str) -> Variable:
    """The Variable of a name. Raises GraphError that lists the names there are."""
    if name not in outputs:
        raise GraphError(f"there is no output {name!r}; there are: {', '.join(outputs) or 'none'}")
    return outputs[name]


def in_form(outputs: Any, read: Callable[[list[Variable]], list[Any]], find: Callable[[Any], Any]) -> Any:
    """What ``read`` makes of Variables, in the form that a user gave: one, a sequence or a mapping of them.
    find: turns what stands for a Variable, such as a name, into one. Raises GraphError for anything else."""
    if isinstance(outputs, Mapping):
        return dict(zip(outputs, in_form(list(outputs.values()), read, find), strict=True))
    single = isinstance(outputs, Variable | str)
    given = [outputs] if single else outputs
    variables: list[Any] = [find(v) for v in given] if isinstance(given, Sequence) else [None]
    if not all(isinstance(v, Variable) for v in variables):
        raise GraphError(f"evaluate takes Variables, or a list or dict of them, not {outputs!r}")
    values = read(variables)
    return values[0] if single else values


# ``evaluate``: values of Variables on a shared device, without an engine.

KEPT_PROGRAMS = 16  # of an Evaluator, the least recently used one being dropped


class _Kept(NamedTuple):
    leaves: list[Variable]  # in place of those of the caller's graph
    outputs: list[Variable]
    executor: VulkanExecutor
    sent: dict[Variable, np.ndarray]  # data of leaves that lies on the device


class Evaluator:
    """Programs on one device, found by the structure of what they compute. A picture that is drawn again with
    other vertices only sends the vertices; nothing is planned or built."""

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
        handles = [kept.executor.recv_async(v) for v in kept.outputs]
        return [v.as_given(value.result()) for v, value in zip(outputs, handles, strict=True)]

    def _program(self, outputs: Sequence[Variable], given: Sequence[Variable]) -> _Kept:
        key = structure(outputs, given)
        if key not in self._kept:
            stand_ins = [Variable(v.vtype, v.size, v.batch, channels=v.channels, name=v.name) for v in given]
            own = substitute(outputs, dict(zip(given, stand_ins, strict=True)))
            # An output that is a leaf needs no program, but a place in its answer.
            program = simplify(Program({str(k): v for k, v in enumerate(own)}))
            cost = model_of(self.device)
            executor = VulkanExecutor(program, self.device, cost=cost, workspace=self._workspace)
            # What was simplified away is not sent.
            self._workspace.hold(stand_ins)
            kept_outputs = [program.outputs[str(k)] for k in range(len(own))]
            self._kept[key] = _Kept(stand_ins, kept_outputs, executor, {})
            while len(self._kept) > KEPT_PROGRAMS:
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
    """Values of Variables on a device, now: of one Variable, or of a sequence or mapping of them in the same
    form.

    outputs: what is wanted. values: arrays for leaves, instead of their own data. device: a ``Device``; or a
    name, an index or None: the Device that engines and calls of a thread share. Arrays are float32 or
    int32 of shape (batch, H, W) + vtype.shape; lists made by ``Variable.of`` come back as lists. A graph of
    the same structure is not built again, whatever its leaves hold. Within an optimisation use
    ``DressiAD.evaluate``, which reads the leaves that the steps have updated. Raises GraphError.

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


_evaluators: dict[Device, Evaluator] = {}


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
    for device in shared_devices():
        if device in _evaluators:
            device.work.exiting = True
            _evaluators.pop(device).close()
