"""Optimizers: pieces of graph that turn gradients into new parameters, composed of small parts.

    adam(0.01)  =  chain(scale_by_adam(), scale_by_learning_rate(0.01))

State (moments, the step counter) is made of leaf Variables that the program updates, so nothing happens on the host
from one step to the next. All of it has names, ``"<parameter>.adam_m"``, and can be saved as a named tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real

from ..errors import GraphError
from . import functional as F
from .adam import ScaleByAdam, ScaleByAdamUniform, ScaleByAmsgrad
from .graph import Variable
from .optimizer import STEP, Built, Optimizer, State, clock, clock_of, flushed, moment, names
from .schedules import (
    Rate,
    Schedule,
    check_rate,
    constant,
    cosine,
    exponential,
    joined,
    linear,
    piecewise,
    rate_at,
    warm_up,
)


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


class Trace(Optimizer):
    """Momentum: m <- decay m + g; gives m (or, with nesterov, g + decay m)."""

    def __init__(self, decay: float, nesterov: bool = False):
        if not (isinstance(decay, Real) and 0 <= decay < 1):
            raise GraphError(f"a momentum lies in [0, 1), not {decay!r}")
        self.decay, self.nesterov = decay, nesterov

    def init(self, parameters):
        return {f"{n}.momentum": moment(p, f"{n}.momentum") for p, n in zip(parameters, names(parameters))}

    def update(self, gradients, state, parameters):
        keys = [f"{n}.momentum" for n in names(parameters)]
        new = {k: flushed(state[k] * self.decay + g) for k, g in zip(keys, gradients, strict=True)}
        if self.nesterov:
            return [g + new[k] * self.decay for k, g in zip(keys, gradients)], new
        return [new[k] for k in keys], new


class Clocked(Optimizer):
    """An optimizer whose step counter is a leaf made beforehand by ``clock``, so that the loss can depend on it:
    weights by ``rate_at``, random numbers, picked views."""

    def __init__(self, optimizer: Optimizer, counter: Variable):
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
    check_rate(factor, "a factor")
    return Stateless(lambda g, state, p: g * rate_at(factor, clock_of(state)))


def scale_by_learning_rate(rate: Rate) -> Optimizer:
    """Multiplies by minus the rate: descent. Raises GraphError."""
    check_rate(rate, "a learning rate")
    return Stateless(lambda g, state, p: g * -rate_at(rate, clock_of(state)))


def scale_by_adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAdam`."""
    return ScaleByAdam(betas, eps)


def scale_by_adam_uniform(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAdamUniform`."""
    return ScaleByAdamUniform(betas, eps)


def scale_by_amsgrad(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAmsgrad`."""
    return ScaleByAmsgrad(betas, eps)


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


def adamw(
    lr: Rate, decay: float = 0.01, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> Optimizer:
    """Adam with decoupled weight decay: x <- x - lr (m / sqrt(v) + decay x). Loshchilov and Hutter, algorithm 2."""
    return chain(scale_by_adam(betas, eps), add_weight_decay(decay), scale_by_learning_rate(lr))


def adam_uniform(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAdamUniform`: what moves most moves by about lr a step."""
    return chain(scale_by_adam_uniform(betas, eps), scale_by_learning_rate(lr))


def amsgrad(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """See :class:`ScaleByAmsgrad`."""
    return chain(scale_by_amsgrad(betas, eps), scale_by_learning_rate(lr))


def per_parameter(optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None) -> Optimizer:
    """Another optimizer for each parameter: ``per_parameter({vertices: adam(1e-2), texture: adam(1e-1)})``."""
    return PerParameter(optimizers, default)


__all__ = [
    "STEP",
    "Built",
    "Clocked",
    "Optimizer",
    "Rate",
    "Schedule",
    "State",
    "Stateless",
    "adam",
    "adam_uniform",
    "adamw",
    "add_weight_decay",
    "amsgrad",
    "chain",
    "clip_by_value",
    "clock",
    "constant",
    "cosine",
    "exponential",
    "joined",
    "linear",
    "names",
    "per_parameter",
    "piecewise",
    "rate_at",
    "scale",
    "scale_by_adam",
    "scale_by_adam_uniform",
    "scale_by_amsgrad",
    "scale_by_learning_rate",
    "sgd",
    "trace",
    "warm_up",
]
