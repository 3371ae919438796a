"""Sparse Jacobians of five problems, beside CasADi: entries, operations, and the time of the C that both write.

    python apps/derivatives/sparsity.py --json out/sparsity.json
    python apps/derivatives/sparsity.py --quick

The problems: a chain of 40 unknowns (Rosenbrock), Bratu's equation on a grid, reprojections of points in several cameras, the
defects of a cart with a pole along a trajectory, and an arrow, whose first row and first column are full. With the package casadi
installed, it gets the same graph, makes the sparse Jacobian and removes common subexpressions. Operations are sums, products
(quotients included) and other Functions. Both write a C function of the entries, compiled with the same flags and called in
turns; seconds are CPU seconds of 100,000 calls, and to make the text. The last rows are images, whose entries products with
seeds hold: how many are needed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from counts import casadi_of, casadi_operations
from problems import symbol, total

from dressi import F, Variable
from dressi.ad.expressions.count import count
from dressi.ad.expressions.jacobian import jacobian_steps
from dressi.ad.graph.traversal import topological_order
from dressi.render.io import write_json

Problem = tuple[list[Variable], list[Variable]]
"""Outputs and unknowns."""
FLAGS = ("-O2", "-std=c99", "-march=native", "-ffp-contract=off")


def unknowns(count: int) -> list[Variable]:
    return [symbol(f"x{k}") for k in range(count)]


def chain(count: int) -> Problem:
    """Rosenbrock's residuals along a chain: two entries a row."""
    x = unknowns(count)
    return [10.0 * (b - F.square(a)) for a, b in pairwise(x)], x


def bratu(size: int) -> Problem:
    """Bratu's equation on a grid: five entries a row."""
    x = unknowns(size * size)
    zero = [0.0] * size
    grid = [zero, *[x[k * size : (k + 1) * size] for k in range(size)], zero]
    rows = [[0.0, *row, 0.0] for row in grid]
    return [
        4.0 * rows[i][j]
        - total([rows[i - 1][j], rows[i + 1][j], rows[i][j - 1], rows[i][j + 1]])
        - 0.02 * F.exp(rows[i][j])
        for i in range(1, size + 1)
        for j in range(1, size + 1)
    ], x


def bundle(cameras: int, points: int) -> Problem:
    """Reprojections of all points in all cameras (three angles and a place): nine entries a row."""
    x = unknowns(6 * cameras + 3 * points)
    outputs = []
    for c in range(cameras):
        a, b, g, *place = x[6 * c : 6 * c + 6]
        (sa, ca), (sb, cb), (sg, cg) = ((F.sin(v), F.cos(v)) for v in (a, b, g))
        for p in range(points):
            u, v, w = x[6 * cameras + 3 * p : 6 * cameras + 3 * p + 3]
            u, v = cg * u - sg * v, sg * u + cg * v
            u, w = cb * u + sb * w, cb * w - sb * u
            v, w = ca * v - sa * w, sa * v + ca * w
            u, v, w = (k + t for k, t in zip((u, v, w), place, strict=True))
            outputs += [u / (w + 4.0), v / (w + 4.0)]
    return outputs, x


def trajectory(steps: int) -> Problem:
    """Defects of the trapezoidal rule of a cart with a pole (place, angle, their rates; a force)."""
    x = unknowns(5 * steps)

    def rates(state: Sequence[Variable]) -> list[Any]:
        _, q, v, w, force = state
        s, c = F.sin(q), F.cos(q)
        below = 1.0 + 0.3 * F.square(s)
        return [v, w, (force + 0.3 * s * (0.5 * F.square(w) + 9.8 * c)) / below,
                -(force * c + 0.15 * F.square(w) * s * c + 12.8 * s) / (0.5 * below)]  # fmt: skip

    outputs = []
    for k in range(steps - 1):
        one, two = x[5 * k : 5 * k + 5], x[5 * k + 5 : 5 * k + 10]
        pairs = zip(one, two, rates(one), rates(two), strict=False)
        outputs += [b - a - 0.025 * (f + g) for a, b, f, g in pairs]
    return outputs, x


def arrow(count: int) -> Problem:
    """A full first row and column, and the diagonal."""
    first, *rest = x = unknowns(count)
    return [total([F.square(v) for v in x]), *(F.sin(first) * v + F.square(v) * v for v in rest)], x


PROBLEMS: dict[str, Callable[[bool], Problem]] = {
    "chain": lambda quick: chain(40),
    "bratu": lambda quick: bratu(5 if quick else 12),
    "bundle": lambda quick: bundle(2, 3) if quick else bundle(4, 12),
    "trajectory": lambda quick: trajectory(4 if quick else 20),
    "arrow": lambda quick: arrow(60),
}

DRIVER = """#include <time.h>
#include <stdio.h>
{include}
int main(void) {{
    static double x[{unknowns}], out[{entries}];
    {before}
    double sum = 0.0;
    clock_t start = clock();
    for (int k = 0; k < {calls}; ++k) {{
        for (int i = 0; i < {unknowns}; ++i) x[i] = 0.1 + 0.001 * i + 1e-7 * k;
        {call}
        sum += out[k % {entries}];
    }}
    printf("%.9g %.17g", (double)(clock() - start) / CLOCKS_PER_SEC, sum);
    return 0;
}}
"""


def compiled(folder: Path, name: str, **parts: Any) -> Path | None:
    """The program that times a function; None without a compiler."""
    (folder / f"{name}.c").write_text(DRIVER.format(**parts))
    built = [str(folder / name), str(folder / f"{name}.c")]
    try:
        subprocess.run(["cc", *FLAGS, "-o", *built, "-lm"], check=True, capture_output=True, cwd=folder)
    except FileNotFoundError:
        return None
    return folder / name


def row(name: str, quick: bool, folder: Path) -> dict[str, Any]:
    outputs, x = PROBLEMS[name](quick)
    start = time.process_time()
    jacobian = F.sparse_jacobian(outputs, x, limit=None)
    text = F.source(jacobian.products, "c", "entries")
    made = time.process_time() - start
    operations, shape = count(jacobian_steps(outputs, x)), jacobian.shape
    entry: dict[str, Any] = {"name": name, "rows": shape[0], "columns": shape[1], "entries": len(jacobian.indices),
             "operations": operations.total, "seconds_to_make": round(made, 3)}  # fmt: skip
    (folder / "ours.h").write_text(text)
    calls = 2_000 if quick else 100_000
    sizes = {"unknowns": len(x), "entries": len(jacobian.indices), "calls": calls}
    read = {v for f in topological_order(jacobian.products) for v in f.inputs}  # others are no arguments
    arguments = ", ".join([*(f"x[{k}]" for k, v in enumerate(x) if v in read), "out"])
    ours = compiled(
        folder, "ours", include='#include "ours.h"', before="", call=f"entries({arguments});", **sizes
    )
    theirs = None
    with suppress(ImportError):
        theirs = casadi_program(outputs, x, folder, sizes, entry)
    if ours and theirs:
        times = [[run(p) for p in (ours, theirs)] for _ in range(3 if quick else 7)]
        assert abs(times[0][0][1] - times[0][1][1]) <= 1e-9 * abs(times[0][1][1]) + 1e-9, (name, times[0])
        entry["seconds"], entry["casadi_seconds"] = (
            statistics.median(t[k][0] for t in times) for k in (0, 1)
        )
        entry["ratio"] = round(statistics.median(b[0] / max(a[0], 1e-9) for a, b in times), 2)
    print("  ".join(f"{key} {value}" for key, value in entry.items()), flush=True)
    return entry


def casadi_program(
    outputs: Sequence[Variable], x: Sequence[Variable], folder: Path, sizes: dict, entry: dict
) -> Path | None:
    """The program that times CasADi, whose counts are put into the entry."""
    import casadi

    start = time.process_time()
    y, known = casadi_of(outputs)
    column = casadi.vertcat(*(known[v] for v in x))
    # in compressed columns; by rows that is the transpose
    jacobian = casadi.cse(casadi.jacobian(y, column)).T
    function = casadi.Function("casadi_entries", [column], [jacobian])
    function.generate("theirs_code.c", {"main": False})
    Path("theirs_code.c").replace(folder / "theirs_code.c")
    entry["casadi_seconds_to_make"] = round(time.process_time() - start, 3)
    entry["casadi_entries"], entry["casadi_operations"] = jacobian.nnz(), sum(casadi_operations(function))
    include = '#include "theirs_code.c"'
    before = f"const double* arg[] = {{x}}; double* res[] = {{out}}; static double w[{function.sz_w() + 1}];"
    call = "casadi_entries(arg, res, 0, w, 0);"
    return compiled(folder, "theirs", include=include, before=before, call=call, **sizes)


def run(program: Path) -> tuple[float, float]:
    seconds, total_of = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(total_of)


def images(size: int) -> dict[str, tuple[Any, Any]]:
    x = Variable.of(np.random.default_rng(0).normal(size=(size, size)))
    smooth = F.square(F.shift(x, 1, 0) - x) + F.square(F.shift(x, 0, 1) - x)
    stencil = 4.0 * x - F.shift(x, 1, 0) - F.shift(x, -1, 0) - F.shift(x, 0, 1) - F.shift(x, 0, -1) - F.exp(x)
    return {
        "differences": (smooth, x),
        "stencil": (stencil, x),
        "stencil and sum": ([stencil, F.sum(smooth)], x),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--quick", action="store_true", help="smaller problems, few calls")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(name, arguments.quick, Path(folder)) for name in PROBLEMS]
    for name, (y, x) in images(8 if arguments.quick else 64).items():
        found = F.sparse_jacobian(y, x)
        rows.append({"name": name, "rows": found.shape[0], "columns": found.shape[1], "entries": len(found.indices),
                     "forward": found.sweeps[0], "reverse": found.sweeps[1]})  # fmt: skip
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if arguments.json:
        write_json(arguments.json, {"rows": rows})


if __name__ == "__main__":
    main()
