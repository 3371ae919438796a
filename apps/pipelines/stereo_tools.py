"""Calibrated photographs for plane-sweep stereo: homographies between their planes, and where depths of several views agree."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dressi import F
from dressi.errors import InputError
from dressi.render import linear_to_srgb, render
from dressi.render.formats import load_mesh
from dressi.render.io.photos import load_photos


class Views:
    """The photographs of a folder at a width.

    grey: (N, H, W), the mean of sRGB codes. masks: (N, H, W), bool. K, R, t: a pixel is K (R x + t), centres of texels at
    halves. centres: of the cameras. corners: (8, 3), of the object's box, as the calibration or the masks give it.
    """

    def __init__(self, folder: Path, width: int):
        photos = load_photos(folder, (width, width * 3 // 4))
        self.cameras, self.masks = photos.cameras, photos.masks > 0.5
        self.grey = linear_to_srgb(photos.images).mean(-1)
        self.width, self.height = photos.cameras.size
        self.K = [c.intrinsics for c in self.cameras]
        self.R, self.t = [c.rotation for c in self.cameras], [c.translation for c in self.cameras]
        self.centres = np.stack([c.center for c in self.cameras])
        self.corners = np.stack(np.meshgrid(*photos.bounds.T), -1).reshape(-1, 3)

    def depths_of(self, mesh: Path) -> np.ndarray:
        """(N, H, W): of a mesh of the same scene, along the axes of the cameras; 0 beside it."""
        shown = load_mesh(mesh)
        return render(shown, self.cameras, shader=lambda at: F.vec3(at.depth, 0.0, 0.0)).colour[..., 0]

    def beside(self, k: int, count: int) -> list[int]:
        """The views whose directions to the middle of the object differ least."""
        towards = self.centres - self.corners.mean(0)
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        return np.argsort(-towards @ towards[k])[1 : count + 1].tolist()

    def range(self, k: int) -> tuple[float, float]:
        """The smallest and the largest depth of the object's box; a camera inside it begins near its own centre."""
        depths = self.corners @ self.R[k][2] + self.t[k][2]
        if depths.max() <= 0:
            raise InputError(
                f"the object's box is behind camera {k}: depths from {depths.min():.3g} to {depths.max():.3g}"
            )
        return max(depths.min(), 0.02 * depths.max()), depths.max()

    def depths(self, k: int, count: int) -> np.ndarray:
        """Of planes through the object's box, equally far apart in the picture."""
        near, far = self.range(k)
        return 1 / np.linspace(1 / near, 1 / far, count)

    def homographies(self, k: int, other: int, depths: np.ndarray) -> np.ndarray:
        """From pixels of view k through planes that face it to pixels of another view."""
        turn = self.R[other] @ self.R[k].T
        move = self.t[other] - turn @ self.t[k]
        through = turn + move[:, None] * np.array([0, 0, 1.0]) / depths[:, None, None]
        return (self.K[other] @ through @ np.linalg.inv(self.K[k])).reshape(-1, 1, 1, 3, 3)

    def votes(
        self, k: int, maps: Mapping[int, np.ndarray], sure: Mapping[int, np.ndarray], count: int
    ) -> np.ndarray:
        """(H, W): how many of the views beside view k have a sure depth that differs by less than 1 % there."""
        column, row = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        pixels = np.stack([column, row, np.ones_like(row)], -1)
        points = (pixels @ np.linalg.inv(self.K[k]).T * maps[k][..., None] - self.t[k]) @ self.R[k]
        votes = np.zeros(maps[k].shape, int)
        for other in (j for j in self.beside(k, count) if j in maps):
            q = points @ self.R[other].T + self.t[other]
            x, y = np.floor((q @ self.K[other].T)[..., :2] / q[..., 2:]).astype(int).transpose(2, 0, 1)
            seen = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
            x, y = np.clip(x, 0, self.width - 1), np.clip(y, 0, self.height - 1)
            votes += seen & sure[other][y, x] & (np.abs(maps[other][y, x] / q[..., 2] - 1) < 0.01)
        return votes
