"""One strand against supersampling: the mean error of its picture, and the derivative of a loss by each of its points.

The truth counts samples inside of capsules, 256 along each axis of a pixel (--samples). The loss is a weighted sum of the mask
with smooth weights; its derivative along random smooth displacements of the points, integrated, is compared with differences of the truth.

    python apps/strands/coverage.py --json coverage.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from dressi import F, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import VEC3
from dressi.ad.transform.gradient import gradient
from dressi.render.strands.draw import draw_strands
from dressi.render.strands.geometry import StrandGeometry

SIZE = (24, 20)
PIXELS = np.array([[2 / SIZE[0], 0, 0, -1], [0, 2 / SIZE[1], 0, -1], [0, 0, 1e-3, 0.5], [0, 0, 0, 1.0]])
WIDTHS = (0.05, 0.3, 1.0, 3.0)
PATH = 1.0
"""Pixels by which points move at most."""
STEPS = 6
"""Midpoints of the path at which the derivative is taken."""


def curve(count: int) -> np.ndarray:
    """(count, 3) points of a wave."""
    t = np.linspace(0, 1, count)
    return np.stack([3.2 + 17 * t, 4.1 + 11 * t + 1.5 * np.sin(5 * t), 0 * t], axis=1)


def supersampled(points: np.ndarray, radius: float, samples: int) -> np.ndarray:
    """(H, W): the share of samples within ``radius`` of the polyline."""
    picture = np.zeros((SIZE[1], SIZE[0]))
    ends = list(zip(points[:-1, :2], points[1:, :2], strict=True))
    near = [(np.arange(samples) + 0.5) / samples - 0.5] * 2
    offsets = np.stack(np.meshgrid(*near), -1).reshape(-1, 2)
    for y, x in np.ndindex(picture.shape):
        centre = np.array([x + 0.5, y + 0.5])
        away = np.array([_distance(centre, a, b) for a, b in ends])
        if away.min() < radius - 0.71:
            picture[y, x] = 1.0
        elif away.min() < radius + 0.71:
            close = [e for e, d in zip(ends, away, strict=True) if d < radius + 0.71]
            inside = [_distance(centre + offsets, a, b) < radius for a, b in close]
            picture[y, x] = np.any(inside, axis=0).mean()
    return picture


def _distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u = b - a
    along = np.clip((p - a) @ u / (u @ u), 0, 1)
    return np.linalg.norm(p - a - along[..., None] * u, axis=-1)


def measure(count: int, width: float, samples: int, directions: int) -> dict[str, float]:
    """The error of the mask over its mean; derivatives over differences, and their distance over the norm of the differences."""
    points = curve(count)
    leaf = Variable.of(points, VEC3, name="points")
    mask = draw_strands(StrandGeometry(leaf, radius=0.5 * width, unit="pixels"), PIXELS, size=SIZE).mask
    y, x = np.mgrid[: SIZE[1], : SIZE[0]]
    weights = np.sin(0.37 * x + 0.2) * np.cos(0.29 * y) + 0.1 * y
    loss = F.sum(mask * Variable.of(weights))
    (picture,) = evaluate([mask])
    truth = supersampled(points, 0.5 * width, samples)
    error = np.abs(picture[0] - truth).sum() / truth.sum()
    rng, pairs = np.random.default_rng(count), []
    (slopes,) = gradient(loss, [leaf])
    for _ in range(directions):
        move, t = np.zeros_like(points), np.linspace(0, np.pi, count)
        for frequency in range(3):
            move[:, :2] += rng.normal(size=2) * np.cos(frequency * t)[:, None] / (1 + frequency)
        move *= PATH / np.abs(move).max()
        own = 0.0
        for k in range(STEPS):
            at = leaf.data + (move * ((k + 0.5) / STEPS - 0.5)).reshape(leaf.shape)
            own += (evaluate([slopes], {leaf: at})[0].reshape(-1, 3) * move).sum() / STEPS
        high, low = (supersampled(points + k * move, 0.5 * width, samples) for k in (0.5, -0.5))
        pairs.append((own, ((high - low) * weights).sum()))
    own, true = np.array(pairs).T
    return {
        "points": count,
        "width": width,
        "error": float(error),
        "largest_error": float(np.abs(picture[0] - truth).max()),
        "derivative_median": float(np.median(own / true)),
        "derivative_error": float(np.linalg.norm(own - true) / np.linalg.norm(true)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--directions", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for count in (2, 9, 33):
        for width in WIDTHS:
            rows.append(measure(count, width, args.samples, args.directions))
            print(", ".join(f"{k} {v:.4g}" for k, v in rows[-1].items()))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
