"""Part of a SubStage as a SubStage of its own."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ....ad.graph import Function, ScatterFunction, Variable
from ....ad.traversal import reached
from ....ad.types import Access
from ..substage import Binding, Compute, PixelWork, Read, SubStage, Work
from .dataflow import Analysis


def restrict(
    s: SubStage,
    analysis: Analysis,
    outputs: tuple[Variable, ...],
    work: Work,
    given: AbstractSet[Variable] = frozenset(),
) -> SubStage:
    """What makes these outputs of a SubStage, or values inside of it; from images of ``given``, inside of it too."""
    functions = _makers(s, outputs, given)
    made = {f.output for f in functions}
    reads: dict[Variable, bool] = {}
    for f in functions:
        for x, access, _ in analysis.stored_inputs(f):
            if x not in made:
                reads[x] = reads.get(x, False) or access is not Access.SAME_PIXEL
        if isinstance(f, ScatterFunction):
            reads.update({x: True for x in f.inputs[:1] if x in reads})

    drawable = isinstance(work, PixelWork) and not isinstance(work, Compute)

    def binding(v: Variable) -> Binding:
        near = drawable and v.domain == s.domain and not reads[v]
        return Binding.ATTACHMENT if near else Binding.TEXTURE

    return replace(
        s,
        work=work,
        functions=functions,
        body=analysis.body(functions, s.domain),
        reads=tuple(Read(v, binding(v), reads[v]) for v in sorted(reads, key=lambda v: v.id)),
        outputs=outputs,
    )


def _makers(s: SubStage, outputs: Iterable[Variable], given: AbstractSet[Variable]) -> tuple[Function, ...]:
    inside = {*s.functions, *s.body}
    found = reached(
        (v.creator for v in outputs),
        lambda f: [x.creator for x in f.inputs if x not in given] if f in inside else (),
    )
    return tuple(f for f in s.functions if f in found)
