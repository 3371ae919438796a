"""Parts of images: Functions whose values count at the texels of one part alone.

The nodes of a scene share out the pixels, and each kind of them is shaded in its own way. A shader of all ways would compute each of
them at every pixel. The packer keeps them apart, so that each runs on the blocks of its own part (``run_on_active_blocks``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ....ad.graph import Function, ScatterFunction
from .dataflow import Analysis
from .known_values import adds_nothing, values_where


def parts_of(analysis: Analysis, functions: Sequence[Function]) -> dict[Function, Hashable]:
    """For Functions of the analysis that count in one part alone, the Function that ``divides`` it off; and for those that do,
    what they have in common. functions: of the whole program, producers first."""
    found: dict[Function, Function | None] = {}
    for part in functions:
        if part.divides and part.quiet is not None:
            for f in _inside(analysis, functions, part):
                found[f] = None if f in found else part
    apart: dict[Function, Hashable] = {f: f.working_domain for f in analysis.order if f.divides}
    return {f: part for f, part in found.items() if part is not None} | apart


def _inside(analysis: Analysis, functions: Sequence[Function], part: Function) -> list[Function]:
    """The Functions over the domain of a part whose values are known outside of it, or which such Functions alone read."""
    follows = {part.output}
    behind = []
    for f in functions:
        if not follows.isdisjoint(f.inputs):
            follows.add(f.output)
            behind.append(f)
        elif not f.inputs:
            behind.append(f)
    known = values_where(behind, {part.output: np.array(part.quiet, part.output.vtype.dtype)})
    graph, domain = analysis.graph, part.output.domain
    # Whether a reader needs the value outside of the part.
    needed = graph.flags(r.creator for r in analysis.roots)
    found = []
    for k in range(len(analysis.order) - 1, -1, -1):
        f = analysis.order[k]
        quiet = f.output in follows and (
            adds_nothing(f, known) if isinstance(f, ScatterFunction) else f.output in known
        )
        inside = f is not part and graph.working[k] == domain and (quiet or not needed[k])
        if inside:
            found.append(f)
        for maker in graph.elsewhere[k] if inside else graph.makers[k]:
            needed[maker] = 1
    return found
