"""Poses from silhouettes: Levenberg-Marquardt against Adam at equal time.

    python apps/least_squares/rendering/pose.py --out out/pose
    python apps/least_squares/rendering/pose.py --mesh bunny.obj --focal --size 256 --starts 5 --out out/pose

An object in a random pose is seen by a ring of cameras. Its pictures are masks, antialiased as those of a camera. From a pose
that is --degrees and a share (--shift) of the cameras' distance away, both at random in direction, the six numbers of a rigid
motion are found (and with --focal the focal length of all cameras, --zoom away). The residuals are the pixels of all views,

    r = (coverage - target) / height,

both by the outer form of HardSoftRas with a radius that shrinks (SCHEDULE). Adam minimises the same sum of squares by steps of
the same graph, with as much processor time as the median start took Levenberg-Marquardt, once for each of --rates; the rate
with the smallest median error counts. Times are processor times of this process, device included, without builds. Without
--mesh cow and head of DRESSI_DATA are taken.

Writes pose.json (curves: processor seconds, degrees, shift in radii of the object, cost), and for each mesh curves and
a sheet of the worst start (rows target, start, difference) as PNG.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pose_problem import WIDEST, Problem, Start, masks_of, start_of

from dressi import Device, DressiAD, F, LevenbergMarquardt, adam
from dressi.ad import optim
from dressi.config import config
from dressi.errors import InputError
from dressi.render import Camera, Cameras, Mesh, load_mesh, ring
from dressi.render.drawing.draw import compare
from dressi.render.io import save_png, write_json

MESHES = {"cow": "meshes/spot_bob/spot.obj", "head": "head/LeePerrySmith.glb"}
SCHEDULE = ((WIDEST, 7), (0.1, 3))
"""(radius in image heights, steps of Levenberg-Marquardt). The first reaches everything; the last is more exact. Below 0.1
fewer pixels count, and errors of the masks weigh more."""
FOUND = 0.05
"""Degrees."""
PIECES = 24
"""Adam's radius changes so many times, and its curve has so many points."""


class Clock:
    """Processor seconds of this process, without what ``pause`` takes."""

    def __init__(self) -> None:
        self._begin = time.process_time()

    def __call__(self) -> float:
        return time.process_time() - self._begin

    def pause(self, run: Callable[[], Any]) -> Any:
        begin = time.process_time()
        found = run()
        self._begin += time.process_time() - begin
        return found


Curve = list[dict[str, float]]


def point(problem: Problem, ad: DressiAD, start: Start, clock: Clock, zoom: float) -> dict[str, float]:
    seconds = clock()

    def measure() -> dict[str, float]:
        pose, focal = problem.found(ad, start.base)
        more = {"focal": float(np.expm1(abs(focal - zoom)))} if problem.learn_focal else {}
        return {"seconds": seconds, **start.errors(pose), **more, "cost": ad.losses()[-1]}

    return clock.pause(measure)


def by_levenberg_marquardt(problem: Problem, starts: list[Start], device: Device, zoom: float) -> list[Curve]:
    curves = []
    with DressiAD(device) as ad:
        ad.set_loss([problem.residual])
        ad.set_optimizer(LevenbergMarquardt(iterations=10), problem.unknowns)
        fresh = ad.state()
        ad.step()  # builds
        for start in starts:
            ad.restore(fresh)
            problem.set(ad, start.masks, start.base)
            clock, curve = Clock(), Curve()
            for radius, steps in SCHEDULE:
                problem.set_radius(ad, radius)
                for _ in range(steps):
                    ad.step()
                    ad.wait()
                    curve.append(point(problem, ad, start, clock, zoom))
            curves.append(curve)
    return curves


def by_adam(
    problem: Problem, starts: list[Start], device: Device, zoom: float, rate: float, seconds: float
) -> list[Curve]:
    """With as many steps as fit into ``seconds`` of processor time."""
    loss = 0.5 * F.sum(F.square(problem.residual))
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adam(rate), problem.unknowns)
        problem.set(ad, starts[0].masks, starts[0].base)
        problem.set_radius(ad, SCHEDULE[1][0])
        ad.step()
        ad.wait()
        clock = Clock()
        ad.step(20)
        ad.wait()
        steps = max(round(seconds * 20 / clock()), PIECES)
    first, last = SCHEDULE[0][0], SCHEDULE[-1][0]
    curves = []
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adam(optim.cosine(rate, rate / 100, steps), (0.9, 0.99)), problem.unknowns)
        fresh = ad.state()
        ad.step()
        for start in starts:
            ad.restore(fresh)
            problem.set(ad, start.masks, start.base)
            clock, curve = Clock(), Curve()
            for piece in range(PIECES):
                problem.set_radius(ad, first * (last / first) ** (piece / (PIECES - 1)))
                ad.step(steps * (piece + 1) // PIECES - steps * piece // PIECES)
                ad.wait()
                curve.append(point(problem, ad, start, clock, zoom))
            curves.append(curve)
    return curves


def examine(mesh: Mesh, args: argparse.Namespace, device: Device) -> tuple[dict[str, Any], np.ndarray]:
    """The entry of a mesh, and a sheet of its worst start: rows target, start, difference; a column for each view."""
    center, radius = mesh.bounding_sphere()
    mesh = Mesh((mesh.positions - center) / radius, mesh.faces)
    cameras = ring(np.zeros(3), 1.0, args.views, (args.size, args.size))
    starts = [start_of(mesh, cameras, args.degrees, args.shift, args.seed + k) for k in range(args.starts)]
    zoom = float(np.log1p(args.zoom)) if args.focal else 0.0
    given = cameras
    if args.focal:  # the masks are those of the true cameras
        given = Cameras([_zoomed(camera, np.exp(-zoom)) for camera in cameras])
    problem = Problem(mesh, given, args.focal)
    found = by_levenberg_marquardt(problem, starts, device, zoom)
    seconds = float(np.median([curve[-1]["seconds"] for curve in found]))
    tries = {rate: by_adam(problem, starts, device, zoom, rate, seconds) for rate in args.rates}
    ends = {rate: [curve[-1]["degrees"] for curve in curves] for rate, curves in tries.items()}
    best = min(ends, key=lambda rate: float(np.median(ends[rate])))
    mine = [curve[-1]["degrees"] for curve in found]
    entry = {
        "faces": len(mesh.faces), "size": args.size, "views": args.views, "degrees": args.degrees, "shift": args.shift,
        "focal": args.zoom if args.focal else None, "schedule": SCHEDULE, "device": device.name, "seconds": seconds,
        "levenberg_marquardt": _summary(mine) | {"ends": mine, "curves": found},
        "adam": {str(rate): _summary(ends[rate]) for rate in ends}
        | {"best": best, "ends": ends[best], "curves": tries[best]},
        "better": sum(a < b for a, b in zip(mine, ends[best], strict=True)),
    }  # fmt: skip
    worst = starts[int(np.argmax(mine))]
    white = np.ones(3)
    begin = masks_of(mesh, cameras, worst.base)
    return entry, compare(worst.masks[..., None] * white, begin[..., None] * white)


def _zoomed(camera: Camera, factor: float) -> Camera:
    intrinsics = camera.intrinsics.copy()
    intrinsics[:2, :2] *= factor
    return replace(camera, intrinsics=intrinsics)


def _summary(degrees: list[float]) -> dict[str, float]:
    return {
        "found": sum(d <= FOUND for d in degrees),
        "of": len(degrees),
        "median": float(np.median(degrees)),
        "largest": float(np.max(degrees)),
    }


def picture(file: Path, name: str, entry: dict[str, Any]) -> None:
    """Degrees by processor time: a thin line for each start, a thick one for the median."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), dpi=100)
    best = entry["adam"]["best"]
    for curves, colour, label in (
        (entry["levenberg_marquardt"]["curves"], "tab:blue", "Levenberg-Marquardt"),
        (entry["adam"]["curves"], "tab:orange", f"Adam, rate {best:g}"),
    ):
        first = [0.0, entry["degrees"]]
        rows = [np.array([first, *([p["seconds"], p["degrees"]] for p in curve)]) for curve in curves]
        for row in rows:
            axes.plot(*row.T, color=colour, alpha=0.3, linewidth=0.7)
        axes.plot(*np.median(rows, axis=0).T, color=colour, linewidth=2, label=label)
    axes.axhline(FOUND, color="black", linewidth=0.5)
    axes.set(xlabel="processor seconds", ylabel="degrees", yscale="log", title=name)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


def meshes_given(names: list[str]) -> dict[str, Mesh]:
    """Raises InputError without a data folder."""
    data = config.data
    found = {}
    for name in names:
        if name in MESHES and data is None:
            raise InputError(
                f"set DRESSI_DATA to the folder that holds '{MESHES[name]}', or give --mesh a file"
            )
        path = data / MESHES[name] if name in MESHES and data is not None else Path(name)
        found[name if name in MESHES else path.stem] = load_mesh(path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", nargs="+", default=list(MESHES), help="cow, head, or files")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--degrees", type=float, default=30.0, help="between the start and the true pose")
    parser.add_argument("--shift", type=float, default=0.1, help="the same, a share of the cameras' distance")
    parser.add_argument("--focal", action="store_true", help="the focal length is unknown too")
    parser.add_argument("--zoom", type=float, default=0.1, help="how far the focal length is off, a share")
    parser.add_argument("--views", type=int, default=4)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rates", nargs="*", type=float, default=[0.02, 0.05, 0.1], help="of Adam")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/pose"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    report = {}
    with Device.open(args.device) as device:
        for name, mesh in meshes_given(args.mesh).items():
            report[name], sheet = examine(mesh, args, device)
            write_json(args.out / "pose.json", report)
            save_png(args.out / f"{name}.png", sheet)
            picture(args.out / f"{name}-curves.png", name, report[name])
            entry = report[name]
            ours, theirs = entry["levenberg_marquardt"], entry["adam"]
            other = theirs[str(theirs["best"])]
            print(
                f"{name}, {entry['seconds']:.2f} s of processors a start: within {FOUND} degrees {ours['found']} of {ours['of']}"
                f" (median {ours['median']:.4f}, largest {ours['largest']:.3f}); Adam at {theirs['best']:g} {other['found']}"
                f" (median {other['median']:.3f}); better than Adam {entry['better']}"
            )


if __name__ == "__main__":
    main()
