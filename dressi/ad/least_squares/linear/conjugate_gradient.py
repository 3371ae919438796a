"""Preconditioned conjugate gradients for (J^T J + D) d = -J^T r (Opt, figure 6), as two Programs.

``start`` is part of the linearisation, ``iterate`` is run again and again. All of it stays on the device:
step lengths and the decision to stop are Variables, one for each problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import functional as F
from ...graph import Variable
from ...optim.optimizer import State, state_leaf
from .coarse import Coarse
from .preconditioner import Operator, Plain, Preconditioner, Values
from .vectors import Updates, Vector, dot, quotient, reciprocal, scalar, set_flag


@dataclass
class Normal:
    """The system J^T J + D that is solved. product: multiplies by J^T J. diagonal: of J^T J. damping: D, if
    any. values: what the preconditioner knows of the system. coarse: what it adds for lists, if anything."""

    product: Operator
    diagonal: list[Variable]
    damping: list[Variable] | None
    preconditioner: Preconditioner
    names: list[str]
    values: Values
    coarse: Coarse | None = None

    def apply(self, p: Vector) -> list[Variable]:
        q = self.product(p)
        if self.damping is None:
            return q
        return [a + F.hadamard(d, x) for a, d, x in zip(q, self.damping, p, strict=True)]

    @property
    def whole(self) -> list[Variable]:
        if self.damping is None:
            return self.diagonal
        return [m + d for m, d in zip(self.diagonal, self.damping, strict=True)]

    def precondition(self, r: Vector) -> tuple[list[Variable], Updates]:
        """About (J^T J + D)^-1 r, and updates of leaves that hold values on the way."""
        z = self.preconditioner.apply(r, self.whole, self.names, self.values)
        if self.coarse is None:
            return z, []
        more, held = self.coarse.apply(r, self.diagonal)
        return [a + b for a, b in zip(z, more, strict=True)], held


VECTORS = ("change", "residual", "direction", "diagonal", "gradient")
NUMBERS = ("residual_energy", "model_decrease", "inner_iterations", "enough_energy")
OUTCOME = NUMBERS[:2]
"""Numbers that are infinite or NaN after a solve if J^T r was."""
FACTORS = ("alpha", "beta")
"""Numbers that only an iteration itself reads. As state they are stored once, so that no later pass needs the
old values of the numbers that they follow from, and all of these are overwritten in place."""
SOLVING = "solving"
FLOOR = 1e-12
"""The part of the squared residual at which rounding to 32 bits leaves nothing to gain. What is left is
noise; a singular system has no curvature along some of it, and steps along that would have no bound."""
NOISE = 5e-11
"""The same of the cost: J^T r is known to about a hundred roundings of the residuals."""


def states(parameters: Sequence[Variable], names: Sequence[str], problems: int) -> State:
    """The state leaves of the iterations by name: vectors for each unknown, and numbers for each problem."""
    made = [state_leaf(x, f"{n}.{v}") for x, n in zip(parameters, names, strict=True) for v in VECTORS]
    made += [*(scalar(name, problems) for name in (*NUMBERS, *FACTORS)), scalar(SOLVING, problems)]
    return {str(leaf.name): leaf for leaf in made}


class ConjugateGradient:
    """The updates of the state of the iterations.

    change: the solution d so far. tolerance: the solve ends when an iteration lowers the quadratic model by
    less than tolerance / k of what all k did (Nash and Sofer; Ceres, q_tolerance). forcing: it also ends when
    the residual, in the norm of the preconditioner, is below this part of what it was.
    """

    def __init__(self, state: State, names: Sequence[str], axes: str, tolerance: float, forcing: float):
        self.axes, self.tolerance, self.forcing = axes, tolerance, forcing
        self.change, self.residual, self.direction, self.diagonal, self.gradient = (
            [state[f"{n}.{v}"] for n in names] for v in VECTORS
        )
        self.energy, self.decrease, self.inner, self.enough = (state[s] for s in NUMBERS)
        self.active = state[SOLVING]
        self._state = state

    def start(self, system: Normal, gradient: Vector, allowed: Variable, cost: Variable) -> Updates:
        """Updates that begin the solve with d = 0. gradient: J^T r. allowed: FLOAT mask, the problems to
        solve. cost: of each problem; one whose gradient is no more than its rounding errors is not solved."""
        b = [-g for g in gradient]
        z, held = system.precondition(b)
        energy = dot(b, z, self.axes)
        enough = energy * max(self.forcing**2, FLOOR)
        if isinstance(system.preconditioner, Plain):  # its residual is not in the unit of the cost
            scaled = [F.hadamard(x, reciprocal(d)) for x, d in zip(b, system.diagonal, strict=True)]
            steep = F.greater(dot(b, scaled, self.axes), NOISE * cost)
        else:
            enough = F.maximum(enough, NOISE * cost)
            steep = F.greater(energy, enough)
        active = F.logical_and(F.logical_and(allowed, steep), F.greater(energy, 0.0))
        return [
            *held,
            *((d, F.zeros_like(d)) for d in self.change),
            *zip(self.residual, b, strict=True),
            *zip(self.direction, z, strict=True),
            (self.energy, energy),
            (self.enough, enough),
            (self.decrease, self.decrease * 0.0),
            (self.inner, self.inner * 0.0),
            *set_flag(self._state, SOLVING, active),
        ]

    def restart(self, system: Normal) -> Updates:
        """Updates that go on with another preconditioner. The solve ends at the same part of the residual."""
        z, held = system.precondition(self.residual)
        energy = dot(self.residual, z, self.axes)
        return [
            *held,
            *zip(self.direction, z, strict=True),
            (self.energy, energy),
            (self.enough, self.enough * quotient(energy, self.energy)),
        ]

    def iterate(self, system: Normal, *, anew: bool = False) -> Updates:
        """Updates of one iteration. anew: computes the residual from the solution, against rounding drift."""
        p = self.direction
        q = system.apply(p)
        curvature = dot(p, q, self.axes)
        going = F.logical_and(self.active, F.greater(curvature, 0.0))
        alpha = F.select(going, quotient(self.energy, curvature), 0.0)
        change = [d + x * alpha for d, x in zip(self.change, p, strict=True)]
        if anew:
            residual = [-g - x for g, x in zip(self.gradient, system.apply(change), strict=True)]
        else:
            residual = [r - x * alpha for r, x in zip(self.residual, q, strict=True)]
        z, held = system.precondition(residual)
        energy = dot(residual, z, self.axes)
        gain = 0.5 * alpha * self.energy
        decrease, inner = self.decrease + gain, self.inner + going
        enough = F.less(inner * gain, self.tolerance * decrease)
        left = F.greater(energy, self.enough)
        active = F.logical_and(going, F.logical_and(F.logical_not(enough), left))
        beta = F.select(active, quotient(energy, self.energy), 0.0)
        return [
            *held,
            *zip(self.change, change, strict=True),
            *zip(self.residual, residual, strict=True),
            *((x, y + x * beta) for x, y in zip(p, z, strict=True)),
            (self.energy, energy),
            (self.decrease, decrease),
            (self.inner, inner),
            *set_flag(self._state, SOLVING, active),
            *((self._state[name], value) for name, value in zip(FACTORS, (alpha, beta), strict=True)),
        ]
