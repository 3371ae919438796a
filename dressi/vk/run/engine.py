"""DressiAD: loss, optimizer and values of one optimisation (paper, A.6)."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.program import Program
from ...ad.graph.traversal import leaves
from ...ad.graph.types import whole
from ...ad.least_squares.energy import Energy, Residual
from ...ad.least_squares.objective import Objective
from ...ad.least_squares.solver import LeastSquares
from ...ad.optim.constraints import Bounds
from ...ad.optim.lbfgs import LBFGS
from ...ad.optim.optimizer import Optimizer
from ...config import config
from ...errors import DeviceError, GraphError, InputError
from ..plan.core.limits import DeviceLimits
from ..plan.core.options import DEFAULT, PlanOptions
from ..plan.execution.plan import Plan
from ..plan.model.device import DeviceModel
from .default import shared_device
from .device.device import Device, defer_close
from .device.export import ExportedImage, SharedValue, exported
from .device.instance import PhysicalDevice
from .device.transfer import Readback
from .evaluations import Evaluations, Running, in_form, named
from .execution.executor import VulkanExecutor, limits_of
from .execution.workspace import Workspace
from .measure.calibration import model_of
from .runner import Runner, by_leaf, read_state

LOSS = "loss"


class DressiAD:
    """An optimisation, or any computation whose inputs change.

    Describe it with ``set_loss`` and ``set_optimizer``, or with ``set_output``. Then ``step``, and read with
    ``recv`` or ``evaluate``. A value that is read is the value for the present leaves, after all steps and
    sends so far, and is computed if it is out of date. Only ``losses`` has values of the past.

    device: a ``Device``; or a name, an index, an entry of ``list_devices`` or None, for the Device that all engines of a thread share,
    which the first of them opens and which stays open until the process ends. limits: a profile's, or other limits smaller than the device's. model: the device
    model to plan with, by default the device's. The graph is built when it is needed, and again after a
    ``set_...``; values of leaves stay on the device. ``close`` (or a ``with`` block) releases everything; an
    engine that is garbage collected instead is released when the next engine or Device is made. Raises
    DressiErrors.

    >>> image, target = Variable.of(np.zeros((4, 6)), name="image"), Variable.of(np.ones((4, 6)))
    >>> ad = DressiAD()
    >>> ad.set_loss(F.mean(F.square(image - target)))
    >>> ad.set_optimizer(adam(0.05), [image])
    >>> ad.step(100)
    >>> ad.recv(image).shape, ad.recv("loss").item() < 0.01, len(ad.losses())
    ((1, 4, 6), True, 100)
    >>> kept = ad.state()  # the image, its moments, the step counter
    >>> ad.send(target, np.zeros((4, 6)))  # what is read next, and the next step, see it
    >>> ad.freeze(image); ad.step(5); ad.release(image); ad.restore(kept)
    >>> ad.set_output("error", F.max(F.abs(image - target)))
    >>> ad.recv_async("error").result().item() > 0.5, ad.parameters
    (True, (FLOAT image (6x4),))
    >>> list(ad.plans)  # the programs of a step
    ['step']
    >>> ad.remove_output("error"); ad.send_many({target: np.ones((4, 6))}); ad.wait(); ad.close()
    """

    def __init__(
        self,
        device: Device | PhysicalDevice | str | int | None = None,
        *,
        options: PlanOptions = DEFAULT,
        limits: DeviceLimits | None = None,
        model: DeviceModel | None = None,
        validation: bool = False,
    ):
        self._default = not isinstance(device, Device)
        self.device = device if isinstance(device, Device) else shared_device(device, validation=validation)
        self._options, self._model, self._closed = options, model, False
        self._workspace = Workspace(self.device, limits_of(self.device, limits))
        self._finalizer = weakref.finalize(self, defer_close, self.device, self._workspace.end)
        self._finalizer.atexit = False
        self._evaluations = Evaluations(self._workspace, self._make)
        self._outputs = self._evaluations.outputs
        self._objective = Objective()
        self._runner = Runner(self._objective, self._evaluations, self._workspace, self._make, options, model)
        self._known: set[Variable] | None = None  # leaves of everything that was described
        self.build_ms: float | None = None  # of the last build, up to the first step

    # ---- describing
    def set_loss(self, loss: Variable | Energy | Sequence[Residual], *, record: bool = True) -> None:
        """Minimise ``loss``, a FLOAT of one texel, or half the sum of the squares of a list of residuals.
        Raises GraphError for anything else, and for a loss that does not depend on every parameter of the
        optimizer.

        record: every step also computes the loss, for ``losses``; otherwise it computes only what the updates
        need. ``recv("loss")`` has the present value either way.
        """
        self._objective.set_loss(loss, record)
        self._forget()

    def set_optimizer(
        self,
        optimizer: Optimizer | LeastSquares | LBFGS | None,
        parameters: Sequence[Variable] = (),
        *,
        keep_state: bool = False,
        bounds: Bounds | None = None,
        fixed: Mapping[Variable, Any] | None = None,
        manifolds: Mapping[Variable, str] | None = None,
    ) -> None:
        """Update the leaves ``parameters`` in every step; None: nothing. Raises GraphError for other
        Variables.

        Rates by parameter: ``per_parameter({vertices: adam(1e-3), texture: adam(1e-2)})``. The state
        (moments, the step counter) starts at zero; with keep_state, state of the same name, type and size is
        kept. ``freeze`` holds parameters still for a while.

        bounds: ``{x: (low, high)}``, each a number, an array that broadcasts with ``x.shape``, a Variable
        (which ``send`` changes), or None. fixed: ``{x: mask}`` holds entries. manifolds: ``{x: name}`` with
        "unit" (VECn, also quaternions), "rotation" (MAT3), "se3" (MAT4) or "log" (any; the sign stays).
        The first step raises InputError for a start that is NaN, outside of its bounds or off its manifold.

        >>> x = Variable.of([0.5, 0.5, 0.5, 0.5, 0.5], name="x")
        >>> with DressiAD() as ad:
        ...     ad.set_loss([x - Variable.of([0.0, 0.5, 0.7, 1.0, 3.0])])
        ...     held = {x: [0, 0, 1, 0, 0]}
        ...     ad.set_optimizer(LevenbergMarquardt(), [x], bounds={x: (0.25, 1.0)}, fixed=held)
        ...     ad.step(20)
        ...     ad.recv(x).round(3).tolist(), ad.stopped()[:18]
        ([0.25, 0.5, 0.5, 1.0, 1.0], 'function tolerance')
        """
        self._objective.set_optimizer(optimizer, parameters, keep_state, bounds, fixed, manifolds)
        self._forget()

    def freeze(self, *parameters: Variable) -> None:
        """Hold parameters still: neither they nor their moments change until ``release``. Raises
        GraphError."""
        self._objective.frozen |= self._objective.optimised(parameters)
        self._forget()

    def release(self, *parameters: Variable) -> None:
        """Update frozen parameters again, with the moments that they had. Raises GraphError."""
        self._objective.frozen -= self._objective.optimised(parameters)
        self._forget()

    def set_output(self, name: str, variable: Variable) -> None:
        """Give a value a name, for ``recv(name)``. All outputs are computed together when one of them is
        read. Raises GraphError."""
        if not isinstance(name, str) or not isinstance(variable, Variable):
            raise GraphError(f"an output is a name and a Variable, not {name!r} and {variable!r}")
        if name == LOSS:
            raise GraphError(f"{LOSS!r} is the name of the loss; choose another one, or call set_loss")
        self._outputs[name] = variable
        self._known = None

    def remove_output(self, name: str) -> None:
        """Forget the name of an output. Raises GraphError where there is none."""
        named(self._outputs, name)
        del self._outputs[name]
        self._known = None

    def _forget(self) -> None:
        self._runner.forget()
        self._known = None

    @property
    def parameters(self) -> tuple[Variable, ...]:
        """The leaves that the optimizer updates, frozen ones included."""
        return tuple(self._objective.parameters)

    # ---- building
    def program(self) -> Program:
        """The simplified Program of a step: the updates of parameters and of the optimizer's state."""
        return self._runner.program()

    def _make(self, program: Program, **more: Any) -> VulkanExecutor:
        more |= {"cost": self._model or model_of(self.device), "workspace": self._workspace}
        beside = self._optimises and not program.updates  # read between steps; that is not worth a search
        options = self._options
        if options.search and not beside:
            from .measure.search import searched  # plans; kept plans need no planner

            options = searched(program, options, **more)
        start = time.perf_counter()
        executor = VulkanExecutor(program, self.device, options=options, **more)
        self.build_ms = 1e3 * (time.perf_counter() - start)
        return executor

    @property
    def _optimises(self) -> bool:
        return self._objective.loss is not None or self._objective.optimizer is not None

    @property
    def executor(self) -> VulkanExecutor:
        """The executor of a step, of the part that runs most often; of the outputs if nothing is optimised.
        Made when it is needed. Raises InputError when this is closed, GraphError when nothing was
        described."""
        return next(iter(self._running.executors.values()))

    @property
    def _running(self) -> Runner | Running:
        self._check_open()
        return self._runner if self._optimises else self._evaluations.running

    @property
    def plan(self) -> Plan:
        """How a step is packed: stages, subpasses, images; ``print`` shows it. Built when needed, as
        ``executor``."""
        return self.executor.plan

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan of each program of a step by name: "step", or those of a least-squares solver."""
        self._check_open()
        return {name: executor.plan for name, executor in self._runner.executors.items()}

    # ---- values
    def send(self, variable: Variable, values: Any) -> None:
        """Set a leaf. Raises GraphError for a Variable that nothing reads, and for values that do not fit."""
        self.send_many({variable: values})

    def send_many(self, values: Mapping[Variable, Any]) -> None:
        """Set several leaves in one submission. If one of them does not fit, none is set."""
        self._check_open()
        for v in values:
            if not isinstance(v, Variable):
                raise GraphError(f"values are sent to leaf Variables, not to {v!r}")
            if v.is_leaf and v not in self._workspace and not self._knows(v):
                raise GraphError(f"{v} is not part of this program; no loss, output or optimizer reads it")
        self._workspace.send_many(values)

    def _knows(self, leaf: Variable) -> bool:
        if self._known is None:
            loss = self._objective.loss
            described = [*self._outputs.values(), *([loss] if loss is not None else [])]
            described += self._objective.constraints.given
            self._known = {*leaves(described), *self._objective.tree().values()}
        known = not self._known or leaf in self._known  # before anything is described every leaf may come
        return known or (self._objective.optimizer is not None and leaf in self.program().leaves)

    def recv(self, variable: Variable | str) -> np.ndarray:
        """The present value of a Variable, or of an output or the loss by name, as float32 or int32.

        Unknowns that a solver with ``precision="double"`` has ended with come as float64.
        Shape (batch, H, W) + vtype.shape; lists made by ``Variable.of`` come back as lists; ``recv("loss")``
        is an array of one number without axes. A value that is out of date is computed. Raises GraphError.
        """
        return self.recv_async(variable).result()

    def recv_async(self, variable: Variable | str) -> Readback:
        """What ``recv`` would give now, as a handle: ``done()`` tells if it has arrived, ``result()`` waits
        for it.

        The copy is queued after the steps so far; nothing waits for it. A handle stays valid when the graph
        is built again or this is closed. With 8 handles unread, the next call waits for the first of them.
        """
        value = self._runner.read(self._find(variable))
        return value.then(lambda array: array.reshape(())) if variable == LOSS else value

    def export(self, variable: Variable | str) -> ExportedImage:
        """The images on the device that hold what ``recv`` would give, as handles for a viewer on the same
        device.

        variable: as for ``recv``. Out of date, it is computed; nothing waits and nothing goes through the
        host. The record says how to read them. The handles stay the same until this is closed. Raises
        GraphError.

        >>> image = Variable.of(np.zeros((4, 6)))
        >>> with DressiAD() as ad:
        ...     ad.set_output("image", image)
        ...     ad.export("image").extent
        (6, 4)
        """
        v = self._find(variable)
        return exported(v, self._evaluations.images(v), self.device, self._workspace.limits)

    def share(self, variable: Variable | str, handle: int | None = None) -> SharedValue:
        """Memory for a copy of what ``recv`` would give, which another device or CUDA reads and writes on the
        GPU.

        variable: as for ``recv``. handle: of the memory of a value of the same type, size and batch, from
        ``share`` on another device of the same GPU and driver; this is the same memory then, and the handle
        is taken over. Raises GraphError, and DeviceError where the device shares no memory.

        >>> given, taken = Variable.of(np.ones((4, 6))), Variable.of(np.zeros((4, 6)))
        >>> with Device() as one, Device() as two, DressiAD(one) as ad, DressiAD(two) as other:
        ...     source = ad.share(given)
        ...     target = other.share(taken, source.handle())
        ...     source.give(); source.wait(); target.take()
        ...     other.recv(taken).min().item(), source.blocks[0].shape
        (1.0, (4, 6, 1))
        """
        v = self._find(variable)
        images = None if v.is_leaf else self._evaluations.images(v)
        refresh = (lambda: None) if v.is_leaf else partial(self._evaluations.images, v)
        return self._workspace.share(v, images, refresh, handle)

    def _find(self, variable: Variable | str) -> Variable:
        """A Variable to be read, given as itself or by name. Raises GraphError."""
        self._check_open()
        if isinstance(variable, str):
            loss = self._objective.loss
            return named(self._outputs if loss is None else {**self._outputs, LOSS: loss}, variable)
        if not isinstance(variable, Variable):
            raise GraphError(f"a Variable or the name of an output can be read, not {variable!r}")
        return variable

    def evaluate(self, outputs: Any) -> Any:
        """Values at the present leaves, without a step: of a Variable (any loss, output, gradient,
        intermediate value), or of a sequence or mapping of them, in the same form.

        Computed by one program for all of them, which is kept: the same graph over the same leaves is not
        built again. Arrays as from ``recv``. Raises GraphError.

        >>> x = Variable.of(3.0)
        >>> with DressiAD() as ad:
        ...     [v.item() for v in ad.evaluate([F.square(x), *gradient(F.square(x), [x])])]
        [9.0, 6.0]
        """
        self._check_open()
        if isinstance(outputs, str):
            return self.recv(outputs)

        def read(variables: list[Variable]) -> list[np.ndarray]:
            return [value.result() for value in self._evaluations.read(variables)]

        return in_form(outputs, read, lambda v: self._find(v) if isinstance(v, str) else v)

    # ---- stepping
    def step(self, n: int = 1) -> None:
        """Queue ``n`` steps on the device; reading waits for them.

        Raises GraphError if n is no whole number of at least 0, or if nothing was described. After an
        interrupt (ctrl-C) some of the steps may not have run; values, moments and ``losses`` are those of the
        steps that did.
        """
        self._running.run(whole(n, "a number of steps", 0))

    def wait(self) -> None:
        """Wait until all steps are done."""
        self._runner.wait()
        self._evaluations.wait()

    def losses(self) -> list[float]:
        """The recorded loss of every step so far, each as it was before the step's update; also after
        ``close``."""
        return self._runner.losses()

    def stopped(self) -> str | None:
        """Why a least-squares solver, L-BFGS or ``optim.until`` has ended, in words; None while it, or one of
        its problems, goes on.

        >>> x = Variable.of(0.0, name="x")
        >>> with DressiAD() as ad:
        ...     ad.set_loss([x - 1.0])
        ...     ad.set_optimizer(LevenbergMarquardt(), [x])
        ...     ad.stopped() is None
        True
        """
        self._check_open()
        return self._runner.stopped()

    def covariance(self, parameters: Variable | Sequence[Variable] = ()) -> np.ndarray:
        """(J^T J)^-1 at the present unknowns: the covariance of the least-squares solution for residuals of
        variance 1. Multiply by 2 cost / (residuals - unknowns) where that is not known.

        parameters: those whose rows are wanted, all that are not frozen by default; the others are still
        unknown. Returns (n, n) in float64, for the numbers of ``recv(p).ravel()`` of one after the other;
        of a parameter on a manifold for its increments. What is fixed has variance 0; frozen parameters count as
        known, and bounds are not regarded. J is computed on the device in 32 bits, column by column, and
        inverted in 64. Raises GraphError, and InputError that names numbers that no residual determines.

        >>> x = Variable.of([0.0, 0.0, 0.0, 0.0, 0.0], name="x")
        >>> with DressiAD() as ad:
        ...     ad.set_loss([2.0 * (x - 1.0)])
        ...     ad.set_optimizer(LevenbergMarquardt(), [x])
        ...     ad.covariance().diagonal().tolist()
        [0.25, 0.25, 0.25, 0.25, 0.25]
        """
        self._check_open()
        chosen = [parameters] if isinstance(parameters, Variable) else list(parameters)
        return self._runner.covariance(chosen)

    def refine(self, steps: int = 50, tolerance: float = 1e-13) -> list[np.ndarray]:
        """The last digits of a least-squares solution: further steps of Gauss-Newton from the present unknowns,
        with J^T r and the cost in 64 bits on the host, and the linear solves on the device in 32 (iterative
        refinement, Wilkinson 1963). Each step shrinks the error of a linear solve by about 1e-4; energies with
        large residuals that curve take more steps.

        Returns the unknowns that are not frozen, in order, in float64 and as ``Variable.shape`` says; the device
        gets their roundings. Leaves that hold their ``data`` count with it in 64 bits, so that the solution is
        that of a solver in 64 bits. steps: at most. tolerance: ends when a step is shorter than this part of
        the unknowns. Raises GraphError for bounds, fixed entries, manifolds and residuals that draw.

        >>> x = Variable.of([0.1, 0.2, 0.3, 0.4, 0.5], name="x")
        >>> with DressiAD() as ad:
        ...     ad.set_loss([F.square(x) - 2.0])
        ...     ad.set_optimizer(LevenbergMarquardt(), [x])
        ...     ad.step(20)
        ...     bool(np.allclose(ad.refine()[0], np.sqrt(2.0), rtol=1e-15))
        True
        """
        self._check_open()
        return self._runner.refine(whole(steps, "a number of steps", 0), float(tolerance))

    # ---- state
    def state(self) -> dict[str, np.ndarray]:
        """Parameters and optimizer state by name: what ``restore`` needs to go on from here."""
        self._check_open()
        return read_state(self._objective.tree(), self._workspace)

    def restore(self, state: Mapping[str, np.ndarray], *, partial: bool = False) -> None:
        """Set parameters and optimizer state. Raises GraphError, and sets nothing, if names or shapes do not
        fit. partial: the state may lack names, whose values stay as they are."""
        self.send_many(by_leaf(state, self._objective.tree(), partial))

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this DressiAD is closed; make another one")

    def close(self) -> None:
        """Release the device objects; idempotent. ``losses`` and values on their way to the host stay
        readable."""
        if self._closed:
            return
        self._finalizer.detach()
        try:
            self._end()
        finally:
            self._closed = True

    def _end(self) -> None:
        if not self.device.settle():
            if self._default:  # its work does not end after a ctrl-C; the next engine opens another Device
                self.device.close()
            return  # closed: the Device releases the rest
        with suppress(DeviceError):  # the device may be lost
            self.losses()
        if config.debug >= 1:
            self._runner.print_times(stages=config.debug >= 2)
        for owner in (self._runner, self._evaluations, self._workspace):
            owner.close()

    def __enter__(self) -> DressiAD:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
