"""Large steps compared with a Laplacian: distance of a fit from silhouettes to the true surface, over time.

    python apps/large_steps.py --out out/large_steps
    python apps/large_steps.py --mesh BoomBox_512.glb spot.obj --spread 0 10 20 40 --out out/large_steps
    python apps/large_steps.py --solvers --out out/large_steps

The rounds of `dressi fit` with the settings that --spread lists: 0 is the plain Laplacian with averaged gradients, more
is the lambda of large steps; --ease and --rate scale the Laplacian's weight and the learning rate of these. Writes
large_steps.json: after every 20 steps the wall time so far (builds included), the processor time, which depends less on other
load, the steps, the loss, and the distance between the surfaces (mean of both directions, in bounding radii of the target);
at the end the IoU in held-out views. With --solvers it measures instead the time and the residual of (I + 19 L)^-1 on spheres, by sparse factors and by Chebyshev's iteration.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, Variable
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import VEC3, list_image, list_size
from dressi.ad.transform.simplify import simplify
from dressi.render.fit import Dataset, FitJob, FitOptions, draw, mesh_dataset
from dressi.render.fit.graphs.round import Found
from dressi.render.formats import load_mesh
from dressi.render.io import write_json
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import octasphere, pear
from dressi.render.mesh.queries import SurfaceDistance, sample_surface
from dressi.render.objectives.large_steps import spread
from dressi.render.objectives.metrics import iou
from dressi.render.objectives.regularizers import adjacency
from dressi.render.objectives.sparse import product, sparse_matrix
from dressi.vk.run.execution.executor import VulkanExecutor

EVERY = 20


def between(a: SurfaceDistance, b: SurfaceDistance) -> float:
    """Mean of the distances from each surface to the other, of 20,000 points on each."""
    ways = [x.distances(sample_surface(y.mesh, 20_000)).mean() for x, y in ((a, b), (b, a))]
    return float(np.mean(ways))


class Fit:
    """The shape phase of a fit, measured at intervals."""

    def __init__(self, scene: Dataset, target: Mesh, options: FitOptions, device: Device):
        self.job = FitJob(scene, options, lambda: DressiAD(device))
        self.scene, self.device = scene, device
        self.target = SurfaceDistance(scene.to_unit(target))
        self.curve: list[dict[str, float]] = []
        self.seconds, self.processor, self.done = 0.0, 0.0, 0

    def run(self, ease: float, rate: float) -> dict[str, Any]:
        mesh = self.job.topology(0)
        rounds = self.job.rounds
        for number, plan in enumerate(rounds):
            if plan.spread:
                low, high = plan.rate
                rounds[number] = replace(
                    plan, smoothness=plan.smoothness * ease, rate=(low * rate, high * rate)
                )
            if number:
                mesh = mesh.subdivide(plan.subdivisions - rounds[number - 1].subdivisions)
            mesh = self._round(number, mesh)
        held_out = self.scene.held_out
        assert held_out is not None
        masks, _ = draw(self.scene.to_world(mesh), held_out.cameras, lambda: DressiAD(self.device))
        return {"curve": self.curve, "held_out_iou": iou(masks, held_out.masks)}

    def _round(self, number: int, mesh: Mesh) -> Mesh:
        start, busy = time.perf_counter(), time.process_time()
        work = self.job.shape_round(number, Found(mesh))
        with DressiAD(self.device) as ad:
            ad.set_loss(work.loss)
            ad.set_optimizer(work.optimizer, work.parameters)
            for step in range(0, work.steps, 10):
                work.before(ad, step)
                ad.step(min(10, work.steps - step))
                losses = ad.losses()
                self.done += min(10, work.steps - step)
                if self.curve and self.done < self.curve[-1]["steps"] + EVERY and step + 10 < work.steps:
                    continue
                self.seconds += time.perf_counter() - start
                self.processor += time.process_time() - busy
                found = work.found(ad).mesh
                self.curve.append(
                    {
                        "seconds": round(self.seconds, 3), "steps": self.done, "loss": losses[-1],
                        "processor_seconds": round(self.processor, 3), "distance": between(SurfaceDistance(found), self.target),
                    }
                )  # fmt: skip
                start, busy = time.perf_counter(), time.process_time()
            return work.found(ad).mesh


def chebyshev(system: Any, values: Variable, steps: int) -> Variable:
    """Chebyshev's iteration for eigenvalues from 1 to the largest row sum (Saad, Iterative Methods, algorithm 12.1)."""
    matrix = sparse_matrix(system)
    largest = float(abs(system).sum(1).max())
    middle, half = (largest + 1) / 2, (largest - 1) / 2
    rho = half / middle
    move = values * (1 / middle)
    found = move
    for _ in range(steps - 1):
        residual = values - product(matrix, found)
        after = 1 / (2 * middle / half - rho)
        move = move * (after * rho) + residual * (2 * after / half)
        rho, found = after, found + move
    return found


def solvers(device: Device) -> list[dict[str, Any]]:
    """One solve for three numbers a vertex, the solvers in turns: medians of wall and processor milliseconds, and the
    relative residual."""
    results = []
    for subdivisions in (3, 4, 5):
        mesh = octasphere(subdivisions)
        spreading = spread(adjacency(mesh.faces, len(mesh.positions)), 19.0)
        right = np.random.default_rng(0).normal(size=(len(mesh.positions), 3))
        runs = {}
        for iterations in (0, 40, 70):
            leaf = Variable(VEC3, list_size(len(right)), name="x", data=list_image(right))
            solved = chebyshev(spreading.system, leaf, iterations) if iterations else spreading(leaf)
            run = VulkanExecutor(simplify(Program({}, ((leaf, solved),))), device)
            run.run(1)
            found = run.recv(leaf).reshape(-1, 3)[: len(right)]
            residual = np.linalg.norm(spreading.system @ found - right) / np.linalg.norm(right)
            runs[f"Chebyshev {iterations}" if iterations else "factors"] = run, float(residual)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        for name in [*runs] * 13:
            begin, busy = time.perf_counter(), time.process_time()
            runs[name][0].run(10)
            runs[name][0].wait()
            times[name].append(((time.perf_counter() - begin) * 100, (time.process_time() - busy) * 100))
        for name, (run, residual) in runs.items():
            passed, spent = np.median(times[name][1:], axis=0)
            results.append(
                {
                    "faces": len(mesh.faces), "solver": name, "ms": float(passed), "processor_ms": float(spent),
                    "residual": residual, "passes": run.plan.counts["stages"],
                }
            )  # fmt: skip
            print(results[-1])
            run.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", nargs="*", default=["pear"], help="meshes; pear is made here")
    parser.add_argument("--spread", nargs="*", type=float, default=[0.0, 19.0])
    parser.add_argument("--ease", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=480, help="of the shape")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--device", default=None)
    parser.add_argument("--solvers", action="store_true")
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/large_steps"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "large_steps.json"
    report: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    with Device.open(args.device) as device:
        report["device"] = device.name
        if args.solvers:
            report["solvers"] = solvers(device)
        for name in [] if args.solvers else args.mesh:
            target = pear(32, 24, 16) if name == "pear" else load_mesh(Path(name))
            scene = mesh_dataset(target, args.views, (args.size, args.size), lambda: DressiAD(device))
            for strength in args.spread:
                options = FitOptions(
                    size=(args.size, args.size), views=args.views, steps=args.steps * 6 // 5,
                    spread=strength, colours=False,
                )  # fmt: skip
                found = Fit(scene, target, options, device).run(args.ease, args.rate)
                first, last = found["curve"][0], found["curve"][-1]
                print(
                    f"loss {first['loss']:.4g} -> {last['loss']:.4g}, {Path(name).stem} spread {strength:g}:"
                    f" distance {last['distance']:.5f}, IoU {found['held_out_iou']:.4f}, {last['processor_seconds']:.1f} s of processors"
                )
                settings = {
                    "spread": strength,
                    "ease": args.ease,
                    "rate": args.rate,
                    "steps": last["steps"],
                    "size": args.size,
                    "views": args.views,
                }
                report.setdefault(Path(name).stem, []).append({**settings, **found})
                write_json(file, report)
    write_json(file, report)


if __name__ == "__main__":
    main()
