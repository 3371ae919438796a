"""Identity weights of a head from one picture with landmarks: Levenberg-Marquardt against Adam at equal time.

    python apps/least_squares/rendering/face.py --out out/face

A head of the model in DRESSI_DATA (--modes identity modes, random weights within 1.5, --seed) is drawn in a random pose near the
front, by a known light. From the shaded picture, its mask and the places of 51 landmarks the program finds the weights and the
six numbers of the pose, from a mean head that looks straight ahead. ``face_problem`` has the residuals. In the first of STAGES
only outline and landmarks count and the prior is strong; then colours join, and the prior becomes weak.

Adam minimises the cost of the same stages, one after another in the same shares of the time that Levenberg-Marquardt took, once
for each of --rates. Times are processor times of this process, device included, without builds.

Writes face.json (curves: processor seconds, errors of weights, vertices and pose), curves.png, and views.png: columns start,
Levenberg-Marquardt, Adam at its best rate; rows picture, result, difference.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from face_problem import FaceProblem, Head, Values

from dressi import Device, DressiAD, LevenbergMarquardt, adam
from dressi.ad import optim
from dressi.ad.least_squares import Energy
from dressi.config import config
from dressi.errors import InputError
from dressi.render.drawing.draw import compare
from dressi.render.io import save_png, write_json

WIDTH = 0.05
"""Of the kernel of colours."""
ITERATIONS = 200
"""Of conjugate gradients at most."""
PIECES = 8
"""Points of Adam's curve in a stage."""


class Stage(NamedTuple):
    steps: int
    radius: float
    factors: dict[str, float]


STAGES = (
    Stage(3, 0.15, {"mask": 1.0, "colour": 0.0, "landmarks": 1.0, "prior": 0.01}),
    Stage(3, 0.05, {"mask": 1.0, "colour": 0.3, "landmarks": 1.0, "prior": 0.003}),
    Stage(6, 0.03, {"mask": 1.0, "colour": 1.0, "landmarks": 1.0, "prior": 0.0003}),
)

Curve = list[dict[str, float]]


def point(problem: FaceProblem, ad: DressiAD, stage: int, seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "stage": stage, **problem.errors(ad), "cost": ad.losses()[-1]}


def by_levenberg_marquardt(problem: FaceProblem, device: Device) -> tuple[Curve, list[float], np.ndarray]:
    """The curve, the seconds of each stage, and the picture found."""
    with DressiAD(device) as ad:
        ad.set_loss(problem.energy(WIDTH))
        ad.set_optimizer(LevenbergMarquardt(iterations=ITERATIONS, tolerance=1e-6), problem.unknowns)
        fresh = ad.state()
        ad.step()  # builds
        ad.restore(fresh)
        curve, shares, seconds = Curve(), [], 0.0
        for number, stage in enumerate(STAGES):
            problem.set_stage(ad, stage.radius, **stage.factors)
            share = 0.0
            for _ in range(stage.steps):
                share += timed(ad, 1)
                curve.append(point(problem, ad, number, seconds + share))
            seconds += share
            shares.append(share)
        return curve, shares, problem.shown(ad)


def by_adam(
    problem: FaceProblem, device: Device, rate: float, shares: list[float]
) -> tuple[Curve, np.ndarray]:
    """With as many steps as fit into the seconds of each stage; every stage begins with a new Adam at ``rate``."""
    curve, seconds = Curve(), 0.0
    values: dict[Any, np.ndarray] = {}
    for number, (stage, share) in enumerate(zip(STAGES, shares, strict=True)):
        with DressiAD(device) as ad:
            ad.set_loss(Energy(problem.energy(WIDTH)).cost())
            ad.set_optimizer(adam(rate), problem.unknowns)
            problem.set_stage(ad, stage.radius, **stage.factors)
            timed(ad, 1)
            steps = max(round(share * 10 / timed(ad, 10)), PIECES)
        with DressiAD(device) as ad:
            ad.set_loss(Energy(problem.energy(WIDTH)).cost())
            falling = optim.cosine(rate, rate / 20, steps)
            # Weights are of the size of 1, turns in radians of that of 0.1, shifts in centimetres.
            rates = {
                problem.weights: falling,
                problem.shift: falling,
                problem.rotation: optim.cosine(rate / 10, rate / 200, steps),
            }
            ad.set_optimizer(
                optim.per_parameter({leaf: adam(r, (0.9, 0.99)) for leaf, r in rates.items()}),
                problem.unknowns,
            )
            problem.set_stage(ad, stage.radius, **stage.factors)
            fresh = ad.state()
            ad.step()
            ad.restore(fresh)
            for leaf, value in values.items():
                ad.send(leaf, value)
            for piece in range(PIECES):
                seconds += timed(ad, steps * (piece + 1) // PIECES - steps * piece // PIECES)
                curve.append(point(problem, ad, number, seconds))
            values = {leaf: np.array(ad.recv(leaf)) for leaf in problem.unknowns}
            if number == len(STAGES) - 1:
                return curve, problem.shown(ad)
    raise AssertionError


def timed(ad: DressiAD, steps: int) -> float:
    """Processor seconds of some steps."""
    begin = time.process_time()
    ad.step(steps)
    ad.wait()
    return time.process_time() - begin


def examine(problem: FaceProblem, rates: list[float], device: Device) -> tuple[dict[str, Any], np.ndarray]:
    """The entry, and the sheet of pictures."""
    with DressiAD(device) as ad:
        ad.set_loss(problem.energy(None))
        ad.set_optimizer(LevenbergMarquardt(), problem.unknowns)
        start, before = problem.shown(ad), problem.errors(ad)
    curve, shares, found = by_levenberg_marquardt(problem, device)
    tries = {rate: by_adam(problem, device, rate, shares) for rate in rates}
    best = min(tries, key=lambda rate: tries[rate][0][-1]["vertices_mm"], default=None)
    entry = {
        "modes": len(problem.head.modes), "size": problem.size, "device": device.name, "seconds": sum(shares),
        "start": before, "levenberg_marquardt": curve, "best": best,
        "adam": {str(rate): curve for rate, (curve, _) in tries.items()},
    }  # fmt: skip
    pictures = np.stack([start, found, *([] if best is None else [tries[best][1]])])
    return entry, compare(np.broadcast_to(problem.picture, pictures.shape), pictures)


def curves(file: Path, entry: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(1, 2, figsize=(9, 3.5), dpi=100)
    runs = {"Levenberg-Marquardt": entry["levenberg_marquardt"]}
    runs |= {f"Adam, rate {rate}": curve for rate, curve in entry["adam"].items()}
    for axes, key, label in zip(
        rows, ("weights", "vertices_mm"), ("weights, rms", "vertices, rms, mm"), strict=True
    ):
        for name, curve in runs.items():
            line = [(0.0, entry["start"][key]), *((p["seconds"], p[key]) for p in curve)]
            axes.plot(*np.transpose(line), label=name, linewidth=2 if name.startswith("L") else 1)
        axes.set(xlabel="processor seconds", ylabel=label, yscale="log")
        axes.grid(alpha=0.3)
    rows[0].legend()
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modes", type=int, default=50, help="identity modes of the head, up to 100")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument(
        "--rates", nargs="*", type=float, default=[0.03, 0.1], help="of Adam; none: no comparison"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/face"))
    args = parser.parse_args()
    if config.data is None:
        raise InputError("set DRESSI_DATA to the folder that holds 'face'")
    args.out.mkdir(parents=True, exist_ok=True)
    head, truth = Head.load(config.data, args.modes), Values.random(args.modes, args.seed)
    with Device.open(args.device) as device:
        entry, sheet = examine(FaceProblem(head, truth, args.size), args.rates, device)
    write_json(args.out / "face.json", entry)
    save_png(args.out / "views.png", sheet)
    curves(args.out / "curves.png", entry)
    ours, best = entry["levenberg_marquardt"][-1], entry["best"]
    words = (
        f"vertices {entry['start']['vertices_mm']:.2f} -> {ours['vertices_mm']:.3f} mm, weights {ours['weights']:.4f},"
        f" {ours['degrees']:.3f} degrees in {entry['seconds']:.1f} s of processors"
    )
    if best is not None:
        theirs = entry["adam"][str(best)][-1]
        words += f"; Adam at {best:g} {theirs['vertices_mm']:.3f} mm, weights {theirs['weights']:.4f}"
    print(words)


if __name__ == "__main__":
    main()
