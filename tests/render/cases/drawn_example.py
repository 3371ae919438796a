"""A small graph of a Function and the leaves by which it is differentiable."""

from dataclasses import dataclass

from dressi.ad.graph import Variable


@dataclass(frozen=True)
class Example:
    """A graph: its output, and the leaves by which the output is differentiable there (not all, maybe none)."""

    output: Variable
    wrt: tuple[Variable, ...] = ()
