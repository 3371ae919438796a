"""What packing needs to know of a graph: order, users, which Functions consumers recompute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ad.graph import Domain, Function, Variable, topological_order
from ...ad.types import Access
from .cost import CostModel
from .recompute import Recomputing
from .substage import Mode, iteration_domain, mode_of


class Analysis:
    """Functions between ``given`` (Variables that have values already) and ``roots``.

    ``free`` Functions depend on nothing stored (constants, coordinates and what is made of them): they are
    recomputed in each consumer and only stored where somebody needs an image of them.  ``recomputed`` are those
    that a cost model finds cheaper to make again, at whatever texel a consumer needs, than to store; not those in
    ``stored``.
    """

    def __init__(
        self,
        roots: Sequence[Variable],
        given: Iterable[Variable] = (),
        *,
        recompute: bool = True,
        cost: CostModel | None = None,
        stored: Iterable[Function] = (),
    ):
        self.roots = tuple(dict.fromkeys(roots))
        self.given = set(given)
        self.order = [f for f in topological_order(self.roots) if f.output not in self.given]
        if self.given:
            self.order = self._needed()
        self.position = {f: k for k, f in enumerate(self.order)}
        self.mode = {f: mode_of(f) for f in self.order}
        self._stored_inputs: dict[Function, list[tuple[Variable, Access]]] = {}
        self.recomputed: set[Function] = set()
        self._find_free(recompute)
        self._find_stored()
        if cost is not None:
            kept = [*stored, *(r.creator for r in self.roots if r.creator in self.position)]
            choice = Recomputing(self.packed, self.levels(), self.mode, kept, self.inlined, cost)
            self.recomputed = choice.run()
            self._stored_inputs.clear()
            self._find_stored()

    def _needed(self) -> list[Function]:
        needed: set[Function] = set()
        stack = [r.creator for r in self.roots if r.creator and r not in self.given]
        while stack:
            function = stack.pop()
            if function in needed:
                continue
            needed.add(function)
            stack.extend(x.creator for x in function.inputs if x.creator and x not in self.given)
        return [f for f in self.order if f in needed]

    def _find_free(self, recompute: bool) -> None:
        self.free: set[Function] = set()
        self.anywhere: set[Function] = set()  # free and the same at every pixel
        self.any_tile: set[Function] = set()  # free and the same in every tile
        for f in self.order:
            if self.mode[f] is not Mode.FRAGMENT or any(a is not Access.SAME_PIXEL for a in f.access):
                continue
            makers = [x.creator for x in f.inputs]
            if not all(m in self.free for m in makers):
                continue
            if makers and not recompute:
                continue
            tileless = all(m in self.any_tile for m in makers) and "tile" not in f.places
            constant = tileless and all(m in self.anywhere for m in makers) and "pixel" not in f.places
            if tileless:
                self.any_tile.add(f)
            if constant:
                self.anywhere.add(f)
            if constant or recompute:
                self.free.add(f)

    def inlined(self, function: Function | None, domain: Domain) -> bool:
        """Whether a shader over ``domain`` recomputes the Function instead of reading its image."""
        if function not in self.free:
            return False
        own = function.output.domain
        same_tile = own.size == domain.size and own.batch == 1 and function in self.any_tile
        return function in self.anywhere or own == domain or same_tile

    def stored_inputs(self, function: Function) -> list[tuple[Variable, Access]]:
        """What must lie in images for the Function: its inputs, or what they are recomputed from; with accesses."""
        found = self._stored_inputs.get(function)
        if found is None and not any(x.creator in self.recomputed for x in function.inputs):
            domain = iteration_domain(function)
            pairs = (
                pair
                for pair in zip(function.inputs, function.access, strict=True)
                if pair[1] is not Access.SAME_PIXEL or not self.inlined(pair[0].creator, domain)
            )
            found = self._stored_inputs[function] = list(dict.fromkeys(pairs))
        elif found is None:
            reached: dict[tuple[Variable, Access], None] = {}
            stack = [(function, iteration_domain(function), Access.SAME_PIXEL)]
            seen = set(stack)
            while stack:
                f, domain, how = stack.pop()
                for x, access in zip(f.inputs, f.access, strict=True):
                    if access is Access.SAME_PIXEL and self.inlined(x.creator, domain):
                        continue
                    here = how if access is Access.SAME_PIXEL else _elsewhere(how, access)
                    if x.creator not in self.recomputed:
                        reached[x, here] = None
                        continue
                    if x.domain != domain:
                        here = _elsewhere(here, Access.FETCH)
                    entry = (x.creator, x.domain, here)
                    if entry not in seen:
                        seen.add(entry)
                        stack.append(entry)
            found = self._stored_inputs[function] = list(reached)
        return found

    def _find_stored(self) -> None:
        """``packed``: the Functions that must be packed; ``users``: of each, the packed consumers."""
        wanted: set[Function] = {r.creator for r in self.roots if r.creator in self.position}
        self.users: dict[Function, list[Function]] = {f: [] for f in self.order}
        for f in reversed(self.order):
            if f not in wanted:
                continue
            for x, _ in self.stored_inputs(f):
                if x.creator in self.position:
                    wanted.add(x.creator)
                    users = self.users[x.creator]
                    if not users or users[-1] is not f:
                        users.append(f)
        self.packed = [f for f in self.order if f in wanted]

    def levels(self) -> dict[Function, int]:
        """Distance from the end in SubStages: 0 for what nothing reads, +1 across every edge that cannot be fused."""
        levels: dict[Function, int] = {}
        for f in reversed(self.packed):
            level = 0
            for user in self.users[f]:
                level = max(level, levels[user] + (0 if self._fusable(f, user) else 1))
            levels[f] = level
        return levels

    def _fusable(self, producer: Function, user: Function) -> bool:
        return (
            self.mode[producer] is Mode.FRAGMENT
            and self.mode[user] in (Mode.FRAGMENT, Mode.SCATTER)
            and producer.output.domain == iteration_domain(user)
            and all(
                access is Access.SAME_PIXEL for x, access in self.stored_inputs(user) if x is producer.output
            )
        )

    def body(self, functions: Iterable[Function], domain: Domain) -> tuple[Function, ...]:
        """The Functions and those recomputed for them at the same pixel over ``domain``, producers first."""
        found: set[Function] = set()
        stack = list(functions)
        while stack:
            f = stack.pop()
            if f in found:
                continue
            found.add(f)
            stack.extend(
                x.creator
                for x, access in zip(f.inputs, f.access, strict=True)
                if x.creator and access is Access.SAME_PIXEL and self._here(x.creator, domain)
            )
        return tuple(sorted(found, key=self.position.__getitem__))

    def _here(self, function: Function, domain: Domain) -> bool:
        """Whether a shader over ``domain`` makes the value of a Function at its own pixel."""
        here = function in self.recomputed and function.output.domain == domain
        return here or self.inlined(function, domain)


def _elsewhere(how: Access, access: Access) -> Access:
    """How something is read that is read in the way ``access`` by somebody who is made in the way ``how``."""
    return Access.PULL if Access.PULL in (how, access) else Access.FETCH
