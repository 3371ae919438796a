"""Positions, normals and tangents carried into the world."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from .inputs import Values


def tiled(rows: Variable, batch: int) -> Variable:
    """A list with so many tiles."""
    return F.expand(rows, batch) if rows.batch == 1 and batch > 1 else rows


def placed(positions: Variable, matrix: Variable | None) -> Variable:
    """VEC3 list: positions by a MAT4, one for all or one each."""
    if matrix is None:
        return positions
    return F.matmul(matrix, tiled(F.vec4(positions, 1.0), matrix.batch)).xyz


def turned_parts(parts: Mapping[str, Variable], by: Mapping[str, Variable]) -> dict[str, Variable]:
    """The normals and tangents among the parts of a look, unit again. by: for each a MAT4, one for all rows or one each.

    Normals go by the cofactors, as the cross product of two edges does.
    """
    found = {}
    if "normals" in parts:
        a, b, c = _axes(matrix := by["normals"])
        cofactors = F.mat3(F.cross(b, c), F.cross(c, a), F.cross(a, b))
        found["normals"] = F.normalize(F.matmul(cofactors, tiled(parts["normals"], matrix.batch)))
    if "tangents" in parts:
        a, b, c = _axes(matrix := by["tangents"])
        tangents = tiled(parts["tangents"], matrix.batch)
        found["tangents"] = F.vec4(F.normalize(F.matmul(F.mat3(a, b, c), tangents.xyz)), tangents.w)
    return found


def _axes(matrix: Variable) -> tuple[Variable, Variable, Variable]:
    """VEC3: the first columns of a MAT4."""
    return F.column(matrix, 0).xyz, F.column(matrix, 1).xyz, F.column(matrix, 2).xyz


def turned_rows(name: str, values: Values, matrix: np.ndarray) -> Values:
    """``normals`` or ``tangents`` by a (4, 4) matrix, as ``turned_parts``."""
    turn, rows = matrix[:3, :3], values.array
    u, v, w = turn.T
    # Rows are the columns of the cofactors.
    by = np.stack([np.cross(v, w), np.cross(w, u), np.cross(u, v)]) if name == "normals" else turn.T
    ways = rows[..., :3] @ by
    length = np.linalg.norm(ways, axis=-1, keepdims=True)
    return Values(values.vtype, np.concatenate([ways / np.where(length > 0, length, 1.0), rows[..., 3:]], -1))
