"""Scatter-add by the way that suits the device: values are added to texels of a table, from images or from
the fragments of draws.

| the indices | strategy | lowering |
|---|---|---|
| are a list that the host knows | each texel gathers by an inverse list | ``gather_at_lists`` |
| of fragments follow from their small face | an invocation a face adds, then the faces scatter | ``sum_by_faces`` |
| are the pixel of the fragment | the draw blends; in fixed point where it cannot | ``sum_in_fixed_point`` |
| are any others | atomic additions in fixed point | none; ``measure_bounds`` for large tables |

``join_scatters`` and ``join_sums`` come first, so that what adds from the same fragments is one draw.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial, reduce
from itertools import islice
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ....ad import functional as F
from ....ad.graph import (
    AccumulateFunction,
    Domain,
    DrawFunction,
    FragmentScatterFunction,
    Function,
    PixelFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.evaluation import evaluate
from ....ad.graph.program import Program
from ....ad.graph.snippet import LOST, add_compensated
from ....ad.graph.traversal import rebuilt, topological_order
from ....ad.graph.types import FLOAT, INT, IVEC2, Access, VType, list_size
from ....ad.ops.image.coordinates import pixel_coordinates
from ....ad.ops.image.draws import Draw, FragmentGraph
from ....ad.ops.image.lookup import scatter_add, texel_of, with_pairs
from ....ad.ops.image.reduce import max as max_texel
from ....ad.ops.pixel.arithmetic import Add, maximum
from ....ad.ops.pixel.compare import Select
from ....ad.ops.pixel.constant import Constant, is_constant
from ....ad.ops.pixel.matrix import Columns, max_component
from ....ad.ops.pixel.vector import vector
from ....ad.sums import Accumulate, FragmentScatter, Pair, joined, kept_only
from ....ad.transform.gradient import total
from ....ad.transform.merge import merged_terms
from ....errors import InputError, PlanError
from ..analysis.context import Target
from ..analysis.dependencies import Leaves
from ..core.accumulators import accumulators_of
from ..core.lists import fragments_expected
from ..model.device import DeviceModel

# Sums over fragments that draw the same triangles are one draw.
#
# The gradient of a picture of strands draws its segments again for every list and image that their fragments
# read. Fragments of all these draws compute much of the same, so that one draw that makes several sums costs
# little more than one of them:
#
# - Scatters into one table whose results are added are one scatter, which adds pairs before it puts them.
# - Sums of up to four components together are the channels of one sum.
#
# Draws are joined that have the same triangles and no other order: those of one *level*, counted from the end
# of the program in draws that wait for each other.

CHANNELS = 4
Kind = TypeVar("Kind", bound=DrawFunction)


def join_scatters(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums of scatters of fragments of the same triangles into one table, as one scatter."""
    return merged_terms(program, Add, _table_of, _one_scatter)


def join_sums(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums over fragments of the same triangles, as channels of one sum."""
    groups = same_draws(program.functions, AccumulateFunction)
    swizzles: dict[Variable, Variable] = {}
    for group in groups:
        for some in _by_channels(group):
            swizzles |= _one_sum(some)
    return swizzles


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
    together: list[list[AccumulateFunction]] = []
    for f in group:
        own = f.output.vtype.components
        if f.output.vtype.is_matrix or own == CHANNELS:
            continue
        for some in together:
            held = sum(g.output.vtype.components for g in some)
            if held + own <= CHANNELS and _kept(some[0]) == _kept(f):
                some.append(f)
                break
        else:
            together.append([f])
    return [some for some in together if len(some) > 1]


def _kept(f: DrawFunction) -> Hashable:
    """What decides which fragments count; None if all do."""
    graph = f.fragment
    return (replace(graph, roots=graph.roots[1:]), f.externals) if len(graph.roots) > 1 else None


def _one_sum(sums: Sequence[AccumulateFunction]) -> dict[Variable, Variable]:
    """The sums as swizzles of one."""
    first = sums[0]
    graph, externals = joined([(f.fragment, f.externals) for f in sums])
    count = len(first.fragment.roots)
    values, keep = graph.roots[0::count], graph.roots[1:count]
    graph = replace(graph, roots=(vector(values), *keep))
    inputs = (*first.inputs[: first.pulled], *externals)
    together = Accumulate(inputs, first, graph, fixed_point=first.fixed_point).output
    parts, channels = {}, iter("xyzw")
    for f in sums:
        parts[f.output] = F.swizzle(together, "".join(islice(channels, f.output.vtype.components)))
    return parts


# Sums over the fragments of each face.
#
# Every fragment of a scatter adds to accumulators by atomic operations. If the faces are small and many, as
# the segments of strands and points are, and each adds to entries that only its number decides, then one
# invocation a face visits the pixels of its face, keeps its sums in registers, and stores them once. No
# fragment waits for another, and all scatters of one draw share the visit:
#
#     face 4 adds to entries 4 and 5    ->    entry 5 = sum of the ends of face 4 + sum of the starts of face 5
#
# So a scatter of fragments becomes one of faces, a short list. Where the number of the face alone decides the
# entries the host knows them, and this is a gather (``gather_at_lists``).

LARGEST = 64  # pixels of a face, on average: one invocation visits them all, one after the other
BOXES = 2.5
"""Pixels that an invocation visits for each that its face covers: the box, and waiting for its neighbours."""


class FaceSum(Draw):
    """The sum of each root of ``fragment`` over the fragments of each face, by an invocation a face. A kind
    of Function of its own, made by the planner: FLOAT list of (component, face), all faces of the first
    component, then those of the next.

    A pixel is covered as drivers compute it, but not on their grid: one whose centre lies within a hundredth
    of a pixel of an edge may count here and not there.
    """

    no_derivative = "is made when a plan is built; take derivatives of what it stands for"

    @cached_property
    def access(self) -> tuple[Access, ...]:
        return (Access.FETCH,) * len(self.inputs)

    @property
    def components(self) -> int:
        return sum(v.vtype.components for v in self.fragment.roots)

    @property
    def iterations(self) -> int:
        return LARGEST

    def reads(self, k: int) -> float:
        """Texels of an input, of one invocation."""
        if k < self.pulled:
            return 3.0 * self.triangles_per_face if k == 0 else 1.0
        formal = self.fragment.formals[k - self.pulled]
        functions = self.fragment.functions
        reads = sum(f.reads(n) for f in functions for n, x in enumerate(f.inputs) if x is formal)
        return reads if self.fragment.fetched[k - self.pulled] else 8.0 * max(reads, 1.0)

    @property
    def working_domain(self) -> Domain:
        return self.drawn

    def infer(self) -> tuple[VType, Domain]:
        self.check_inputs()
        return FLOAT, Domain(list_size(self.faces * self.components), self.batch)

    def evaluate(self, at, *x):
        total = np.zeros((self.batch, self.components, self.faces))
        for here in self.fragments(x, once=True):
            place = here.at.tile.reshape(-1) * self.faces + here.face
            values = [
                (v if v.ndim < 3 else np.swapaxes(v, 1, 2)).reshape(len(v), -1) for v in self.values(here, x)
            ]
            for k, column in enumerate(np.concatenate(values, axis=1).T):
                total[:, k] += np.bincount(place, column, self.batch * self.faces).reshape(self.batch, -1)
        (width, height), batch, _ = self.output.domain
        texels = np.zeros((batch, height * width))
        texels[:, : self.components * self.faces] = total.reshape(batch, -1)
        return texels.reshape(batch, height, width)


class _Visit(NamedTuple):
    """Scatters of one draw that share a visit, each with its pairs. graph: of what it adds, in which what
    several of them read is computed once; externals: the images that it reads."""

    scatters: Sequence[tuple[FragmentScatterFunction, list[Pair]]]
    graph: FragmentGraph
    externals: tuple[Variable, ...]


def _visit(scatters: Sequence[tuple[FragmentScatterFunction, list[Pair]]]) -> _Visit:
    parts = [(replace(f.fragment, roots=tuple(v for v, _ in pairs)), f.externals) for f, pairs in scatters]
    return _Visit(scatters, *joined(parts))


def sum_by_faces(program: Program, target: Target) -> dict[Variable, Variable]:
    """Scatters of fragments of small faces by sums over these; a visit has as many as one loop should."""
    replace: dict[Variable, Variable] = {}
    for together in (
        same_draws(program.functions, FragmentScatter) if target.options.runs("sum_by_faces") else ()
    ):
        scatters = [(f, pairs) for f in together if (pairs := _pairs(f)) is not None]
        if not scatters or fragments_expected(scatters[0][0], None) > LARGEST * scatters[0][0].faces:
            continue
        visits: list[_Visit] = []
        for each in scatters:
            more = _visit([*visits[-1].scatters, each]) if visits else None
            if more is not None and len(more.graph.functions) <= target.model.loop_body:
                visits[-1] = more
            else:
                visits.append(_visit([each]))
        for visit in visits:
            replace.update(_tables(visit))
    return replace


def _pairs(f: FragmentScatterFunction) -> list[Pair] | None:
    """The pairs of a scatter, with values of 0 where a fragment adds nothing; None if a pixel decides where
    it adds, or if it uses the depth of faces of several triangles."""
    graph = f.fragment
    if (graph.z is not None and f.triangles_per_face > 1) or f.size == (1, 1) or f.triangles_per_face > 2:
        return None
    pairs: list[Pair] = []
    for value, index in f.pairs:
        made = index.creator
        if isinstance(made, Select) and is_constant(made.inputs[2], -1.0):
            index = made.inputs[1]
            value = F.select(made.inputs[0], value, 0.0)
        if index.vtype is not INT or not _by_face(f, index):
            return None
        pairs.append((value, index))
    return pairs


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


def _tables(visit: _Visit) -> dict[Variable, Variable]:
    """The tables of the scatters of a visit, to which each face adds its sums."""
    first, graph = visit.scatters[0][0], visit.graph
    fields = {name: getattr(first, name) for name in DrawFunction.fields}
    sums = FaceSum(*first.inputs[: first.pulled], *visit.externals, **{**fields, "fragment": graph}).output
    number = F.linear_index(list_size(first.faces))
    known: dict[bytes, Variable] = {}
    tables, start = {}, 0
    for f, pairs in visit.scatters:
        parts = []
        for value, index in pairs:
            columns = [number + (start + k) * f.faces for k in range(value.vtype.components)]
            own = _composed(value.vtype, [F.lookup(sums, column) for column in columns])
            own = F.select(F.less(number, f.faces), own, 0.0)
            entry = _entries(f, index, number, known)
            parts.append(scatter_add(own, entry, f.table.size, f.table.batch))
            start += value.vtype.components
        tables[f.output] = total(parts)
    return tables


def _entries(
    f: FragmentScatterFunction, index: Variable, number: Variable, known: dict[bytes, Variable]
) -> Variable:
    """An index as a list of faces: a leaf where their numbers decide it. known: such leaves by their data."""
    graph, order = f.fragment, topological_order([index])
    made = {graph.face: number, **dict(zip(graph.formals, f.externals, strict=True))}
    rebuilt(order, made)
    listed = made.get(index, index)
    if any(x in graph.formals for g in order for x in g.inputs):
        return listed
    (entries,) = evaluate([listed])
    (numbers,) = evaluate([number])
    data = np.where(numbers < f.faces, entries, -1)  # nothing fills the last row
    return known.setdefault(data.tobytes(), Variable(INT, number.size, name="entries of faces", data=data))


def _composed(vtype: VType, parts: Sequence[Variable]) -> Variable:
    """A value of its components, those of matrices column by column."""
    if not vtype.is_matrix:
        return vector(parts)
    rows = vtype.shape[0]
    return Columns(*(vector(parts[k : k + rows]) for k in range(0, len(parts), rows))).output


# Sums in fixed point that a program does not ask for as they run: sums over fragments, and scatters into
# large tables.
#
# Where a device does not blend floats, or a user asks for it, every fragment adds its value to the
# accumulators of its own pixel. Sums of integers have the same bits in any order. Scatters without a bound
# have accumulators for values of every magnitude; where these need too much memory, a pass before finds the
# largest value and makes it the bound.


class PixelSum(FragmentScatter):
    """A sum over fragments as a scatter to their pixels."""

    @property
    def additions(self) -> int:
        return self.triangles  # each covers a pixel once


def measure_bounds(program: Program, target: Target) -> dict[Variable, Variable]:
    """Scatters whose accumulators cannot hold every magnitude, with the largest value as bound."""
    measured = {}
    for f in program.functions:
        if isinstance(f, ScatterFunction):
            sums = accumulators_of(f)
            if sums.adding and not (sums.bits or sums.far):
                largest = [max_texel(max_component(abs(value))) for value, _ in f.pairs]
                measured[f.output] = f.rebuild(reduce(maximum, largest), *f.inputs[1:]).output
    return measured


def sum_in_fixed_point(program: Program, target: Target) -> dict[Variable, Variable]:
    """Sums over fragments that are not blended, as scatters. Raises PlanError where neither is possible."""
    limits = target.limits
    sums = [f for f in program.functions if isinstance(f, AccumulateFunction)]
    sums = [f for f in sums if f.fixed_point or not limits.float_blending]
    adding = [*sums, *(f for f in program.functions if isinstance(f, FragmentScatterFunction))]
    if adding and not limits.fragment_atomics:
        added = adding[0]
        raise PlanError(
            f"{added!r} made at {added.where} cannot run on this device: its fragment shaders have no atomic operations"
            " (fragmentStoresAndAtomics); choose another device"
        )
    scatters = {}
    for f in sums:
        value, *keep = f.fragment.roots
        roots = kept_only([(value, pixel_coordinates(f.size, f.batch))], keep[0] if keep else None)
        scatters[f.output] = PixelSum(f.inputs, f, replace(f.fragment, roots=tuple(roots)), f.drawn).output
    return scatters


# Scatters by lists of indices: each texel of the table gathers what is added to it.
#
# Corners of faces, edges of a graph, neighbours of vertices: where the indices are a leaf, the host knows
# which texels add to which, and inverts the lists once. A gather needs no atomics, no accumulators and no
# pass that resolves them.
#
#     index 2 0 2   ->   texel 0: [1], texel 1: [], texel 2: [0, 2]
#
# The inverse lists are leaves of their own, which the workspace fills anew when the indices are sent.

LONGEST = 64  # entries of lists that are gathered, in each tile: an invocation reads a list one by one
MOST = (
    1 << 15
)  # entries that a list may ever have, through all tiles: some drivers end a loop after 65,535 iterations


class InverseList(Variable):
    """A leaf that follows from another one, ``indices``: what each texel of ``table`` is added from, in the
    order of the source. Two with the same indices, table and source are equal.

    part: "ranges", IVEC2 of the size of the table, the first entry and the number of entries of each texel;
    or "entries", INT of the size of the source, numbers of source texels. Both count row by row; through all
    tiles where these share the table, else through one tile.
    """

    __slots__ = ("_hash", "indices", "part", "source", "table")

    def __init__(self, indices: Variable, table: Domain, source: Domain, part: str):
        self.indices, self.table, self.source, self.part = indices, table, source, part
        self._hash = hash(self._key())
        batch = indices.tiles if table.tiles > 1 else 1 if part == "ranges" else source.tiles
        vtype, size = (IVEC2, table.size) if part == "ranges" else (INT, source.size)
        super().__init__(vtype, size, batch, name=f"{indices.name or f'#{indices.id}'}.{part}")
        assert indices.data is not None
        self.data = self.of(indices.data)

    def _key(self) -> tuple[Any, ...]:
        return self.indices, self.table, self.source, self.part

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, InverseList) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    def of(self, indices: np.ndarray) -> np.ndarray:
        """The value for these indices. Raises InputError for a list that no device may walk."""
        texels = named_texels(indices, self.indices.vtype.is_scalar, self.table, self.source)
        if self.part == "entries":
            return np.argsort(texels, axis=1, kind="stable").reshape(self.shape)
        counts = lengths(texels, self.table)
        if counts.max() > MOST:
            raise InputError(
                f"{self.indices} names one texel {counts.max()} times, more often than a loop may be long; give it as the data of"
                " a new Variable, or plan with PlanOptions(gather_at_lists=False)"
            )
        return np.stack([np.cumsum(counts, axis=1) - counts, counts], -1).reshape(self.shape)


def named_texels(indices: np.ndarray, scalar: bool, table: Domain, source: Domain) -> np.ndarray:
    """(tiles, source texels): the number of the texel that each adds to, row by row; that behind the last for
    none. tiles: those of the indices where each has a table of its own, else 1."""
    width, height = table.size
    x, y, inside = texel_of(indices, scalar, table.size)
    numbers = np.where(inside, y * width + x, width * height)
    tiles = source.tiles if table.tiles == 1 else len(numbers)
    numbers = np.broadcast_to(numbers, (tiles, source.size[1], source.size[0]))
    return numbers.reshape(1 if table.tiles == 1 else tiles, -1)


def lengths(texels: np.ndarray, table: Domain) -> np.ndarray:
    """(tiles, texels of the table): how often each is named."""
    count = table.size[0] * table.size[1]
    return np.stack([np.bincount(row, minlength=count + 1)[:-1] for row in texels])


class ListGather(PixelFunction):
    """Inputs (values, ranges, entries): the sum of the values that the inverse lists name, compensated as
    ``F.sum``.

    Equal to ``scatter_add`` by the indices of the lists. Made by the planner, after all derivatives.
    """

    fields = ("table", "source", "longest")
    ranges = 1
    no_derivative = "is made when a plan is built; take derivatives of F.scatter_add"
    table: Domain
    source: Domain
    longest: int
    """Entries of the longest list when the plan is made."""

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL, Access.FETCH)

    @property
    def operations(self):
        return 12.0 * self.fetches

    @property
    def fetches(self) -> float:
        """One for each addition to a texel of the table, on average and in one tile."""
        return max(self.source.area / self.table.area, 1.0)

    @property
    def iterations(self) -> int:
        return self.longest

    def infer(self):
        return self.inputs[0].vtype, self.table

    def _place(self, x: Variable, number: str) -> str:
        """The arguments of a read of x, over the source or broadcast to it, at the texel of a number."""
        (width, height), tiles, _ = self.source
        joint = self.table.tiles == 1 and tiles > 1
        column = f"{number} % {width}" if height > 1 or joint else number
        row = f"{number} / {width} % {height}" if height > 1 else "0"
        tile = f"{number} / {width * height}" if joint else "tile"
        return (
            f"ivec2({column if x.size[0] > 1 else 0}, {row if x.size[1] > 1 else 0}),"
            f" {tile if x.tiles > 1 else 0}"
        )

    @cached_property
    def glsl(self) -> str:
        values, _, entries = self.inputs
        return (
            f"{LOST}$y = $type(0);\n"
            "for (int k = $1.x; k < $1.x + $1.y; ++k) {\n"
            f"int entry = $2({self._place(entries, 'k')});\n"
            + add_compensated(f"$0({self._place(values, 'entry')})")
            + " }"
        )

    def evaluate(self, at, values, ranges, entries):
        (width, height), tiles, _ = self.source
        own = self.table.tiles > 1
        rank = values.ndim - 3
        every = np.broadcast_to(values, (tiles, height, width, *values.shape[3:]))
        every = every.reshape(tiles if own else 1, -1, *values.shape[3:])
        entries = entries.reshape(len(entries) if own else 1, -1)
        tile, listed = (at.tile, at.tile % len(entries)) if own else (0, 0)
        first, count = ranges[..., 0], ranges[..., 1]
        total = 0.0
        for k in range(int(count.max(initial=0))):
            there = k < count
            term = every[tile, entries[listed, np.where(there, first + k, 0)]]
            total = total + np.where(there.reshape(there.shape + (1,) * rank), term, 0)
        return np.broadcast_to(total, np.broadcast_shapes(np.shape(total), count.shape + (1,) * rank))


def gather_at_lists(program: Program, target: Target) -> dict[Variable, Variable]:
    """Additions into tables by leaves of indices, as gathers where that is faster. Leaves that change in
    every step stay scatters; so do scatters with a number as bound, which report values beyond it."""
    moving = target.changing.union(leaf for leaf, _ in program.updates)
    replace, longest, inverse = {}, cache(partial(_longest, moving)), cache(InverseList)
    for f in program.functions if target.options.runs("gather_at_lists") else ():
        if isinstance(f, ScatterFunction) and f.operation == "add":
            gathered = _gathered(f, target.model, longest, inverse)
            if gathered is not None:
                replace[f.output] = gathered
    return replace


def _gathered(
    f: ScatterFunction,
    model: DeviceModel,
    longest: Callable[[Variable, Domain, Domain], tuple[int, int] | None],
    inverse: Callable[[Variable, Domain, Domain, str], InverseList],
) -> Variable | None:
    """The table of a scatter, with a gather for each pair whose index is a list; None if there is no such
    pair. longest, inverse: ``_longest`` and ``InverseList``, once for each list."""
    bound = f.inputs[0]
    if isinstance(bound.creator, Constant) and np.isfinite(bound.creator.value).all():
        return None
    gathers, others = [], []
    for value, index in f.pairs:
        broadcasts = {value.tiles, index.tiles} <= {1, f.source.tiles}
        known = longest(index, f.table, f.source) if broadcasts else None
        # Views share a table, and do not count: a plan for many has the passes of a plan for one.
        if known is None or not _pays(known[0], model) or known[1] > MOST:
            others.append((value, index))
            continue
        ranges, entries = (inverse(index, f.table, f.source, part) for part in ("ranges", "entries"))
        gather = ListGather(value, ranges, entries, table=f.table, source=f.source, longest=known[1])
        gathers.append(gather.output)
    if not gathers:
        return None
    return reduce(add, [with_pairs(f, others), *gathers] if others else gathers)


def _longest(moving: Leaves, index: Variable, table: Domain, source: Domain) -> tuple[int, int] | None:
    """Entries of the longest list, in a tile and in all; None if the host does not know the indices."""
    if index.data is None or index in moving:
        return None
    own = Domain(table.size, index.tiles)
    texels = named_texels(index.data, index.vtype.is_scalar, own, Domain(source.size, index.tiles))
    counts = lengths(texels, own)
    in_tile = int(counts.max())
    if table.tiles > 1:
        return in_tile, in_tile
    return in_tile, int(counts.sum(0).max()) * (source.tiles // index.tiles)


def _pays(longest: int, model: DeviceModel) -> bool:
    """Whether the reads of the longest list, one after the other, take no longer than the passes of a
    scatter: it clears and resolves its accumulators behind barriers of their own."""
    return longest <= LONGEST and longest * model.fetch_latency <= 2 * (model.dispatch + model.barrier)


# Loops over lists that the host sends: a list may be longer than it was when the plan was made.

Counts = Mapping[Variable, int]


def counts_of(values: Mapping[Variable, Any]) -> dict[Variable, int]:
    """The longest list of each leaf that may be ranges: IVEC2, first entry and number of entries."""
    return {v: max(int(x[..., 1].max()), 0) for v, x in values.items() if v.vtype is IVEC2}


def check_lengths(plan: Any, counts: Counts) -> None:
    """Raises InputError if all loops of a shader of a ``Plan`` run longer than the device allows."""
    looping = ((f, counts.get(f.inputs[f.ranges], 0)) for f in plan.program.functions if f.ranges is not None)
    longer = {f: iterations for f, iterations in looping if iterations > f.iterations}  # than the plan counts
    for s in plan.sub_stages if longer else ():
        for part in dict.fromkeys((s, s.final)):
            iterations, allowed = part.iterations_with(longer), plan.limits.max_loop_iterations
            if iterations > allowed:
                raise InputError(_sentence(longer, iterations, allowed))


def _sentence(longer: Mapping[Function, int], iterations: int, allowed: int) -> str:
    f = max(longer, key=longer.__getitem__)
    assert f.ranges is not None
    leaf = f.inputs[f.ranges]
    if isinstance(leaf, InverseList):
        what = f"{leaf.indices} names one texel {longer[f]} times"
        cure = "give it as the data of a new Variable, or plan with PlanOptions(gather_at_lists=False)"
    else:
        what = f"{leaf} has a list of {longer[f]} entries"
        cure = "give it as the data of a new Variable, or send shorter lists"
    return f"{what}: one shader would loop {iterations} times for each texel, the device allows {allowed}; {cure}"
