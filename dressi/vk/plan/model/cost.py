"""What work costs: the estimates by which a plan stores a value or computes it again.

Everything is counted in operations of one invocation, from what Functions declare (``dressi.ad.graph.work``). Only ratios
matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Function, ReduceFunction, Variable


def operations(f: Function) -> float:
    """Of one invocation of a Function, without its reads."""
    loop = fetches(f, 0) if isinstance(f, ReduceFunction) else 1.0
    return f.operations * f.output.vtype.components * loop


def planes(variables: Iterable[Variable]) -> int:
    """Images that hold the Variables: what is fetched of each texel, or stored."""
    return sum(len(v.vtype.planes) for v in variables)


def fetches(f: Function, k: int) -> float:
    """How many texels of input ``k`` an invocation reads; infinite where data decide.

    A sum over the batch counts as one tile: plans do not depend on the number of views.
    """
    return 1.0 if isinstance(f, ReduceFunction) and f.axis == "n" else f.reads(k)
