"""The interface of optimizers: stateless objects that add updates of parameters and state to a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..types import INT

__all__ = ["STEP", "Built", "Optimizer", "State", "clock", "names"]

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
    """A name for each of ``parameters``: its own, or parameter0, parameter1, ... Raises GraphError if two are
    equal.

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


def moment(parameter: Variable, name: str) -> Variable:
    """A state leaf like the parameter, 0 at first."""
    zeros = np.zeros(parameter.shape)
    return Variable(
        parameter.vtype, parameter.size, parameter.batch, channels=parameter.channels, name=name, data=zeros
    )


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
