"""Strands and points as data: what is drawn, checked before a device sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, INT, VEC3, VEC4, VType, list_size
from ...ad.transform.gradient import total
from ...errors import InputError
from ..core.lists import list_leaf
from ..mesh import Mesh
from ..surface.color import check_linear

CAPS = ("round", "flat")
UNITS = ("world", "pixels")
LARGEST_RADIUS = 1e6
CAP = ((0.6078, 0.8529), (1.0, 0.2806))
"""Points of a round end: how far they lie behind it, in radii, and the width there, in widths of the strand.
Of all pairs of trapezoids with the area and height of a half disc, this one is nearest: it differs by 3 % of
the area, one trapezoid by 11 %."""


@dataclass(frozen=True, eq=False)
class StrandGeometry:
    """Polylines with a width, such as hair, fur and wires. Each is drawn as a ribbon that faces the camera.

    points: (N, 3) array or VEC3 list: the points of all strands, one strand after the other.  offsets: (S +
    1,) integers, where each strand starts, and N; by default one strand.  radius: half of the width, one
    number, (N,), or a FLOAT Variable of one texel or a list; it changes linearly between points.  colours:
    linear, (3,), (N, 3), or a VEC3 Variable of one texel or a list; white by default.  opacity: in [0, 1], as
    the radius.  unit: of the radius, "world" or "pixels".
    caps: how strands end, "round" (trapezoids of the same area) or "flat", at the last point.

    Differentiable in all that are Variables. Raises InputError: a strand of one point, offsets that do not
    fit, values that are NaN, negative radii.

    >>> strand = StrandGeometry([[0.0, 0, 0], [0, 1, 0], [0, 2, 1]], radius=0.01)
    >>> strand.count, strand.strands
    (3, 1)
    """

    points: Any
    offsets: Any = None
    radius: Any = 0.01
    colours: Any = None
    opacity: Any = 1.0
    unit: str = "world"
    caps: str = "round"
    name: str = "strands"
    mesh: ClassVar[None] = None
    """None: other shapes of nodes may have one."""

    def __post_init__(self) -> None:
        points = _table(self.name, "points", VEC3, self.points, None)
        count = _count(points)
        object.__setattr__(self, "points", points)
        given = [0, count] if self.offsets is None else self.offsets
        object.__setattr__(self, "offsets", _offsets(self.name, given, count, points))
        _check_word(self, "unit", UNITS)
        _check_word(self, "caps", CAPS)
        _check_looks(self)

    @property
    def count(self) -> int:
        """N, how many points."""
        return int(self.offsets[-1])

    @property
    def strands(self) -> int:
        """S, how many strands."""
        return len(self.offsets) - 1

    def taken(self, strands: Any) -> StrandGeometry:
        """Some of the strands, by their numbers, of arrays. Raises InputError for Variables.

        >>> two = StrandGeometry(np.zeros((5, 3)), [0, 2, 5])
        >>> two.taken([1]).offsets.tolist()
        [0, 3]
        """
        tables = (self.points, self.radius, self.colours, self.opacity)
        if any(isinstance(t, Variable) for t in tables):
            raise InputError(
                f"'{self.name}' holds Variables; take strands of the arrays that they were made from"
            )
        lengths = np.diff(self.offsets)[strands]
        rows = np.concatenate([np.arange(self.offsets[s], self.offsets[s + 1]) for s in np.asarray(strands)])
        own = [t[rows] if len(t) == self.count else t for t in tables]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return replace(self, points=own[0], offsets=offsets, radius=own[1], colours=own[2], opacity=own[3])

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(3,) least and largest coordinates of the points, which are an array or hold data. Raises
        InputError."""
        return _bounds(self.name, self.points)


@dataclass(frozen=True, eq=False)
class PointGeometry:
    """Points with a radius, drawn as discs that face the camera: point clouds.

    points: (N, 3) array or VEC3 list.  radius, colours, opacity, unit: as of ``StrandGeometry``.

    Differentiable in all that are Variables. Raises InputError.

    >>> PointGeometry(np.zeros((10, 3)), radius=2.0, unit="pixels").count
    10
    """

    points: Any
    radius: Any = 0.01
    colours: Any = None
    opacity: Any = 1.0
    unit: str = "world"
    name: str = "points"
    mesh: ClassVar[None] = None
    """None: other shapes of nodes may have one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", _table(self.name, "points", VEC3, self.points, None))
        _check_word(self, "unit", UNITS)
        _check_looks(self)

    @property
    def count(self) -> int:
        """N, how many points; for a Variable that is no list of data, how many texels."""
        return _count(self.points)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(3,) least and largest coordinates of the points, which are an array or hold data. Raises
        InputError."""
        return _bounds(self.name, self.points)


def leaf_of(name: str, vtype: VType, value: Any) -> Variable:
    """A Variable as it is; a table (rows, ...) as a leaf."""
    return value if isinstance(value, Variable) else list_leaf(name, vtype, value)


def per_entry(table: Variable, index: Variable) -> Variable:
    """The entry of a list, or the one value of all entries."""
    return table if table.size == (1, 1) else F.lookup(table, index)


def _check_word(shape: StrandGeometry | PointGeometry, word: str, allowed: tuple[str, ...]) -> None:
    if getattr(shape, word) not in allowed:
        choice = f"{', '.join(allowed)}, not {getattr(shape, word)!r}"
        raise InputError(f"{word} of '{shape.name}' is one of {choice}")


def _check_looks(shape: StrandGeometry | PointGeometry) -> None:
    """Turn radius, colours and opacity of a shape into tables. Raises InputError."""
    name, count = shape.name, shape.count
    colours = (1.0, 1.0, 1.0) if shape.colours is None else shape.colours
    radius = _table(name, "radius", FLOAT, shape.radius, count)
    if not isinstance(colours, Variable):
        check_linear(f"colours of '{name}'", colours)
    colours = _table(name, "colours", VEC3, colours, count)
    opacity = _table(name, "opacity", FLOAT, shape.opacity, count)
    for word, table, most in (("radius", radius, LARGEST_RADIUS), ("opacity", opacity, 1.0)):
        if not isinstance(table, Variable) and ((table < 0) | (table > most)).any():
            k = int(np.argmax((table < 0) | (table > most)))
            raise InputError(f"{word} {k} of '{name}' is {table[k]:g}; give numbers from 0 to {most:g}")
    for word, table in (("radius", radius), ("colours", colours), ("opacity", opacity)):
        object.__setattr__(shape, word, table)


def _table(name: str, word: str, vtype: VType, value: Any, count: int | None) -> Any:
    """A Variable of one texel or ``count`` entries, or an array (1 or count, ...). Raises InputError."""
    shape = vtype.shape
    if isinstance(value, Variable):
        sizes = None if count is None else ((1, 1), list_size(count))
        if value.vtype is not vtype or (sizes is not None and value.size not in sizes):
            wanted = "a list" if count is None else f"one value or a list of {count}"
            raise InputError(f"{word} of '{name}' are {vtype}, {wanted}, not {value} (made at {value.where})")
        return value
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{word} of '{name}' are numbers, not {type(value).__name__}") from None
    if count is not None and array.shape == shape:
        array = array[None]
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape or len(array) == 0:
        text = ", ".join(["N", *map(str, shape)])
        raise InputError(f"{word} of '{name}' are an array ({text}), not {array.shape}")
    if count is not None and len(array) not in (1, count):
        raise InputError(f"'{name}' has {count} points, and {len(array)} {word}; give one, or one each")
    wrong = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if wrong.any():
        raise InputError(
            f"{word} {int(np.argmax(wrong))} of '{name}' is NaN or infinite; drop it or mend the file"
        )
    return array


def _count(points: Any) -> int:
    if not isinstance(points, Variable):
        return len(points)
    return points.count if points.count is not None else points.size[0] * points.size[1]


def _offsets(name: str, value: Any, count: int, points: Any) -> np.ndarray:
    offsets = np.asarray(value)
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        what = "whole numbers (S + 1,), where each strand starts and the end"
        raise InputError(f"offsets of '{name}' are {what}, not {offsets.dtype} {offsets.shape}")
    offsets = offsets.astype(np.int64)
    fits = offsets[-1] == count
    if isinstance(points, Variable) and points.count is None:  # its image may be padded
        fits = offsets[-1] <= count and list_size(int(offsets[-1])) == list_size(count)
    if offsets[0] != 0 or not fits:
        raise InputError(
            f"offsets of '{name}' run from 0 to {count}, the number of points, not from {offsets[0]} to {offsets[-1]}"
        )
    lengths = np.diff(offsets)
    if (lengths < 2).any():
        k = int(np.argmax(lengths < 2))
        held = "1 point" if lengths[k] == 1 else "0 points" if lengths[k] == 0 else "its end before its start"
        raise InputError(f"strand {k} of '{name}' has {held}; a strand has at least two points: drop it")
    return offsets


def _bounds(name: str, points: Any) -> tuple[np.ndarray, np.ndarray]:
    values = points.data if isinstance(points, Variable) else points
    if values is None:
        raise InputError(
            f"give cameras: the points of '{name}' are computed, so the view that frames them is not known"
        )
    values = values.reshape(-1, 3)
    return values.min(axis=0), values.max(axis=0)


@dataclass(frozen=True, eq=False)
class Chain:
    """How points follow each other, as lists of data. Drawn points are the points and, with round ends, those
    of ``CAP`` before and after each strand, which have the attributes of the end."""

    count: int
    """How many drawn points there are."""
    before: Variable
    """INT, one a point: the point before it in its strand, itself at the start."""
    after: Variable
    """INT, one a point: the point after it in its strand, itself at the end."""
    source: Variable
    """INT, one a drawn point: the point whose attributes it has."""
    following: Variable
    """INT, one a drawn point: the next drawn point, even of the next strand; the last one has itself."""
    beyond: Variable
    """FLOAT, one a drawn point: how far it lies behind the end of its strand, in radii; negative before the
    start."""
    narrow: Variable
    """FLOAT, one a drawn point: the width of the ribbon there, in widths of the strand."""
    around: Variable
    """VEC4, one a segment: the continuation of the strand before and after it, each as a length in radii,
    negative where it goes on straight, and the width at its far end, in widths of its own."""
    last: Variable
    """FLOAT, one a drawn point: 1 where nothing follows."""


def chain_of(offsets: np.ndarray, ends: bool) -> Chain:
    """ends: whether points are drawn before and after each strand."""
    count, more = int(offsets[-1]), len(CAP) if ends else 0
    number, strand = np.arange(count), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    starts, stops = offsets[:-1], offsets[1:] - 1
    before, after = number - 1, number + 1
    before[starts], after[stops] = starts, stops
    at = number + more * (2 * strand + 1)  # of each point among the drawn ones
    tails = at[stops] + more
    total = count + 2 * more * len(starts)
    source, beyond, narrow = np.zeros(total, np.int64), np.zeros(total), np.ones(total)
    source[at] = number
    last = np.zeros(total)
    last[tails] = 1.0
    for k, (away, width) in enumerate(CAP[:more], start=1):
        for side, rows, points in ((-1, at[starts] - k, starts), (1, at[stops] + k, stops)):
            source[rows], beyond[rows], narrow[rows] = points, side * away, width
    return Chain(
        total,
        list_leaf("point before", INT, before),
        list_leaf("point after", INT, after),
        list_leaf("source of a drawn point", INT, source),
        list_leaf("following drawn point", INT, np.minimum(np.arange(total) + 1, total - 1)),
        list_leaf("drawn beyond a strand", FLOAT, beyond),
        list_leaf("width of a cap", FLOAT, narrow),
        list_leaf("around a segment", VEC4, _around(total, at[starts], at[stops], more)),
        list_leaf("last of a strand", FLOAT, last),
    )


def _around(count: int, starts: np.ndarray, stops: np.ndarray, more: int) -> np.ndarray:
    """(count, 4): ``Chain.around``. starts, stops: the ends of strands among drawn points, with ``more``
    beyond each."""
    around = np.tile([-1.0, 1.0], (count, 2))
    if not more:
        around[starts, :2] = around[stops - 1, 2:] = 0.0, 1.0
        return around
    (near, wide), (far, narrow) = CAP
    whole = np.pi / 2 - 1  # the width of one trapezoid with the area of a half disc
    rest = (far - near) / wide, narrow / wide
    # Each row is one segment: the last of the strand, then those of the cap; in mirror order before the
    # strand.
    for segment, before, after in (
        (-1, (-1.0, 1.0), (1.0, whole)),
        (0, (-1.0, 1.0), rest),
        (1, (-1.0, 1.0 / wide), (0.0, 1.0)),
    ):
        if segment >= 0:  # a strand of one segment keeps both of its ends
            around[stops + segment, :2], around[starts - segment - 1, 2:] = before, before
        around[stops + segment, 2:], around[starts - segment - 1, :2] = after, after
    return around


# Strands that are made from other shapes: edges of meshes, and curves.

MATRICES = {
    "catmull_rom": np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]]) / 2,
    "bspline": np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6,
}
"""Rows are the powers 0 to 3 of the place along a piece, columns its four control points."""
BEZIER = np.array([[1, 0, 0, 0], [-3, 3, 0, 0], [3, -6, 3, 0], [-1, 3, -3, 1]])
MOST_PIECES = 256


def wireframe(
    mesh: Mesh, width: float = 1.0, positions: Variable | None = None, colours: Any = None
) -> StrandGeometry:
    """The edges of a mesh as lines ``width`` pixels wide, each once.

    positions: a VEC3 list instead of the mesh's, by which the picture is differentiable.  colours: linear, of
    all lines or, (V, 3), of vertices. Raises InputError.

    >>> from dressi.render.mesh import primitives
    >>> wireframe(primitives.tetrahedron()).strands
    6
    """
    edges = np.unique(np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    numbers, points = edges.reshape(-1), mesh.positions[edges.reshape(-1)]
    if positions is not None:
        points = F.lookup(positions, list_leaf("ends", INT, numbers))
    if colours is not None and np.ndim(colours) == 2:
        colours = np.asarray(colours)[numbers]
    offsets, name = np.arange(0, len(numbers) + 1, 2), f"edges of {mesh.name}"
    return StrandGeometry(points, offsets, 0.5 * width, colours, unit="pixels", name=name)


def curves(strands: StrandGeometry, pieces: int = 8, kind: str = "catmull_rom") -> StrandGeometry:
    """Smooth strands: their points are control points, each segment becomes ``pieces`` ones.

    kind: "catmull_rom", through the points, or "bspline", smoother and beside them. Both keep the ends, whose
    neighbours are reflected. Or "bezier": a strand of 3 n + 1 points is n cubic curves, each from a point to
    the third after it with two handles between; each becomes ``pieces`` segments. The map of the points is
    linear: Variables stay differentiable. Radii, colours and opacities are interpolated along the pieces,
    without overshooting. Raises InputError.

    >>> curves(StrandGeometry([[0.0, 0, 0], [1, 1, 0], [2, 0, 0]]), pieces=4).count
    9
    """
    kinds = (*MATRICES, "bezier")
    if kind not in kinds:
        raise InputError(f"kind of curves is one of {', '.join(kinds)}, not {kind!r}")
    if not isinstance(pieces, int) or not 1 <= pieces <= MOST_PIECES:
        raise InputError(f"pieces are a whole number from 1 to {MOST_PIECES}, not {pieces!r}")
    if kind == "bezier":
        numbers, weights, linear, offsets = _bezier(strands, pieces)
        ends = numbers[:, ::3]
    else:
        numbers, weights, linear, offsets = _map(strands.offsets, pieces, MATRICES[kind])
        ends = numbers[:, 1:3]
    tables = strands.radius, strands.colours, strands.opacity
    radius, colours, opacity = (_mapped(table, ends, linear) for table in tables)
    points = _mapped(strands.points, numbers, weights)
    return StrandGeometry(points, offsets, radius, colours, opacity, strands.unit, strands.caps, strands.name)


def _places(lengths: np.ndarray, pieces: int) -> tuple[np.ndarray, ...]:
    """Strand, piece and place along the piece, each (M,), of the new points, and offsets. lengths: in
    pieces."""
    offsets = np.concatenate([[0], np.cumsum(lengths * pieces + 1)])
    strand = np.repeat(np.arange(len(lengths)), np.diff(offsets))
    step = np.arange(offsets[-1]) - offsets[strand]
    piece = np.minimum(step // pieces, lengths[strand] - 1)
    return strand, piece, step / pieces - piece, offsets


def _map(offsets: np.ndarray, pieces: int, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four points (M, 4) of each new one, their weights, those (M, 2) of the middle two, and offsets."""
    strand, piece, place, ends = _places(np.diff(offsets) - 1, pieces)
    weights = place[:, None] ** np.arange(4) @ matrix
    low, high = offsets[strand], offsets[strand + 1] - 1
    numbers = (low + piece)[:, None] + np.arange(-1, 3)
    # The point before the first is the reflection of the second: 2 p0 - p1.
    before, after = numbers[:, 0] < low, numbers[:, 3] > high
    weights[before, 1] += 2 * weights[before, 0]
    weights[before, 2] -= weights[before, 0]
    weights[after, 2] += 2 * weights[after, 3]
    weights[after, 1] -= weights[after, 3]
    weights[before, 0] = weights[after, 3] = 0.0
    return np.clip(numbers, low[:, None], high[:, None]), weights, np.column_stack([1 - place, place]), ends


def _bezier(strands: StrandGeometry, pieces: int) -> tuple[np.ndarray, ...]:
    """As ``_map``: the four points of each cubic curve; the two weights are of its ends."""
    count = np.diff(strands.offsets)
    wrong = (count - 1) % 3 != 0
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            f"strand {k} of '{strands.name}' has {count[k]} points; cubic Bezier curves have 3 n + 1: ends, and two handles between"
        )
    strand, piece, place, ends = _places((count - 1) // 3, pieces)
    numbers = (strands.offsets[strand] + 3 * piece)[:, None] + np.arange(4)
    return numbers, place[:, None] ** np.arange(4) @ BEZIER, np.column_stack([1 - place, place]), ends


def _mapped(table: Any, numbers: np.ndarray, weights: np.ndarray) -> Any:
    """The table mapped by weights; one value of all points as it is."""
    if not isinstance(table, Variable):
        if len(table) == 1:
            return table
        return (table[numbers] * weights.reshape(*weights.shape, *(1,) * (table.ndim - 1))).sum(axis=1)
    if table.size == (1, 1):
        return table
    columns = zip(numbers.T, weights.T, strict=True)
    return total([F.lookup(table, list_leaf("control point", INT, n)) * Variable.of(w) for n, w in columns])
