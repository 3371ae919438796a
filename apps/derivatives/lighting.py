"""The normal at every pixel from one picture under known light, by the Jacobian of spherical harmonics.

    python apps/derivatives/lighting.py --out out/lighting --json out/lighting.json

The light has coefficients of real spherical harmonics up to an order, for red, green and blue. A pixel shows their sum at its normal:
three equations in the two angles of a normal. F.jacobian differentiates the colours by the normal, and every pixel takes its own
steps of Levenberg and Marquardt's method on the device, damped until its residual falls; after a step it takes the normal of a
neighbour if that fits better. They begin at the normals of the smooth ball; the picture shows a bumpy one. Adam gets the same gradient.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from descent import adam
from problems import harmonics

from dressi import VEC3, DressiAD, F, Variable
from dressi.ad.expressions.count import fewest
from dressi.render.io import save_image, write_json

ORDER, NOISE, RATES = 4, 0.002, (0.01, 0.03, 0.1)
DAMPING = 1e-2  # at the start


def normals(size: int, bumps: float) -> tuple[np.ndarray, np.ndarray]:
    """(size, size, 3) unit normals of a ball with bumps of a slope, and where the ball is."""
    x = (np.arange(size) + 0.5) / size * 2.2 - 1.1
    x, y = x[None, :], -x[:, None]
    seen = x * x + y * y < 0.95
    z = np.sqrt(np.maximum(1.0 - x * x - y * y, 0.05))
    n = np.stack(np.broadcast_arrays(x, y, z), axis=-1)
    n = n + bumps * np.stack(np.broadcast_arrays(np.sin(9.0 * x + y), np.sin(8.0 * y - x), 0.0), axis=-1)
    return np.where(seen[..., None], n / np.linalg.norm(n, axis=-1, keepdims=True), (0.0, 0.0, 1.0)), seen


def light(order: int) -> np.ndarray:
    """(coefficients, 3): a bright sky whose detail falls with the degree."""
    random = np.random.default_rng(3)
    degrees = np.repeat(np.arange(order + 1), 2 * np.arange(order + 1) + 1)
    found = random.normal(size=(len(degrees), 3)) * (0.8 / (1.0 + degrees) ** 2)[:, None]
    found[0] = 2.0
    return found


def colours(n: Variable, coefficients: np.ndarray) -> Variable:
    """VEC3: the light of a direction."""
    basis = harmonics(round(len(coefficients) ** 0.5) - 1, n.x, n.y, n.z)
    channels = [
        sum((float(c) * y for c, y in zip(k, basis, strict=True)), F.constant(0.0)) for k in coefficients.T
    ]
    return F.vec3(*channels)


class Problem:
    """Costs, gradients and steps of all pixels on a device."""

    def __init__(self, picture: np.ndarray, start: np.ndarray, coefficients: np.ndarray):
        self.n, self.damping = Variable.of(start, VEC3), Variable.of(np.full(start.shape[:2], DAMPING))
        seen = Variable.of(picture, VEC3)
        n, shown = self.n, colours(self.n, coefficients)
        residual = shown - seen
        rows = F.jacobian(shown, n)
        self.operations = {"colours": fewest([shown]).total, "with Jacobian": fewest([shown, *(row[0] for row in rows)]).total}  # fmt: skip
        # The length of a normal does not count: the Jacobian is that along the sphere.
        along = [row - n * F.dot(row, n) for (row,) in rows]
        slope = sum((j * r for j, r in zip(along, (residual.x, residual.y, residual.z), strict=True)), F.constant((0.0,) * 3, VEC3))  # fmt: skip
        normal = sum((F.outer(j, j) for j in along[1:]), F.outer(along[0], along[0])) + F.outer(n, n)
        unit = F.constant(np.eye(3), normal.vtype)
        moved = F.normalize(n - F.inverse(normal + unit * self.damping) @ slope)
        cost = F.dot(residual, residual)
        other = colours(moved, coefficients) - seen
        better = F.less(F.dot(other, other), cost)
        after, damping = F.select(better, moved, n), F.select(better, self.damping * 0.2, self.damping * 5.0)
        least, best = F.minimum(F.dot(other, other), cost), after
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            near = F.shift(after, dx, dy)
            other = colours(near, coefficients) - seen
            nearer = F.less(F.dot(other, other), least)
            least = F.select(nearer, F.dot(other, other), least)
            best, damping = F.select(nearer, near, best), F.select(nearer, DAMPING, damping)
        self.ad = DressiAD()
        for name, y in {"cost": cost, "slope": slope, "n": best, "damping": damping}.items():
            self.ad.set_output(name, y)

    def __call__(self, n: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of squares and its gradient."""
        return float(self.costs(n.reshape(self.damping.shape[1:3] + (3,))).sum()), 2.0 * self.ad.recv(
            "slope"
        ).ravel()

    def costs(self, n: np.ndarray) -> np.ndarray:
        """The squared residual of each pixel."""
        self.ad.send(self.n, n.reshape(self.n.shape))
        return self.ad.recv("cost").reshape(n.shape[:2])

    def step(self) -> np.ndarray:
        """The normals after one more step."""
        n, damping = self.ad.recv("n"), self.ad.recv("damping")
        self.ad.send(self.n, n)
        self.ad.send(self.damping, damping)
        return n


def unit(c: np.ndarray) -> np.ndarray:
    """Normals of length 1."""
    n = c.reshape(-1, 3)
    return (n / np.linalg.norm(n, axis=-1, keepdims=True)).ravel()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/lighting"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--quick", action="store_true", help="32 pixels, few steps of Adam")
    arguments = parser.parse_args()
    if arguments.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(size=32)
        arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    size, steps = arguments.size, 20 if arguments.quick else 300
    (truth, seen), (start, _) = normals(size, 0.35), normals(size, 0.0)
    coefficients = light(ORDER)
    n = Variable.of(truth, VEC3)
    with DressiAD() as ad:
        ad.set_output("picture", colours(n, coefficients))
        clean = ad.recv("picture").reshape(truth.shape)
    picture = clean + np.random.default_rng(0).normal(0.0, NOISE, clean.shape)
    problem = Problem(picture, start, coefficients)

    def error(found: np.ndarray) -> np.ndarray:
        cosine = (found.reshape(truth.shape) * truth).sum(axis=-1)[seen]
        return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))

    trace = [start, *(problem.step().reshape(truth.shape) for _ in range(15))]
    medians = [float(np.median(error(x))) for x in trace]
    target = 1.1 * medians[-1]
    slow = {
        rate: [float(np.median(error(c))) for _, c in adam(problem, start.ravel(), steps, rate, unit)]
        for rate in (RATES[1:2] if arguments.quick else RATES)
    }

    def until(errors: list[float]) -> int | None:
        return next((k for k, e in enumerate(errors) if e <= target), None)

    off = error(trace[-1]) > 2.0
    fits = (problem.costs(trace[-1]) <= problem.costs(truth))[seen]
    result = {"iterations": until(medians), "adam": {str(rate): until(errors) for rate, errors in slow.items()},
              "degrees": {"start": medians[0], "median": medians[-1], "within 2": float((~off).mean()),
                          "of others fit better than the truth": float(fits[off].mean())},
              "adam degrees": {str(rate): errors[-1] for rate, errors in slow.items()}, "operations": problem.operations}  # fmt: skip
    print(result)
    white = ~seen[..., None]
    panels = [np.where(white, 1.0, picture / picture.max())]
    panels += [np.where(white, 1.0, 0.5 * x + 0.5) for x in (start, trace[2], trace[-1], truth)]
    save_image(arguments.out / "lighting.png", np.concatenate(panels, axis=1))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
