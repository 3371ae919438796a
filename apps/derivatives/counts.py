"""Operations of derivatives of densely shared expressions, beside CasADi.

    python apps/derivatives/counts.py --json out/counts.json
    python apps/derivatives/counts.py --quick

The computations are those of Guenter, Efficient Symbolic Differentiation for Graphics Applications (2007): the Jacobian of
spherical harmonics, the torques of a chain of links (derivatives by time and angles of its transforms), the gradient of a
space-time objective. To them come gradients of random graphs of 1,000 and 100,000 Functions, and
the Jacobian of layers of 3, 2, 5, 2 and 3 values, which neither forward nor reverse mode makes with the fewest products. With the package casadi installed, it gets the
same graph, differentiates it (the torques: as they are) and removes common subexpressions. A row says sums and differences (changes
of sign included) and products (quotients included), and the CPU seconds from the Functions to the steps; making the Functions is not
in them. Torques of perpendicular axes are counted again with products as dear as
three sums: then two crossed sums of two products share one. The recurrence of sine and cosine is the correct one: that of
the paper has S(2) = 0.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from problems import Chain, harmonics, layered, shared, spacetime, symbol

from dressi import F, Variable
from dressi.ad.expressions.count import Operations, count, fewest
from dressi.ad.expressions.jacobian import jacobian_steps
from dressi.ad.graph.traversal import topological_order
from dressi.render.io import write_json

ORDERS, LINKS, JOINTS, SHARED = (5, 10, 15, 19, 20), (2, 3, 4, 5, 6), (2, 3, 4, 6, 12, 40), (1_000, 100_000)
PAPER = {
    ("harmonics", 5): 57 + 139, ("harmonics", 15): 412 + 1714, ("harmonics", 19): 642 + 2820, ("harmonics", 20): 707 + 3139,
    **{("dynamics", n): total for n, total in zip(LINKS, (147, 302, 479, 664, 849), strict=True)},
    **{("spacetime", n): total for n, total in zip((2, 3, 4, 6, 40), (419, 881, 1409, 2645, 22739), strict=True)},
}  # fmt: skip
TABLE_6 = {"parallel, full": (416, 433), "parallel, diagonal": (305, 350),
           "perpendicular, full": (587, 546), "perpendicular, diagonal": (449, 457)}  # fmt: skip


def casadi_of(outputs: Sequence[Variable]) -> tuple[Any, dict[Variable, Any]]:
    """The outputs as one column of CasADi, and what each Variable is there. Raises ImportError without CasADi."""
    import casadi

    known: dict[Variable, Any] = {}

    def of(v: Variable) -> Any:
        return known.setdefault(v, casadi.SX.sym(v.name or f"v{v.id}"))

    write = {
        "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Div": lambda a, b: a / b,
        "Neg": lambda a: -a, "Sin": casadi.sin, "Cos": casadi.cos, "Square": lambda a: a * a, "Max": casadi.fmax,
        "Exp": casadi.exp, "Sqrt": casadi.sqrt,
    }  # fmt: skip
    for f in topological_order(outputs):
        name = type(f).__name__
        known[f.output] = casadi.SX(f.value[0]) if name == "Constant" else write[name](*map(of, f.inputs))
    return casadi.vertcat(*(of(v) for v in outputs)), known


def casadi_operations(function: Any) -> tuple[int, int, int]:
    """Sums, products and other Functions of a Function of CasADi."""
    import casadi

    kinds = Counter(function.instruction_id(k) for k in range(function.n_instructions()))
    adds = sum(kinds[k] for k in (casadi.OP_ADD, casadi.OP_SUB, casadi.OP_NEG))
    products = sum(
        kinds[k] for k in (casadi.OP_MUL, casadi.OP_DIV, casadi.OP_SQ, casadi.OP_TWICE, casadi.OP_INV)
    )
    moves = sum(kinds[k] for k in (casadi.OP_INPUT, casadi.OP_OUTPUT, casadi.OP_CONST))
    return adds, products, function.n_instructions() - adds - products - moves


def casadi_counts(outputs: Sequence[Variable], by: Sequence[Variable]) -> tuple[int, int] | None:
    """Sums and products of CasADi for the same graph, or for its derivatives; None if it is not installed."""
    try:
        import casadi
    except ImportError:
        return None
    y, known = casadi_of(outputs)
    if by:
        y = casadi.jacobian(y, casadi.vertcat(*(known[v] for v in by if v in known)))
    adds, products, _ = casadi_operations(casadi.Function("f", list(casadi.symvar(y)), [casadi.cse(y)]))
    return adds, products


def row(
    name: str,
    order: int,
    outputs: Sequence[Variable],
    by: Sequence[Variable],
    variant: str | None = None,
    product_cost: float = 1.0,
) -> dict[str, Any]:
    """Counts of the derivatives of the outputs, or of the outputs themselves if ``by`` is empty."""
    start = time.process_time()
    found: Operations = count(jacobian_steps(outputs, by)) if by else fewest(outputs, product_cost)
    seconds = time.process_time() - start
    theirs = casadi_counts(outputs, by)
    entry = {"name": name, "order": order, "adds": found.adds, "multiplies": found.multiplies + found.divides,
             "casadi_adds": theirs and theirs[0], "casadi_multiplies": theirs and theirs[1], "seconds": round(seconds, 3)}  # fmt: skip
    if variant:
        entry["variant"] = variant
    paper = (
        TABLE_6.get(variant.split(", unit")[0].split(", products")[0])
        if variant
        else PAPER.get((name, order))
    )
    print(
        f"{name:10s} {order:3d} {variant or '':34s} {entry['adds']:6d} + {entry['multiplies']:6d} = "
        f"{entry['adds'] + entry['multiplies']:6d}   paper {paper or '-'!s:>10}   casadi {theirs or '-'}   {seconds:.2f} s",
        flush=True,
    )
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--quick", action="store_true", help="the smallest of each")
    arguments = parser.parse_args()
    few = slice(1) if arguments.quick else slice(None)
    rows = []
    for order in ORDERS[few]:
        x, y, z = symbol("x"), symbol("y"), symbol("z")
        outputs = [v if isinstance(v, Variable) else F.constant(v) for v in harmonics(order, x, y, z)]
        rows.append(row("harmonics", order, outputs, [x, y, z]))
    for links in LINKS[few]:
        rows.append(row("dynamics", links, Chain(links).torques(), []))
    if not arguments.quick:
        for axes in ("parallel", "perpendicular"):
            for full in (True, False):
                for unit in (False, True):
                    variant = f"{axes}, {'full' if full else 'diagonal'}{', unit lengths' if unit else ''}"
                    torques = Chain(6, axes, full=full, unit=unit).torques()
                    rows.append(row("dynamics", 6, torques, [], variant))
                    if axes == "perpendicular":
                        rows.append(row("dynamics", 6, torques, [], f"{variant}, products as 3 sums", 3.0))
    rows.append(row("layered", 32523, *layered(3, 2, 5, 2, 3)))
    for links in JOINTS[few]:
        cost, coefficients = spacetime(links)
        rows.append(row("spacetime", links, [cost], coefficients))
    for functions in SHARED[few]:
        value, leaves = shared(functions)
        rows.append(row("shared", functions, [value], leaves))
    if arguments.json:
        write_json(arguments.json, {"rows": rows})


if __name__ == "__main__":
    main()
