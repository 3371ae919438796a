"""Optimizers: stateless objects that add updates of parameters and state to a program, and chains of them.

adam(0.01)  =  optim.chain(optim.scale_by_adam(), optim.scale_by_learning_rate(0.01))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import PixelFunction, Variable
from ..graph.types import FLOAT, INT
from ..ops.pixel.constant import float_literal
from .schedules import Rate, check_constant, check_number, check_rate, rate_at

__all__ = [
    "STEP", "Built", "Clocked", "Optimizer", "State", "Stateless", "adam", "adam_uniform", "adamw",
    "add_weight_decay", "amsgrad", "chain", "clip_by_value", "clock", "names", "per_parameter", "scale",
    "scale_by_adam", "scale_by_adam_uniform", "scale_by_amsgrad", "scale_by_learning_rate", "sgd", "trace",
]  # fmt: skip

State = dict[str, Variable]

STEP = "step"

VANISHED = 1e-36
"""Moments below this are set to zero. It is far below every eps, and still a normal number in float32."""


class Built(NamedTuple):
    """The updates that an optimizer adds to a program.

    parameters: the new value of each, a Variable of its type. updates: pairs (state leaf, new value).

    >>> built = sgd(0.25).build([Variable.of(5.0, name="x")], [Variable.of(2.0)])
    >>> [leaf.name for leaf, _ in built.updates]
    ['step']
    """

    parameters: list[Variable]
    updates: list[tuple[Variable, Variable]]


class Optimizer(ABC):
    """Turns gradients into directions, which are *added* to the parameters. States are leaf Variables.

    A subclass declares ``init`` (its state leaves) and ``update`` (directions and new states). ``Stateless``
    is a part without state. ``DressiAD.set_optimizer`` calls ``build``.

    >>> x, slope = Variable.of(5.0, name="x"), Variable.of(2.0)
    >>> sorted(adam(0.25).states([x]))
    ['step', 'x.adam_m', 'x.adam_v']
    >>> evaluate(adam(0.25).build([x], [slope]).parameters)[0].round(4).item()
    4.75
    """

    outermost = False
    """Whether it is no part of another optimizer."""

    @abstractmethod
    def init(self, parameters: Sequence[Variable]) -> State:
        """New state leaves by name, "<parameter>.<state>", the state one word; without the step counter."""

    @abstractmethod
    def update(
        self, gradients: Sequence[Variable], state: State, parameters: Sequence[Variable]
    ) -> tuple[list[Variable], State]:
        """(directions, new values of this part's state leaves). ``state`` holds all leaves and "step"."""

    def build(
        self, parameters: Sequence[Variable], gradients: Sequence[Variable], state: State | None = None
    ) -> Built:
        """New parameters, and the updates of all state including the step counter.

        parameters: float Variables with different names (those without a name are called parameter0, ...).
        gradients: Variables of the same types; sizes and batches may broadcast. state: leaves to continue
        from, of an earlier call of ``states``; by default new ones. Raises GraphError.
        """
        if len(parameters) != len(gradients):
            raise GraphError(f"{len(parameters)} parameters but {len(gradients)} gradients")
        state = self.states(parameters) if state is None else state
        directions, new = self.update(gradients, state, parameters)
        new = {**new, STEP: state[STEP] + 1}
        moved = [_like(p + d, p) for p, d in zip(parameters, directions)]
        return Built(moved, [(state[name], _like(value, state[name])) for name, value in new.items()])

    def states(self, parameters: Sequence[Variable]) -> State:
        """All state leaves by name, including ``"step"``: an INT of one texel, 0 at first."""
        names(parameters)
        for p in parameters:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be optimized")
        return {**self.init(parameters), STEP: clock()}


class Clock(Variable):
    """A counter of steps, see ``clock``."""

    __slots__ = ()


def clock() -> Variable:
    """A leaf that counts steps: INT of one texel, 0 at first, called "step".

    >>> evaluate(optim.clock()).item()
    0
    """
    return Clock(INT, name=STEP, data=np.zeros((1, 1, 1), np.int64))


def check_clock(counter: Any) -> None:
    """Raises GraphError unless a counter of steps is a leaf as ``clock`` makes them."""
    fits = isinstance(counter, Variable) and counter.is_leaf and counter.vtype is INT
    if not fits or counter.domain != clock().domain:
        raise GraphError(f"the counter of steps is made by optim.clock(), not {counter!r}")


def names(parameters: Sequence[Variable]) -> list[str]:
    """A name for each of ``parameters``: its own, or parameter0, ... Raises GraphError if two are equal.

    >>> optim.names([Variable.of(1.0, name="vertices"), Variable.of(1.0)])
    ['vertices', 'parameter1']
    """
    own = [p.name or f"parameter{i}" for i, p in enumerate(parameters)]
    for name in own:
        if own.count(name) > 1:
            raise GraphError(
                f"two parameters are called {name!r}; give them different names: states are saved by name"
            )
    return own


def state_leaf(like: Variable, name: str) -> Variable:
    """A state leaf of the type and domain of another Variable, 0 at first."""
    data = np.zeros(like.shape)
    return Variable(like.vtype, like.size, like.batch, channels=like.channels, name=name, data=data)


def flushed(moment: Variable) -> Variable:
    """``moment`` with 0 in components below VANISHED: when a gradient becomes zero, moments would decay to
    subnormal numbers, which processors compute several times slower."""
    return F.select(F.less(F.abs(moment), VANISHED), 0.0, moment)


def owner(state: str) -> str:
    """The name of the parameter of a state leaf: states are called "<parameter>.<state>"."""
    return state.rpartition(".")[0]


def _like(value: Variable, leaf: Variable) -> Variable:
    return value if value.domain == leaf.domain else F.expand(value, leaf.batch, leaf.size, leaf.channels)


def clock_of(state: State) -> Variable:
    return F.to_float(state[STEP])


class Chain(Optimizer):
    """Parts of an optimizer applied one after the other; see ``chain``."""

    def __init__(self, *parts: Optimizer):
        check_parts(parts)
        self.parts = parts

    def init(self, parameters: Sequence[Variable]) -> State:
        state: State = {}
        for part in self.parts:
            _merge(state, part.init(parameters))
        return state

    def update(self, gradients, state, parameters):
        new: State = {}
        for part in self.parts:
            gradients, changed = part.update(gradients, state, parameters)
            new |= changed
        return list(gradients), new


def check_parts(parts: Iterable[Any]) -> None:
    """Raises GraphError unless all are parts of an optimizer."""
    for part in parts:
        if not isinstance(part, Optimizer):
            raise GraphError(
                f"a part of an optimizer is made by adam(rate), sgd(rate), ..., not {part!r}; a least-squares"
                " solver moves all unknowns together and stands alone, GaussNewton(counter=step)"
            )
        if part.outermost:
            raise GraphError(
                "optim.until stands around all other parts, until(chain(...)) or until(Clocked(...))"
            )


def _merge(state: State, more: State) -> None:
    for name in more:
        if name in state:
            raise GraphError(f"two parts of an optimizer keep a state called {name!r}")
    state.update(more)


class Stateless(Optimizer):
    """A part of an optimizer that maps each gradient by itself.

    function: (gradient, state, parameter) to the new gradient; all Variables, state["step"] the step counter,
    INT.

    >>> x, slope = Variable.of(5.0), Variable.of(-2.0)
    >>> signs = optim.Stateless(lambda gradient, state, parameter: F.sign(gradient))
    >>> evaluate(optim.chain(signs, optim.scale(-1.0)).build([x], [slope]).parameters)[0].item()
    6.0
    """

    def __init__(self, function: Callable[[Variable, State, Variable], Variable]):
        self.function = function

    def init(self, parameters):
        return {}

    def update(self, gradients, state, parameters):
        return [self.function(g, state, p) for g, p in zip(gradients, parameters, strict=True)], {}


class Trace(Optimizer):
    """Momentum: m <- decay m + g; gives m (or, with nesterov, g + decay m)."""

    def __init__(self, decay: float, nesterov: bool = False):
        check_constant(decay, "a momentum", 0.0, 1.0)
        self.decay, self.nesterov = decay, nesterov

    def init(self, parameters):
        return {
            f"{n}.momentum": state_leaf(p, f"{n}.momentum") for p, n in zip(parameters, names(parameters))
        }

    def update(self, gradients, state, parameters):
        keys = [f"{n}.momentum" for n in names(parameters)]
        new = {k: flushed(state[k] * self.decay + g) for k, g in zip(keys, gradients, strict=True)}
        if self.nesterov:
            return [g + m * self.decay for g, m in zip(gradients, new.values())], new
        return [*new.values()], new


class Clocked(Optimizer):
    """An optimizer with a given step counter, so that the loss can depend on the step.

    optimizer: computes the updates. counter: INT of one texel, from ``clock``. The loss may use it for
    weights (``rate_at``), random numbers, or to pick views. Raises GraphError.

    >>> step, x = optim.clock(), Variable.of(0.0, name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(x - F.to_float(step)))
    ...     ad.set_optimizer(optim.Clocked(sgd(0.5), step), [x])
    ...     ad.step(3)
    ...     ad.recv(step).item(), ad.losses()
    (3, [0.0, 1.0, 1.0])
    """

    def __init__(self, optimizer: Optimizer, counter: Variable):
        check_parts([optimizer])
        check_clock(counter)
        self.optimizer, self.counter = optimizer, counter

    def init(self, parameters):
        return self.optimizer.init(parameters)

    def update(self, gradients, state, parameters):
        return self.optimizer.update(gradients, state, parameters)

    def states(self, parameters):
        return {**super().states(parameters), STEP: self.counter}


class PerParameter(Optimizer):
    """A different optimizer for each parameter; all count the same step."""

    def __init__(self, optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None):
        check_parts([*optimizers.values(), *([] if default is None else [default])])
        self.optimizers, self.default = dict(optimizers), default

    def _groups(self, parameters: Sequence[Variable]) -> list[tuple[Optimizer, list[int]]]:
        groups: dict[int, tuple[Optimizer, list[int]]] = {}
        for i, p in enumerate(parameters):
            if p.name is None:
                raise GraphError(
                    f"{p} needs a name (name=...) to be optimized by per_parameter: states are saved by name"
                )
            # On a manifold the increments of a parameter have its optimizer.
            optimizer = self.optimizers.get(getattr(p, "parameter", p), self.default)
            if optimizer is None:
                raise GraphError(f"no optimizer for {p}; name one, or give a default")
            groups.setdefault(id(optimizer), (optimizer, []))[1].append(i)
        return list(groups.values())

    def init(self, parameters):
        state: State = {}
        for optimizer, members in self._groups(parameters):
            _merge(state, optimizer.init([parameters[i] for i in members]))
        return state

    def update(self, gradients, state, parameters):
        new: State = {}
        directions: list[Variable] = list(gradients)
        for optimizer, members in self._groups(parameters):
            own = [parameters[i] for i in members]
            moved, changed = optimizer.update([gradients[i] for i in members], state, own)
            new |= changed
            for i, d in zip(members, moved, strict=True):
                directions[i] = d
        return directions, new


class BiasCorrection(PixelFunction):
    """Input FLOAT t > 0: 1 / (1 - b^t), accurate in single precision even if b^t is nearly 1.

    With x = -t ln b this is 1 / (1 - exp(-x)), and (1 + x/2 + x^2/12) / x for small x: off by x^4 / 720, 2e-7
    at 0.1.
    """

    operations = 20.0
    fields = ("rate",)

    def __init__(self, t: Variable, beta: float):
        self.rate = -math.log(beta) if beta else 1e4
        super().__init__(t)

    def infer(self):
        if self.inputs[0].vtype is not FLOAT:
            raise self.fail("takes FLOAT")
        return FLOAT, self.inputs[0].domain

    @property
    def glsl(self) -> str:
        return (
            f"{{ float x = $0 * {float_literal(self.rate)};\n"
            "$y = x < 0.1 ? (1.0 + x * (0.5 + x * 0.083333336)) / x : 1.0 / (1.0 - exp(-x)); }"
        )

    def eval(self, t):
        with np.errstate(divide="ignore"):
            return -1.0 / np.expm1(-t * self.rate)

    def partials(self, t):
        return ((self.output - F.square(self.output)) * self.rate,)


class ScaleByAdam(Optimizer):
    """m / (sqrt(v) + eps) with bias correction: Kingma and Ba, Adam, algorithm 1.

    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  both divided by 1 - b^t, t = 1 in the first step.
    """

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        if not (isinstance(betas, Sequence) and len(betas) == 2):
            raise GraphError(f"betas of adam are two numbers, not {betas!r}")
        for beta in betas:
            check_constant(beta, "each of adam's betas", 0.0, 1.0)
        check_constant(eps, "eps of adam", 0.0)
        self.betas, self.eps = betas, eps

    def init(self, parameters):
        moments = [(p, f"{n}.adam_{k}") for p, n in zip(parameters, names(parameters)) for k in "mv"]
        return {name: state_leaf(p, name) for p, name in moments}

    def update(self, gradients, state, parameters):
        t = clock_of(state) + 1.0
        fix1, fix2 = (BiasCorrection(t, b).output for b in self.betas)
        b1, b2 = self.betas
        directions, new = [], {}
        for g, name in zip(gradients, names(parameters), strict=True):
            m, v = state[f"{name}.adam_m"], state[f"{name}.adam_v"]
            m2 = new[f"{name}.adam_m"] = flushed(m * b1 + g * (1.0 - b1))
            v2 = new[f"{name}.adam_v"] = flushed(v * b2 + F.hadamard(g, g) * (1.0 - b2))
            scale, changed = self._second(name, v2, state)
            new |= changed
            directions.append(F.hadamard(m2 * fix1, 1.0 / (F.sqrt(scale * fix2) + self.eps)))
        return directions, new

    def _second(self, name: str, v: Variable, state: State) -> tuple[Variable, State]:
        """The second moment whose root divides the direction, and new values of the state that it needs."""
        return v, {}


class ScaleByAdamUniform(ScaleByAdam):
    """Adam with one scale for a whole parameter: the largest second moment of all its components.

    Nicolet, Jacobson and Jakob, Large Steps in Inverse Rendering of Geometry, section 4.3. The direction
    stays that of the first moment; Adam's own scaling by components would undo a linear map of the gradient.
    """

    def _second(self, name, v, state):
        return F.max(F.max_component(v)), {}


class ScaleByAmsgrad(ScaleByAdam):
    """Adam whose second moment never shrinks: Reddi, Kale and Kumar, On the Convergence of Adam and Beyond,
    algorithm 2, with Adam's bias correction."""

    def init(self, parameters):
        largest = [(p, f"{n}.adam_vmax") for p, n in zip(parameters, names(parameters))]
        return super().init(parameters) | {name: state_leaf(p, name) for p, name in largest}

    def _second(self, name, v, state):
        largest = F.maximum(state[f"{name}.adam_vmax"], v)
        return largest, {f"{name}.adam_vmax": largest}


def chain(*parts: Optimizer) -> Optimizer:
    """Parts in sequence: the first gets the gradients; the output of the last is added to the parameters.

    parts: Optimizers. No two may have a state of the same name (GraphError when the chain is used).

    >>> x, slope = Variable.of(5.0), Variable.of(20.0)
    >>> optimizer = optim.chain(optim.clip_by_value(1.0), optim.scale_by_learning_rate(0.5))
    >>> evaluate(optimizer.build([x], [slope]).parameters)[0].item()
    4.5
    """
    return Chain(*parts)


def scale(factor: Rate) -> Optimizer:
    """A part that multiplies every gradient by a factor.

    factor: a number, a FLOAT Variable of one texel, or a schedule. Raises GraphError for other factors.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(optim.scale(-0.25).build([x], [slope]).parameters)[0].item()
    4.5
    """
    check_rate(factor, "a factor")
    return Stateless(lambda g, state, p: g * rate_at(factor, clock_of(state)))


def scale_by_learning_rate(rate: Rate) -> Optimizer:
    """A part that multiplies by minus the rate: descent.

    rate: a number of at least 0, a FLOAT Variable of one texel, or a schedule. Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(optim.scale_by_learning_rate(0.25).build([x], [slope]).parameters)[0].item()
    4.5
    """
    check_rate(rate, "a learning rate", 0.0)
    return Stateless(lambda g, state, p: g * -rate_at(rate, clock_of(state), "a learning rate", 0.0))


def scale_by_adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """The part of ``adam`` before the learning rate: m / (sqrt(v) + eps), see :class:`ScaleByAdam`.

    betas: two numbers in [0, 1), of the first and second moment m and v. eps >= 0. Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(optim.scale_by_adam().build([x], [slope]).parameters)[0].round(4).item()  # the sign at first
    6.0
    """
    return ScaleByAdam(betas, eps)


def scale_by_adam_uniform(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """The part of ``adam_uniform`` before the learning rate: m / (sqrt(max v) + eps), see
    :class:`ScaleByAdamUniform`.

    betas, eps: as for ``scale_by_adam``. Raises GraphError.

    >>> x, slope = Variable.of([0.0, 0.0], VEC2), Variable.of([2.0, 1.0], VEC2)
    >>> evaluate(optim.scale_by_adam_uniform().build([x], [slope]).parameters)[0].round(4).ravel().tolist()
    [1.0, 0.5]
    """
    return ScaleByAdamUniform(betas, eps)


def scale_by_amsgrad(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """The part of ``amsgrad`` before the learning rate: m / (sqrt(largest v so far) + eps), see
    :class:`ScaleByAmsgrad`.

    betas, eps: as for ``scale_by_adam``. Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(optim.scale_by_amsgrad().build([x], [slope]).parameters)[0].round(4).item()
    6.0
    """
    return ScaleByAmsgrad(betas, eps)


def trace(decay: float, nesterov: bool = False) -> Optimizer:
    """A part that adds momentum: m <- decay m + g; it gives m, or g + decay m with nesterov.

    decay: a number in [0, 1). Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(optim.trace(0.5, nesterov=True).build([x], [slope]).parameters)[0].item()  # 5 + 2 + 0.5 * 2
    8.0
    """
    return Trace(decay, nesterov)


def add_weight_decay(decay: float) -> Optimizer:
    """A part that adds ``decay`` times the parameter to its gradient.

    decay: a number of at least 0, or a FLOAT Variable of one texel. Raises GraphError.

    >>> x, slope = Variable.of(4.0), Variable.of(2.0)
    >>> parts = optim.chain(optim.add_weight_decay(0.5), optim.scale(-1.0))
    >>> evaluate(parts.build([x], [slope]).parameters)[0].item()  # 4 - (2 + 0.5 * 4)
    0.0
    """
    check_number(decay, "a weight decay", 0.0)
    return Stateless(lambda g, state, p: g + p * decay)


def clip_by_value(limit: float) -> Optimizer:
    """A part that clamps every component of a gradient to [-limit, limit].

    limit: a number above 0, or a FLOAT Variable of one texel. Raises GraphError.

    >>> x, slope = Variable.of([0.0, 0.0], FLOAT), Variable.of([0.25, -9.0], FLOAT)
    >>> evaluate(optim.clip_by_value(1.0).build([x], [slope]).parameters)[0].ravel().tolist()
    [0.25, -1.0]
    """
    check_number(limit, "the limit of a gradient", 0.0, above=True)
    return Stateless(lambda g, state, p: F.clamp(g, -limit, limit))


def sgd(lr: Rate, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Gradient descent: x <- x - lr m with m <- momentum m + g.

    lr: a number of at least 0, a FLOAT Variable of one texel, or a schedule. momentum: in [0, 1); nesterov
    looks one step ahead. Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(sgd(0.25).build([x], [slope]).parameters)[0].item()
    4.5
    """
    parts = (trace(momentum, nesterov),) if momentum else ()
    return chain(*parts, scale_by_learning_rate(lr))


def adam(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam: x <- x - lr m / (sqrt(v) + eps) with bias-corrected moments. Kingma and Ba, algorithm 1.

    lr: a number of at least 0, a FLOAT Variable of one texel, or a schedule. betas: two numbers in [0, 1).
    eps >= 0. Raises GraphError.

    >>> x = Variable.of(5.0, name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(x - 2.0))
    ...     ad.set_optimizer(adam(0.25), [x])
    ...     ad.step(100)
    ...     round(ad.recv(x).item(), 1)
    2.0
    """
    return chain(scale_by_adam(betas, eps), scale_by_learning_rate(lr))


def adamw(
    lr: Rate, decay: float = 0.01, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> Optimizer:
    """Adam with decoupled weight decay: x <- x - lr (m / sqrt(v) + decay x). Loshchilov, Hutter, algorithm 2.

    decay: at least 0, a number or a FLOAT of one texel. Other arguments as for ``adam``. Raises GraphError.

    >>> x, slope = Variable.of(4.0), Variable.of(2.0)
    >>> built = adamw(0.25, decay=0.5).build([x], [slope])
    >>> evaluate(built.parameters)[0].round(4).item()  # 4 - 0.25 * (1 + 0.5 * 4)
    3.25
    """
    return chain(scale_by_adam(betas, eps), add_weight_decay(decay), scale_by_learning_rate(lr))


def adam_uniform(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam with one scale for a whole parameter: its fastest component moves about lr. For vertices and maps.

    Nicolet, Jacobson and Jakob, Large Steps, section 4.3; see :class:`ScaleByAdamUniform`. Arguments as for
    ``adam``. Raises GraphError.

    >>> x, slope = Variable.of([0.0, 0.0], VEC2), Variable.of([2.0, 1.0], VEC2)
    >>> evaluate(adam_uniform(0.5).build([x], [slope]).parameters)[0].round(4).ravel().tolist()
    [-0.5, -0.25]
    """
    return chain(scale_by_adam_uniform(betas, eps), scale_by_learning_rate(lr))


def amsgrad(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam whose second moment never shrinks: :class:`ScaleByAmsgrad`. Arguments as for ``adam``. Raises
    GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(amsgrad(0.25).build([x], [slope]).parameters)[0].round(4).item()
    4.75
    """
    return chain(scale_by_amsgrad(betas, eps), scale_by_learning_rate(lr))


def per_parameter(optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None) -> Optimizer:
    """A different optimizer for each parameter, with one step counter.

    optimizers: by parameter. default: the optimizer of all other parameters. Raises GraphError, when it is
    used, for a parameter without name or optimizer.

    >>> x, y = Variable.of(0.0, name="x"), Variable.of(0.0, name="y")
    >>> optimizer = per_parameter({x: sgd(0.5)}, default=sgd(0.25))
    >>> [v.item() for v in evaluate(optimizer.build([x, y], [Variable.of(1.0), Variable.of(1.0)]).parameters)]
    [-0.5, -0.25]
    """
    return PerParameter(optimizers, default)
