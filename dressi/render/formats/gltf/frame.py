"""Which UVs a texture of a glTF file uses, and where maps then lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dressi.render.formats.gltf.document import Document


@dataclass(frozen=True, eq=False)
class Frame:
    """A set of UVs and what KHR_texture_transform does to them: ``uv @ matrix.T + offset``."""

    uv_set: int = 0
    matrix: np.ndarray = field(default_factory=lambda: np.eye(2))
    offset: np.ndarray = field(default_factory=lambda: np.zeros(2))

    @staticmethod
    def read(document: Document, reference: dict[str, Any]) -> Frame:
        """That of a reference to a texture. Raises InputError for numbers that are none."""
        transform = reference.get("extensions", {}).get("KHR_texture_transform", {})
        uv_set = document.whole({"texCoord": 0, **reference, **transform}, "texCoord")
        angle = document.number(transform, "rotation", 0.0)
        c, s = np.cos(angle), np.sin(angle)
        # Scale, then rotate, then shift.
        matrix = np.array([[c, s], [-s, c]]) * document.numbers(transform, "scale", (1.0, 1.0))
        return Frame(uv_set, matrix, document.numbers(transform, "offset", (0.0, 0.0)))

    def apply(self, uvs: np.ndarray) -> np.ndarray:
        """(n, 2) of the file to those that look up texels."""
        return uvs @ self.matrix.T + self.offset

    def is_upright(self) -> bool:
        """Whether u and v grow in the directions of the file's: there is no rotation or mirror."""
        return bool(
            (np.diag(self.matrix) > 0).all() and np.allclose(self.matrix, np.diag(np.diag(self.matrix)))
        )

    @property
    def is_squeezed(self) -> bool:
        """Whether it brings all UVs onto a line, so that it has no inverse."""
        return abs(np.linalg.det(self.matrix)) <= 1e-12

    def after(self, base: Frame) -> tuple[np.ndarray, np.ndarray]:
        """(2, 2) and (2,) from the UVs of another frame of the same set, that has an inverse, to those of this one."""
        matrix = self.matrix @ np.linalg.inv(base.matrix)
        return np.round(matrix, 12) + 0.0, np.round(self.offset - matrix @ base.offset, 12) + 0.0


def transform_entry(matrix: np.ndarray, offset: np.ndarray) -> dict[str, Any] | None:
    """KHR_texture_transform of a motion of UVs; None for one that shears, which it cannot say.

    >>> transform_entry(np.diag([2.0, 1.0]), np.zeros(2))
    {'scale': [2.0, 1.0]}
    """
    across = float(np.hypot(*matrix[:, 0]))
    c, s = (matrix[0, 0] / across, -matrix[1, 0] / across) if across else (1.0, 0.0)
    down = s * matrix[0, 1] + c * matrix[1, 1]
    if not np.allclose(np.array([[c, s], [-s, c]]) * (across, down), matrix, atol=1e-6):
        return None
    angle, found = float(np.arctan2(s, c)), {}
    if offset.any():
        found["offset"] = offset.tolist()
    if angle:
        found["rotation"] = angle
    if (across, down) != (1.0, 1.0):
        found["scale"] = [across, float(down)]
    return found


def turned_normals(normal: np.ndarray, turn: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Normals (H, W, 3) along the tangents of the map's UVs as those along the tangents of the mesh's UVs: x and y are
    rotated or mirrored as the matrix does, without its scale."""
    left, _, right = np.linalg.svd(turn[0])
    back = (left @ right).T  # the inverse of the rotation or mirror; v points down, y up
    x, y = normal[..., 0], -normal[..., 1]
    return np.stack(
        [back[0, 0] * x + back[0, 1] * y, -(back[1, 0] * x + back[1, 1] * y), normal[..., 2]], axis=-1
    ).astype(normal.dtype)
