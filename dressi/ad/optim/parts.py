"""Parts of optimizers, and their compositions: in a chain, or one optimizer for each parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from ...errors import GraphError
from ..graph import Variable
from .optimizer import STEP, Optimizer, State, check_clock, flushed, moment, names


class Chain(Optimizer):
    """Parts of an optimizer applied one after the other; see ``chain``."""

    def __init__(self, *parts: Optimizer):
        _check_parts(parts)
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


def _check_parts(parts: Iterable[Any]) -> None:
    for part in parts:
        if not isinstance(part, Optimizer):
            raise GraphError(
                f"a part of an optimizer is made by adam(rate), sgd(rate), ..., not {part!r}; a least-squares solver moves all"
                " unknowns together and stands alone, GaussNewton(counter=step)"
            )


def _merge(state: State, more: State) -> None:
    for name in more:
        if name in state:
            raise GraphError(f"two parts of an optimizer keep a state called {name!r}")
    state.update(more)


class Stateless(Optimizer):
    """A part of an optimizer that maps each gradient by itself.

    function: (gradient, state, parameter) to the new gradient; all are Variables, state["step"] is the step counter, INT.

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
        if isinstance(decay, bool) or not (isinstance(decay, Real) and 0 <= decay < 1):
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
    """An optimizer with a given step counter, so that the loss can depend on the step.

    optimizer: computes the updates. counter: INT of one texel, from ``clock``. The loss may use it for weights
    (``rate_at``), random numbers, or to pick views. Raises GraphError.

    >>> step, x = optim.clock(), Variable.of(0.0, name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(x - F.to_float(step)))
    ...     ad.set_optimizer(optim.Clocked(sgd(0.5), step), [x])
    ...     ad.step(3)
    ...     ad.recv(step).item(), ad.losses()
    (3, [0.0, 1.0, 1.0])
    """

    def __init__(self, optimizer: Optimizer, counter: Variable):
        _check_parts([optimizer])
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
        _check_parts([*optimizers.values(), *([] if default is None else [default])])
        self.optimizers, self.default = dict(optimizers), default

    def _groups(self, parameters: Sequence[Variable]) -> list[tuple[Optimizer, list[int]]]:
        groups: dict[int, tuple[Optimizer, list[int]]] = {}
        for i, p in enumerate(parameters):
            if p.name is None:
                raise GraphError(
                    f"{p} needs a name (name=...) to be optimized by per_parameter: states are saved by name"
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
