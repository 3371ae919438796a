"""Scatters of fragments as sums over the fragments of each face.

Every fragment of a scatter adds to accumulators by atomic operations, in fixed point. If the faces are small and many, as the
segments of strands and points are, and each adds to entries that only its number decides, then one invocation a face
visits the pixels of its face, keeps its sums in registers, and stores them once. No fragment waits for another, and all scatters of
one draw share the visit:

    face 4 adds to entries 4 and 5    ->    entry 5 = sum of the ends of face 4 + sum of the starts of face 5

Entries that are not the number of the face and a constant are scattered to from the list of faces, which is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....ad import functional as F
from ....ad.evaluate import evaluate
from ....ad.graph import DrawFunction, FragmentScatterFunction, Variable
from ....ad.ops.image.draws import FragmentGraph
from ....ad.ops.image.lookup import scatter_add
from ....ad.ops.image.reduce import Sum, reduce_axes
from ....ad.ops.pixel.compare import Select
from ....ad.ops.pixel.constant import is_constant
from ....ad.ops.sums.accumulate import FragmentScatter
from ....ad.ops.sums.inside import joined
from ....ad.program import Program
from ....ad.traversal import rebuilt, topological_order
from ....ad.types import INT, Access, Domain, list_image, list_size
from ..context import Target
from ..lists import fragments_expected
from .face_sum import LARGEST, FaceSum, FaceTable, entries_of
from .join_draws import same_draws


@dataclass(frozen=True, eq=False)
class _Pair:
    """What a fragment adds to an entry that its face decides. shift: the entry is the number of the face and this; None: it is
    ``index``."""

    value: Variable
    index: Variable
    shift: int | None


_Scatters = Sequence[tuple[FragmentScatterFunction, list[_Pair]]]


@dataclass(frozen=True, eq=False)
class _Visit:
    """Scatters of one draw that share a visit. graph: of what it adds, in which what several of them read is computed once;
    externals: the images that it reads."""

    scatters: _Scatters
    graph: FragmentGraph
    externals: tuple[Variable, ...]

    @classmethod
    def of(cls, scatters: _Scatters) -> _Visit:
        parts = [
            (replace(f.fragment, roots=tuple(p.value for p in pairs)), f.externals) for f, pairs in scatters
        ]
        return cls(scatters, *joined(parts))


def sum_by_faces(program: Program, target: Target) -> dict[Variable, Variable]:
    """Scatters of fragments of small faces, by sums over these."""
    replace: dict[Variable, Variable] = {}
    for together in same_draws(program.functions, FragmentScatter) if target.options.sum_by_faces else ():
        found = [(f, pairs) for f in together if (pairs := _pairs(f)) is not None]
        if found and _are_small(found[0][0]):
            for visit in _visits(found, target.model.loop_body):
                replace.update(_tables(visit))
    return replace


def _visits(scatters: _Scatters, most: int) -> list[_Visit]:
    """The scatters of one draw, in order, by those that share a visit, of so many Functions where each alone has fewer."""
    found: list[_Visit] = []
    for each in scatters:
        more = _Visit.of([*found[-1].scatters, each]) if found else None
        if more is not None and len(more.graph.functions) <= most:
            found[-1] = more
        else:
            found.append(_Visit.of([each]))
    return found


def _pairs(f: FragmentScatterFunction) -> list[_Pair] | None:
    """The pairs of a scatter; None if a pixel decides where it adds, or the depth is used of faces of several triangles."""
    graph = f.fragment
    if (graph.z is not None and f.triangles_per_face > 1) or f.size == (1, 1) or f.triangles_per_face > 2:
        return None
    found = []
    for value, index in f.pairs:
        made = index.creator
        kept = value
        if isinstance(made, Select) and is_constant(made.inputs[2], -1.0):
            index = made.inputs[1]
            kept = F.select(made.inputs[0], value, 0.0)
        if index.vtype is not INT or not _by_face(f, index):
            return None
        found.append(_Pair(kept, index, _shift(f, index)))
    return found


def _by_face(f: FragmentScatterFunction, index: Variable) -> bool:
    """Whether the number of the face decides an index."""
    graph = f.fragment
    standing = dict(zip(graph.formals, f.externals, strict=True))
    if index in standing:
        return False
    for g in topological_order([index]):
        if "pixel" in g.places:
            return False
        for x, access in zip(g.inputs, g.access, strict=True):
            if x is graph.z or (access is Access.SAME_PIXEL and x in standing):
                return False
    return True


def _shift(f: FragmentScatterFunction, index: Variable) -> int | None:
    graph = f.fragment
    if any(x in graph.formals for g in topological_order([index]) for x in g.inputs):
        return None
    numbers = np.arange(f.faces)
    (found,) = evaluate([_over_faces(f, index, _numbers(f))])
    shifts = found.reshape(-1)[: f.faces] - numbers
    return int(shifts[0]) if (shifts == shifts[0]).all() else None


def _numbers(f: FragmentScatterFunction) -> Variable:
    return Variable(INT, list_size(f.faces), name="numbers of faces", data=list_image(np.arange(f.faces)))


def _over_faces(f: FragmentScatterFunction, index: Variable, numbers: Variable) -> Variable:
    """An index as a list of faces."""
    graph = f.fragment
    made = {graph.face: numbers, **dict(zip(graph.formals, f.externals, strict=True))}
    rebuilt(topological_order([index]), made)
    return made.get(index, index)


def _are_small(f: FragmentScatterFunction) -> bool:
    """Whether one invocation can visit the pixels of a face."""
    return fragments_expected(f, None) <= LARGEST * f.faces


def _tables(visit: _Visit) -> dict[Variable, Variable]:
    """The tables of the scatters of a visit."""
    first, graph = visit.scatters[0][0], visit.graph
    fields = {name: getattr(first, name) for name in DrawFunction.fields}
    sums = FaceSum(*first.inputs[: first.pulled], *visit.externals, **{**fields, "fragment": graph}).output
    starts = np.concatenate([[0], np.cumsum([v.vtype.components for v in graph.roots])]).tolist()
    found, numbers = {}, _numbers(first)
    for f, pairs in visit.scatters:
        own, starts = starts[: len(pairs)], starts[len(pairs) :]
        found[f.output] = _table(f, list(zip(pairs, own, strict=True)), sums, numbers)
    return found


def _table(
    f: FragmentScatterFunction, pairs: Sequence[tuple[_Pair, int]], sums: Variable, numbers: Variable
) -> Variable:
    kind, every = f.output.vtype, Domain(f.table.size, f.batch)
    near = tuple((start, p.shift) for p, start in pairs if p.shift is not None)
    parts = []
    if near:
        table = FaceTable(sums, kind=kind, table=every, faces=f.faces, pairs=near).output
        parts.append(table if f.table.tiles == f.batch else reduce_axes(Sum, table, "n"))
    for p, start in pairs:
        if p.shift is None:
            values, index = entries_of(sums, f.faces, start, kind), _over_faces(f, p.index, numbers)
            parts.append(scatter_add(values, index, f.table.size, f.table.batch))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
