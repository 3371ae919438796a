"""Which UVs a texture of a glTF file uses, and textures resampled from one such frame to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dressi.config import config
from dressi.render.io.formats.gltf_document import Document
from dressi.render.mesh.material import wrapped

_LARGEST = 8192
"""Texels along a side of a map that is resampled."""


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

    def after(self, base: Frame) -> tuple[np.ndarray, np.ndarray] | None:
        """(2, 2) and (2,) from the UVs of another frame of the same set to those of this; None where they are equal.

        A frame that squeezes all UVs into a line has no inverse: then this frame's own transform counts.
        """
        matrix, offset = self.matrix, self.offset
        if abs(np.linalg.det(base.matrix)) > 1e-12:
            matrix = matrix @ np.linalg.inv(base.matrix)
            offset = offset - matrix @ base.offset
        if np.allclose(matrix, np.eye(2), atol=1e-6) and np.allclose(offset, 0, atol=1e-6):
            return None
        return matrix, offset


def resampled(
    values: np.ndarray, turn: tuple[np.ndarray, np.ndarray], wrap: tuple[str, str], uvs: np.ndarray
) -> np.ndarray | None:
    """A map (H, W) or (H, W, C) as the UVs of the mesh see it: ``out(uv) = values(matrix @ uv + offset)``, bilinear.

    Exact where the matrix permutes and scales by whole numbers, because texels then meet texels; otherwise each direction
    has at least as many texels as the map. None where the result does not repeat with period 1 and a UV of the mesh lies
    outside [0, 1].

    >>> import numpy as np
    >>> ramp = np.array([[0.0, 1.0]])
    >>> resampled(ramp, (np.diag([2.0, 1.0]), np.zeros(2)), ("repeat", "repeat"), np.zeros((1, 2)))
    array([[0., 1., 0., 1.]])
    """
    matrix, offset = turn
    whole = np.allclose(matrix, np.round(matrix), atol=1e-6) and set(wrap) == {"repeat"}
    if not whole and len(uvs) and (uvs.min() < -1e-6 or uvs.max() > 1 + 1e-6):
        return None
    sizes = np.array([values.shape[1], values.shape[0]])
    wanted = np.maximum(np.round(np.abs(matrix * sizes[:, None]).max(0)), 1)
    most = min(_LARGEST, int((config.max_megapixels * 1e6) ** 0.5))
    width, height = np.minimum(wanted, most).astype(int)
    v, u = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    # Numbers that overflow become NaN, which the material refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        at = (np.stack([u, v], axis=-1) @ matrix.T + offset) * sizes - 0.5
    at = np.where(np.abs(at - np.round(at)) < 1e-5, np.round(at), at)
    low = np.floor(at)
    out = np.zeros((height, width, *values.shape[2:]))
    for du in (0, 1):
        for dv in (0, 1):
            weight = np.abs(1 - du - (at - low)[..., 0]) * np.abs(1 - dv - (at - low)[..., 1])
            x, y = (
                wrapped(low[..., k].astype(np.int64) + step, int(sizes[k]), wrap[k])
                for k, step in ((0, du), (1, dv))
            )
            out += weight.reshape(weight.shape + (1,) * (values.ndim - 2)) * values[y, x]
    return out.astype(values.dtype)


def turned_normals(normal: np.ndarray, turn: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Normals (H, W, 3) along the tangents of the map's UVs as those along the tangents of the mesh's UVs: x and y are
    rotated or mirrored as the matrix does, without its scale."""
    left, _, right = np.linalg.svd(turn[0])
    back = (left @ right).T  # the inverse of the rotation or mirror; v points down, y up
    x, y = normal[..., 0], -normal[..., 1]
    return np.stack(
        [back[0, 0] * x + back[0, 1] * y, -(back[1, 0] * x + back[1, 1] * y), normal[..., 2]], axis=-1
    ).astype(normal.dtype)
