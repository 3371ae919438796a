"""L-BFGS with a line search: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..graph.program import Part, Procedure, Program
from ..graph.types import FLOAT, whole
from ..ops.pixel.arithmetic import total
from ..transform.gradient import gradient
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from .constraints import Constraints
from .optimizer import STEP, VANISHED, State, check_clock, clock, names, state_leaf
from .schedules import check_constant

__all__ = ["LBFGS"]

ARMIJO = 1e-4
"""The part of the decrease that the slope promises which a step has to reach."""
VECTORS = ("slope", "direction", "step")
NUMBERS = {
    "running": 1.0, "stopped": 0.0, "searching": 0.0, "length": 1.0, "before": 0.0, "pairs": 0.0, "fresh": 1.0
}  # fmt: skip
Updates = list[tuple[Variable, Variable]]


def dot(a: Sequence[Variable], b: Sequence[Variable]) -> Variable:
    """The inner product over all numbers, FLOAT of one texel."""
    products = [F.hadamard(x, y) for x, y in zip(a, b, strict=True)]
    return total([F.sum(p if p.vtype is FLOAT else F.sum_components(p)) for p in products])


@dataclass(frozen=True)
class LBFGS:
    """Quasi-Newton steps from the last changes of the gradient; for ``DressiAD.set_optimizer`` with any loss
    that does not change between steps.

    A step takes the first length of 1, and shorter ones by quadratic interpolation, for which the loss falls
    by at least 1e-4 of what the slope promises (Armijo). Pairs without positive curvature are left out.
    Between bounds, entries at one that the slope presses on do not move, and the step is projected
    (Bertsekas 1982).

    memory: how many pairs are kept. function_tolerance: the optimisation ends when a step changes the loss by
    less than this part; ``DressiAD.stopped`` says so, and further steps do nothing until a leaf is sent.
    line_search: lengths that are tried at most. counter: as of ``optim.Clocked``. Raises GraphError.

    >>> x = Variable.of([-1.2, 1.0, -1.2, 1.0, -1.2], name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.sum(F.square(F.square(x) - 2.0) + F.square(x - 1.0)))
    ...     ad.set_optimizer(optim.LBFGS(), [x])
    ...     ad.step(60)
    ...     ad.recv(x).astype(float).round(2).tolist(), ad.stopped()[:18]
    ([-1.0, 1.37, -1.0, 1.37, -1.0], 'function tolerance')
    """

    memory: int = 8
    function_tolerance: float = 1e-6
    line_search: int = 20
    counter: Variable | None = None

    def __post_init__(self) -> None:
        whole(self.memory, "the number of pairs", 1)
        whole(self.line_search, "the number of lengths", 1)
        check_constant(self.function_tolerance, "function_tolerance of LBFGS", 0.0)
        if self.counter is not None:
            check_clock(self.counter)

    def states(self, parameters: Sequence[Variable], constraints: Constraints) -> State:
        """New state leaves by name, with the step counter. Raises GraphError for integers."""
        unknowns = [u for p in parameters for u in constraints.unknowns[p]]
        for p in unknowns:
            if p.vtype.is_int:
                raise GraphError(f"{p} holds integers and cannot be optimized")
        pairs = [f"{kind}{k}" for kind in ("lbfgs_s", "lbfgs_y") for k in range(self.memory)]
        own = [
            state_leaf(u, f"{n}.{v}")
            for u, n in zip(unknowns, names(unknowns), strict=True)
            for v in (*VECTORS, *pairs)
        ]
        own += [Variable(FLOAT, name=n, data=np.full((1, 1, 1), value)) for n, value in NUMBERS.items()]
        return {str(v.name): v for v in own} | {STEP: clock() if self.counter is None else self.counter}

    def procedure(
        self, loss: Variable, parameters: Sequence[Variable], moving: Sequence[Variable], state: State,
        record: Updates, constraints: Constraints,
    ) -> Procedure:  # fmt: skip
        """The parts of a step. moving: the parameters that are not frozen. record: further updates."""
        every = [u for p in parameters for u in constraints.unknowns[p]]
        name_of = dict(zip(every, names(every), strict=True))
        of = {p: constraints.unknowns[p] for p in moving}
        unknowns = [u for own in of.values() for u in own]

        def vectors(kind: str) -> list[Variable]:
            return [state[f"{name_of[u]}.{kind}"] for u in unknowns]

        running, searching, length = (state[n] for n in ("running", "searching", "length"))
        before, pairs, fresh, stopped = (state[n] for n in ("before", "pairs", "fresh", "stopped"))
        slope, direction, step = (vectors(kind) for kind in VECTORS)
        s = [vectors(f"lbfgs_s{k}") for k in range(self.memory)]
        y = [vectors(f"lbfgs_y{k}") for k in range(self.memory)]

        # The new gradient, the pair of the last step in front of the others, and the direction.
        slopes = zip(of, gradient(loss, list(of)), strict=True)
        new = [g for p, own in slopes for g in constraints.by_unknowns(p, own)]
        change = [a - b for a, b in zip(new, slope, strict=True)]
        curvature = dot(step, change)
        enough = F.greater(curvature, 1e-7 * F.sqrt(dot(step, step) * dot(change, change)) + VANISHED)
        kept = F.logical_and(enough, F.logical_not(fresh))
        count = F.select(fresh, 0.0, F.minimum(pairs + kept, float(self.memory)))

        def pushed(newest: list[Variable], old: list[list[Variable]]) -> list[list[Variable]]:
            shifted = [newest, *old[:-1]]
            return [
                [F.select(kept, a, b) for a, b in zip(one, other, strict=True)]
                for one, other in zip(shifted, old, strict=True)
            ]

        new_s, new_y = pushed(list(step), s), pushed(change, y)
        free = [self._free(constraints, u, g) for u, g in zip(unknowns, new, strict=True)]
        pressed = [F.hadamard(m, g) for m, g in zip(free, new, strict=True)]
        found = self._two_loops(pressed, new_s, new_y, count)
        found = [F.hadamard(m, -d) for m, d in zip(free, found, strict=True)]
        down = F.less(dot(found, new), 0.0)
        found = [F.select(down, d, -g) for d, g in zip(found, pressed, strict=True)]
        # Nothing is known of the scale at first: no component moves by more than 1.
        steep = F.maximum(F.sqrt(dot(pressed, pressed)), 1.0)
        first: Updates = [
            *zip(slope, new, strict=True),
            *zip(direction, found, strict=True),
            *((a, b) for mine, news in ((s, new_s), (y, new_y)) for k, n in zip(mine, news, strict=True)
              for a, b in zip(k, n, strict=True)),
            (before, loss),
            (length, F.select(F.greater(count, 0.0), 1.0, 1.0 / steep)),
            (pairs, count),
            (fresh, fresh * 0.0),
            (stopped, stopped * 0.0),
            (searching, searching * 0.0 + 1.0),
            *record,
        ]  # fmt: skip
        first = [(leaf, F.select(running, value, leaf)) for leaf, value in first]

        # One length of the search.
        trial = {p: constraints.value(p, [u + d * length for u, d in self._pairs(of[p], unknowns, direction)])
                 for p in of}  # fmt: skip
        moved = [
            (trial[p] - p if own == [p] else d * length)
            for p, own in of.items()
            for _, d in self._pairs(own, unknowns, direction)
        ]
        places = {p: Variable(p.vtype, p.size, p.batch, channels=p.channels) for p in of}
        there = substitute(substitute([loss], places), {places[p]: v for p, v in trial.items()})[0]
        promised = dot(slope, moved)
        fine = F.logical_and(F.less_equal(there, before + ARMIJO * promised), F.less(F.abs(there), 1e38))
        accepted = F.logical_and(searching, fine)
        curve = there - before - promised
        usual = F.logical_and(F.greater(curve, VANISHED), F.less(F.abs(there), 1e38))
        factor = F.select(usual, -0.5 * promised / F.select(usual, curve, 1.0), 0.1)
        settled = F.less_equal(F.abs(before - there), self.function_tolerance * F.abs(before))
        ended = F.logical_and(accepted, settled)
        search: Updates = [
            *((p, F.select(accepted, v, p)) for p, v in trial.items()),
            *((a, F.select(accepted, b, a)) for a, b in zip(step, moved, strict=True)),
            (length, F.select(searching, length * F.clamp(factor, 0.1, 0.5), length)),
            (stopped, F.select(ended, 1.0, stopped)),
            (running, F.select(ended, 0.0, running)),
            (searching, F.select(accepted, 0.0, searching)),
        ]
        # A search that failed is made again along the slope alone, and the optimisation ends if that fails.
        failed = F.logical_and(searching, F.less(pairs, 0.5))
        count_up: Updates = [
            (state[STEP], state[STEP] + 1),
            (fresh, F.maximum(fresh, searching)),
            (stopped, F.select(failed, 2.0, stopped)),
            (running, F.select(failed, 0.0, running)),
            (searching, searching * 0.0),
        ]
        parts = (
            _part("direction", first, running),
            _part("search", search, searching, self.line_search),
            _part("count", count_up),
        )
        return Procedure(parts, restart=(running, fresh))

    def _pairs(self, own, unknowns, vectors):
        return [(u, v) for u, v in zip(unknowns, vectors, strict=True) if any(u is o for o in own)]

    def _free(self, constraints: Constraints, u: Variable, g: Variable) -> Variable:
        """Ones, and zeros at bounds that the slope presses on."""
        ones, pair = F.zeros_like(g) + 1.0, constraints.limits(u)
        if pair is None:
            return ones
        low = F.hadamard(F.less_equal(u, pair[0]), F.greater_equal(g, 0.0))
        high = F.hadamard(F.greater_equal(u, pair[1]), F.less_equal(g, 0.0))
        return F.select(F.maximum(low, high), 0.0, ones)

    def _two_loops(self, q: list[Variable], s, y, count: Variable) -> list[Variable]:
        """About the inverse of the Hessian times q."""
        shares = []
        for k, (a, b) in enumerate(zip(s, y, strict=True)):
            known = F.greater(count, k + 0.5)
            product = dot(a, b)
            inverse = F.select(known, 1.0 / F.select(known, product, 1.0), 0.0)
            alpha = inverse * dot(a, q)
            q = [x - v * alpha for x, v in zip(q, b, strict=True)]
            shares.append((alpha, inverse))
        known = F.greater(count, 0.5)
        scale = dot(s[0], y[0]) / F.select(known, dot(y[0], y[0]), 1.0)
        q = [x * F.select(known, scale, 1.0) for x in q]
        for (alpha, inverse), a, b in reversed(list(zip(shares, s, y, strict=True))):
            beta = inverse * dot(b, q)
            q = [x + v * (alpha - beta) for x, v in zip(q, a, strict=True)]
        return q


def _part(name: str, updates: Updates, gate: Variable | None = None, times: int = 1) -> Part:
    program = Program({}, tuple((leaf, F.fit(value, leaf)) for leaf, value in updates))
    program.check()
    return Part(name, simplify(program), times, gate)
