"""Sums over fragments that draw the same triangles are one draw.

The gradient of a picture of strands draws its segments again for every list and image that their fragments read. Fragments of
all these draws compute much of the same, so that one draw that makes several sums costs little more than one of them:

- Scatters into one table whose results are added are one scatter, which adds each pair of values before it puts them.
- Sums of up to four components together are the channels of one sum.

Draws are joined that have the same triangles and no other order: those of one *level*, counted from the end of the program in
draws that wait for each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ....ad import functional as F
from ....ad.graph import AccumulateFunction, DrawFunction, Function, Variable
from ....ad.ops.pixel.arithmetic import Add
from ....ad.ops.sums.accumulate import Accumulate, FragmentScatter
from ....ad.ops.sums.inside import joined, kept_only
from ....ad.program import Program
from ....ad.transform.merge import merged_terms
from ..context import Target

CHANNELS = 4
Kind = TypeVar("Kind", bound=DrawFunction)


def join_scatters(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums of scatters of fragments of the same triangles into one table, as one scatter."""
    return merged_terms(program, Add, _table_of, _one_scatter)


def join_sums(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums over fragments of the same triangles, as channels of one sum."""
    groups = same_draws(program.functions, AccumulateFunction)
    found = (_one_sum(some) for group in groups for some in _by_channels(group))
    return {old: new for some in found for old, new in some.items()}


def same_draws(functions: Iterable[Function], kind: type[Kind]) -> list[list[Kind]]:
    """Functions of a kind, those in one list that draw the same triangles and do not wait for each other."""
    later: dict[Variable, int] = {}
    groups: dict[Hashable, list[Kind]] = {}
    functions = tuple(functions)
    for f in reversed(functions if any(isinstance(f, kind) for f in functions) else ()):
        level = later.get(f.output, 0)
        if isinstance(f, DrawFunction):
            if isinstance(f, kind):
                groups.setdefault((level, *drawing(f)), []).append(f)
            level += 1
        for x in f.inputs:
            later[x] = max(later.get(x, 0), level)
    return [group[::-1] for group in groups.values()]


def drawing(f: DrawFunction) -> tuple[Any, ...]:
    """What draws of the same triangles have in common."""
    fields = (getattr(f, name) for name in DrawFunction.fields if name != "fragment")
    graph = f.fragment
    z = None if graph.z is None else graph.z.domain
    return (f.inputs[: f.pulled], *fields, graph.face.domain, z, getattr(f, "fixed_point", False))


def _table_of(v: Variable) -> Hashable | None:
    f = v.creator
    return (v.vtype, v.domain, *drawing(f)) if type(f) is FragmentScatter else None


def _one_scatter(parts: list[Variable]) -> Variable:
    scatters = [v.creator for v in parts if isinstance(v.creator, FragmentScatter)]
    first = scatters[0]
    graph, externals = joined([(f.fragment, f.externals) for f in scatters])
    pairs = zip(graph.roots[0::2], graph.roots[1::2], strict=True)
    graph = replace(graph, roots=tuple(kept_only(list(pairs), None)))
    return FragmentScatter((*first.inputs[: first.pulled], *externals), first, graph, first.table).output


def _by_channels(group: Iterable[AccumulateFunction]) -> list[list[AccumulateFunction]]:
    """Sums that fit in the channels of one, in order; of the same fragments."""
    found: list[list[AccumulateFunction]] = []
    for f in group:
        own = f.output.vtype.components
        if f.output.vtype.is_matrix or own == CHANNELS:
            continue
        for some in found:
            held = sum(g.output.vtype.components for g in some)
            if held + own <= CHANNELS and _kept(some[0]) == _kept(f):
                some.append(f)
                break
        else:
            found.append([f])
    return [some for some in found if len(some) > 1]


def _kept(f: DrawFunction) -> Hashable:
    """What decides which fragments count; None if all do."""
    graph = f.fragment
    if len(graph.roots) < 2:
        return None
    keep = replace(graph, roots=graph.roots[1:])
    return keep, f.externals


def _one_sum(sums: Sequence[AccumulateFunction]) -> dict[Variable, Variable]:
    """The sums as swizzles of one."""
    first = sums[0]
    graph, externals = joined([(f.fragment, f.externals) for f in sums])
    count = len(first.fragment.roots)
    values, keep = graph.roots[0::count], graph.roots[1:count]
    wide = (F.vec2, F.vec3, F.vec4)[sum(v.vtype.components for v in values) - 2]
    graph = replace(graph, roots=(wide(*values), *keep))
    together = Accumulate(
        (*first.inputs[: first.pulled], *externals), first, graph, fixed_point=first.fixed_point
    ).output
    found, start = {}, 0
    for f in sums:
        end = start + f.output.vtype.components
        found[f.output] = F.swizzle(together, "xyzw"[start:end])
        start = end
    return found
