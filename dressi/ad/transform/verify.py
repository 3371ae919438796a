"""Verification: that the Functions of a graph are well-formed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph import Function, Variable
from ..program import Program
from ..traversal import topological_order
from ..types import Access


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
    if (vtype, tuple(domain)) != (y.vtype, tuple(y.domain)):
        raise function.fail(f"gives {vtype} {domain}, but its output is {y}")
    reached = function.working_domain
    for x, access in zip(function.inputs, function.access, strict=True):
        if access is Access.SAME_PIXEL:
            for have, want in zip(
                (*x.size, x.channels, x.batch), (*reached.size, reached.channels, reached.batch), strict=True
            ):
                if have not in (1, want):
                    raise function.fail(
                        f"{x} is read at the same pixel of {reached}; sizes must be equal or 1"
                    )
