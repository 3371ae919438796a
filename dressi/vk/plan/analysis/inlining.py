"""Free values: those that depend on nothing stored, so that every consumer can make them again."""

from __future__ import annotations

from collections.abc import Sequence

from ....ad.graph import Domain, Function
from ....ad.types import Access
from ..substage import Mode, mode_of

LARGEST_FREE = 128
"""Functions that a free value is made of at most: every shader that uses it holds them all."""


class Free:
    """``functions``: the free ones among ``order`` (producers first): constants, and where ``recompute`` is set
    coordinates and what is made of them, up to a size that shaders can repeat."""

    def __init__(self, order: Sequence[Function], recompute: bool):
        self.functions: set[Function] = set()
        self._anywhere: set[Function] = set()  # the same at every pixel
        self._any_tile: set[Function] = set()  # the same in every tile
        cones: dict[Function, frozenset[Function]] = {}
        for f in order:
            makers = [x.creator for x in f.inputs]
            if not self.functions.issuperset(makers) or (makers and not recompute):
                continue
            if mode_of(f) is not Mode.FRAGMENT or any(a is not Access.SAME_PIXEL for a in f.access):
                continue
            cone = frozenset((f,)).union(*(cones[g] for g in makers if g is not None))
            if len(cone) > LARGEST_FREE:
                continue
            tileless = self._any_tile.issuperset(makers) and "tile" not in f.places
            constant = tileless and self._anywhere.issuperset(makers) and "pixel" not in f.places
            if tileless:
                self._any_tile.add(f)
            if constant:
                self._anywhere.add(f)
            if constant or recompute:
                self.functions.add(f)
                cones[f] = cone

    def inlined(self, function: Function | None, domain: Domain) -> bool:
        """Whether a shader over ``domain`` recomputes the Function instead of reading its image."""
        if function is None or function not in self.functions:
            return False
        own = function.output.domain
        same_tile = own.size == domain.size and own.batch == 1 and function in self._any_tile
        return function in self._anywhere or own == domain or same_tile
