"""A double pendulum swings up with the least torque: space-time optimisation by Gauss-Newton, beside Adam.

    python apps/derivatives/swing_up.py --out out/swing_up --json out/swing_up.json

The joint angles are cubic B-splines of time. The torques are those of ``problems.Chain``;
their Jacobian by angles, velocities and accelerations, two rows of six, and they become one NumPy function. With it Levenberg and Marquardt's
method minimises the squared torques and the squared distance from standing still upright at the end. Adam minimises the same
cost with the gradient that the same Jacobian gives, at the best of several rates. Counted are the iterations until the
pendulum ends upright, within .01 in angle and .05 in velocity, at a cost within 5 % of the best.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from descent import Trace, adam
from problems import Chain

from dressi import FLOAT, F, Variable
from dressi.ad.expressions.count import fewest
from dressi.ad.graph.traversal import leaves
from dressi.render.io import write_json

LINKS, DURATION, TIMES, KNOTS = 2, 2.0, 96, 12
START, END = (-np.pi / 2, 0.0), (np.pi / 2, 0.0)
UPRIGHT, STILL = 100.0, 20.0  # weights of the distance from the end
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)

Residuals = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def spline(order: int) -> np.ndarray:
    """(TIMES, KNOTS) the B-splines, or their derivative of an order."""
    from scipy.interpolate import BSpline

    inner = np.linspace(0.0, DURATION, KNOTS - 2)
    knots = np.concatenate([[0.0] * 3, inner, [DURATION] * 3])
    times = np.linspace(0.0, DURATION, TIMES)
    basis = [BSpline(knots, np.eye(KNOTS)[k], 3) for k in range(KNOTS)]
    return np.stack([(b.derivative(order) if order else b)(times) for b in basis], axis=-1)


class Torques:
    """The torques at all times and their Jacobian: the NumPy function that ``F.source`` writes of both."""

    def __init__(self) -> None:
        state = [[Variable(FLOAT, (TIMES, 1), name=f"{w}{i}") for i in range(LINKS)] for w in "qva"]
        flat = [x for row in state for x in row]
        outputs = Chain(LINKS, full=False, motion=tuple(state)).torques()  # type: ignore[arg-type]
        jacobian = [x for row in F.jacobian(outputs, flat) for x in row]
        made: dict[str, Any] = {}
        exec(F.source([*outputs, *jacobian], "numpy", "torques"), made)
        self.function = made["torques"]
        self.operations = fewest([*outputs, *jacobian]).total
        # Uniform rods of mass 1 and length 1 along x.
        values = {"g": -9.81, "l1": 1.0, "00": 1.0 / 3.0, "11": 1e-3, "22": 1e-3, "33": 1.0, "03": 0.5}
        self.names = [x.name for x in flat]
        self.constants = {
            str(x.name): values.get(str(x.name), values.get(str(x.name)[-2:], 0.0))
            for x in leaves([*outputs, *jacobian])
            if x not in flat
        }

    def __call__(self, motion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """motion (3 LINKS, TIMES): torques (LINKS, TIMES) and their derivatives (LINKS, 3 LINKS, TIMES)."""
        given = {**self.constants, **dict(zip(self.names, motion, strict=True))}
        used = {
            name: given[name]
            for name in self.function.__code__.co_varnames[: self.function.__code__.co_argcount]
        }
        found = np.stack([np.broadcast_to(y, (TIMES,)) for y in self.function(**used)])
        return found[:LINKS], found[LINKS:].reshape(LINKS, 3 * LINKS, TIMES)


def residuals(torques: Torques) -> Residuals:
    """Residuals and their Jacobian by the coefficients (LINKS * KNOTS,) that are free: the first two of each joint are where it
    starts, at rest."""
    bases = [spline(order) for order in range(3)]
    step = np.sqrt(DURATION / TIMES)

    def compute(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = np.concatenate(
            [np.repeat(np.array(START)[:, None], 2, 1), c.reshape(LINKS, KNOTS - 2)], axis=1
        )
        motion = np.concatenate([whole @ b.T for b in bases])
        tau, slopes = torques(motion)
        rows, values = [], []
        for i in range(LINKS):
            by = np.stack(
                [sum(slopes[i, LINKS * k + j][:, None] * bases[k] for k in range(3)) for j in range(LINKS)], 1
            )
            rows.append(by[:, :, 2:].reshape(TIMES, -1) * step)
            values.append(tau[i] * step)
        for i in range(LINKS):
            for weight, basis, target in ((UPRIGHT, bases[0], END[i]), (STILL, bases[1], 0.0)):
                row = np.zeros((LINKS, KNOTS))
                row[i] = weight * basis[-1]
                rows.append(row[:, 2:].reshape(1, -1))
                values.append(np.atleast_1d(weight * (basis[-1] @ whole[i] - target)))
        return np.concatenate(values), np.concatenate(rows)

    return compute


def ends(c: np.ndarray) -> tuple[float, float]:
    """Distance in angle and in velocity from the end."""
    whole = np.concatenate([np.repeat(np.array(START)[:, None], 2, 1), c.reshape(LINKS, KNOTS - 2)], axis=1)
    angle = np.abs(whole @ spline(0)[-1] - END).max()
    return float(angle), float(np.abs(whole @ spline(1)[-1]).max())


def start() -> np.ndarray:
    """From hanging to upright, evenly, with a bent elbow."""
    t = np.linspace(0.0, 1.0, KNOTS)[2:]
    return np.concatenate([START[0] + (END[0] - START[0]) * t, 0.8 * np.sin(np.pi * t)])


def levenberg_marquardt(compute: Residuals, iterations: int) -> Trace:
    """(cost, coefficients) after each iteration."""
    c, damping = start(), 1e-2
    r, j = compute(c)
    trace: Trace = [(float(r @ r), c)]
    for _ in range(iterations):
        normal = j.T @ j
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -j.T @ r)
        moved, slopes = compute(c + step)
        if moved @ moved < r @ r:
            c, r, j, damping = c + step, moved, slopes, damping / 3.0
        else:
            damping *= 4.0
        trace.append((float(r @ r), c))
    return trace


def slope_of(compute: Residuals) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Cost and gradient from residuals and their Jacobian."""

    def cost(c: np.ndarray) -> tuple[float, np.ndarray]:
        r, j = compute(c)
        return float(r @ r), 2.0 * j.T @ r

    return cost


def until(trace: Trace, best: float) -> int | None:
    """Iterations until the pendulum ends upright at a cost near the best."""
    for k, (cost, c) in enumerate(trace):
        angle, velocity = ends(c)
        if cost <= 1.05 * best and angle <= 0.01 and velocity <= 0.05:
            return k
    return None


def figure(path: Path, traces: dict[str, Trace], c: np.ndarray) -> None:
    """The costs, and the pendulum at some times."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    whole = np.concatenate([np.repeat(np.array(START)[:, None], 2, 1), c.reshape(LINKS, KNOTS - 2)], axis=1)
    q = whole @ spline(0).T
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5))
    for k in np.linspace(0, TIMES - 1, 17).astype(int):
        a, b = q[0, k], q[0, k] + q[1, k]
        x, y = np.cumsum([0.0, np.cos(a), np.cos(b)]), np.cumsum([0.0, np.sin(a), np.sin(b)])
        left.plot(x, y, "o-", color=plt.get_cmap("viridis")(k / TIMES), linewidth=2, markersize=4)
    left.set_aspect("equal")
    left.set_title("from hanging (dark) to upright (bright)")
    for name, trace in traces.items():
        right.loglog(np.arange(1, len(trace) + 1), [cost for cost, _ in trace], label=name)
    right.set_xlabel("iterations")
    right.set_ylabel("cost")
    right.legend()
    fig.tight_layout()
    fig.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/swing_up"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="200 iterations of Adam at one rate")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torques = Torques()
    compute = residuals(torques)
    newton = levenberg_marquardt(compute, 100)
    slow = {
        rate: adam(slope_of(compute), start(), 200 if arguments.quick else 3000, rate)
        for rate in (RATES[2:3] if arguments.quick else RATES)
    }
    best = min(t[-1][0] for t in (newton, *slow.values()))
    upright = {
        "levenberg_marquardt": until(newton, np.inf),
        **{f"adam_{rate}": until(t, np.inf) for rate, t in slow.items()},
    }
    needed: dict[str, Any] = {f"adam_{rate}": until(trace, best) for rate, trace in slow.items()}
    angle, velocity = ends(newton[-1][1])
    result = {"levenberg_marquardt": until(newton, best), **needed, "cost": newton[-1][0], "best": best, "upright_at_any_cost": upright, "operations": torques.operations,
              "start": newton[0][0], "angle": angle, "velocity": velocity,
              "adam_costs": {str(rate): trace[-1][0] for rate, trace in slow.items()}}  # fmt: skip
    print(result)
    fastest = min(slow, key=lambda rate: (needed[f"adam_{rate}"] or 1e9, slow[rate][-1][0]))
    figure(
        arguments.out / "swing_up.png",
        {"Levenberg-Marquardt": newton, f"Adam, rate {fastest}": slow[fastest]},
        newton[-1][1],
    )
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
