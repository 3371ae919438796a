"""Photographs for plane-sweep stereo: grey pictures of one scale, their cameras, and which of them lie beside each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....cameras import Cameras
from ....io.images import resize, scaled_size
from ....surface.color import linear_to_srgb

GREY = (0.299, 0.587, 0.114)
LEAST_ANGLE = 5.0
"""Degrees between the directions of two views, below which their depths are not told apart."""


@dataclass(frozen=True, eq=False)
class Views:
    """N grey pictures and what is needed to warp them.

    grey, masks: (N, H, W) float32 in [0, 1]; grey in code values of sRGB.  K, R: (N, 3, 3), t: (N, 3): a pixel is
    K (R x + t), corners of pixels at whole numbers, x in units of the scene.
    crop: (W, H) of a part that holds any of the masks.  corners: (N, 2) whole x, y of that part in each picture.
    """

    grey: np.ndarray
    masks: np.ndarray
    K: np.ndarray
    R: np.ndarray
    t: np.ndarray
    crop: tuple[int, int]
    corners: np.ndarray

    @classmethod
    def of(cls, cameras: Cameras, masks: np.ndarray, colors: np.ndarray, pixels: int) -> Views:
        """Of cameras in units of the scene, masks (N, H, W) and linear colours (N, H, W, 3), so small that the part that
        holds any of the masks has about this many ``pixels``."""
        height, width = masks.shape[1:]
        boxes = np.stack([_box(mask >= 0.5) for mask in masks])
        extent = (boxes[:, 1] - boxes[:, 0]).max(0)
        scale = min(1.0, float(np.sqrt(pixels / extent.prod())))
        size = scaled_size((width, height), scale)
        ratio = np.array(size) / (width, height)
        greys = [resize(linear_to_srgb(np.clip(c, 0, 1)) @ np.array(GREY, np.float32), size) for c in colors]
        small = [resize(np.asarray(mask, np.float32), size) for mask in masks]
        crop = np.minimum(np.ceil(extent * ratio + 2).astype(int), size)
        middle = 0.5 * (boxes[:, 0] + boxes[:, 1]) * ratio
        corners = np.clip(np.rint(middle - 0.5 * crop).astype(int), 0, np.array(size) - crop)
        K = np.stack([np.diag([*ratio, 1.0]) @ camera.intrinsics for camera in cameras])
        R, t = (np.stack([getattr(c, name) for c in cameras]) for name in ("rotation", "translation"))
        return cls(
            np.stack(greys).astype(np.float32),
            np.stack(small),
            K,
            R,
            t,
            (int(crop[0]), int(crop[1])),
            corners,
        )

    def __len__(self) -> int:
        return len(self.K)

    @property
    def size(self) -> tuple[int, int]:
        """(W, H) of the pictures."""
        return self.grey.shape[2], self.grey.shape[1]

    @property
    def centres(self) -> np.ndarray:
        """(N, 3) of the cameras."""
        return -np.einsum("nji,nj->ni", self.R, self.t)

    def cropped(self, images: np.ndarray, k: int) -> np.ndarray:
        """The part of picture k of (N, H, W, ...) that holds its mask."""
        (x, y), (width, height) = self.corners[k], self.crop
        return images[k, y : y + height, x : x + width]

    def inner(self, k: int) -> np.ndarray:
        """(3, 3) K of the part of picture k."""
        move = np.eye(3)
        move[:2, 2] = -self.corners[k]
        return move @ self.K[k]

    def beside(self, middle: np.ndarray) -> np.ndarray:
        """(N, N) the views by the angle to each view, as seen from a point (3,), those too near to it last but itself."""
        away = self.centres - middle
        away = away / np.linalg.norm(away, axis=1, keepdims=True)
        angle = np.degrees(np.arccos(np.clip(away @ away.T, -1, 1)))
        angle = np.where(angle < LEAST_ANGLE, 180.0 + LEAST_ANGLE - angle, angle)
        np.fill_diagonal(angle, np.inf)
        return np.argsort(angle, axis=1, kind="stable")[:, :-1]

    def epipolar(self, k: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """(3, 3) A and (3,) b: a pixel p = (x, y, 1) of the part of view k, of inverse depth d, is A p + d b in another view."""
        turn = self.R[other] @ self.R[k].T
        move = self.t[other] - turn @ self.t[k]
        return self.K[other] @ turn @ np.linalg.inv(self.inner(k)), self.K[other] @ move

    def rays(self, k: int) -> np.ndarray:
        """(H, W, 3) directions in the scene of the pixels of the part of view k, of depth 1."""
        width, height = self.crop
        column, row = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        pixels = np.stack([column, row, np.ones_like(row)], -1)
        return pixels @ (self.R[k].T @ np.linalg.inv(self.inner(k))).T

    def projected(self, k: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column and row in the part of view k, and depth, of points (..., 3)."""
        matrix = np.concatenate([self.inner(k) @ self.R[k], (self.inner(k) @ self.t[k])[:, None]], axis=1)
        matrix = matrix.astype(points.dtype)
        x, y, depth = (points @ row[:3] + row[3] for row in matrix)
        scale = 1 / np.maximum(depth, points.dtype.type(1e-9))
        return x * scale, y * scale, depth


def _box(mask: np.ndarray) -> np.ndarray:
    """(2, 2) first and last x, y of a mask; all of the picture where it is empty."""
    places = np.argwhere(mask)[:, ::-1]
    if not len(places):
        return np.array([[0, 0], mask.shape[::-1]])
    return np.stack([places.min(0), places.max(0) + 1])
