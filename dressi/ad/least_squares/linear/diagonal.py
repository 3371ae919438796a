"""The diagonal of J^T J, from squared partial derivatives.

A residual of a stencil or of a graph reads each unknown along *paths*: chains of shifts, crops, parts of
channels and lookups, the empty one too. All else is computed texel by texel, in front of a selection or
behind it. A path A is a matrix of zeros and ones, so the residual's share of the diagonal is exact:

    r = f(A_1 x, A_2 x, ...):    diag(J^T J) = sum_a A_a^T (df / d(A_a x))^2

If g is computed texel by texel, lookup(g(x), i) is g(lookup(x, i)) and reads x along lookup(., i). Index maps
after each other are one, so that there and back is no path of its own. If one residual still reads one texel
along two paths, as at a clamped border, the squares are added, not the sum squared.

A contraction of a few terms, as a stencil over channels or a small convolution has, is the sum of its body at
so many selections (``unrolled``).

Residuals of another shape, such as rendered images, have no such form; ``probes`` serves them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ... import functional as F
from ...contract.contraction import ContractFunction
from ...graph import Domain, Function, PixelFunction, Variable
from ...graph.index_map import Affine, IndexMap
from ...graph.traversal import topological_order
from ...graph.types import Access
from ...ops.image.lookup import Lookup, Take
from ...ops.image.reduce import Expand
from ...transform.gradient import blocks_derivatives, depending, gradient, jvp, total
from .vectors import inner, joined, squared_norm, units

__all__ = ["diagonal"]

SELECTIONS: tuple[type[Function], ...] = (Lookup, Take, Expand)
"""Functions whose output texels are texels of their first input, or zero; so are some contractions."""
FEW_TERMS = 16
"""Terms of a contraction up to which they are selections of their own. Each costs about as much as a product
with J^T, and random probes take as many."""

Path = tuple[Hashable, ...]
"""The selections on the way from an unknown, in their order."""
Flow = dict[Path, list[Variable]]
"""The derivative of a value along each path, by each component of the unknown."""


def selections(residual: Variable, unknown: Variable) -> list[Function] | None:
    """The selections between an unknown and a residual, in topological order. None: the rest is not local."""
    depending, selecting = {unknown}, []
    for function in topological_order([residual]):
        read = [i for i, x in enumerate(function.inputs) if x in depending]
        if not read or blocks_derivatives(function):
            continue
        if read == [0] and selects(function):
            selecting.append(function)
        elif not texel_by_texel(function, read):
            return None
        depending.add(function.output)
    return selecting


def selects(function: Function) -> bool:
    """Whether its texels are texels of its first input, or zero."""
    if isinstance(function, ContractFunction):
        return function.sums and function.place is None and function.terms == 1
    return isinstance(function, SELECTIONS)


def unrolled(residual: Variable, unknowns: Iterable[Variable]) -> Variable:
    """The residual with its contractions of few terms written as sums over selections. Contractions behind
    others stay: their terms read the same texels along many paths, whose squares do not add up."""
    order, unknowns = topological_order([residual]), list(unknowns)
    active, new = depending(order, unknowns), dict[Variable, Variable]()
    summed: set[Variable] = set()  # what follows from an unknown through more than one term
    for f in order:
        moving = [x for x in f.inputs if x in active]
        behind = not summed.isdisjoint(moving)
        inputs = _replaced(f.inputs, new)
        if moving and isinstance(f, ContractFunction) and not selects(f) and not f.output.vtype.is_int:
            several = f.terms > 1
            if several or behind:
                summed.add(f.output)
            # All terms count, and are computed from what is read alone.
            plain = f.combine == "add" and f.place is None and not f.guards and not f.indices
            if f.terms <= FEW_TERMS and not (several and behind) and plain:
                new[f.output] = _unrolled(f, inputs)
                continue
        elif behind:
            summed.add(f.output)
        if any(x is not y for x, y in zip(inputs, f.inputs, strict=True)):
            new[f.output] = f.rebuild(*inputs).output
    return new.get(residual, residual)


def _replaced(inputs: Sequence[Variable], new: Mapping[Variable, Variable]) -> list[Variable]:
    return [new.get(x, x) for x in inputs]


def _unrolled(f: ContractFunction, inputs: Sequence[Variable]) -> Variable:
    """The sum of the body at the texels that each term reads."""
    terms = []
    for index in np.ndindex(*f.reduced):
        values = {a: Affine.of({}, int(i)) for a, i in zip(f.reduced_axes, index, strict=True)}
        known: dict[Variable, Variable] = {}
        for x, m, formal in zip(inputs, f.maps, f.body.formals, strict=True):
            place = m.substituted(values)
            assert place is not None  # constants are affine
            known[formal] = selection(x, place, f.parallel)
        for function in f.body.functions:
            read = _replaced(function.inputs, known)
            known[function.output] = function.rebuild(*read).output if read else function.output
        terms.append(known[f.body.root])
    return F.fit(total(terms), f.output)


def selection(x: Variable, place: IndexMap, parallel: tuple[tuple[int, ...], ...]) -> Variable:
    """The texels of x at the places of a map. parallel: the extents of the axes n, c, y, x of the result."""
    return ContractFunction(x, parallel, (), (place,)).output


def texel_by_texel(function: Function, read: Sequence[int]) -> bool:
    """Whether each texel of a Function's output is computed from that texel of these inputs alone."""
    return isinstance(function, PixelFunction) and all(function.access[i] is Access.SAME_PIXEL for i in read)


class Paths:
    """The paths from an unknown along selections: what is read there, and the derivatives behind them."""

    def __init__(self, unknown: Variable, functions: Sequence[Function]):
        self.unknown = unknown
        self.read: dict[Path, Variable] = {(): unknown}
        self._flows: dict[Variable, Flow] = {unknown: {(): units(unknown.vtype)}}
        for function in functions:
            flow: Flow = {}
            for path, tangents in self.flow(function.inputs[0]).items():
                further, moved = self._extended(path, function), [selected(function, t) for t in tangents]
                known = flow.get(further)
                flow[further] = moved if known is None else [a + b for a, b in zip(known, moved, strict=True)]
            self._flows[function.output] = flow

    def _extended(self, path: Path, function: Function) -> Path:
        """The path with one more selection. Consecutive index maps are composed, so that there and back is no
        path of its own; derivatives are zero where a map on the way leaves the image."""
        table, x = function.inputs[0], self.read[path]
        if x.domain != table.domain:  # what was broadcast on the way has its texels everywhere
            path = (*path, (Expand, table.domain))
            self.read.setdefault(path, F.expand(x, table.batch, table.size, table.channels))
        name: Hashable = (type(function), function.attributes, function.inputs[1:])
        if (
            isinstance(function, ContractFunction)
            and not function.guards
            and sum(map(len, function.parallel)) == 4  # each of n, c, y, x is one axis
        ):
            name = Texels(function.maps[0], function.output.domain)
        if isinstance(name, Texels):
            if path and isinstance(last := path[-1], Texels) and (both := last.then(name)) is not None:
                path, name = path[:-1], both
            if name == Texels(IndexMap.of(), self.read[path].domain):
                return path
        further = (*path, name)
        if further not in self.read:
            x = self.read[path]
            self.read[further] = name.of(x) if isinstance(name, Texels) else reading(function, x)
        return further

    def flow(self, value: Variable) -> Flow:
        """The derivatives of a value that is local in the unknown and in what is selected."""
        if value in self._flows:
            return self._flows[value]
        flows = {x: self._flows[x] for x in self._cut(value)}
        still = {x: [F.zeros_like(x)] * self.unknown.vtype.components for x in flows}
        along: Flow = {}
        for path in dict.fromkeys(path for flow in flows.values() for path in flow):
            parts = zip(*(flow.get(path, still[x]) for x, flow in flows.items()), strict=True)
            along[path] = [jvp([value], list(flows), part)[0] for part in parts]
        return along

    def _cut(self, value: Variable) -> list[Variable]:
        """The unknown and the selected values that a value follows from, the nearest ones alone."""
        seen, waiting, nearest = {value}, [value], []
        while waiting:
            x = waiting.pop()
            if x in self._flows:
                nearest.append(x)
            elif x.creator is not None and not blocks_derivatives(x.creator):
                further = [v for v in x.creator.inputs if v not in seen]
                seen.update(further)
                waiting += further
        return nearest


class Texels(NamedTuple):
    """The name of a selection by an index map, and the domain of what it gives."""

    map: IndexMap
    domain: Domain

    def of(self, x: Variable) -> Variable:
        """The texels of x."""
        shape = self.domain.batch, self.domain.channels, self.domain.size[1], self.domain.size[0]
        return selection(x, self.map, tuple((n,) for n in shape))

    def then(self, other: Texels) -> Texels | None:
        """This selection and the other of its result as one; None if they are not."""
        if (self.map.border, other.map.border) != ("zero", "zero"):
            return None
        both = self.map.compose(other.map)
        return None if both is None else Texels(both, other.domain)


def selected(function: Function, x: Variable) -> Variable:
    """The selection that a Function makes, of x instead of its first input, to which x is broadcast."""
    others = (None for _ in function.inputs[1:])
    selection = function.jvp((F.fit(x, function.inputs[0]), *others))  # selections are linear
    assert selection is not None
    return selection


def reading(function: Function, x: Variable) -> Variable:
    """The selection that a Function makes, of an unknown whose type may differ from that of its table."""
    if x.vtype is function.inputs[0].vtype or isinstance(function, ContractFunction):
        return selected(function, x)
    return function.rebuild(x, *function.inputs[1:]).output


def local_diagonal(residual: Variable, unknown: Variable, functions: Sequence[Function]) -> list[Variable]:
    """The shares of one residual in the diagonal for one unknown, like the unknown; none if it does not read
    it. functions: the ``selections`` between them."""
    paths = Paths(unknown, functions)
    shares = []
    for path, tangents in paths.flow(residual).items():
        squares = [squared_norm(F.fit(t, residual)) for t in tangents]
        seed = F.stop_gradient(joined(squares, unknown.vtype))
        # The gradient of a linear function of the unknown is the transpose of the path.
        shares += gradient(F.sum(inner(paths.read[path], seed)), [unknown])
    return shares


class Diagonal(NamedTuple):
    """values: diag(J^T J) of the local residuals, like each unknown. rest: the other residuals."""

    values: list[Variable]
    rest: list[Variable]


def diagonal(residuals: Sequence[Variable], unknowns: Sequence[Variable]) -> Diagonal:
    """diag(J^T J) of all residuals that read every unknown along paths, and the residuals that do not."""
    shares: list[list[Variable]] = [[] for _ in unknowns]
    rest = []
    for r in residuals:
        form = unrolled(r, unknowns)
        selecting = [selections(form, x) for x in unknowns]
        if None in selecting:
            rest.append(r)
            continue
        for own, x, functions in zip(shares, unknowns, selecting, strict=True):
            own += local_diagonal(form, x, functions or [])
    sums = [total(own) if own else F.zeros_like(x) for own, x in zip(shares, unknowns, strict=True)]
    return Diagonal(sums, rest)
