"""DressiAD: loss, optimizer and values of one optimisation (paper, A.6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.check import verify
from ...ad.gradient import gradient
from ...ad.graph import Variable
from ...ad.optim import Optimizer
from ...ad.program import Program
from ...ad.simplify import simplify
from ...ad.types import FLOAT, INT
from ...config import config
from ...errors import GraphError, InputError
from ..plan.limits import DeviceLimits
from ..plan.plan import DEFAULT, Plan, PlanOptions
from .device import Device
from .executor import VulkanExecutor
from .timing import profile
from .transfer import Readback

HISTORY = 1024  # losses the device keeps before the host must read them


class DressiAD:
    """Describe with ``set_loss``, ``set_optimizer`` and ``set_output``; then ``step``; read with ``recv``.

    ::

        ad = DressiAD()
        ad.set_loss(F.sum(F.square(image - target)))
        ad.set_optimizer(adam(0.01), [image])
        ad.step(100)
        result = ad.recv(image)

    device: a ``Device`` (shared, stays open), or a name, an index or None (opened here and closed with this).
    limits: a named profile's or any smaller limits to plan for.  The graph is built at the first ``step``,
    ``send`` or ``recv`` and again after a ``set_...``; values of leaves are kept. Raises DressiErrors.
    """

    def __init__(
        self,
        device: Device | str | int | None = None,
        *,
        options: PlanOptions = DEFAULT,
        limits: DeviceLimits | None = None,
        validation: bool = False,
    ):
        self._owns_device = not isinstance(device, Device)
        self.device = device if isinstance(device, Device) else Device.open(device, validation=validation)
        self._make: Callable[[Program], VulkanExecutor] = lambda program: VulkanExecutor(
            program, self.device, options=options, limits=limits
        )
        self._loss: Variable | None = None
        self._record = True
        self._optimizer: Optimizer | None = None
        self._parameters: list[Variable] = []
        self._outputs: dict[str, Variable] = {}
        self._executor: VulkanExecutor | None = None
        self._closed = False
        self._program: Program | None = None
        self._values: dict[Variable, Any] = {}  # values to send to the next executor
        self._state: dict[str, Variable] = {}
        self._counter = Variable(INT, name="loss_count", data=np.zeros((1, 1, 1), int))
        self._history = Variable(FLOAT, (HISTORY, 1), name="loss_history", data=np.zeros((1, 1, HISTORY)))
        self._losses: list[float] = []
        self._unread = 0
        self.build_ms: float | None = None  # of the last build, up to the first step

    # ---- describing
    def set_loss(self, loss: Variable, *, record: bool = True) -> None:
        """The FLOAT of one texel to be minimised. Raises GraphError for anything else.

        record: every step also computes its value, for ``losses``. Without, a step computes only what moves the
        parameters, and the value is made when ``recv("loss")`` asks for it.
        """
        if loss.vtype is not FLOAT or loss.domain != ((1, 1), 1):
            raise GraphError(f"the loss must be one FLOAT, not {loss}; reduce it with F.sum or F.mean")
        self._loss, self._record = loss, record
        self._forget()

    def set_optimizer(self, optimizer: Optimizer, parameters: Sequence[Variable]) -> None:
        """What moves which leaves. Its state starts afresh."""
        for p in parameters:
            if not p.is_leaf:
                raise GraphError(f"{p} is computed; only leaf Variables can be optimised")
        self._optimizer, self._parameters = optimizer, list(parameters)
        self._state = optimizer.states(self._parameters)
        self._forget()

    def set_output(self, name: str, variable: Variable) -> None:
        """Keep a value so that ``recv`` can read it."""
        self._outputs[name] = variable
        self._forget()

    def _forget(self) -> None:
        if self._executor is not None:
            self._keep_values()
            self._executor.close()
        self._executor = self._program = None

    def _keep_values(self) -> None:
        """Leaves survive a rebuild."""
        assert self._executor is not None
        self.losses()
        for leaf in self._executor.program.leaves:
            if leaf not in self._executor.missing:
                self._values[leaf] = self._executor.recv(leaf)

    # ---- building
    def program(self) -> Program:
        """The whole computation of a step, simplified: outputs, the loss and its history, all updates."""
        if self._program is None:
            outputs = dict(self._outputs)
            updates: list[tuple[Variable, Variable]] = []
            asked = {}
            if self._loss is not None and not self._record:
                asked["loss"] = self._loss
            elif self._loss is not None:
                outputs["loss"] = self._loss
                slot = F.equal(F.linear_index((HISTORY, 1)), self._counter % HISTORY)
                updates.append((self._history, F.select(slot, self._loss, self._history)))
                updates.append((self._counter, self._counter + 1))
            if self._optimizer is not None:
                if self._loss is None:
                    raise GraphError("an optimizer needs a loss; call set_loss first")
                gradients = gradient(self._loss, self._parameters)
                built = self._optimizer.build(self._parameters, gradients, self._state)
                updates += [*zip(self._parameters, built.parameters, strict=True), *built.updates]
            program = Program(outputs, tuple(updates), asked)
            program.check()
            self._program = simplify(program)
            if config.check:
                verify(self._program)
        return self._program

    @property
    def executor(self) -> VulkanExecutor:
        """The executor of the present program, made when needed. Raises InputError when this is closed."""
        self._check_open()
        if self._executor is None:
            start = time.perf_counter()
            self._executor = self._make(self.program())
            known = set(self._executor.program.leaves)
            self._executor.send_many({v: a for v, a in self._values.items() if v in known})
            self.build_ms = 1e3 * (time.perf_counter() - start)
        return self._executor

    @property
    def plan(self) -> Plan:
        return self.executor.plan

    # ---- values
    def send(self, variable: Variable, values: Any) -> None:
        """Set a leaf; before the first step the value is kept until the graph is built."""
        self._check_open()
        if self._executor is None:
            self._values[variable] = variable.conform(values)
        else:
            self.executor.send(variable, values)

    def recv(self, variable: Variable | str) -> np.ndarray:
        """A leaf (after the last step) or an output by Variable or name (as before the last step's update).

        float32 or int32, (batch, H, W) + vtype.shape.
        """
        return self.recv_async(variable).result()

    def recv_async(self, variable: Variable | str) -> Readback:
        """What ``recv`` would give now, as a handle: ``done()`` tells whether it is there, ``result()`` waits for it.

        Queued behind the steps so far; later steps run on meanwhile, and neither wait. A handle stays valid
        when the graph is built again or this is closed. Of handles that are kept unread, the ninth makes the host
        wait for the first.
        """
        executor = self.executor
        kept = {**executor.program.outputs, **executor.program.asked}
        if isinstance(variable, str):
            if variable not in kept:
                raise GraphError(f"there is no output {variable!r}; there are: {', '.join(kept) or 'none'}")
            return executor.recv_async(kept[variable])
        named = {**self._outputs, **({"loss": self._loss} if self._loss is not None else {})}
        for name, v in named.items():
            if v is variable and not v.is_leaf:
                return executor.recv_async(kept[name])
        return executor.recv_async(variable)

    def step(self, n: int = 1) -> None:
        """``n`` steps on the device. Returns when they are queued; reading waits for them."""
        executor = self.executor
        while n > 0:
            recorded = self._loss is not None and self._record
            room = HISTORY - self._unread if recorded else n
            if room == 0:
                self.losses()
                continue
            now = min(n, room)
            executor.run(now)
            n -= now
            self._unread += now if recorded else 0

    def wait(self) -> None:
        """Until all steps are done."""
        if self._executor is not None:
            self._executor.wait()

    def losses(self) -> list[float]:
        """The recorded loss of every step so far, each as it was before the step's update."""
        if self._unread and self._executor is not None:
            count = int(self._executor.recv(self._counter).reshape(()))
            ring = self._executor.recv(self._history).reshape(-1)
            self._losses += [float(ring[k % HISTORY]) for k in range(count - self._unread, count)]
            self._unread = 0
            self._executor.wait()
        return self._losses

    # ---- state
    def state(self) -> dict[str, np.ndarray]:
        """Parameters and optimizer state by name: what ``restore`` needs to go on from here."""
        return {name: self._value(v) for name, v in self._tree().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a ``state``. Raises GraphError when names or shapes do not fit."""
        tree = self._tree()
        if set(state) != set(tree):
            odd = ", ".join(sorted(set(state) ^ set(tree)))
            raise GraphError(f"the state does not belong to this optimisation; it differs in: {odd}")
        for name, array in state.items():
            self.send(tree[name], array)

    def _tree(self) -> dict[str, Variable]:
        tree = {v.name or f"parameter{k}": v for k, v in enumerate(self._parameters)}
        tree.update(self._state)
        return tree

    def _value(self, leaf: Variable) -> np.ndarray:
        if self._executor is None and leaf in self._values:
            return np.asarray(self._values[leaf])
        return self.executor.recv(leaf)

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this DressiAD is closed; make another one")

    def close(self) -> None:
        """Release the device objects; idempotent."""
        self._closed = True
        if self._executor is not None:
            if config.debug >= 2 and self.device.timestamp_bits and not self._executor.missing:
                for stage in profile(self._executor, 3):
                    print(f"dressi: {stage.ms:9.3f} ms  {stage.name}")
            self._executor.close()
            self._executor = None
        if self._owns_device:
            self.device.close()

    def __enter__(self) -> DressiAD:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
