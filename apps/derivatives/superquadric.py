"""A superquadric is fitted to a depth picture by Newton's method, and so is its silhouette-free depth at every pixel.

    python apps/derivatives/superquadric.py --out out/superquadric --json out/superquadric.json

The surface is (|x/a|^(2/e) + |y/b|^(2/e))^(e/n) + |z/c|^(2/n) = 1 with half axes a, b, c, exponents e and n and a centre.
Each pixel of a depth picture is a point; its residual is the inside-outside function to the power n/2 less 1, by the size of the
body. A pixel has the gradient and the Hessian of its squared residual by all eight parameters (F.hessian, eight rows of
Variables); their sums over the picture are those of Newton's method, whose steps are damped until the cost falls. Adam gets
the same gradient.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from descent import Trace, adam

from dressi import VEC2, VEC3, DressiAD, F, Variable
from dressi.ad.expressions.count import fewest
from dressi.render.io import save_image, write_json

TRUTH = np.array([0.9, 0.6, 0.5, 0.45, 0.7, 0.1, -0.05, 0.15])
START = np.array([0.6, 0.8, 0.8, 1.0, 1.0, 0.0, 0.0, 0.0])
NOISE, RATES = 0.003, (0.003, 0.01, 0.03, 0.1)


def inside(p: Variable, axes: Variable, shape: Variable, centre: Variable) -> Variable:
    """1 on the surface, less inside."""
    q = F.maximum(F.abs((p - centre) / axes), 1e-4)
    power = F.vec2(2.0) / shape
    flat = F.pow(q.x, power.x) + F.pow(q.y, power.x)
    return F.pow(flat, shape.x / shape.y) + F.pow(q.z, power.y)


def depth_picture(size: int, parameters: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """(size, size, 3) points that a tilted orthographic camera sees, in the frame of the body, and where it sees any."""
    a, b, c, e, n, *centre = parameters
    angle = 0.6
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(0.5), -np.sin(0.5)], [0, np.sin(0.5), np.cos(0.5)]])
    frame = turn @ tilt
    x = (np.arange(size) + 0.5) / size * 3.0 - 1.5
    origin = x[None, :, None] * frame[:, 0] - x[:, None, None] * frame[:, 1] + 2.0 * frame[:, 2]

    def value(t: np.ndarray) -> np.ndarray:
        q = np.maximum(np.abs((origin - t[..., None] * frame[:, 2] - centre) / (a, b, c)), 1e-9)
        return (q[..., 0] ** (2 / e) + q[..., 1] ** (2 / e)) ** (e / n) + q[..., 2] ** (2 / n) - 1.0

    steps = np.linspace(0.0, 4.0, 400)
    first = np.full((size, size), np.nan)
    for t in steps:
        first = np.where(np.isnan(first) & (value(np.full_like(first, t)) < 0), t, first)
    seen = ~np.isnan(first)
    far, near = np.where(seen, first, 0.0), np.where(seen, first, 0.0) - steps[1]
    for _ in range(40):
        middle = 0.5 * (near + far)
        within = value(middle) < 0
        near, far = np.where(within, near, middle), np.where(within, middle, far)
    t = far + np.random.default_rng(0).normal(0.0, noise, far.shape)
    return origin - t[..., None] * frame[:, 2], seen


class Cost:
    """Cost, gradient and Hessian of eight parameters on a device: sums over the pixels."""

    def __init__(self, points: np.ndarray, seen: np.ndarray):
        p, mask = Variable.of(np.where(seen[..., None], points, 0.5), VEC3), Variable.of(seen.astype(float))
        self.inputs = [
            Variable(VEC3, name="axes"),
            Variable(VEC2, name="shape"),
            Variable(VEC3, name="centre"),
        ]
        axes, shape, centre = self.inputs
        residual = F.pow(inside(p, axes, shape, centre), shape.y * 0.5) - 1.0
        size = F.pow(axes.x * axes.y * axes.z, 1.0 / 3.0)
        cost = F.square(residual * size)
        self.operations = {"cost": fewest([cost]).total, "with derivatives": 0}
        (slope,) = F.jacobian(cost, self.inputs)
        rows = F.hessian(cost, self.inputs)
        flat = [cost, *slope, *(x for row in rows for x in row)]
        self.operations["with derivatives"] = fewest(flat).total
        self.count = float(seen.sum())
        self.ad = DressiAD()
        for k, x in enumerate(flat):
            self.ad.set_output(f"y{k}", F.sum(x * mask))
        for x, values in zip(self.inputs, np.split(START, (3, 5)), strict=True):
            x.data = x.conform(values)
        self.width = len(flat)

    def __call__(self, c: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        for x, values in zip(self.inputs, np.split(c, (3, 5)), strict=True):
            self.ad.send(x, values)
        found = (
            np.concatenate([self.ad.recv(f"y{k}").ravel() for k in range(self.width)]).astype(float)
            / self.count
        )
        return float(found[0]), found[1:9], found[9:].reshape(8, 8)


def bounded(c: np.ndarray) -> np.ndarray:
    """Half axes and exponents of a body."""
    return np.concatenate([np.maximum(c[:3], 0.1), np.clip(c[3:5], 0.2, 2.0), c[5:]])


def newton(cost: Cost, iterations: int) -> Trace:
    """(cost, parameters) after each iteration. Directions of negative curvature are turned around."""
    c, damping = START, 1e-3
    value, g, h = cost(c)
    trace = [(value, c)]
    for _ in range(iterations):
        eigenvalues, vectors = np.linalg.eigh(h)
        size = np.abs(eigenvalues) + damping * np.abs(eigenvalues).max()
        moved = bounded(c - vectors @ ((vectors.T @ g) / size))
        found = cost(moved)
        if found[0] < value:
            c, (value, g, h), damping = moved, found, max(damping / 10.0, 1e-9)
        else:
            damping *= 5.0
        trace.append((value, c))
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/superquadric"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="48 pixels, few steps of Adam")
    arguments = parser.parse_args()
    if arguments.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(size=48)
        arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    size, steps = arguments.size, 20 if arguments.quick else 600
    points, seen = depth_picture(size, TRUTH, NOISE)
    cost = Cost(points, seen)
    fast = newton(cost, 30)
    slow = {
        rate: adam(lambda c: cost(c)[:2], START, steps, rate, bounded)
        for rate in (RATES[2:3] if arguments.quick else RATES)
    }
    best = min(trace[-1][0] for trace in (fast, *slow.values()))

    def until(trace: Trace) -> int | None:
        return next((k for k, (value, _) in enumerate(trace) if value <= 1.01 * best), None)

    found = fast[-1][1]
    result = {"newton": until(fast), "adam": {str(rate): until(trace) for rate, trace in slow.items()}, "cost": fast[-1][0],
              "rms": float(np.sqrt(fast[-1][0])), "error": float(np.abs(found - TRUTH).max()), "found": found.tolist(),
              "operations": cost.operations}  # fmt: skip
    print(result)
    pictures = []
    for parameters, noise in (
        (TRUTH, NOISE),
        (START, 0.0),
        (fast[min(3, len(fast) - 1)][1], 0.0),
        (found, 0.0),
    ):
        p, mask = depth_picture(size, parameters, noise)
        dx, dy = np.gradient(p, axis=1), np.gradient(p, axis=0)
        normal = np.cross(dy, dx)
        normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
        shade = np.abs(normal @ (np.array((0.5, 0.7, 0.6)) / 1.05)) * 0.8 + 0.1
        pictures.append(np.where(mask[..., None], shade[..., None] * (0.95, 0.75, 0.5), 1.0))
    save_image(arguments.out / "superquadric.png", np.concatenate(pictures, axis=1))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
