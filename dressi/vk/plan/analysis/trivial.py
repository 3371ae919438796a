"""Light values: they never change in a step, yet keeping them is not worth an image.

A radius and its reciprocal, a matrix and its transpose: who reads the one from an image can as well read the other and
compute. Kept, they would need a shader that runs once, an image and a fetch each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from ....ad.graph import Function, RasterFunction, ScatterFunction, Variable
from ....ad.types import Access
from ..cost import CostModel, operations
from ..substage import Mode, mode_of

PART = 0.25
"""Operations of a light value, in fetches of its planes."""


def light_functions(
    functions: Iterable[Function],
    changing: Collection[Function],
    kept: AbstractSet[Variable],
    model: CostModel,
) -> set[Function]:
    """Those of the Functions (producers first) that make light values over a single texel from leaves: they read no
    more planes than they make, and compute little. Not those that are ``changing`` or ``kept``."""
    functions = list(functions)
    pulled = {x for f in functions for x in _needed_as_images(f)}
    reads: dict[Variable, frozenset[Variable]] = {}
    work: dict[Variable, float] = {}
    found: set[Function] = set()
    for f in functions:
        y = f.output
        if f in changing or y in kept or y in pulled or y.size != (1, 1) or mode_of(f) is not Mode.FRAGMENT:
            continue
        known = all(x.creator is None or x in work for x in f.inputs)
        if not known or any(a is not Access.SAME_PIXEL for a in f.access):
            continue
        read = frozenset[Variable]().union(*(reads.get(x, {x}) for x in f.inputs))
        cost = operations(f) + sum(work.get(x, 0.0) for x in f.inputs)
        planes = len(y.vtype.planes)
        if sum(len(x.vtype.planes) for x in read) <= planes and cost <= PART * model.fetch * planes:
            reads[y], work[y] = read, cost
            if read:
                found.add(f)
    return found


def _needed_as_images(f: Function) -> list[Variable]:
    """Inputs that cannot be recomputed where the Function reads them."""
    needed = [
        x for x, a in zip(f.inputs, f.access, strict=True) if a not in (Access.SAME_PIXEL, Access.FETCH)
    ]
    if isinstance(f, ScatterFunction):
        needed.append(f.inputs[0])  # the bound is read where sums are resolved, too
    if isinstance(f, RasterFunction):
        needed += f.inputs[: f.pulled]
    return needed
