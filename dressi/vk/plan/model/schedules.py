"""Schedules of contractions as data: each row decides about one loop, one operand or one value.

A contraction (``F.correlate``, ``F.matmul``, ``F.contract`` and their gradients) is a nest of loops: parallel
axes make up its output, and inside of them lie the reduced ones. A schedule is a tuple of rows. Axes have
names: ``n``, ``c``, ``y``, ``x`` are those of the output, where several make up one ``x0``, ``x1``, ... from
the slowest on; ``r0``, ``r1``, ... are reduced. What no row names stays plain: workgroups divide a parallel
axis among them, and a reduced axis is a serial loop (the K-loop).

    y = F.correlate(image, kernel)                                      # 3 x 3
    rows = schedules.Bind("x", 64), schedules.Unroll("y", 4), schedules.Unroll("r1", 3)
    with DressiAD(options=PlanOptions(schedules={y: rows})) as ad:
        ...
        print(ad.plan.schedule)

Here the 64 invocations of a workgroup are neighbours in a row. Each computes a register tile of 4 rows, and
the loop over the columns of the kernel, ``r1``, is unrolled. ``ad.plan.schedule`` has the rows of all
contractions of a plan, those that the planner chose too, and can be given again.

rows: Split, SplitK, Bind, Reduce, Unroll, Shuffle, Pack, Tensorize, Stage, At
of a plan: LoopNest (which contraction), Schedules (the rows of several); MatrixShape (of ``Tensorize``)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args

from ....ad.contract.contraction import ContractFunction
from ....ad.graph import Function, Variable
from ....ad.graph.index_map import IMAGE_AXES, Affine
from ....ad.graph.traversal import topological_order
from ....errors import InputError

__all__ = [
    "At", "Bind", "LoopNest", "MatrixShape", "Pack", "Reduce", "Schedules", "Shuffle", "Split", "SplitK",
    "Stage", "Tensorize", "Unroll",
]  # fmt: skip


class MatrixShape(NamedTuple):
    """Products of matrices that a subgroup of ``lanes`` invocations makes: rows x depth times depth x
    columns, of 16-bit floats that are added in 32 bits. No rows where there are none."""

    rows: int = 0
    columns: int = 0
    depth: int = 0
    lanes: int = 0

    def parts(self, rows: int, columns: int, lanes: int) -> tuple[int, int] | None:
        """How many products below each other and beside each other each subgroup makes, of so many rows and
        columns of a workgroup of ``lanes`` invocations; None where the subgroups would have unequal parts."""
        if lanes % self.lanes or rows % self.rows or columns % self.columns:
            return None
        groups, below = lanes // self.lanes, rows // self.rows
        return None if below % groups else (below // groups, columns // self.columns)


NO_MATRIX = MatrixShape()


class Split(NamedTuple):
    """A parallel axis becomes two: an inner one of ``factor`` entries, and an outer one."""

    axis: str
    factor: int


class SplitK(NamedTuple):
    """A long sum becomes parts of at most ``terms`` terms (split-K), which lie along ``x``, or ``y`` for an
    output of one row.

    Another contraction adds up the parts. together: so many neighbouring parts are one part of what it adds
    up, because the invocations of a workgroup add them up before (``Reduce``)."""

    terms: int
    together: int = 1


class Bind(NamedTuple):
    """Neighbours along a parallel axis are neighbouring invocations, of which a workgroup has ``lanes``."""

    axis: str
    lanes: int


class Reduce(NamedTuple):
    """The same along the parts of a ``SplitK``, which a workgroup adds up in a tree in shared memory."""

    axis: str
    lanes: int


class Unroll(NamedTuple):
    """A block has ``factor`` entries of an axis, written one after the other. Of a parallel axis they are the
    register tile: each texel that an invocation loads serves several sums. Along the axis of ``Bind`` they
    are ``lanes`` apart."""

    axis: str
    factor: int


class Shuffle(NamedTuple):
    """So many invocations of a subgroup share loads that do not depend on the axis of ``Bind``."""

    lanes: int


class Pack(NamedTuple):
    """Four neighbours of an operand along its axis n, c, y or x share a texel, which one load brings. A
    dispatch before packs them. operand: its number among the inputs."""

    operand: int
    axis: str


class Tensorize(NamedTuple):
    """A workgroup makes a product of two operands: ``rows`` entries of the axis ``row`` times ``columns`` of
    ``column``, from ``depth`` terms of both that are staged in shared memory. shape: what ``shape.lanes``
    invocations make of it at once: one invocation in registers, or a subgroup by units for matrices."""

    row: str
    column: str
    rows: int
    columns: int
    depth: int
    shape: MatrixShape


class Stage(NamedTuple):
    """A workgroup loads what it reads of an operand into shared memory. operand: its number."""

    operand: int


class At(NamedTuple):
    """The contraction is computed where its one reader, another contraction, needs it, around each block of
    that, and is not stored (overlapped tiling): by each invocation in registers, or by a workgroup in shared
    memory (``shared``)."""

    shared: bool = False


Row = Split | SplitK | Bind | Reduce | Unroll | Shuffle | Pack | Tensorize | Stage | At
Rows = tuple[Row, ...]
_KINDS = get_args(Row)
Kind = TypeVar("Kind", bound=Row)


def of_kind(rows: Rows, kind: type[Kind]) -> list[Kind]:
    """The rows of one kind, in their order."""
    return [row for row in rows if isinstance(row, kind)]


def ordered(rows: Sequence[Row]) -> Rows:
    """The rows by their kinds, in the order of ``Row``, in which they are applied."""
    return tuple(sorted(rows, key=lambda row: _KINDS.index(type(row))))


def exchanged(rows: Rows, gone: Callable[[Row], bool], *new: Row) -> Rows:
    """The rows without some and with new ones."""
    return ordered((*(row for row in rows if not gone(row)), *new))


@lru_cache(maxsize=64)
def axis_names(f: ContractFunction) -> tuple[str, ...]:
    """The names of all axes of a contraction, by their numbers."""
    parallel = (
        [name] if len(own) == 1 else [f"{name}{k}" for k in range(len(own))]
        for name, own in zip(IMAGE_AXES, f.axes, strict=True)
    )
    return (*(name for names in parallel for name in names), *(f"r{k}" for k in range(len(f.reduced))))


@dataclass(frozen=True)
class LoopNest:
    """Which contraction rows are about: equal for equal terms of images of equal types and sizes, in every
    graph.

    key: the terms and sizes.  level: how many equal contractions lie one after the other before it.  text:
    its axes with their extents, and which texel of each operand is read.

    >>> x, w = Variable(FLOAT, (64, 48)), Variable(FLOAT, (3, 3))
    >>> nest = schedules.LoopNest.of(F.correlate(x, w))
    >>> nest
    n=1 c=1 y=48 x=64 r0=3 r1=3 of [0, 0, y + r0 - 1, x + r1 - 1], [0, 0, r0, r1]
    >>> nest == schedules.LoopNest.of(F.correlate(x * 2.0, w + 1.0))
    True
    """

    key: tuple[Any, ...]
    level: int
    text: str = field(compare=False)

    @classmethod
    def of(cls, v: Variable) -> LoopNest:
        """That of what a contraction makes. Raises InputError for other values."""
        if not isinstance(v, Variable) or not isinstance(v.creator, ContractFunction):
            raise InputError(
                f"{v!r} is made by no contraction; give what F.correlate, F.matmul or F.contract returned"
            )
        return loop_nests((f, f) for f in topological_order([v]))[v.creator]

    @classmethod
    def of_function(cls, f: ContractFunction, level: int = 0) -> LoopNest:
        names = dict(enumerate(axis_names(f)))

        def place(affine: Affine) -> str:
            text = affine.sum_glsl(names)
            return text if affine.whole else f"({text}) // {affine.divisor}"

        extents = " ".join(f"{name}={extent}" for name, extent in zip(names.values(), f.extents, strict=True))
        reads = (f"[{', '.join(map(place, m.affines))}]" for m in f.maps)
        text = f"{extents} of {', '.join(reads)}"
        return cls((f.identity, tuple((x.vtype, x.domain) for x in f.inputs)), level, text)

    def __repr__(self) -> str:
        return f"{self.text}, after {self.level} equal ones" if self.level else self.text


def loop_nests(functions: Iterable[tuple[Function, Function]]) -> dict[Function, LoopNest]:
    """The contractions among pairs: Function, and what stood for it before a schedule was chosen."""
    nests: dict[Function, LoopNest] = {}
    before: dict[
        Function, dict[Any, int]
    ] = {}  # for each Function the equal contractions one after the other
    for f, whole in functions:
        counts = before[f] = {}
        for x in f.inputs:
            for key, count in before.get(x.creator, {}).items() if x.creator is not None else ():
                counts[key] = max(counts.get(key, 0), count)
        if isinstance(whole, ContractFunction):
            nest = LoopNest.of_function(whole)
            nests[f] = replace(nest, level=counts.get(nest.key, 0))
            counts[nest.key] = nests[f].level + 1
    return nests


@dataclass(frozen=True)
class Schedules:
    """The rows of several contractions, in the order in which a plan computes them. No rows: by one
    invocation a texel.

    >>> y = F.correlate(Variable(FLOAT, (64, 48)), Variable(FLOAT, (3, 3)))
    >>> rows = schedules.Bind("x", 64), schedules.Unroll("y", 4)
    >>> given = schedules.Schedules.of({y: rows})
    >>> given[y] == rows, given == PlanOptions(schedules={y: rows}).schedules
    (True, True)
    >>> print(given)
    n=1 c=1 y=48 x=64 r0=3 r1=3 of [0, 0, y + r0 - 1, x + r1 - 1], [0, 0, r0, r1]
      Bind(axis='x', lanes=64)
      Unroll(axis='y', factor=4)
    """

    entries: tuple[tuple[LoopNest, Rows], ...] = ()

    @classmethod
    def of(cls, given: Schedules | Mapping[Any, Sequence[Row]]) -> Schedules:
        """Those of a mapping from Variables, or LoopNests, to rows. Raises InputError."""
        if isinstance(given, Schedules):
            return given
        if not isinstance(given, Mapping):
            raise InputError(f"schedules are a mapping from Variables to rows, not {given!r}")
        found = {}
        for key, rows in given.items():
            nest = key if isinstance(key, LoopNest) else LoopNest.of(key)
            wrong = [row for row in rows if type(row) not in _KINDS]
            if wrong:
                raise InputError(f"{wrong[0]!r} is no row of a schedule; those are in dressi.schedules")
            found[nest] = ordered(rows)
        return cls(tuple(found.items()))

    def get(self, nest: LoopNest) -> Rows | None:
        """The rows of a contraction, None where there are none for it."""
        return next((rows for own, rows in self.entries if own == nest), None)

    def __getitem__(self, key: Variable | LoopNest) -> Rows:
        rows = self.get(key if isinstance(key, LoopNest) else LoopNest.of(key))
        if rows is None:
            raise KeyError(key)
        return rows

    def __iter__(self) -> Iterator[LoopNest]:
        return (nest for nest, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        return "\n".join(
            line for nest, rows in self.entries for line in (str(nest), *(f"  {row}" for row in rows))
        )


NO_SCHEDULES = Schedules()
