"""Passes that merge Functions which do the same work side by side, or halve what reads too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial, reduce

from ..graph import Domain, DrawFunction, Function, ScatterFunction, Variable
from ..graph.program import Program
from ..ops.image.lookup import ScatterAdd, with_pairs
from ..ops.image.reduce import Reduce, ReduceMax, Sum
from ..ops.pixel.arithmetic import Add, Max, maximum
from ..ops.pixel.constant import is_constant
from ..ops.pixel.vector import swizzle, vector
from .rewrite import replaced, substitute

Key = Callable[[Variable], Hashable | None]
"""Terms with equal keys can be merged; None if a term must stay as it is."""


def merge_scatters(program: Program) -> Program:
    """A sum of scatters from one source domain into tables of one type and domain -> one scatter.

    scatter(v, i) + (x + scatter(w, j)) -> x + scatter(v, i, w, j). The new bound is the largest of the
    bounds, so that every addition fits. Scatters with different source domains are not merged: a pair of one
    texel would broadcast over the larger source and be added once for each of its texels.
    """

    def key(v: Variable) -> Hashable | None:
        s = v.creator
        return (v.vtype, v.domain, s.source) if isinstance(s, ScatterAdd) else None

    return replaced(program, merged_terms(program, Add, key, _one_scatter))


def halve_scatter(program: Program, f: ScatterFunction) -> Program:
    """A scatter of several pairs -> the sum (or maximum) of two scatters, each of half of the pairs."""
    half = len(f.pairs) // 2
    parts = [with_pairs(f, some) for some in (f.pairs[:half], f.pairs[half:])]
    kind = Add if f.operation == "add" else Max
    return replaced(program, {f.output: kind(*parts).output})


def pack_externals(program: Program, f: DrawFunction) -> Program:
    """Packs what fragments read at their own pixel, and values of one texel, into components of fewer images:
    floats and vectors of one domain together, up to four components. Returns the program itself if there are
    no two of these."""
    graph, alike = f.fragment, dict[Domain, list[int]]()
    for k, (x, fetched) in enumerate(zip(f.externals, graph.fetched if graph else (), strict=True)):
        if not (fetched or x.vtype.is_int or x.vtype.is_matrix or x.vtype.components > 3):
            alike.setdefault(x.domain, []).append(k)
    together = [some for numbers in alike.values() for some in _in_fours(f, numbers) if len(some) > 1]
    if not together:
        return program
    packed: dict[Variable, Variable] = {}
    formals, externals = list(graph.formals), list(f.externals)
    for some in together:
        whole = vector([f.externals[k] for k in some])
        formal, start = Variable(whole.vtype, whole.size, whole.batch, name="packed"), 0
        for k in some:
            end = start + f.externals[k].vtype.components
            packed[graph.formals[k]] = swizzle(formal, "xyzw"[start:end])
            start = end
        formals.append(formal)
        externals.append(whole)
    left = [k for k, v in enumerate(formals) if v not in packed]
    other = copy(f)
    other.fragment = replace(
        graph, formals=tuple(formals[k] for k in left), roots=tuple(substitute(graph.roots, packed))
    )
    made = other.rebuild(*f.inputs[: f.pulled], *(externals[k] for k in left))
    return replaced(program, {f.output: made.output})


def _in_fours(f: DrawFunction, numbers: Iterable[int]) -> list[list[int]]:
    """Externals in groups of up to four components, the largest first."""
    groups: list[list[int]] = []
    for k in sorted(numbers, key=lambda k: -f.externals[k].vtype.components):
        own = f.externals[k].vtype.components
        for some in groups:
            if sum(f.externals[n].vtype.components for n in some) + own <= 4:
                some.append(k)
                break
        else:
            groups.append([k])
    return groups


def merge_reductions(program: Program) -> Program:
    """sum(a) + sum(b) -> sum(a + b), and for the maximum, over one axis of images of one type and domain."""

    def key(kind: type[Reduce], v: Variable) -> Hashable | None:
        r = v.creator
        return (r.axis, r.inputs[0].vtype, r.inputs[0].domain) if isinstance(r, kind) else None

    # A reduction over three axes is three Functions; each round merges one, the last one first.
    for _ in "nyx":
        for kind, reduction in ((Add, Sum), (Max, ReduceMax)):
            by = merged_terms(program, kind, partial(key, reduction), partial(_one_reduction, kind))
            program = replaced(program, by)
    return program


def merged_terms(
    program: Program, kind: type[Function], key: Key, merge: Callable[[list[Variable]], Variable]
) -> dict[Variable, Variable]:
    """Maps each tree of ``kind``, an associative Function of two inputs, to a tree over merged terms. key:
    terms with equal keys are merged if nothing else reads them."""
    replace: dict[Variable, Variable] = {}
    if not any(isinstance(f, kind) and any(key(x) is not None for x in f.inputs) for f in program.functions):
        return replace
    for root, terms, single in _trees(program, kind):
        groups: dict[Hashable, list[Variable]] = {}
        for k, v in enumerate(terms):
            together = key(v) if v in single else None
            groups.setdefault(k if together is None else (together,), []).append(v)
        if len(groups) < len(terms):
            parts = [merge(group) if len(group) > 1 else group[0] for group in groups.values()]
            replace[root] = _tree(kind, parts)
    return replace


def _trees(
    program: Program, kind: type[Function]
) -> Iterator[tuple[Variable, list[Variable], set[Variable]]]:
    """(root, terms in order, terms with no other reader) of every maximal tree of ``kind``."""
    uses = Counter(x for f in program.functions for x in f.inputs) + Counter(program.roots)
    operands = {x for f in program.functions if isinstance(f, kind) for x in f.inputs if uses[x] == 1}
    for function in program.functions:
        root = function.output
        if not isinstance(function, kind) or root in operands:
            continue
        terms: list[Variable] = []
        stack = [root]
        while stack:
            v = stack.pop()
            if v is root or (isinstance(v.creator, kind) and v in operands):
                assert v.creator is not None
                stack.extend(reversed(v.creator.inputs))
            else:
                terms.append(v)
        yield root, terms, {v for v in terms if uses[v] == 1}


def _tree(kind: type[Function], terms: list[Variable]) -> Variable:
    return reduce(lambda a, b: kind(a, b).output, terms)


def _one_scatter(parts: list[Variable]) -> Variable:
    scatters = [v.creator for v in parts if isinstance(v.creator, ScatterAdd)]
    bounds = list(dict.fromkeys(s.inputs[0] for s in scatters))
    unbounded = [b for b in bounds if is_constant(b, float("inf"))]
    bound = unbounded[0] if unbounded else reduce(maximum, bounds)
    return ScatterAdd(scatters[0].table, bound, *(x for s in scatters for x in s.inputs[1:])).output


def _one_reduction(kind: type[Function], parts: list[Variable]) -> Variable:
    reductions = [v.creator for v in parts if isinstance(v.creator, Reduce)]
    first = reductions[0]
    return first.rebuild(_tree(kind, [r.inputs[0] for r in reductions])).output
