"""Optimizers: graphs that turn gradients into new parameters, composed of small parts.

    adam(0.01)  =  optim.chain(optim.scale_by_adam(), optim.scale_by_learning_rate(0.01))

State (moments, the step counter) consists of leaf Variables that the program updates, so the host does nothing between
steps. Each has a name, such as ``"<parameter>.adam_m"``, and ``DressiAD.state`` saves them by name. Examples run after ``import numpy as np`` and ``from dressi import *``.

optimizers: for ``DressiAD.set_optimizer``
    adam, adam_uniform, adamw, amsgrad, per_parameter, sgd

parts: an optimizer is a chain of them
    add_weight_decay, chain, clip_by_value, scale, scale_by_adam, scale_by_adam_uniform, scale_by_amsgrad,
    scale_by_learning_rate, trace

schedules: rates that change with the step, computed on the device
    constant, cosine, exponential, joined, linear, piecewise, warm_up

the step counter: for losses that depend on the step
    Clocked, clock, rate_at

for optimizers of your own
    Built, Optimizer, Stateless, names

kinds of values
    Rate (a number, a FLOAT Variable of one texel, or a schedule), Schedule (from the step, a FLOAT of one texel, 0 in the
    first step, to a FLOAT of one texel), State (a dict of state leaves by name), STEP (the name of the step counter)
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import functional as F
from ..graph import Variable
from .adam import ScaleByAdam, ScaleByAdamUniform, ScaleByAmsgrad
from .optimizer import STEP, Built, Optimizer, State, clock, clock_of, names
from .parts import Chain, Clocked, PerParameter, Stateless, Trace
from .schedules import (
    Rate,
    Schedule,
    check_number,
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

    rate: a number of at least 0, a FLOAT Variable of one texel, or a schedule. Raises GraphError for other rates.

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
    >>> evaluate(optim.scale_by_adam().build([x], [slope]).parameters)[0].round(4).item()  # in the first step the sign
    6.0
    """
    return ScaleByAdam(betas, eps)


def scale_by_adam_uniform(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """The part of ``adam_uniform`` before the learning rate: m / (sqrt(max v) + eps), see :class:`ScaleByAdamUniform`.

    betas, eps: as for ``scale_by_adam``. Raises GraphError.

    >>> x, slope = Variable.of([0.0, 0.0], VEC2), Variable.of([2.0, 1.0], VEC2)
    >>> evaluate(optim.scale_by_adam_uniform().build([x], [slope]).parameters)[0].round(4).ravel().tolist()
    [1.0, 0.5]
    """
    return ScaleByAdamUniform(betas, eps)


def scale_by_amsgrad(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """The part of ``amsgrad`` before the learning rate: m / (sqrt(largest v so far) + eps), see :class:`ScaleByAmsgrad`.

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

    lr: a number of at least 0, a FLOAT Variable of one texel, or a schedule. momentum: in [0, 1); nesterov looks one step ahead. Raises
    GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(sgd(0.25).build([x], [slope]).parameters)[0].item()
    4.5
    """
    parts = (trace(momentum, nesterov),) if momentum else ()
    return chain(*parts, scale_by_learning_rate(lr))


def adam(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam: x <- x - lr m / (sqrt(v) + eps) with bias-corrected moments. Kingma and Ba, algorithm 1.

    lr: a number of at least 0, a FLOAT Variable of one texel, or a schedule. betas: two numbers in [0, 1). eps >= 0. Raises GraphError.

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
    """Adam with decoupled weight decay: x <- x - lr (m / sqrt(v) + decay x). Loshchilov and Hutter, algorithm 2.

    decay: a number of at least 0, or a FLOAT Variable of one texel. Other arguments as for ``adam``. Raises GraphError.

    >>> x, slope = Variable.of(4.0), Variable.of(2.0)
    >>> evaluate(adamw(0.25, decay=0.5).build([x], [slope]).parameters)[0].round(4).item()  # 4 - 0.25 * (1 + 0.5 * 4)
    3.25
    """
    return chain(scale_by_adam(betas, eps), add_weight_decay(decay), scale_by_learning_rate(lr))


def adam_uniform(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam with one scale for a whole parameter: its fastest component moves by about lr a step. For vertices, and for maps.

    Nicolet, Jacobson and Jakob, Large Steps, section 4.3; see :class:`ScaleByAdamUniform`. Arguments as for ``adam``. Raises
    GraphError.

    >>> x, slope = Variable.of([0.0, 0.0], VEC2), Variable.of([2.0, 1.0], VEC2)
    >>> evaluate(adam_uniform(0.5).build([x], [slope]).parameters)[0].round(4).ravel().tolist()
    [-0.5, -0.25]
    """
    return chain(scale_by_adam_uniform(betas, eps), scale_by_learning_rate(lr))


def amsgrad(lr: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam whose second moment never shrinks, see :class:`ScaleByAmsgrad`. Arguments as for ``adam``. Raises GraphError.

    >>> x, slope = Variable.of(5.0), Variable.of(2.0)
    >>> evaluate(amsgrad(0.25).build([x], [slope]).parameters)[0].round(4).item()
    4.75
    """
    return chain(scale_by_amsgrad(betas, eps), scale_by_learning_rate(lr))


def per_parameter(optimizers: Mapping[Variable, Optimizer], default: Optimizer | None = None) -> Optimizer:
    """A different optimizer for each parameter, with one step counter.

    optimizers: by parameter. default: the optimizer of all other parameters. Raises GraphError, when it is used, for a
    parameter without name or optimizer.

    >>> x, y = Variable.of(0.0, name="x"), Variable.of(0.0, name="y")
    >>> optimizer = per_parameter({x: sgd(0.5)}, default=sgd(0.25))
    >>> [v.item() for v in evaluate(optimizer.build([x, y], [Variable.of(1.0), Variable.of(1.0)]).parameters)]
    [-0.5, -0.25]
    """
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
