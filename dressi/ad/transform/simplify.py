"""Simplification: the passes over a finished program, in order; and the check that a graph is well-formed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from ...config import config
from ..graph import Domain, Function, Variable
from ..graph.program import Program
from ..graph.traversal import topological_order
from ..graph.types import Access
from ..ops.image.draws import Rasterize
from ..ops.image.reduce import Expand, extents
from .merge import merge_reductions, merge_scatters
from .rewrite import Pass, mapped, replaced, rewrite
from .rules import COMMUTATIVE, RULES

# Rasterizations of which only the coverage is used: devices draw them without a depth attachment.


def use_coverage_only(program: Program) -> Program:
    """If only the coverage of a raster is used, the depth attachment is dropped.

    less_equal(0, rasterize(...)) -> less_equal(0, rasterize(..., covering))
    """
    reads = [(f, k, x) for f in program.functions for k, x in enumerate(f.inputs)]
    needed = {x for f, k, x in reads if isinstance(x.creator, Rasterize) and k not in f.sign_only}
    needed.update(program.roots)
    covering: dict[Variable, Variable] = {}
    for f in program.functions:
        if isinstance(f, Rasterize) and f.fragment is None and not f.covering and f.output not in needed:
            other = copy(f)
            other.covering = True
            covering[f.output] = other.rebuild(*f.inputs).output
    return replaced(program, covering)


def apply_rules(program: Program) -> Program:
    """Applies RULES until none fires: folds constants, merges duplicates, removes identities."""
    rewriting = rewrite(program.roots, RULES, commutative=COMMUTATIVE)
    if config.debug >= 2 and rewriting.fired:
        counts = ", ".join(f"{name} {n}" for name, n in rewriting.fired.most_common())
        print(f"dressi: rewrites: {counts}", file=sys.stderr)
    return mapped(program, rewriting)


def merge_parallel(program: Program) -> Program:
    """Merges scatters and reductions whose results are added, and simplifies again."""
    merged = merge_reductions(merge_scatters(program))
    return program if merged is program else apply_rules(merged)


def copy_updated_outputs(program: Program) -> Program:
    """Copies outputs that are leaves which the step updates: an output has the value before the update."""
    updated = {leaf for leaf, _ in program.updates}
    if updated.isdisjoint(program.outputs.values()):
        return program
    outputs = {name: Expand(v, v.domain).output if v in updated else v for name, v in program.outputs.items()}
    return Program(outputs, program.updates)


PASSES: tuple[Pass, ...] = (apply_rules, merge_parallel, use_coverage_only, copy_updated_outputs)


def simplify(program: Program) -> Program:
    """The same program with fewer and simpler Functions. Names and updated leaves stay.

    With DRESSI_CHECK=1 the graph is verified after every pass, with DRESSI_DEBUG=2 the rewrites are shown.
    """
    with paused():
        for simplification in PASSES:
            program = simplification(program)
            if config.check:
                verify(program)
    return program


# Verification: that the Functions of a graph are well-formed.


def verify(program: Program | Iterable[Variable]) -> None:
    """Raises GraphError unless inputs, access, type and domain of every Function are consistent."""
    if isinstance(program, Program):
        program.check()
        functions: Sequence[Function] = program.functions
    else:
        functions = topological_order(program)
    for function in functions:
        _verify(function)
        fragment = getattr(function, "fragment", None)
        for inner in fragment.functions if fragment is not None else ():
            _verify(inner)


def _verify(function: Function) -> None:
    y = function.output
    if y.creator is not function:
        raise function.fail("its output does not know it as its creator")
    if len(function.access) != len(function.inputs):
        raise function.fail(f"declares access for {len(function.access)} of {len(function.inputs)} inputs")
    vtype, domain = function.infer()
    if (vtype, Domain(*domain)) != (y.vtype, y.domain):
        raise function.fail(f"gives {vtype} {domain}, but its output is {y}")
    reached = function.working_domain
    for x, access in zip(function.inputs, function.access, strict=True):
        if access is Access.SAME_PIXEL:
            pairs = zip(extents(x.domain), extents(reached), strict=True)
            if any(have not in (1, want) for have, want in pairs):
                raise function.fail(f"{x} is read at the same pixel of {reached}; sizes must be equal or 1")


# Pausing Python's garbage collector while large graphs are built.


@contextmanager
def paused() -> Iterator[None]:
    """No garbage collection inside the block.

    A pass over 100,000 Functions allocates millions of objects that all stay alive. Scanning them for
    reference cycles again and again takes as long as the pass itself. The next collection after the block
    frees what has become garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
