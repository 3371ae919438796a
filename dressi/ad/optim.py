"""Optimizers: pieces of graph that turn gradients into new parameters, composed of small parts.

    adam(0.01)  =  chain(scale_by_adam(), scale_by_learning_rate(0.01))

State (moments, the step counter) is made of leaf Variables that the program updates, so nothing happens on the host
from one step to the next. All of it has names, ``"<parameter>.adam_m"``, and can be saved as a named tree.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import functional as F
from .adam import ScaleByAdam, ScaleByAdamUniform, ScaleByAmsgrad
from .graph import Variable
from .optimizer import STEP, Built, Optimizer, State, clock, clock_of, names
from .parts import Chain, Clocked, PerParameter, Stateless, Trace
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
