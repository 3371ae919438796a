"""What it would bring to rewrite the arithmetic of whole programs by expressions: operations and time, on and off in turns.

    python apps/derivatives/rewriting.py --json out/rewriting.json

A region is what Functions of one texel compute over one domain between Functions that read other texels. On: each region is
written anew from its expressions, at the fewest operations that are found, before it is planned. Off: as it was simplified.
The programs are steps of the optimisations of `dressi bench` and of least squares (apps/least_squares, and a pose by silhouettes). Operations are sums, products, quotients and Functions of all
regions; ms are processor ms of a step, medians of batches in turns; the losses of both are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, Variable
from dressi.ad.expressions.count import as_written, count, shortest
from dressi.ad.expressions.jacobian import Writer, of_components
from dressi.ad.expressions.reader import Reader, readable
from dressi.ad.expressions.steps import GIVEN
from dressi.ad.expressions.table import Table
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import rebuilt
from dressi.ad.transform.simplify import simplify
from dressi.render.io import write_json
from dressi.render.io.files import read_json
from dressi.vk.run import engine as engines

LEAST_SQUARES = Path(__file__).resolve().parent.parent / "least_squares"
sys.path[:0] = [str(LEAST_SQUARES), str(LEAST_SQUARES / "rendering")]


def rewritten(program: Program) -> tuple[Program, int, int]:
    """The program with each region from its expressions, and operations before and after."""
    functions = program.functions
    depth: dict[Variable, int] = {}
    """How often what makes a value reads other texels, or values of other domains: a region is of one depth."""
    region: dict[Variable, tuple[Any, int]] = {}
    for f in functions:
        inside = readable(f)
        steps = [
            depth.get(x, 0) + (x in region and (not inside or region[x][0] != f.output.domain))
            for x in f.inputs
        ]
        depth[f.output] = max(steps, default=0)
        if inside:
            region[f.output] = f.output.domain, depth[f.output]
    read_outside = set(program.roots)
    for f in functions:
        read_outside.update(x for x in f.inputs if region.get(x) != region.get(f.output))
    outputs = defaultdict[tuple[Any, int], list[Variable]](list)
    for v, key in region.items():
        if v in read_outside:
            outputs[key].append(v)
    known: dict[Variable, Variable] = {}
    before = after = 0
    done = set[tuple[Any, int]]()
    for f in functions:
        key = region.get(f.output)
        if key is None:
            rebuilt([f], known)
        elif key not in done:
            done.add(key)
            wanted = outputs[key]
            given = {
                x for g in functions if region.get(g.output) == key for x in g.inputs if region.get(x) != key
            }
            reader = Reader(Table(), given)
            values = reader.read(wanted)
            steps = shortest(reader.table, [x for y in values for x in y])
            shown = [Variable(x.vtype, x.size, x.batch, channels=x.channels) for x in given]
            stand = dict(zip(given, shown, strict=True))
            copy = {**stand}
            rebuilt([g for g in functions if region.get(g.output) == key], copy)
            before += as_written([copy.get(v, v) for v in wanted]).total
            after += count(steps).total
            for n, kind in enumerate(steps.kinds):
                if kind == GIVEN:
                    leaf, component = steps.of[n]
                    steps.of[n] = known.get(leaf, leaf), component
            scalars = iter(Writer(steps).roots())
            for v in wanted:
                known[v] = of_components(
                    [next(scalars) for _ in range(v.vtype.components)], v.vtype, v.domain
                )
    new = Program(
        {name: known.get(v, v) for name, v in program.outputs.items()},
        tuple((leaf, known.get(v, v)) for leaf, v in program.updates),
    )
    return simplify(new), before, after


class Executors:
    """Makes executors, of rewritten programs if ``on``."""

    def __init__(self) -> None:
        self.make, self.on, self.operations = engines.VulkanExecutor, False, [0, 0]

    def __call__(self, program: Program, *arguments: Any, **options: Any) -> Any:
        if self.on:
            program, before, after = rewritten(program)
            self.operations = [self.operations[0] + before, self.operations[1] + after]
        return self.make(program, *arguments, **options)


def bench(case: str) -> Callable[[DressiAD], None]:
    """The first trial of a case of `dressi bench`, at 64 pixels and one view."""
    from dressi.cli.bench.cases import CASES
    from dressi.cli.bench.request import Request
    from dressi.cli.bench.work import drawn_on

    request = Request.parse(case, views=1, size="64", texture_size="64", peels=1, channels=4)

    def describe(engine: DressiAD) -> None:
        next(iter(CASES[case](request, drawn_on(engine.device)))).work.describe(engine, record=True)

    return describe


def least_squares(case: str) -> Callable[[DressiAD], None]:
    """A case of apps/least_squares/compare.py."""
    from compare import CASES

    def describe(engine: DressiAD) -> None:
        problem, before = CASES[case].problem()
        engine.set_loss(problem.energy)
        engine.set_optimizer(CASES[case].solver, problem.unknowns)
        if before is not None:
            engine.send_many(before(0))

    return describe


def pose(_: str) -> Callable[[DressiAD], None]:
    """The pose of a box by its silhouettes in four views, by Levenberg and Marquardt's method."""
    from pose_problem import Problem, start_of

    from dressi.ad.least_squares import LevenbergMarquardt
    from dressi.render import ring
    from dressi.render.mesh.primitives import cube

    def describe(engine: DressiAD) -> None:
        box, cameras = cube(), ring(np.zeros(3), 1.0, 4, (64, 64))
        problem = Problem(box.moved(box.positions * (1.0, 0.6, 0.35)), cameras, learn_focal=False)
        start = start_of(problem.mesh, cameras, 20.0, 0.05, seed=0)
        engine.set_loss([problem.residual])
        engine.set_optimizer(LevenbergMarquardt(iterations=10), problem.unknowns)
        problem.set(engine, start.masks, start.base)

    return describe


CASES: dict[str, Callable[[str], Callable[[DressiAD], None]]] = {
    **dict.fromkeys(("image_fitting", "silhouette", "texture", "joint", "shading", "material", "environment"), bench),
    **dict.fromkeys(("convolution", "matmul", "slice", "blur", "chain", "pyramid"), bench),
    **dict.fromkeys(("arap_mesh", "embedded_deformation", "cotangent_smoothing"), least_squares),
    **dict.fromkeys(("image_warping_128", "laplacian", "poisson_editing", "shape_from_shading"), least_squares),
    **dict.fromkeys(("image_warping_512", "optical_flow"), least_squares),
    "pose": pose,
}  # fmt: skip


def measured(name: str, device: Device, batches: int, steps: int) -> dict[str, Any]:
    """Operations and times of a case."""
    describe, make = CASES[name](name), Executors()
    engines.VulkanExecutor = make  # type: ignore[misc]
    engines.searched = lambda program, options, **_: options  # plans of both by the same options
    ads, times = [], ([], [])
    for make.on in (False, True):
        ad = DressiAD(device)
        describe(ad)
        for _ in range(3):
            ad.step()
        ad.wait()
        ads.append(ad)
    for _ in range(batches):
        for ad, found in zip(ads, times, strict=True):
            begin = time.process_time()
            for _ in range(steps):
                ad.step()
            ad.wait()
            found.append(1e3 * (time.process_time() - begin) / steps)
    off, on = (np.ravel(ad.recv(next(iter(ad.parameters)))) for ad in ads)
    for ad in ads:
        ad.close()
    off_ms, on_ms = (float(np.median(found)) for found in times)
    return {
        "case": name, "operations": make.operations[0], "rewritten": make.operations[1],
        "ms": round(off_ms, 3), "ms_rewritten": round(on_ms, 3),
        "ratio": round(float(np.median(np.divide(times[1], times[0]))), 3),
        "parameter_off_by": float(np.abs(on - off).max() / max(np.abs(off).max(), 1e-6)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, help="rows go here as they come, in place of those of the same cases"
    )
    parser.add_argument("--cases", default=",".join(CASES), help="names with commas")
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="of a batch")
    arguments = parser.parse_args()
    rows = {}
    if arguments.json and arguments.json.exists():
        rows = {row["case"]: row for row in read_json(arguments.json, "results")["rows"]}
    with Device.open() as device:
        for name in arguments.cases.split(","):
            rows[name] = measured(name, device, arguments.batches, arguments.steps)
            print(rows[name], flush=True)
            if arguments.json:
                write_json(arguments.json, {"rows": list(rows.values())})


if __name__ == "__main__":
    main()
