"""The objective of an optimisation: loss, optimizer, parameters and state; and the program of one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Domain, Variable
from ..graph.program import Procedure, Program
from ..graph.traversal import leaves, topological_order
from ..graph.types import FLOAT, INT
from ..loops.loop import has_loops, longest_loop, with_checkpoints
from ..optim.constraints import Bounds, Constraints
from ..optim.lbfgs import LBFGS
from ..optim.optimizer import Clock, Optimizer, names, owner
from ..optim.wrappers import Until
from ..transform.gradient import depending, gradient
from ..transform.simplify import simplify
from .energy import Energy, Residual
from .solver import LeastSquares

HISTORY = 1024  # losses that the device keeps before the host has to read them


class Objective:
    """Set loss and optimizer in any order; ``program`` is what a step computes. Setters raise GraphError."""

    def __init__(self) -> None:
        self.loss: Variable | None = None
        self.energy: Energy | None = None  # of which the loss is the cost
        self.record = True
        self.optimizer: Optimizer | LeastSquares | LBFGS | None = None
        self.parameters: list[Variable] = []
        self.constraints = Constraints([])
        self.frozen: set[Variable] = set()
        self.state: dict[str, Variable] = {}
        self._slopes: tuple[Variable | None, dict[Variable, Variable]] = None, {}  # (loss, its gradient)
        self.counter = Variable(INT, name="loss_count", data=np.zeros((1, 1, 1), int))
        self.history = Variable(FLOAT, (HISTORY, 1), name="loss_history", data=np.zeros((1, 1, HISTORY)))

    @property
    def recorded(self) -> bool:
        return self.loss is not None and self.record

    def set_loss(self, loss: Variable | Energy | Sequence[Residual], record: bool) -> None:
        """loss: the FLOAT of one texel to minimise, or residuals; it must depend on every parameter."""
        energy = None
        if isinstance(loss, Energy | list | tuple):
            energy = loss if isinstance(loss, Energy) else Energy(loss)
            loss = energy.cost()
        if not isinstance(loss, Variable):
            raise GraphError(
                f"the loss is a Variable computed from the parameters, or a list of residuals, not {loss!r}"
            )
        if loss.vtype is not FLOAT or loss.domain != Domain((1, 1), 1):
            raise GraphError(f"the loss must be one FLOAT, not {loss}; {reduced(loss)}")
        self._check_used(loss, energy, self.parameters)
        self.loss, self.energy, self.record = loss, energy, bool(record)

    def set_optimizer(
        self,
        optimizer: Optimizer | LeastSquares | LBFGS | None,
        parameters: Sequence[Variable],
        keep_state: bool,
        bounds: Bounds | None = None,
        fixed: Mapping[Variable, Any] | None = None,
        manifolds: Mapping[Variable, str] | None = None,
    ) -> None:
        """The optimizer of the given leaves. keep_state: keeps states whose name, type and domain agree.
        bounds, fixed, manifolds: as for ``Constraints``."""
        if optimizer is None:
            if len(parameters):
                raise GraphError("parameters without an optimizer; give one, for example adam(0.01)")
            self.optimizer, self.parameters, self.state, self.frozen = None, [], {}, set()
            self.constraints = Constraints([])
            return
        if not isinstance(optimizer, Optimizer | LeastSquares | LBFGS):
            raise GraphError(
                f"the optimizer is made by adam(rate), sgd(rate), GaussNewton(), ..., not {optimizer!r}"
            )
        parameters = list[Variable]([parameters] if isinstance(parameters, Variable) else parameters)
        if not parameters:
            raise GraphError("an optimizer needs parameters: a list of leaf Variables")
        for p in parameters:
            if not isinstance(p, Variable):
                raise GraphError(f"parameters are leaf Variables, not {p!r}")
            if not p.is_leaf:
                raise GraphError(f"{p} is computed; only leaf Variables can be optimised")
        if len(set(parameters)) < len(parameters):
            raise GraphError("a parameter is given twice; give each once")
        constraints = Constraints(parameters, bounds, fixed, manifolds)
        if isinstance(optimizer, LeastSquares | LBFGS):
            state = optimizer.states(parameters, constraints)
        else:
            state = optimizer.states([u for p in parameters for u in constraints.unknowns[p]])
        if self.loss is not None:
            self._check_used(self.loss, self.energy, parameters)
        if keep_state:
            for name, old in self.state.items():
                new = state.get(name)
                if new is not None and (old.vtype, old.domain) == (new.vtype, new.domain):
                    state[name] = old
        self.optimizer, self.parameters, self.state = optimizer, parameters, state
        self.constraints = constraints
        self.frozen &= set(parameters)

    def _check_used(self, loss: Variable, energy: Energy | None, parameters: Sequence[Variable]) -> None:
        """Raises GraphError if the loss, or the residuals of an energy, do not depend on a parameter."""
        residuals = () if energy is None else energy.residuals
        for p in parameters if residuals else ():
            if depending(topological_order(residuals), [p]).isdisjoint(residuals):
                raise GraphError(
                    f"no residual of the energy depends on {p}; leave it out, and look for integers,"
                    " comparisons or F.stop_gradient on the way"
                )
        if parameters:  # the gradient raises, and is kept for the next step
            slopes = gradient(loss, parameters, allow_unused=False)
            self._slopes = loss, dict(zip(parameters, slopes, strict=True))

    def optimised(self, parameters: Sequence[Variable]) -> set[Variable]:
        """The parameters, as a set. Raises GraphError if the optimizer does not have one of them."""
        for p in parameters:
            if p not in self.parameters:
                raise GraphError(f"{p} is not among the parameters of the optimizer")
        return set(parameters)

    def uncounted(self) -> bool:
        """Whether the loss reads a counter of steps that the optimizer does not count."""
        if self.loss is None or self.optimizer is None:
            return False
        return any(isinstance(v, Clock) and v not in self.state.values() for v in leaves([self.loss]))

    @property
    def solves(self) -> bool:
        return isinstance(self.optimizer, LeastSquares)

    @property
    def iterations(self) -> int:
        """Iterations of the longest loop of the loss whose checkpoints can be chosen."""
        return 0 if self.loss is None else longest_loop([self.loss])

    def program(self, checkpoints: int | None = None) -> Program:
        """All updates of a step, simplified: parameters, the optimizer's state, the history of losses.
        checkpoints: for loops that choose none."""
        loss = self.loss
        if loss is not None and checkpoints is not None:
            loss = with_checkpoints(loss, checkpoints)
        updates = self._recording(loss)
        if isinstance(self.optimizer, Optimizer):
            updates += self._moves(self.optimizer, loss)
        program = Program({}, tuple(updates))
        program.check()
        return simplify(program)

    def procedure(self) -> Procedure | None:
        """The Programs of a step of least squares, L-BFGS or ``until``, simplified; None with others."""
        optimizer, loss, energy = self.optimizer, self.loss, self.energy
        if not isinstance(optimizer, LeastSquares | LBFGS | Until):
            return None
        kind = type(optimizer).__name__
        if loss is None:
            raise GraphError("an optimizer needs a loss; call set_loss first")
        if energy is None and isinstance(optimizer, LeastSquares):
            raise GraphError(f"{kind} minimises residuals; give set_loss a list of them, [r1, w * r2, ...]")
        if has_loops(self.program()) and not isinstance(optimizer, LeastSquares):
            raise GraphError(f"{kind} takes no loss with F.loop; take adam(rate), and look at ad.losses()")
        if isinstance(optimizer, Until):
            return optimizer.procedure(
                loss, self.state, [*self._recording(loss), *self._moves(optimizer, loss)]
            )
        moving = [p for p in self.parameters if p not in self.frozen]
        if not moving:
            raise GraphError("all unknowns are frozen; release one of them before the next step")
        rest = self.parameters, moving, self.state, self._recording(loss), self.constraints
        if isinstance(optimizer, LBFGS):
            return optimizer.procedure(loss, *rest)
        assert energy is not None  # refused above
        return optimizer.procedure(energy, *rest)

    def _recording(self, loss: Variable | None) -> list[tuple[Variable, Variable]]:
        """Updates that write the loss into the history."""
        if loss is None or not self.record:
            return []
        slot = F.equal(F.linear_index((HISTORY, 1)), self.counter % HISTORY)
        written = (self.history, F.select(slot, loss, self.history))
        return [written, (self.counter, self.counter + 1)]

    def _moves(self, optimizer: Optimizer, loss: Variable | None) -> list[tuple[Variable, Variable]]:
        """Updates of the parameters that are not frozen, and of all state but that of frozen parameters."""
        if loss is None:
            raise GraphError("an optimizer needs a loss; call set_loss first")
        moving = [p for p in self.parameters if p not in self.frozen]
        (of, slopes), self._slopes = self._slopes, (None, {})
        if of is not loss or list(slopes) != moving:
            slopes = dict(zip(moving, gradient(loss, moving), strict=True))
        # The optimizer gets all parameters, so that names and step counters stay the same.
        of = self.constraints
        unknowns = [u for p in self.parameters for u in of.unknowns[p]]
        gradients = [
            g for p in self.parameters
            for g in of.by_unknowns(p, slopes[p] if p in slopes else F.zeros_like(p))
        ]  # fmt: skip
        built = optimizer.build(unknowns, gradients, self.state)
        held = {u for p in self.frozen for u in of.unknowns[p]}
        still = {n for u, n in zip(unknowns, names(unknowns), strict=True) if u in held}
        name_of = {v: name for name, v in self.state.items()}
        new = dict(zip(unknowns, built.parameters, strict=True))
        updates = [(p, of.value(p, [new[u] for u in of.unknowns[p]])) for p in self.parameters if p in slopes]
        return updates + [(v, new) for v, new in built.updates if owner(name_of[v]) not in still]

    def tree(self) -> dict[str, Variable]:
        return {v.name or f"parameter{k}": v for k, v in enumerate(self.parameters)} | self.state


def reduced(loss: Variable) -> str:
    """Advice how to reduce a Variable to one FLOAT, for messages."""
    if loss.vtype.is_int:
        return "convert it with F.to_float and reduce it with F.sum or F.mean"
    if loss.vtype is FLOAT:
        return "reduce it with F.sum or F.mean"
    if loss.vtype.is_matrix:
        return "F.sum and F.mean keep the components; add them up, for example F.mean(F.dot(m[0], m[0]))"
    return "F.sum and F.mean keep the components; reduce those first, for example F.mean(F.sum_components(x))"
