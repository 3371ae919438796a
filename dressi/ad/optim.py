"""Optimizers: pieces of graph that turn gradients into new parameters, composed of small parts.

    adam(0.01)  =  chain(scale_by_adam(), scale_by_learning_rate(0.01))

State (moments, the step counter) is made of leaf Variables that the program updates, so nothing happens on the host
from one step to the next. All of it has names, ``"<parameter>.adam_m"``, and can be saved as a named tree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import GraphError
from . import functional as F
from .graph import Domain, Variable
from .types import FLOAT, INT

State = dict[str, Variable]
Schedule = Callable[[Variable], Variable]
"""From the step counter (FLOAT, one texel; 0 in the first step) to a FLOAT of one texel."""

Rate = float | Variable | Schedule

STEP = "step"

VANISHED = 1e-36
"""What moments are taken to be zero below: far under every eps, and still a normal number in float32."""


class Built(NamedTuple):
    """What an optimizer adds to a program; ``updates`` are pairs (state leaf, new value)."""

    parameters: list[Variable]
    updates: list[tuple[Variable, Variable]]


class Optimizer(ABC):
    """Turns gradients into directions that are *added* to the parameters. Stateless itself; states are leaves."""

    @abstractmethod
    def init(self, parameters: Sequence[Variable]) -> State:
        """New state leaves, by name. The step counter is not among them."""

    @abstractmethod
    def update(
        self, gradients: Sequence[Variable], state: State, parameters: Sequence[Variable]
    ) -> tuple[list[Variable], State]:
        """(directions, new values of this part's state leaves); ``state`` holds every leaf and ``"step"``."""

    def build(
        self, parameters: Sequence[Variable], gradients: Sequence[Variable], state: State | None = None
    ) -> Built:
        """New parameters, and the updates of all state including the step counter.

        parameters: float Variables with different names (unnamed ones are called parameter0, ...).  gradients: of
        the same types; sizes and batches may broadcast.  state: leaves to go on from (of an earlier ``states``
        call); absent, they are made. Raises GraphError.
        """
        if len(parameters) != len(gradients):
            raise GraphError(f"{len(parameters)} parameters but {len(gradients)} gradients")
        state = self.states(parameters) if state is None else state
        directions, new = self.update(gradients, state, parameters)
        new = {**new, STEP: state[STEP] + 1}
        moved = [_like(p + d, p) for p, d in zip(parameters, directions)]
        return Built(moved, [(state[name], _like(value, state[name])) for name, value in new.items()])

    def states(self, parameters: Sequence[Variable]) -> State:
        """All state leaves by name, with ``"step"``: an INT of one texel, 0 at first."""
        names(parameters)
        for p in parameters:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be optimized")
        return {**self.init(parameters), STEP: Variable(INT, name=STEP, data=np.zeros((1, 1, 1), np.int64))}


def names(parameters: Sequence[Variable]) -> list[str]:
    """A name for each parameter. Raises GraphError when two have the same one."""
    found = [p.name or f"parameter{i}" for i, p in enumerate(parameters)]
    for name in found:
        if found.count(name) > 1:
            raise GraphError(
                f"two parameters are called {name!r}; give them different names, their state is saved by it"
            )
    return found


def _moment(parameter: Variable, name: str) -> Variable:
    return Variable(
        parameter.vtype, parameter.size, parameter.batch, name=name, data=np.zeros(parameter.shape)
    )


def _like(value: Variable, leaf: Variable) -> Variable:
    return value if value.domain == leaf.domain else F.expand(value, leaf.batch, leaf.size)


def _clock(state: State) -> Variable:
    return F.to_float(state[STEP])


def _rate(rate: Rate, state: State) -> Any:
    """The value of a rate: a number, or a FLOAT Variable of one texel. Raises GraphError."""
    if callable(rate) and not isinstance(rate, Variable):
        rate = rate(_clock(state))
    if isinstance(rate, Variable) and (rate.vtype is not FLOAT or rate.domain != Domain((1, 1), 1)):
        raise GraphError(f"a learning rate is a number or a FLOAT of one texel, not {rate}")
    return rate


class Chain(Optimizer):
    """Parts applied one after the other."""

    def __init__(self, *parts: Optimizer):
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


def _merge(state: State, more: State) -> None:
    for name in more:
        if name in state:
            raise GraphError(f"two parts of an optimizer keep a state called {name!r}")
    state.update(more)


class Stateless(Optimizer):
    """A part that maps each gradient by itself: ``function(gradient, state, parameter)``."""

    def __init__(self, function: Callable[[Variable, State, Variable], Variable]):
        self.function = function

    def init(self, parameters):
        return {}

    def update(self, gradients, state, parameters):
        return [self.function(g, state, p) for g, p in zip(gradients, parameters, strict=True)], {}


def _flushed(moment: Variable) -> Variable:
    """Zero where a component is below VANISHED: where the gradient has become zero, moments would fade into subnormal
    numbers and stay there, and these take processors several times as long."""
    return F.select(F.less(F.abs(moment), VANISHED), 0.0, moment)


class ScaleByAdam(Optimizer):
    """m / (sqrt(v) + eps) with bias correction: Kingma and Ba, Adam, algorithm 1.

    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  both divided by 1 - b^t, t = 1 in the first step.
    """

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        for beta in betas:
            if not 0 <= beta < 1:
                raise GraphError(f"betas of adam lie in [0, 1), not {beta}")
        self.betas, self.eps = betas, eps

    def init(self, parameters):
        moments = [(p, f"{n}.adam_{k}") for p, n in zip(parameters, names(parameters)) for k in "mv"]
        return {name: _moment(p, name) for p, name in moments}

    def update(self, gradients, state, parameters):
        t = _clock(state) + 1.0
        # 1 / (1 - b^t); b^t as exp2, whose argument is exact enough even where 1 - b^t is small.
        fix1, fix2 = (1.0 / (1.0 - F.exp2(t * (math.log2(b) if b else -1e4))) for b in self.betas)
        b1, b2 = self.betas
        directions, new = [], {}
        for g, name in zip(gradients, names(parameters), strict=True):
            m, v = state[f"{name}.adam_m"], state[f"{name}.adam_v"]
            m2 = new[f"{name}.adam_m"] = _flushed(m * b1 + g * (1.0 - b1))
            v2 = new[f"{name}.adam_v"] = _flushed(v * b2 + F.hadamard(g, g) * (1.0 - b2))
            directions.append(F.hadamard(m2 * fix1, 1.0 / (F.sqrt(v2 * fix2) + self.eps)))
        return directions, new


class Trace(Optimizer):
    """Momentum: m <- decay m + g; gives m (or, with nesterov, g + decay m)."""

    def __init__(self, decay: float, nesterov: bool = False):
        self.decay, self.nesterov = decay, nesterov

    def init(self, parameters):
        return {f"{n}.momentum": _moment(p, f"{n}.momentum") for p, n in zip(parameters, names(parameters))}

    def update(self, gradients, state, parameters):
        keys = [f"{n}.momentum" for n in names(parameters)]
        new = {k: _flushed(state[k] * self.decay + g) for k, g in zip(keys, gradients, strict=True)}
        if self.nesterov:
            return [g + new[k] * self.decay for k, g in zip(keys, gradients)], new
        return [new[k] for k in keys], new


class PerParameter(Optimizer):
    """A different optimizer for each parameter; all count the same step."""

    def __init__(self, optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None):
        self.optimizers, self.default = dict(optimizers), default

    def _groups(self, parameters: Sequence[Variable]) -> list[tuple[Optimizer, list[int]]]:
        groups: dict[int, tuple[Optimizer, list[int]]] = {}
        for i, p in enumerate(parameters):
            if p.name is None:
                raise GraphError(
                    f"{p} needs a name (name=...) to be optimized by per_parameter: states are saved by it"
                )
            optimizer = self.optimizers.get(p, self.default)
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


def chain(*parts: Optimizer) -> Optimizer:
    """Parts applied one after the other."""
    return Chain(*parts)


def scale(factor: Rate) -> Optimizer:
    """Multiplies by a number, a FLOAT Variable of one texel, or a schedule."""
    return Stateless(lambda g, state, p: g * _rate(factor, state))


def scale_by_learning_rate(rate: Rate) -> Optimizer:
    """Multiplies by minus the rate: descent."""
    return Stateless(lambda g, state, p: g * -_rate(rate, state))


def scale_by_adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAdam`."""
    return ScaleByAdam(betas, eps)


def trace(decay: float, nesterov: bool = False) -> Optimizer:
    """See :class:`Trace`."""
    return Trace(decay, nesterov)


def add_weight_decay(decay: float) -> Optimizer:
    """Adds ``decay`` times the parameter."""
    return Stateless(lambda g, state, p: g + p * decay)


def clip_by_value(limit: float) -> Optimizer:
    """Clamps every component to [-limit, limit]."""
    return Stateless(lambda g, state, p: F.clamp(g, -limit, limit))


def sgd(lr: Rate, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Gradient descent; lr: a number, a FLOAT Variable of one texel, or a schedule."""
    parts = (trace(momentum, nesterov),) if momentum else ()
    return chain(*parts, scale_by_learning_rate(lr))


def adam(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam; lr: a number, a FLOAT Variable of one texel, or a schedule."""
    return chain(scale_by_adam(betas, eps), scale_by_learning_rate(lr))


def per_parameter(optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None) -> Optimizer:
    """Another optimizer for each parameter: ``per_parameter({vertices: adam(1e-2), texture: adam(1e-1)})``."""
    return PerParameter(optimizers, default)


def constant(value: float) -> Schedule:
    """Always ``value``."""
    return lambda step: F.constant(float(value))


def exponential(start: float, factor: float, steps: float = 1.0) -> Schedule:
    """start * factor ** (step / steps)."""
    if factor <= 0:
        raise GraphError(f"the factor of an exponential schedule is positive, not {factor}")
    return lambda step: F.exp2(step * (math.log2(factor) / steps)) * float(start)


def cosine(start: float, end: float, steps: float) -> Schedule:
    """From start to end along half a cosine in ``steps`` steps, then end."""
    half = 0.5 * (start - end)
    return lambda step: F.cos(F.min(step * (1.0 / steps), 1.0) * math.pi) * half + (end + half)


def piecewise(pieces: Sequence[tuple[float, float]]) -> Schedule:
    """Constant pieces [(first step, value), ...] in rising order; before the first piece its value holds."""
    if not pieces or list(pieces) != sorted(pieces, key=lambda piece: piece[0]):
        raise GraphError("a piecewise schedule needs pieces (first step, value) in rising order")

    def schedule(step: Variable) -> Variable:
        value = F.constant(float(pieces[0][1]))
        for first, next_value in pieces[1:]:
            value = F.select(F.less(step, float(first)), value, float(next_value))
        return value

    return schedule
