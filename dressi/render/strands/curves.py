"""Strands that are made from other shapes: edges of meshes, and curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import INT
from ...errors import InputError
from ..lists import list_leaf
from ..mesh import Mesh
from .geometry import StrandGeometry

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

    positions: a VEC3 list instead of the mesh's, by which the picture is differentiable.  colours: linear, of all lines or,
    (V, 3), of vertices. Raises InputError.

    >>> from dressi.render.mesh import primitives
    >>> wireframe(primitives.tetrahedron()).strands
    6
    """
    edges = np.unique(np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    numbers = edges.reshape(-1)
    points = (
        mesh.positions[numbers] if positions is None else F.lookup(positions, list_leaf("ends", INT, numbers))
    )
    if colours is not None and np.ndim(colours) == 2:
        colours = np.asarray(colours)[numbers]
    return StrandGeometry(
        points,
        np.arange(0, len(numbers) + 1, 2),
        0.5 * width,
        colours,
        unit="pixels",
        name=f"edges of {mesh.name}",
    )


def curves(strands: StrandGeometry, pieces: int = 8, kind: str = "catmull_rom") -> StrandGeometry:
    """Smooth strands: their points are control points, each segment becomes ``pieces`` ones.

    kind: "catmull_rom", through the points, or "bspline", smoother and beside them. Ends are kept: the points there are
    repeated by reflection. Or "bezier": strands of 3 n + 1 points are n cubic curves, each from a point to the third after it, of which two
    between are handles; each becomes ``pieces`` segments. A linear map of the points: Variables stay differentiable. Radii, colours and opacities of points
    are mapped as the points are, without overshooting. Raises InputError.

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
    radius, colours, opacity = (
        _mapped(t, ends, linear) for t in (strands.radius, strands.colours, strands.opacity)
    )
    points = _mapped(strands.points, numbers, weights)
    return StrandGeometry(points, offsets, radius, colours, opacity, strands.unit, strands.caps, strands.name)


def _map(offsets: np.ndarray, pieces: int, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four points (M, 4) of each new one, their weights, the weights (M, 2) of the two in the middle, and offsets."""
    count = np.diff(offsets)
    lengths = (count - 1) * pieces + 1
    ends = np.concatenate([[0], np.cumsum(lengths)])
    strand = np.repeat(np.arange(len(count)), lengths)
    step = np.arange(ends[-1]) - ends[strand]
    piece = np.minimum(step // pieces, count[strand] - 2)
    place = step / pieces - piece
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
    lengths = (count - 1) // 3 * pieces + 1
    ends = np.concatenate([[0], np.cumsum(lengths)])
    strand = np.repeat(np.arange(len(count)), lengths)
    step = np.arange(ends[-1]) - ends[strand]
    piece = np.minimum(step // pieces, (count[strand] - 1) // 3 - 1)
    place = step / pieces - piece
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
    total = None
    for column, weight in zip(numbers.T, weights.T, strict=True):
        part = F.lookup(table, list_leaf("control point", INT, column)) * Variable.of(weight)
        total = part if total is None else total + part
    return total
