"""Preconditioned conjugate gradients for (J^T J + D) d = -J^T r (Opt, figure 6), free and between bounds.

``start`` is part of the linearisation, ``iterate`` is run again and again. All of it stays on the device:
step lengths and the decision to stop are Variables, one for each problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ... import functional as F
from ...graph import Variable
from ...optim.constraints import FAR
from ...optim.optimizer import VANISHED, State, state_leaf
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


# Conjugate gradients for a quadratic model between bounds, as two Programs (MPRGP, Dostal 2005).
#
#     min 1/2 d^T A d + d^T g,    low <= d <= high
#
# Iterations move on a *face*: entries at their bound stay. A step that meets a bound ends there, and the
# entries that met it join the face; ``project`` then tries the rest of the step along the projected path, and
# keeps it where the model falls. When what entries at bounds would gain outweighs what the face has left, they are
# released. Every iteration lowers the model, and all d are feasible.

HIT, BEYOND = "hit", "beyond"
"""State leaves: whether a step met a bound, and the part of its length that was left."""

Limits = Sequence[tuple[Variable, Variable] | None]
"""The lowest and highest change of each unknown; None: any."""


def face_states(unknowns: Sequence[Variable], names: Sequence[str], problems: int) -> State:
    """The state leaves of a bounded solve, by name."""
    made = [state_leaf(x, f"{n}.face") for x, n in zip(unknowns, names, strict=True)]
    made += [scalar(HIT, problems), scalar(BEYOND, problems)]
    return {str(leaf.name): leaf for leaf in made}


@dataclass
class Face(Normal):
    """The system on a face: entries where ``free`` is 0 do not move."""

    free: list[Variable] = field(default_factory=list)

    def precondition(self, r: Vector) -> tuple[list[Variable], Updates]:
        z, held = super().precondition(masked(r, self.free))
        return masked(z, self.free), held


def masked(r: Vector, masks: Vector) -> list[Variable]:
    return [F.hadamard(m, x) for m, x in zip(masks, r, strict=True)]


def both(a: Variable, b: Variable) -> Variable:
    """The masks a and b, by components."""
    return F.hadamard(a, b) if not a.vtype.is_scalar and not b.vtype.is_scalar else a * b


class BoundedGradient(ConjugateGradient):
    """The updates of the state of the iterations between bounds; see ``ConjugateGradient``."""

    def __init__(self, state, names, axes, tolerance, forcing, limits: Limits):
        super().__init__(state, names, axes, tolerance, forcing)
        self.free = [state[f"{n}.face"] for n in names]
        self.hit, self.beyond = state[HIT], state[BEYOND]
        self.low = [-FAR + F.zeros_like(d) if p is None else p[0] for p, d in zip(limits, self.change)]
        self.high = [FAR + F.zeros_like(d) if p is None else p[1] for p, d in zip(limits, self.change)]

    def start(self, system, gradient, allowed, cost):
        free = []
        for g, low, high in zip(gradient, self.low, self.high, strict=True):
            down = both(F.greater_equal(low, 0.0), F.greater_equal(g, 0.0))
            up = both(F.less_equal(high, 0.0), F.less_equal(g, 0.0))
            free.append(F.select(F.maximum(down, up), 0.0, F.zeros_like(g) + 1.0))
        updates = dict(super().start(self._on(system, free), masked(gradient, free), allowed, cost))
        updates |= {r: -g for r, g in zip(self.residual, gradient, strict=True)}
        return [*updates.items(), *zip(self.free, free, strict=True), (self.hit, self.hit * 0.0)]

    def _on(self, system: Normal, free: Sequence[Variable]) -> Face:
        return Face(**vars(system), free=list(free))

    def iterate(self, system, *, anew=False):
        p = self.direction
        q = system.apply(p)
        curvature, slope = dot(p, q, self.axes), dot(self.residual, p, self.axes)
        going = F.logical_and(self.active, F.greater(curvature, 0.0))
        whole = F.select(going, quotient(slope, curvature), 0.0)
        rooms = [self._room(*both) for both in zip(p, self.change, self.low, self.high, strict=True)]
        room = least(rooms, self.axes)
        hit = F.logical_and(going, F.less_equal(room, whole))
        alpha = F.select(hit, room, whole)
        change, free = [], []
        each = zip(self.change, p, self.low, self.high, self.free, rooms, strict=True)
        for d, x, low, high, mask, own in each:
            change.append(F.clamp(d + x * alpha, low, high))
            met = F.less_equal(own, room * (1.0 + 1e-6)) * hit
            free.append(F.select(met, 0.0, mask))
        if anew:
            residual = [-g - x for g, x in zip(self.gradient, system.apply(change), strict=True)]
        else:
            residual = [r - x * alpha for r, x in zip(self.residual, q, strict=True)]
        gain = alpha * slope - 0.5 * alpha * alpha * curvature
        on, release, updates, z, _ = self._judge(system, change, residual, free, going, gain, hit)
        beta = -quotient(dot(z, q, self.axes), curvature)
        directions = [
            F.select(hit, x, F.select(release, s, y + x * beta))
            for x, y, s in zip(p, z, self._steepest(system, residual, on), strict=True)
        ]
        return [
            *updates,
            *zip(self.direction, directions, strict=True),
            *set_flag(self._state, HIT, hit),
            (self.beyond, F.select(hit, whole - room, 0.0)),
        ]

    def project(self, system: Normal) -> Updates:
        """Updates where a step met a bound: the rest of it along the projected path, if that helps."""
        change, free = [], []
        for d, x, low, high in zip(self.change, self.direction, self.low, self.high, strict=True):
            change.append(F.clamp(d + x * self.beyond, low, high))
        # The entries that met their bound first still point outward, and stay.
        step = [y - d for y, d in zip(change, self.change, strict=True)]
        product = system.apply(step)
        gain = dot(self.residual, step, self.axes) - 0.5 * dot(step, product, self.axes)
        better = F.logical_and(self.hit, F.greater(gain, 0.0))
        each = zip(change, self.direction, self.low, self.high, self.free, strict=True)
        for y, x, low, high, mask in each:
            up = both(F.greater(x, 0.0), F.greater_equal(y, high))
            down = both(F.less(x, 0.0), F.less_equal(y, low))
            free.append(F.select(F.maximum(up, down) * better, 0.0, mask))
        change = [F.select(better, y, d) for y, d in zip(change, self.change, strict=True)]
        residual = [F.select(better, r - a, r) for r, a in zip(self.residual, product, strict=True)]
        gain = F.select(better, gain, 0.0)
        on, release, updates, z, energy = self._judge(
            system, change, residual, free, self.active, gain, self.hit
        )
        first = [
            F.select(self.hit, F.select(release, s, y), x)
            for x, y, s in zip(self.direction, z, self._steepest(system, residual, on), strict=True)
        ]
        updates = [(leaf, F.select(self.hit, new, leaf)) for leaf, new in updates]
        # On a face with nothing left, and nothing worth a release, the solve has ended.
        left = F.logical_or(release, F.greater(energy, self.enough))
        active = F.select(self.hit, F.logical_and(self.active, left), self.active)
        updates = [(leaf, active if leaf is self.active else new) for leaf, new in updates]
        return [*updates, *zip(self.direction, first, strict=True), (self.hit, self.hit * 0.0)]

    def _room(self, p: Variable, d: Variable, low: Variable, high: Variable) -> Variable:
        """How many times p fits between d and its bounds, by components."""
        moves = F.greater(F.abs(p), VANISHED)
        end = F.select(F.greater(p, 0.0), high, low)
        rooms = F.hadamard(end - d, 1.0 / F.select(moves, p, 1.0))
        return F.select(moves, F.clamp(rooms, 0.0, FAR), FAR)

    def _steepest(self, system: Normal, r: Vector, free: Vector) -> list[Variable]:
        scaled = [F.hadamard(x, reciprocal(d)) for x, d in zip(r, system.whole, strict=True)]
        return masked(scaled, free)

    def _judge(
        self, system: Normal, change: Vector, residual: Vector, free: Vector, going: Variable, gain: Variable,
        hit: Variable,
    ) -> tuple[list[Variable], Variable, Updates, list[Variable], Variable]:  # fmt: skip
        """Whether to release entries, and the updates of what does not depend on the direction: the face
        then, the mask of release, the updates, the preconditioned residual and its energy."""
        z, held = self._on(system, free).precondition(residual)
        energy = dot(masked(residual, free), z, self.axes)
        inward = []
        for d, r, low, high, mask in zip(change, residual, self.low, self.high, free, strict=True):
            lower = F.less_equal(d - low, high - d)
            inside = F.select(lower, F.greater(r, 0.0), F.less(r, 0.0))
            inward.append(F.hadamard(both(inside, F.less(low, high)), 1.0 - mask))
        scaled = self._steepest(system, residual, inward)
        chopped = dot(residual, scaled, self.axes)
        decrease, inner_ = self.decrease + gain, self.inner + going
        enough = F.less(inner_ * gain, self.tolerance * decrease)
        done = F.logical_or(F.logical_and(enough, F.logical_not(hit)), F.less_equal(energy, self.enough))
        worth = F.greater(chopped, F.maximum(self.enough, self.tolerance * decrease))
        release = F.logical_and(F.logical_and(going, worth), F.logical_or(done, F.greater(chopped, energy)))
        on = [m + i * release for m, i in zip(free, inward, strict=True)]
        active = F.logical_and(going, F.logical_or(hit, F.logical_or(F.logical_not(done), release)))
        updates: Updates = [
            *held,
            *zip(self.change, change, strict=True),
            *zip(self.residual, residual, strict=True),
            *zip(self.free, on, strict=True),
            (self.energy, energy),
            (self.decrease, decrease),
            (self.inner, inner_),
            *set_flag(self._state, SOLVING, active),
        ]
        return on, release, updates, z, energy


def least(rooms: Vector, axes: str) -> Variable:
    """The least component of all, FLOAT of each problem."""
    own = [-F.max(F.max_component(-x), axes) for x in rooms]
    found = own[0]
    for one in own[1:]:
        found = F.minimum(found, one)
    return found
