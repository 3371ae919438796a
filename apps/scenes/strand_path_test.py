"""Do gradients by points and radii of strands agree with differences of the rendered loss?

    python apps/scenes/strand_path_test.py --json strand_path_test.json

Strands between two balls, in a scene. Along each direction points move by at most --pixels on the screen, or radii
change by at most a third. The loss (squared difference of colours from the same scene elsewhere) changes by L(end) - L(start); the
gradient times the direction, integrated along the path, must give the same. Prints the median of the ratios of both families,
and the share of directions within 5 %.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from dressi import VEC3, DressiAD, F, Variable
from dressi.ad.transform.gradient import gradient
from dressi.render import Camera, Node, Scene, StrandGeometry, primitives, render

STRANDS, POINTS = 20, 8


def _ball(radius: float, z: float) -> np.ndarray:
    matrix = np.diag([radius, radius, radius, 1.0])
    matrix[2, 3] = z
    return matrix


class Work:
    """The scene on a device, with the loss and its gradients."""

    def __init__(self, size: int):
        self.random = np.random.default_rng(5)
        roots = self.random.uniform((-1, 0.7, -0.9), (1, 1, 0.9), (STRANDS, 1, 3))
        steps = self.random.normal(size=(STRANDS, POINTS, 3)) * 0.05 + (0, -1.7 / POINTS, 0)
        self.points = (roots + np.cumsum(steps, axis=1)).reshape(-1, 3)
        self.radii = self.random.uniform(0.006, 0.04, STRANDS * POINTS)
        self.leaves = Variable.of(self.points, VEC3, name="points"), Variable.of(self.radii, name="radii")
        self.offsets = np.arange(0, STRANDS * POINTS + 1, POINTS)
        colours = self.random.uniform(0.1, 0.9, (STRANDS, 1, 3)).repeat(POINTS, 1).reshape(-1, 3)
        camera = Camera.perspective(45, (size, size), (0.3, 0.4, 3.5), (0, 0, 0))
        self.scale = size / (2 * np.tan(np.radians(22.5)) * 3.5)
        strands = Node(
            StrandGeometry(self.leaves[0], self.offsets, self.leaves[1], colours, 0.9), name="strands"
        )
        balls = [Node(primitives.icosphere(3), to_world=_ball(*at)) for at in ((0.6, -1.8), (0.15, 1.5))]
        shown = render(Scene([strands, *balls]), camera, light=None, form="edges", background=0.8).colour
        self.target = Variable(VEC3, (size, size), name="target", data=np.zeros((1, size, size, 3)))
        squares = F.sum_components(F.square(shown - self.target))
        loss = F.sum(squares)
        self.ad = DressiAD()
        self.ad.set_output("shown", shown)
        self.ad.set_output("error", loss)
        for leaf, slope in zip(self.leaves, gradient(loss, list(self.leaves)), strict=True):
            self.ad.set_output(f"d {leaf.name}", slope)
        moved = self.points + 0.05 * np.sin(5 * self.points[:, [1, 2, 0]]) + (0.03, 0.02, 0)
        self.send(moved, self.radii * 1.2)
        self.ad.send(self.target, np.array(self.ad.recv("shown")).reshape(self.target.shape))

    def send(self, points: np.ndarray, radii: np.ndarray) -> None:
        for leaf, values in zip(self.leaves, (points, radii), strict=True):
            self.ad.send(leaf, values.reshape(leaf.shape))
        self.ad.step()

    def directions(self, count: int, pixels: float):
        """(name, change of the points, change of the radii)."""
        for k in range(count):
            t = np.tile(np.linspace(0, np.pi, POINTS), STRANDS)[:, None]
            own = self.random.normal(size=(STRANDS, 1, 3)).repeat(POINTS, 1).reshape(-1, 3) * (k % 2)
            move = self.random.normal(size=3) + own + np.cos(t * (1 + k % 3)) * self.random.normal(size=3)
            yield "points", move * (pixels / self.scale / np.abs(move).max()), 0 * self.radii
        for _ in range(count):
            change = self.random.normal(size=len(self.radii)) * 0.2 + self.random.choice((-1.0, 1.0))
            yield "radii", 0 * self.points, self.radii * change / np.abs(change).max() / 3

    def ratio(self, points: np.ndarray, radii: np.ndarray, samples: int) -> float:
        """The integral of the gradient along a path (Simpson's rule) over the difference of the loss."""
        weights = np.ones(samples)
        weights[1:-1:2], weights[2:-1:2] = 4, 2
        along, losses = [], []
        for s in np.linspace(0, 1, samples):
            self.send(self.points + s * points, self.radii + s * radii)
            losses.append(float(np.ravel(self.ad.recv("error"))[0]))
            parts = zip(self.leaves, (points, radii), strict=True)
            along.append(
                sum(
                    (np.asarray(self.ad.recv(f"d {x.name}"), float).ravel() * v.ravel()).sum()
                    for x, v in parts
                )
            )
        return float((np.array(along) * weights).sum() / weights.sum() / (losses[-1] - losses[0]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--pixels", type=float, default=2.0)
    parser.add_argument("--directions", type=int, default=12, help="of points, and of radii")
    parser.add_argument("--samples", type=int, default=9, help="of a path, an odd number")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    work, found = Work(args.size), {"points": [], "radii": []}
    for family, points, radii in work.directions(args.directions, args.pixels):
        found[family].append(work.ratio(points, radii, args.samples))
        print(family, f"{found[family][-1]:.4f}", flush=True)
    work.ad.close()
    result = {
        family: {
            "median": float(np.median(ratios)),
            "within 5 %": float(np.mean(np.abs(np.array(ratios) - 1) < 0.05)),
            "ratios": ratios,
        }
        for family, ratios in found.items()
    }
    for family, one in result.items():
        print(f"{family}: median {one['median']:.4f}, {one['within 5 %']:.0%} within 5 %")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
