"""`dressi count`: the operations of a computation, as written and at the fewest, and its source text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dressi.cli.core.interrupt import imports
from dressi.errors import InputError

if TYPE_CHECKING:
    from dressi import Variable

LANGUAGES = {".h": "c", ".c": "c", ".py": "numpy", ".glsl": "glsl"}


def count(
    program: Annotated[
        Path,
        typer.Argument(
            help="A Python file that makes `outputs`: a Variable, or a list or mapping of them.",
            metavar="PROGRAM",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Names of leaves, with commas: the derivatives by them are counted, too.", metavar="NAMES"
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="Write the function (with --by its Jacobian) here: .h (C), .py (NumPy) or .glsl."),
    ] = None,
    product_cost: Annotated[
        float,
        typer.Option(min=1.0, help="What a product costs in sums; the dearer, the more sums replace them."),
    ] = 1.0,
    dot: Annotated[Path | None, typer.Option(help="Write the graph here, for Graphviz.")] = None,
) -> None:
    """Count the operations a texel of a computation before and after simplification, by kind.

    Those of derivatives stand beside the gradients of all components, one after the other."""
    with imports():
        from dressi import F
        from dressi.ad.expressions.count import as_written, fewest
        from dressi.ad.expressions.jacobian import component_of
        from dressi.ad.show import dot as dot_of
        from dressi.ad.transform.gradient import gradient

    outputs = _outputs(program)
    language = "" if source is None else LANGUAGES.get(source.suffix)
    if language is None:
        raise InputError(
            f"--source {source}: the name ends with {', '.join(LANGUAGES)}, which says the language"
        )
    shown = [("the outputs", "written", outputs, outputs)]
    if by is not None:
        leaves = _leaves(outputs, by)
        components = [component_of(y, k) for y in outputs for k in range(y.vtype.components)]
        outputs = [x for row in F.jacobian(outputs, leaves) for x in row]
        gradients = [x for y in components for x in gradient(y, leaves, F.constant(1.0))]
        shown.append(("their derivatives", "in reverse", gradients, outputs))
    for what, how, before, after in shown:
        _print(what, how, as_written(before), fewest(after, product_cost))
    if dot is not None:
        _write(dot, dot_of(outputs))
    if source is not None:
        _write(source, F.source(outputs, language, "f", product_cost=product_cost))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    print(f"wrote '{path}'")


def _print(what: str, how: str, before: Any, after: Any) -> None:
    print(f"{what + ', operations a texel':43s} {how:>10s} {'fewest':>9s}")
    rows = {
        "sums and differences": (before.adds, after.adds),
        "products": (before.multiplies, after.multiplies),
        "quotients": (before.divides, after.divides),
    }
    for name in sorted({*before.calls, *after.calls}):
        rows[name] = before.calls.get(name, 0), after.calls.get(name, 0)
    for name, (a, b) in {**rows, "all": (before.total, after.total)}.items():
        print(f"  {name:42s} {a:9,d} {b:9,d}")


def _outputs(program: Path) -> "list[Variable]":
    """The outputs that the program makes. Raises InputError."""
    import runpy

    from dressi import Variable

    if not program.is_file():
        raise InputError(f"{program}: no such file; give a Python program that makes `outputs`")
    try:
        made = runpy.run_path(str(program), run_name="dressi_count").get("outputs")
    except SyntaxError as error:
        raise InputError(f"{program}: line {error.lineno} is no Python: {error.msg}") from error
    values = [made] if isinstance(made, Variable) else list(made.values()) if isinstance(made, dict) else made
    if not isinstance(values, list | tuple) or not values or not all(isinstance(v, Variable) for v in values):
        raise InputError(
            f"{program}: it makes no `outputs`: assign it a Variable, or a list or dict of Variables"
        )
    return list(values)


def _leaves(outputs: "list[Variable]", names: str) -> "list[Variable]":
    from dressi.ad.graph.traversal import leaves

    known = {v.name: v for v in leaves(outputs) if v.name}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        what, named = missing[0] if missing else repr(names), ", ".join(sorted(known)) or "no named leaf"
        raise InputError(f"--by: the outputs read no leaf named {what}; they read {named}")
    return [known[name] for name in wanted]
