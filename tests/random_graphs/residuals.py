"""Random least-squares problems with channels in residuals and unknowns, step by step against dense matrices in float64.

Each step is checked from the unknowns that the device had before it, so that nothing depends on how small differences grow:
cost, J^T r, the diagonal of J^T J, how far the linear solve lowers the quadratic model, whether the step is taken, and what
becomes of the trust region. The Jacobian is made by differences of the residuals in float64; products with it and with the
Hessian of the cost, as the device computes them, are compared with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from residual_graphs import Dense, Drawn, depends, draw, flat, leaves, unflat

from dressi import FLOAT, DressiAD, GaussNewton, LevenbergMarquardt, Variable, gradient, hvp, least_squares
from dressi.ad import functional as F
from dressi.ad import networks
from dressi.ad.graph.evaluation import Evaluator
from dressi.ad.graph.traversal import topological_order
from dressi.ad.least_squares import Energy, Jacobian, Kernel, Robust, diagonal
from dressi.ad.least_squares.linear.direct import FEW
from dressi.ad.least_squares.linear.vectors import numbers_of
from dressi.ad.ops.pixel.kinds import Shortcut
from random_graphs.check import Report

STEPS = 3
EPS = 2.0**-24
VANISHED = 1e-10
"""A decrease of the cost that may come from rounding residuals of about 1."""
ROUNDINGS = 4000.0
"""Of single precision, of the sum of absolute terms, by which values of a step may be off."""
ROOM = 0.02
"""What a residual is made of is of about 1, however small it is itself: this part of that is rounded as often."""
LARGEST = 50.0
"""Unknowns that are larger than this, as steps without a trust region leave them, have residuals that overflow or
saturate, and derivatives of which rounding leaves little."""
NEAR = 0.9
"""The part of the best decrease of the quadratic model that a linear solve reaches where the system is not ill-conditioned."""
STEEP = 1e5
"""The condition number of the system, with its diagonal scaled to 1, from which on less of it is asked for."""


@dataclass
class Problem:
    """drawn: residuals and unknowns. kernels: a robust kernel of each residual, or None. solver: of one step at a time."""

    drawn: Drawn
    kernels: list[Kernel | None]
    solver: GaussNewton | LevenbergMarquardt

    @property
    def energy(self) -> list[Any]:
        pairs = zip(self.drawn.residuals, self.kernels, strict=True)
        return [r if k is None else Robust(r, k) for r, k in pairs]


def random_problem(seed: int) -> Problem:
    """Equal seeds give equal problems."""
    random = Random(seed)
    problems = random.choice((None, None, None, 2, 3))
    if random.random() < 0.3:
        drawn = network(random, problems)
    else:
        switches = {name: random.random() < 0.5 for name in ("computed", "reduced", "contracted")}
        drawn = draw(random, ways=random.choice((1, 2)), problems=problems, **switches)
    if random.random() < 0.2:
        drawn = with_computed_arrays(drawn)
    kernels: list[Kernel | None] = []
    for _ in drawn.residuals:
        kinds = (least_squares.huber, least_squares.cauchy, least_squares.tukey)
        kernels.append(random.choice(kinds)(random.uniform(0.5, 3.0)) if random.random() < 0.25 else None)
    options: dict[str, Any] = {
        "preconditioner": random.choice(
            (
                None,
                least_squares.Jacobi(),
                least_squares.BlockJacobi(),
                least_squares.Multilevel(),
                least_squares.Multilevel(smallest=2),
            )
        ),
        "independent": problems is not None,
        "reset": random.choice((0, 10)),
        "iterations": 20 + 2 * sum(numbers_of(u, problems is not None) for u in drawn.unknowns),
        "tolerance": 0.0,
        "function_tolerance": 0.0,
    }
    if random.random() < 0.5:
        solver: GaussNewton | LevenbergMarquardt = GaussNewton(**options, line_search=random.choice((0, 10)))
    else:
        solver = LevenbergMarquardt(**options, radius=random.choice((1.0, 1e2, 1e4)))
    return Problem(drawn, kernels, solver)


def network(random: Random, problems: int | None) -> Drawn:
    """Weights of a small network, some of which are held, fitted to data; of independent problems an image each, whose
    input is fitted."""
    numbers = np.random.default_rng(random.randrange(1000))
    inputs, outputs = random.choice((2, 3)), random.choice((1, 2, 3))
    hidden = [random.randint(1, 6) for _ in range(random.randint(0, 2))]
    layers = networks.parameters({"net": networks.mlp_init(numbers, (inputs, *hidden, outputs))})
    batch = problems or random.choice((1, 1, 2))
    size = random.randint(2, 6), random.randint(1, 4)
    image = Variable(FLOAT, size, batch, channels=inputs, name="image")
    image.data = numbers.uniform(-1.0, 1.0, image.shape)
    target = Variable(FLOAT, size, batch, channels=outputs, name="target")
    target.data = numbers.uniform(-1.0, 1.0, target.shape)
    activation = random.choice((F.tanh, F.silu, F.sin, F.sigmoid))
    made = networks.mlp(layers["net"], image, activation)
    residuals = [made - target, 0.1 * (image - 0.2)]
    weights = networks.variables(layers)
    if problems is not None:
        return Drawn(tuple(residuals), (image,))
    kept = [w for w in weights if random.random() < 0.7] or weights[:1]
    if random.random() < 0.3:
        kept.append(image)
    residuals += [0.05 * w for w in kept if random.random() < 0.7]
    return Drawn(tuple(r for r in residuals if depends([r], kept)), tuple(kept))


def with_computed_arrays(drawn: Drawn) -> Drawn:
    """Residuals whose last Function is linearized: its derivative stands in images."""
    found = []
    for r in drawn.residuals:
        f = r.creator
        inputs = [] if f is None else [x for x in f.inputs if not x.vtype.is_int]
        moving = [x for x in dict.fromkeys(inputs) if depends([x], drawn.unknowns)]
        pixel = f is not None and all(a.name == "SAME_PIXEL" for a in f.access) and moving
        found.append(least_squares.linearized(r, moving) if pixel else r)
    return Drawn(tuple(found), drawn.unknowns)


class Meaning:
    """The energy of a problem in float64. Numbers of residuals and unknowns stand behind each other; ``of`` tells which
    problem each of them belongs to."""

    def __init__(self, problem: Problem):
        self.drawn, self.kernels = problem.drawn, problem.kernels
        self.dense = Dense(problem.drawn)
        independent = problem.solver.independent
        self.problems = problem.drawn.unknowns[0].batch if independent else 1
        self.rows = self._owners(problem.drawn.residuals, independent)
        self.columns = self._owners(problem.drawn.unknowns, independent)

    @staticmethod
    def _owners(values: Sequence[Variable], independent: bool) -> np.ndarray:
        counts = [(v.batch if independent else 1, int(np.prod(v.shape))) for v in values]
        return np.concatenate([np.repeat(np.arange(n), numbers // n) for n, numbers in counts])

    def weighed(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each number of the residuals rho of its texel, over the components of the texel, and sqrt(rho')."""
        rho, root, first = [], [], 0
        for v, kernel in zip(self.drawn.residuals, self.kernels, strict=True):
            part = r[first : (first := first + int(np.prod(v.shape)))].reshape(-1, v.vtype.components)
            s = np.square(part).sum(1, keepdims=True)
            value, slope = (s, np.ones_like(s)) if kernel is None else of_kernel(kernel, s)
            rho.append(np.broadcast_to(value / v.vtype.components, part.shape).ravel())
            root.append(np.broadcast_to(np.sqrt(slope), part.shape).ravel())
        return np.concatenate(rho), np.concatenate(root)

    def costs(self, x: np.ndarray) -> np.ndarray:
        """Of each problem."""
        rho, _ = self.weighed(self.dense.residuals(x))
        return np.bincount(self.rows, 0.5 * rho, self.problems)


def of_kernel(kernel: Kernel, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """rho(s) and its derivative, written anew."""
    w = kernel.width
    far = s > w * w
    match type(kernel).__name__:
        case "Huber":
            root = np.sqrt(np.maximum(s, w * w))
            return np.where(far, 2 * w * root - w * w, s), np.where(far, w / root, 1.0)
        case "Cauchy":
            return w * w * np.log1p(s / (w * w)), 1.0 / (1.0 + s / (w * w))
        case _:
            inside = np.where(far, 0.0, 1.0 - s / (w * w))
            return w * w / 3 * (1.0 - inside**3), inside**2


def check_residuals(seed: int, device, steps: int = STEPS) -> Report:
    """Solves the problem of a seed for a few steps."""
    problem = random_problem(seed)
    report = Report(seed, len(topological_order(problem.drawn.residuals)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numbers that change no residual are said
        with DressiAD(device) as ad:
            ad.set_loss(problem.energy)
            ad.set_optimizer(problem.solver, list(problem.drawn.unknowns))
            Check(problem, ad, report).run(steps)
    return report


class Check:
    """The checks of each step."""

    def __init__(self, problem: Problem, ad: DressiAD, report: Report):
        self.problem, self.ad, self.report = problem, ad, report
        self.meaning, self.solver = Meaning(problem), problem.solver
        self.local, self.state = self._local(), ad.state()
        self.names = [u.name or f"parameter{k}" for k, u in enumerate(problem.drawn.unknowns)]

    def run(self, steps: int) -> None:
        self.products()
        for k in range(steps):
            before, radius = self.unknowns(), self.state.get("radius", np.inf)
            self.ad.step()
            self.state = self.ad.state()
            self.step(k, before, np.broadcast_to(np.asarray(radius, float).ravel(), self.meaning.problems))
            if not np.abs(self.unknowns()).max() < LARGEST:
                return

    def unknowns(self) -> np.ndarray:
        return flat([self.state[name] for name in self.names])

    def _local(self) -> tuple[Evaluator, np.ndarray] | None:
        """diag(J^T J) of the residuals that read the unknowns along paths, and a mask of the numbers of the others, whose part is
        the sum of squares; None where it is estimated."""
        drawn, independent = self.problem.drawn, self.solver.independent
        weighed = Energy(self.problem.energy).linearized()
        values, rest = diagonal(weighed, drawn.unknowns)
        if rest and sum(numbers_of(u, independent) for u in drawn.unknowns) > FEW:
            return None
        others = [np.full(int(np.prod(r.shape)), r in set(rest)) for r in weighed]
        return Evaluator(values), np.concatenate(others)

    def near(self, what: str, found: np.ndarray, exact: np.ndarray, room: np.ndarray | float) -> None:
        """room: the sum of the absolute values that the exact one is made of."""
        found, exact = np.asarray(found, float).ravel(), np.asarray(exact).ravel()
        self.report.compared += exact.size
        off, allowed = np.abs(found - exact), ROUNDINGS * EPS * np.broadcast_to(room, exact.shape) + 1e-7
        worst = int(np.argmax(np.where(np.isfinite(off), off / allowed, np.inf)))
        self.report.worst = max(self.report.worst, float(off[worst] / max(np.max(np.abs(exact)), 1e-3)))
        if not off[worst] <= allowed[worst]:
            text = f"{what} number {worst} is off float64 by {off[worst]:.3g} of {exact[worst]:.6g}"
            self.report.failures.append(f"{text}, allowed {allowed[worst]:.3g}")

    def vectors(self, kind: str) -> np.ndarray:
        return flat([self.state[f"{name}.{kind}"] for name in self.names])

    def products(self) -> None:
        """J p, J^T s and H p by the device, at the start."""
        drawn, dense = self.problem.drawn, self.meaning.dense
        x = flat([u.data for u in drawn.unknowns if u.data is not None])
        jacobian, numbers = dense.jacobian(x), np.random.default_rng(0)
        p, s = (numbers.normal(size=n).astype(np.float32).astype(float) for n in jacobian.T.shape)
        along, seeds = leaves(p, drawn.unknowns), leaves(s, drawn.residuals)
        product, cost = Jacobian(drawn.residuals, drawn.unknowns), Energy(drawn.residuals).cost()
        read = [product.forward(along), product.reverse(seeds), hvp(cost, drawn.unknowns, along)]
        values = iter(self.ad.evaluate([v for part in read for v in part]))
        forward, reverse, curved = (flat([next(values) for _ in part]) for part in read)
        size, room = np.abs(jacobian), 1e-3 * np.abs(jacobian).max(initial=0.0)
        self.near("J p", forward, jacobian @ p, size @ np.abs(p) + room)
        self.near("J^T s", reverse, jacobian.T @ s, size.T @ np.abs(s) + room)
        if any(isinstance(f, Shortcut) for f in topological_order(drawn.residuals)):
            return  # the second derivatives of computed arrays are zero
        slopes, h = Evaluator(gradient(cost, drawn.unknowns)), 1e-5
        more, less = (
            flat(slopes(dict(zip(drawn.unknowns, unflat(x + d * p, drawn.unknowns), strict=True))))
            for d in (h, -h)
        )
        exact = (more - less) / (2 * h)
        self.near("H p", curved, exact, np.abs(exact).max(initial=0.0) + size.max(initial=0.0) ** 2)

    def step(self, number: int, x: np.ndarray, radius: np.ndarray) -> None:
        meaning, state = self.meaning, self.state
        r, jacobian = meaning.dense.residuals(x), meaning.dense.jacobian(x)
        rho, root = meaning.weighed(r)
        weighed, residual = jacobian * root[:, None], r * root
        say = f"step {number}:"
        cost = np.bincount(meaning.rows, 0.5 * rho, meaning.problems)
        self.near(f"{say} cost", state["cost"], cost, 0.05 * cost + 1e-3 * np.abs(r).max(initial=0.0))
        size = np.abs(weighed).T @ (np.abs(residual) + ROOM) + 5e-3 * np.abs(weighed).max(initial=0.0)
        self.near(f"{say} J^T r", self.vectors("gradient"), weighed.T @ residual, size)
        squares, mine = np.square(weighed).sum(0), self.vectors("diagonal")
        self.report.compared += mine.size
        if self.local is not None:
            run, others = self.local
            given = dict(
                zip(self.problem.drawn.unknowns, unflat(x, self.problem.drawn.unknowns), strict=True)
            )
            exact = flat(run(given)) + np.square(weighed[others]).sum(0)
            self.near(f"{say} the diagonal", mine, exact, exact + 1e-3 * exact.max(initial=0.0))
        counted = squares > 1e-5 * max(squares.max(initial=0.0), 1.0)
        if not (np.isfinite(mine).all() and (mine >= 0).all() and (mine[counted] > 0).all()):
            self.report.failures.append(f"{say} the diagonal is {mine} where it is {squares}")
            return
        change, after = self.vectors("change"), self.unknowns()
        for k in range(meaning.problems):
            rows, columns = meaning.rows == k, meaning.columns == k
            own = weighed[np.ix_(rows, columns)]
            normal, slope = own.T @ own, own.T @ residual[rows]
            damped = normal
            if isinstance(self.solver, LevenbergMarquardt):
                damped = normal + np.diag(np.clip(mine[columns], 1e-6, 1e32) / radius[k])
            noise = 64 * EPS * np.abs(own).max(initial=0.0) * np.abs(change[columns]).sum()
            self.solve(f"{say} problem {k}", damped, slope, change[columns], cost[k], noise)
            self.moved(f"{say} problem {k}", x, after, change, columns, k, radius, slope, normal, cost[k])

    def solve(
        self, say: str, damped: np.ndarray, slope: np.ndarray, d: np.ndarray, cost: float, noise: float
    ) -> None:
        """Whether the change lowers the quadratic model nearly as far as the best one. noise: what rounding of the Jacobian
        makes of the change in a residual."""
        self.report.compared += 1
        root = np.sqrt(np.maximum(np.diag(damped), 1e-30))
        scaled = damped / np.outer(root, root)
        best = -np.linalg.lstsq(scaled, slope / root, rcond=1e-12)[0] / root
        lowest, found = (-(slope @ v + 0.5 * v @ damped @ v) for v in (best, d))
        if lowest <= 1e-6 * cost + VANISHED:
            return
        values = np.linalg.eigvalsh(scaled)
        values = values[values > 1e-9 * values[-1]]
        steep = values[-1] / values[0]
        plain = self.solver.preconditioner is None and root.max() > 30 * root[root > 1e-12].min()
        part = NEAR if steep < STEEP and not plain else 0.3
        slack = noise * (np.sqrt(2 * cost) + noise)
        if not part * lowest - slack <= found <= lowest * (1 + 1e-4) + 1e-6 * cost:
            self.report.failures.append(
                f"{say}: the linear solve lowers the model by {found:.6g} of {lowest:.6g}, condition {steep:.3g}"
            )

    def moved(self, say, x, after, change, columns, k, radius, slope, normal, cost) -> None:
        """Whether the step is taken that the method takes."""
        self.report.compared += 1
        moving = np.where(columns, change, 0.0)
        lengths = np.array([1.0])
        if isinstance(self.solver, GaussNewton) and self.solver.line_search:
            lengths = 0.5 ** np.arange(self.solver.line_search + 1)
        promised = -(slope @ change[columns] + 0.5 * change[columns] @ normal @ change[columns])
        taken, sure = 0.0, True
        for length in lengths:
            gain = cost - self.meaning.costs(x + length * moving)[k]
            if isinstance(self.solver, LevenbergMarquardt):
                threshold = 1e-3 * promised
            elif self.solver.line_search:
                threshold = 2e-4 * length * promised
            else:
                taken = 1.0
                break
            sure = sure and abs(gain - threshold) > 1e-4 * cost + VANISHED
            if np.isfinite(gain) and gain > threshold:
                taken = length
                break
        else:
            gain = cost - self.meaning.costs(x + moving)[k]
        expected = x + taken * moving
        if sure:
            own = np.abs(x) + np.abs(change) + 1e-3
            self.near(f"{say}: unknowns", after[columns], expected[columns], 0.01 * own[columns])
        if isinstance(self.solver, LevenbergMarquardt) and sure and promised > 1e-4 * cost:
            ratio = gain / promised
            new = radius[k] / max(1 / 3, 1 - (2 * ratio - 1) ** 3) if taken else radius[k] / 2.0
            found = float(np.asarray(self.state["radius"]).ravel()[k])
            if taken and not 0.95 * new <= found <= 1.05 * new:
                self.report.failures.append(f"{say}: the radius is {found:.6g}, not {new:.6g}")
