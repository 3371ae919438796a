"""Trivial rematerialization: values that are computed again wherever they are read, whatever else is decided.

*Inlined* values depend on no image: constants, coordinates, and what is made of them. *Trivial* values depend on leaves
and never change in a step, but an image of them would not be worth it. Examples are a radius and its reciprocal, or a
matrix and its transpose: whoever reads the second can read the first and compute. Storing it would take a shader that
runs once, an image, and a fetch in every reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet

from ....ad.graph import Domain, DrawFunction, Function, PixelFunction, ScatterFunction, Variable
from ....ad.types import Access
from ..model.cost import operations
from ..model.device import DeviceModel

LARGEST_INLINED = 128
"""The most Functions of an inlined value: every shader that uses it contains them all."""

TRIVIAL = 0.25
"""The most operations of a trivial value, as a share of what fetching its planes costs."""


class Inlined:
    """The Functions of inlined values among ``order`` (producers first): constants, and with ``rematerialize`` also
    coordinates and what is made of them."""

    def __init__(self, order: Sequence[Function], rematerialize: bool):
        self.functions: set[Function] = set()
        self._uniform: set[Function] = set()  # the same at every pixel of every tile
        self._tileless: set[Function] = set()  # the same in every tile
        cones: dict[Function, frozenset[Function]] = {}
        for f in order:
            makers = [x.creator for x in f.inputs]
            if not self.functions.issuperset(makers) or (makers and not rematerialize):
                continue
            if not isinstance(f, PixelFunction) or any(a is not Access.SAME_PIXEL for a in f.access):
                continue
            cone = frozenset((f,)).union(*(cones[g] for g in makers if g is not None))
            if len(cone) > LARGEST_INLINED:
                continue
            tileless = self._tileless.issuperset(makers) and "tile" not in f.places
            uniform = tileless and self._uniform.issuperset(makers) and "pixel" not in f.places
            if tileless:
                self._tileless.add(f)
            if uniform:
                self._uniform.add(f)
            if uniform or rematerialize:
                self.functions.add(f)
                cones[f] = cone

    def at(self, function: Function | None, domain: Domain) -> bool:
        """Whether a shader over ``domain`` computes the Function itself instead of reading its image."""
        if function is None or function not in self.functions:
            return False
        own = function.output.domain
        same_tile = own.size == domain.size and own.tiles == 1 and function in self._tileless
        return function in self._uniform or own == domain or same_tile


def trivial_functions(
    functions: Iterable[Function],
    changing: Collection[Function],
    kept: AbstractSet[Variable],
    model: DeviceModel,
) -> set[Function]:
    """Those of the Functions (producers first) that make trivial values: over a single texel, from leaves, with no
    more planes read than made and few operations. Not those that are ``changing`` or ``kept``."""
    functions = list(functions)
    needed = {x for f in functions for x in _needed_as_images(f)}
    reads: dict[Variable, frozenset[Variable]] = {}
    work: dict[Variable, float] = {}
    found: set[Function] = set()
    for f in functions:
        y = f.output
        if f in changing or y in kept or y in needed or y.size != (1, 1) or not isinstance(f, PixelFunction):
            continue
        known = all(x.creator is None or x in work for x in f.inputs)
        if not known or any(a is not Access.SAME_PIXEL for a in f.access):
            continue
        read = frozenset[Variable]().union(*(reads.get(x, {x}) for x in f.inputs))
        cost = operations(f) + sum(work.get(x, 0.0) for x in f.inputs)
        planes = len(y.vtype.planes)
        if sum(len(x.vtype.planes) for x in read) <= planes and cost <= TRIVIAL * model.fetch * planes:
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
    if isinstance(f, DrawFunction):
        needed += f.inputs[: f.pulled]
    return needed
