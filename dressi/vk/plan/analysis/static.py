"""What a step has to compute, and what is computed once because no step changes it (the reactive cache)."""

from __future__ import annotations

from collections.abc import Collection

from ....ad.graph import Function, Variable
from ....ad.program import Program
from ....ad.traversal import topological_order
from ..model.device import DeviceModel
from ..options import PlanOptions
from .dependencies import Dependencies, Leaves
from .operands import static_operands
from .trivial import Inlined, trivial_functions

COPYING = 12.0
"""The most operations of what only arranges texels anew."""


def split_static(
    program: Program,
    changing: Leaves,
    dependencies: Dependencies,
    options: PlanOptions,
    cost: DeviceModel,
) -> tuple[tuple[Variable, ...], frozenset[Function]]:
    """The static values that a step reads, and static Functions that every step does again, since what they are made of takes fewer
    planes. changing: the leaves that steps update, and those that are expected to be sent between steps."""
    dynamic = set(program.functions)
    if options.cache_static:
        dynamic = {f for f in dynamic if not changing.isdisjoint(dependencies.of(f.output))}
        if any(f.saves_memory for f in program.functions):
            dynamic |= _copies(program, dynamic)
    named = frozenset(program.outputs.values())
    fixed = named.union(program.roots)
    repeated: set[Function] = set()
    if options.rematerialize:
        repeated = trivial_functions(program.functions, dynamic, fixed, cost)
        dynamic |= repeated
    boundary = _boundary(program, dynamic)
    if options.rematerialize and options.store_operands:
        more = static_operands(program.functions, dynamic, boundary, fixed, cost)
        repeated |= more
        dynamic |= more
        boundary = _boundary(program, dynamic)
    # Inlined values are computed in the step instead of being kept, unless an image of them is needed.
    inlined = {f.output for f in Inlined(topological_order(boundary), options.rematerialize).functions}
    kept = tuple(v for v in boundary if v not in inlined or v in named)
    return kept, frozenset(repeated)


def _copies(program: Program, dynamic: Collection[Function]) -> set[Function]:
    """Static Functions that only arrange the texels of leaves anew, with borders or packed: a step that saves memory makes these
    images for a while rather than keeping them."""
    found: set[Function] = set()
    for f in program.functions:
        if (
            f not in dynamic
            and f.operations <= COPYING
            and all(x.is_leaf or x.creator in found for x in f.inputs)
        ):
            found.add(f)
    return found


def _boundary(program: Program, dynamic: Collection[Function]) -> tuple[Variable, ...]:
    """Static values that something dynamic reads, or that are roots."""
    found: dict[Variable, None] = {}
    for f in program.functions:
        if f in dynamic:
            found.update((x, None) for x in f.inputs if x.creator is not None and x.creator not in dynamic)
    found.update((v, None) for v in program.roots if v.creator is not None and v.creator not in dynamic)
    return tuple(found)
