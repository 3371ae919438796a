"""Schedules of contractions as data: each row decides about one loop, one operand or one value.

A contraction is a nest of loops: parallel axes make up its output, and inside of them lie the reduced ones. A schedule is a
tuple of rows, applied from the first to the last. Axes have names: ``n``, ``c``, ``y``, ``x`` are those of the output, where
several make up one ``x0``, ``x1``, ... from the slowest on; ``r0``, ``r1``, ... are reduced. What no row names stays plain:
workgroups divide a parallel axis among them, and a reduced axis is a serial loop (the K-loop).

    (Bind("x", 64), Unroll("y", 4), Unroll("r1", 3))

Here the 64 invocations of a workgroup are neighbours in a row. Each computes a register tile of 4 rows, and the loop over the
columns of a kernel, ``r1``, is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, get_args

from ..limits import MatrixShape


class Split(NamedTuple):
    """A parallel axis becomes two: the outer one has the extent divided by ``factor``, the inner one has ``factor``."""

    axis: str
    factor: int


class SplitK(NamedTuple):
    """A long sum becomes parts of at most ``terms`` terms (split-K), which lie along ``x``, or ``y`` for an output of one row.

    Another contraction adds up the parts. together: so many neighbouring parts are one part of what it adds up, because the
    invocations of a workgroup add them up before (``Reduce``)."""

    terms: int
    together: int = 1


class Bind(NamedTuple):
    """Neighbours along a parallel axis are neighbouring invocations, of which a workgroup has ``lanes``."""

    axis: str
    lanes: int


class Reduce(NamedTuple):
    """The same along the parts of a ``SplitK``; the invocations of a workgroup add up theirs in a tree, in shared memory."""

    axis: str
    lanes: int


class Unroll(NamedTuple):
    """A block has ``factor`` entries of an axis, written one after the other. Of a parallel axis they are the register tile:
    each texel that an invocation loads serves several sums. Along the axis of ``Bind`` they are ``lanes`` apart."""

    axis: str
    factor: int


class Shuffle(NamedTuple):
    """So many invocations of a subgroup load together what does not depend on the axis of ``Bind``, and take it from each
    other by shuffles."""

    lanes: int


class Pack(NamedTuple):
    """Four neighbours of an operand along its axis n, c, y or x share a texel, which one load brings. A dispatch before packs
    them. operand: its number among the inputs."""

    operand: int
    axis: str


class Tensorize(NamedTuple):
    """A workgroup makes a product of two operands: ``rows`` entries of the axis ``row`` times ``columns`` of ``column``, from
    ``depth`` terms of both that are staged in shared memory. shape: what ``shape.lanes`` invocations make of it at once: one
    invocation in registers, or a subgroup by units for matrices."""

    row: str
    column: str
    rows: int
    columns: int
    depth: int
    shape: MatrixShape


class Stage(NamedTuple):
    """A workgroup loads what it reads of an operand into shared memory, once. operand: its number among the inputs."""

    operand: int


class At(NamedTuple):
    """The contraction is computed where its one reader, another contraction, needs it, around each block of that, and is not
    stored (overlapped tiling): by each invocation in registers, or by a workgroup in shared memory (``shared``)."""

    shared: bool = False


Row = Split | SplitK | Bind | Reduce | Unroll | Shuffle | Pack | Tensorize | Stage | At
Rows = tuple[Row, ...]
_KINDS = get_args(Row)
Kind = TypeVar("Kind", bound=Row)


def of_kind(rows: Rows, kind: type[Kind]) -> list[Kind]:
    """The rows of one kind, in their order."""
    return [row for row in rows if isinstance(row, kind)]


def exchanged(rows: Rows, gone: Callable[[Row], bool], *new: Row) -> Rows:
    """The rows without some and with new ones, by their kinds in the order of ``Row``."""
    kept = (row for row in rows if not gone(row))
    return tuple(sorted((*kept, *new), key=lambda row: _KINDS.index(type(row))))
