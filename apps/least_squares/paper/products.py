"""Products with the Jacobian, which take most of a solve: figures 14 and 15 of Opt (DeVito et al. 2017).

Figure 14, (J^T J) p of image warping: the solver's two sweeps, J p and then J^T of it; one sweep, in which each texel makes
again the entries of J p that it reads (section 5.3); J stored as images, one for each slope (computed arrays); and SciPy's
sparse matrices in 32 bits. Beside the measured time of one sweep and two stands what the planner's models of devices predict.

Figure 15, J^T r and (J^T J) p of four energies, with one part after the other of what generates them: derivatives as they
come, a pass for each Function; simplified; packed into few passes; what is the same in all products of a step computed once;
indices inverted, so that sums over edges gather; and all other passes of the planner.

    python apps/least_squares/paper/products.py --out out/products

Times are taken in turns, CPU time on drivers without a GPU. Writes products.json. --quick takes small inputs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import arap_mesh
import image_warping
import poisson_editing
import shape_from_shading
from compare import GraphEnergy
from images import shaded, splice, warp
from mesh_inputs import armadillo
from problem import Problem

from dressi import Device, F, PlanOptions, Variable, jvp, least_squares
from dressi.ad.contract.contraction import ContractFunction
from dressi.ad.graph import PixelFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.index_map import Affine
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import topological_order
from dressi.ad.least_squares.linear.diagonal import Paths, selections
from dressi.ad.least_squares.linear.vectors import inner, units
from dressi.ad.transform.gradient import depending, total
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.errors import GraphError
from dressi.render.io import write_json
from dressi.vk.plan.compiler import PASSES, build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.model.records import DATA_CENTRE, DESKTOP
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor

Step = tuple[int, int, int]
FAR = 8
"""Texels that a stencil reaches at most."""
PARTS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("as derived", {}),
    ("simplified", {}),
    ("packed", {"pack_functions": True, "pack_stages": True, "rematerialize": True}),
    ("constants once", {"cache_static": True}),
    ("gathers", {"gather_at_lists": True}),
)
"""What is added to the parts before, of figure 15; the last one is everything."""


class Sweep:
    """Values at neighbours, made again there: ``at(v, step)`` is v of another texel as an expression of what its own texel
    reads. Only what depends on p is made again; the rest is read."""

    def __init__(self, roots: Sequence[Variable], p: Sequence[Variable]):
        self.moving = depending(topological_order(roots), p) - set(p)
        self.made: dict[tuple[Variable, Step], Variable] = {}

    def at(self, v: Variable, to: Step) -> Variable:
        if not any(to):
            return v
        if (v, to) not in self.made:
            self.made[v, to] = self._again(v, to)
        return self.made[v, to]

    def _again(self, v: Variable, to: Step) -> Variable:
        f = v.creator
        if v not in self.moving or f is None:
            return v if v.size == (1, 1) else least_squares.neighbour(v, *to)
        if isinstance(f, ContractFunction):
            (x,), far = f.inputs, tuple(a + b for a, b in zip(step_of(f.maps[0]), to, strict=True))
            value = self.at(x, far)
            return value if x not in self.moving else F.select(least_squares.in_bounds(x, *far), value, 0.0)
        if not isinstance(f, PixelFunction):
            raise GraphError(f"{v} is no stencil of p, so that one sweep cannot make it again")
        return f.rebuild(*(self.at(x, to) for x in f.inputs)).output


def step_of(read) -> Step:
    """How far away the texel lies that an index map reads. Raises GraphError for other maps."""
    steps = []
    for affine, axis in ((read.x, 3), (read.y, 2), (read.c, 1)):
        own = [k for k in range(-FAR, FAR + 1) if affine == Affine.axis(axis, 1, k)]
        if not own or read.border != "zero":
            raise GraphError(f"{read} reads no texel at a fixed distance with zeros outside")
        steps += own
    return steps[0], steps[1], steps[2]


def one_sweep(
    residuals: Sequence[Variable], unknowns: Sequence[Variable], p: Sequence[Variable]
) -> list[Variable]:
    """(J^T J) p of stencils (figure 10): each texel sums over the residuals that read it."""
    products = jvp(list(residuals), list(unknowns), list(p))
    sweep, sums = Sweep(products, p), []
    for x in unknowns:
        own = []
        for r, product in zip(residuals, products, strict=True):
            paths = Paths(x, selections(r, x) or [])
            for path, tangents in paths.flow(r).items():
                read = step_of(path[0].map) if path else (0, 0, 0)
                back = -read[0], -read[1], -read[2]
                there = sweep.at(product, back)
                for unit, tangent in zip(units(x.vtype), tangents, strict=True):
                    slope = F.fit(tangent, r)
                    slope = least_squares.neighbour(slope, *back) if any(back) else slope
                    own.append(inner(slope, there) if x.vtype.is_scalar else inner(slope, there) * unit)
        sums.append(total(own))
    return sums


def directions(problem: Problem) -> list[Variable]:
    """p, like the unknowns."""
    random = np.random.default_rng(0)
    return [
        Variable(
            x.vtype, x.size, x.batch, channels=x.channels, count=x.count, data=random.normal(size=x.shape)
        )
        for x in problem.unknowns
    ]


def program_of(product: Sequence[Variable], p: Sequence[Variable]) -> Program:
    """A step that makes a product, and turns what it is made of around, so that the next one is made anew."""
    places = [Variable(q.vtype, q.size, q.batch, channels=q.channels, count=q.count) for q in product]
    for place in places:
        place.data = np.zeros(place.shape)
    return Program({}, (*zip(places, product, strict=True), *((x, -x) for x in p)))


def on_cpu(device: Device) -> bool:
    return device.physical.type == "cpu"


def in_turns(
    ways: dict[str, Callable[[], object]], device: Device, rounds: int, times: int
) -> dict[str, float]:
    """Median milliseconds of each."""
    clock = time.process_time if on_cpu(device) else time.perf_counter
    times *= 1 if on_cpu(device) else 20
    found: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(rounds + 1):
        for name, way in ways.items():
            begun = clock()
            for _ in range(times):
                way()
            if k:
                found[name].append((clock() - begun) / times)
    return {name: 1e3 * float(np.median(seconds)) for name, seconds in found.items()}


def runs(run: VulkanExecutor, steps: int) -> Callable[[], None]:
    def way() -> None:
        run.run(steps)
        run.wait()

    return way


def figure14(device: Device, every: int, rounds: int) -> dict[str, object]:
    problem = image_warping.problem(warp(every), every)[0]
    rng = np.random.default_rng(1)
    for x in problem.unknowns:
        x.data = 0.1 * rng.normal(size=x.shape)
    energy, unknowns, p = list(problem.energy), list(problem.unknowns), directions(problem)
    in_place = least_squares.Jacobian(energy, unknowns)
    stored = least_squares.Jacobian([least_squares.linearized(r, unknowns) for r in energy], unknowns)
    products = {
        "two sweeps": in_place.reverse(in_place.forward(p)),
        "one sweep": one_sweep(energy, unknowns, p),
        "J as images": stored.reverse(stored.forward(p)),
    }
    right, *others = (evaluate(q) for q in products.values())
    for other in others:
        for a, b in zip(right, other, strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max())
    matrix = GraphEnergy(problem).jacobian(np.concatenate([np.ravel(x.data) for x in unknowns]))
    matrix.eliminate_zeros()
    matrix = matrix.astype(np.float32)
    square, across = (matrix.T @ matrix).tocsr(), matrix.T.tocsr()
    flat = np.concatenate([np.ravel(x.data) for x in p]).astype(np.float32)
    kept = np.concatenate([np.ravel(v) for v in right])
    assert np.allclose(square @ flat, kept, rtol=1e-3, atol=1e-4 * np.abs(kept).max())
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(VulkanExecutor(simplify(program_of(q, p)), device))
            for name, q in products.items()
        }
        ways: dict[str, Callable[[], object]] = {name: runs(run, 1) for name, run in made.items()}
        if on_cpu(device):
            ways |= {
                "CSR J^T (J p)": lambda: across @ (matrix @ flat),
                "CSR (J^T J) p": lambda: square @ flat,
            }
        ms = in_turns(ways, device, rounds, 10)
    predicted = {
        model.name: {
            name: 1e3 * predict(plan_for(q, p, model), model).totals["seconds"]
            for name, q in products.items()
        }
        for model in (DESKTOP, DATA_CENTRE)
    }
    for name, value in ms.items():
        print(f"figure 14  {name:16} {value:9.3f} ms  {value / ms['two sweeps']:6.2f} of two sweeps")
    for model, times in predicted.items():
        print(f"figure 14  predicted, {model}: " + ", ".join(f"{n} {t:.3f} ms" for n, t in times.items()))
    shape = {"unknowns": int(flat.size), "entries of J": int(matrix.nnz), "entries of J^T J": int(square.nnz)}
    print("figure 14 ", ", ".join(f"{count} {what}" for what, count in shape.items()))
    return {**shape, "ms": ms, "predicted_ms": predicted}


def plan_for(product: Sequence[Variable], p: Sequence[Variable], model):
    return build_plan(simplify(program_of(product, p)), profile("desktop"), shader_text, DEFAULT, model)


def ablation() -> dict[str, tuple[bool, PlanOptions]]:
    """Whether a program is simplified, and the options of its plan, from nothing to all."""
    movable = {flag: False for _, flags in PARTS for flag in flags}
    known = {p.__name__ for p in PASSES} - {"pack_functions", "split_overflow", "choose_lowering"}
    found = {}
    for name, flags in PARTS:
        movable |= flags
        options = PlanOptions(**movable, adapt=False, without=tuple(sorted(known)))
        found[name] = (name != "as derived", options)
    return {**found, "all": (True, replace(DEFAULT, adapt=False))}


def figure15(device: Device, problem: Problem, rounds: int) -> dict[str, dict[str, float]]:
    energy, unknowns, p = list(problem.energy), list(problem.unknowns), directions(problem)
    jacobian = least_squares.Jacobian(energy, unknowns)
    found = {}
    for what, product, given in (
        ("J^T r", jacobian.reverse(energy), unknowns),
        ("(J^T J) p", jacobian.reverse(jacobian.forward(p)), p),
    ):
        with ExitStack() as stack:
            ways = {}
            for name, (simple, options) in ablation().items():
                program = program_of(product, given)
                program = simplify(program) if simple else program
                ways[name] = runs(stack.enter_context(VulkanExecutor(program, device, options=options)), 5)
            ms = {name: value / 5 for name, value in in_turns(ways, device, rounds, 1).items()}
        found[what] = ms
        least = ms["all"]
        print(
            f"figure 15  {problem.name:20} {what:10} "
            + ", ".join(f"{n} {v:.3f} ms ({v / least:.2f})" for n, v in ms.items()),
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--every", type=int, default=None, help="take every so manieth pixel of the cat; 1")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each way")
    parser.add_argument("--quick", action="store_true", help="every fourth pixel, two energies, two turns")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/products"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    every = given.every or (4 if given.quick else 1)
    problems = [
        lambda: image_warping.problem(warp(every), every)[0],
        lambda: arap_mesh.problem(*armadillo(2 if given.quick else 4)),
        lambda: shape_from_shading.problem(shaded().cropped())[0],
        lambda: poisson_editing.problem(splice()),
    ]
    with Device.open(given.device) as device:
        rows = {"device": device.name, "figure14": figure14(device, every, given.rounds), "figure15": {}}
        for make in problems[: 2 if given.quick else 4]:
            problem = make()
            rows["figure15"][problem.name] = figure15(device, problem, given.rounds)
            write_json(given.out / "products.json", rows)


if __name__ == "__main__":
    main()
