"""Scatters that are drawn visit few pixels; what is wanted at every pixel must not hang on them.

A scatter takes the makers of its values into its shader. Where one of these is wanted as an image too, the residual
for the value of the loss for example, the scatter would have to be dense for it. It is made apart instead, and the
scatter recomputes its own at the few pixels it visits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ....ad.graph import Function, ScatterFunction, Variable
from ....ad.types import Access
from ..analysis.dataflow import Analysis
from ..limits import DeviceLimits
from ..substage import Binding, Mode, Read, SubStage
from .draw_scatters import draw_silent_scatters


def part_scatters(sub_stages: Sequence[SubStage], analysis: Analysis, limits: DeviceLimits) -> list[SubStage]:
    """The SubStages, with scatters that could be drawn freed from their further outputs."""
    rasters = {v for s in sub_stages if s.mode is Mode.RASTER for v in s.outputs}
    parted = [
        _parts(s, analysis, limits) if _several(s) and any(r.variable in rasters for r in s.reads) else (s,)
        for s in sub_stages
    ]
    if all(len(parts) == 1 for parts in parted):
        return list(sub_stages)
    drawn = {
        s.outputs for s in draw_silent_scatters([s for parts in parted for s in parts], limits) if s.drawn
    }
    pairs = zip(sub_stages, parted, strict=True)
    return [s for whole, parts in pairs for s in (parts if parts[-1].outputs in drawn else (whole,))]


def _several(s: SubStage) -> bool:
    return s.mode is Mode.SCATTER and len(s.outputs) > 1


def _parts(s: SubStage, analysis: Analysis, limits: DeviceLimits) -> tuple[SubStage, SubStage]:
    """The images as a SubStage of its own, and the scatter alone."""
    scatter = s.scatter
    assert scatter is not None
    images = tuple(v for v in s.outputs if v is not scatter.output)
    first = only(s, analysis, images, Mode.FRAGMENT)
    if limits.violation(first):
        first = first.as_dispatch()
    return first, only(s, analysis, (scatter.output,), Mode.SCATTER)


def only(
    s: SubStage,
    analysis: Analysis,
    outputs: tuple[Variable, ...],
    mode: Mode,
    given: AbstractSet[Variable] = frozenset(),
) -> SubStage:
    """What makes these outputs of a SubStage, or values inside of it; from images of ``given``, inside of it too."""
    functions = _makers(s, outputs, given)
    made = {f.output for f in functions}
    reads: dict[Variable, bool] = {}
    for f in functions:
        for x, access in analysis.stored_inputs(f):
            if x not in made:
                reads[x] = reads.get(x, False) or access is not Access.SAME_PIXEL
        if isinstance(f, ScatterFunction):
            reads.update({x: True for x in f.inputs[:1] if x in reads})

    def binding(v: Variable) -> Binding:
        near = mode is Mode.FRAGMENT and v.domain == s.domain and not reads[v]
        return Binding.ATTACHMENT if near else Binding.TEXTURE

    return replace(
        s,
        mode=mode,
        functions=functions,
        body=analysis.body(functions, s.domain),
        reads=tuple(Read(v, binding(v), reads[v]) for v in sorted(reads, key=lambda v: v.id)),
        outputs=outputs,
    )


def _makers(s: SubStage, outputs: Iterable[Variable], given: AbstractSet[Variable]) -> tuple[Function, ...]:
    inside = set(s.functions)
    found: set[Function] = set()
    stack = [v.creator for v in outputs]
    while stack:
        f = stack.pop()
        if f is None or f in found:
            continue
        if f in inside:
            found.add(f)
        if f in inside or f in s.body:
            stack.extend(x.creator for x in f.inputs if x not in given)
    return tuple(f for f in s.functions if f in found)
