"""A bundle of strands from pictures: points, radii and a colour are fitted to masks and colours seen from several sides.

    python apps/strands/fit_bundle.py --out out/fit_bundle --json fit_bundle.json

The truth is a bundle of curls. The fit starts from straight strands with the same roots, of another width and grey. A loss of
colours, of pictures that are filtered less and less, and of differences along strands is minimised by Adam. Prints the mean
distance of points from the true strands, in radii and before and after, and the PSNR from a side that the fit did not see.
Writes target, start and result side by side.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from dressi import FLOAT, VEC3, DressiAD, F, Variable, adam
from dressi.render import Camera, Cameras, KajiyaKay, StrandGeometry, draw_strands
from dressi.render.io.images import encode_png
from dressi.render.surface.color import linear_to_srgb

RADIUS, COLOUR = 0.02, (0.55, 0.3, 0.12)
SUN = (0.4, 1.0, 0.6)
BLURS = (8, 4, 2, 1)
"""Pixels that the pictures are averaged over, in each round."""


def bundle(strands: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """(S, P, 3): curls, and straight strands with the same roots."""
    rng = np.random.default_rng(3)
    roots = np.stack(
        [rng.uniform(-0.5, 0.5, strands), np.full(strands, 0.8), rng.uniform(-0.3, 0.3, strands)], 1
    )
    t = np.linspace(0, 1, points)[None, :, None]
    phase = rng.uniform(0, 2 * np.pi, (strands, 1, 1))
    straight = roots[:, None] + t * np.array([0.0, -1.5, 0.0])
    turn = 5.0 * t + phase
    curl = np.concatenate([np.sin(turn) - np.sin(phase), 0 * turn, np.cos(turn) - np.cos(phase)], axis=2)
    return straight + 0.13 * curl + t**2 * (rng.normal(size=(strands, 1, 3)) * (0.12, 0.0, 0.08)), straight


def views(count: int, size: int, start: float = 0.0) -> Cameras:
    angles = start + np.linspace(0, 2 * np.pi, count, endpoint=False)
    eyes = [(3.2 * np.sin(a), 0.3, 3.2 * np.cos(a)) for a in angles]
    return Cameras([Camera.perspective(40, (size, size), eye, (0, 0, 0)) for eye in eyes])


def picture(points, offsets, radius, colour, cameras) -> Variable:
    strands = StrandGeometry(points, offsets, radius, colour, name="bundle")
    return draw_strands(strands, cameras, shader=KajiyaKay(SUN)).over((1.0, 1.0, 1.0))


def drawn(*given) -> np.ndarray:
    with DressiAD() as ad:
        return np.asarray(ad.evaluate(picture(*given)))


def held(leaf: Variable) -> np.ndarray:
    assert leaf.data is not None
    return leaf.data


def distance(points: np.ndarray, truth: np.ndarray) -> float:
    """Of points from the true strand of the same number, the mean, in radii."""
    found = []
    for own, other in zip(points, truth, strict=True):
        a, u = other[:-1], np.diff(other, axis=0)
        along = np.clip(((own[:, None] - a) * u).sum(-1) / (u * u).sum(-1), 0, 1)
        found.append(np.linalg.norm(own[:, None] - a - along[..., None] * u, axis=-1).min(1))
    return float(np.mean(found) / RADIUS)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((linear_to_srgb(a) - linear_to_srgb(b)) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/fit_bundle"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer strands, views, pixels and steps")
    args = parser.parse_args()
    strands, count, size, number, steps = (6, 8, 48, 4, 60) if args.quick else (24, 12, 96, 6, 150)
    truth, start = bundle(strands, count)
    offsets = np.arange(0, strands * count + 1, count)
    cameras, unseen = views(number, size), views(1, size, 0.4)
    given = (truth.reshape(-1, 3), offsets, RADIUS, COLOUR)
    targets = drawn(*given, cameras)
    points = Variable.of(start.reshape(-1, 3), VEC3, name="points")
    width = Variable(FLOAT, name="width", data=np.full((1, 1, 1), 1.6 * RADIUS))
    colour = Variable.of([[0.4, 0.4, 0.4]], VEC3, name="colour")
    target = Variable(VEC3, (size, size), number, name="target", data=targets)
    shown = picture(points, offsets, width, colour, cameras)
    inner = np.flatnonzero(
        (np.arange(strands * count) % count > 0) & (np.arange(strands * count) % count < count - 1)
    )
    at = [Variable.of(inner + k) for k in (-1, 0, 1)]
    before, here, after = (F.lookup(points, n) for n in at)
    bending = F.mean(F.square(F.length(before - here * 2.0 + after)))
    history, began = [distance(start, truth)], time.perf_counter()
    for blur in BLURS:
        small = (size // blur, size // blur)
        error = F.resize(shown, small, "area") - F.resize(target, small, "area")
        loss = F.mean(F.square(F.length(error)))
        rounds = (
            (points, 0.002 + 0.001 * blur, steps),
            (width, 0.0005, steps // 3),
            (colour, 0.01, steps // 3),
        )
        for leaf, rate, turns in rounds:
            with DressiAD() as ad:
                ad.set_loss(loss + bending * (0.2 * blur) if leaf is points else loss)
                ad.set_optimizer(adam(rate), [leaf])
                ad.step(turns)
                leaf.data = ad.recv(leaf)
        history.append(distance(held(points).reshape(-1, 3)[: strands * count].reshape(truth.shape), truth))
        print(f"over {blur} pixels: {history[-1]:.2f} radii")
    seconds = time.perf_counter() - began
    found = (
        held(points).reshape(-1, 3)[: strands * count],
        offsets,
        float(held(width).item()),
        held(colour).reshape(3),
    )
    own, other = drawn(*given, unseen)[0], drawn(*found, unseen)[0]
    first = drawn(start.reshape(-1, 3), offsets, 1.6 * RADIUS, (0.4, 0.4, 0.4), cameras)
    last = drawn(*found, cameras)
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [np.concatenate(list(images), axis=1) for images in (targets, first, last)]
    (args.out / "bundle.png").write_bytes(encode_png(linear_to_srgb(np.concatenate(rows))))
    result = {
        "strands": strands,
        "points": count,
        "views": number,
        "pixels": size,
        "radii before": history[0],
        "radii after": history[-1],
        "width over truth": found[2] / RADIUS,
        "colour": [float(c) for c in found[3]],
        "PSNR of targets": psnr(targets, last),
        "PSNR unseen": psnr(own, other),
        "seconds": seconds,
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
