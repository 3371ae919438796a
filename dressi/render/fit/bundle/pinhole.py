"""Points of the scene in one camera: places in the picture, depths, and their derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import map_coordinates

from ...cameras import Camera


@dataclass(frozen=True, eq=False)
class Projected:
    """P points in a camera. place: (P, 2) pixels.  at: (P, 3) in the camera's axes; the third is the depth."""

    camera: Camera
    place: np.ndarray
    at: np.ndarray

    def __getitem__(self, index: np.ndarray) -> Projected:
        return Projected(self.camera, self.place[index], self.at[index])

    def inside(self, margin: float) -> np.ndarray:
        """(P,) bool: in front of the camera, and at least so many pixels from the border of the picture."""
        low, high = np.array([margin, margin]), np.array(self.camera.size) - margin
        return (self.at[:, 2] > self.camera.near) & (self.place > low).all(1) & (self.place < high).all(1)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of the pixel of each point, those outside at the border."""
        column, row = np.floor(np.clip(self.place, 0, np.array(self.camera.size) - 1)).astype(int).T
        return row, column

    def look_up(self, image: np.ndarray) -> np.ndarray:
        """(P,): an image (H, W) at the points, bilinearly."""
        return map_coordinates(image, self.place.T[::-1] - 0.5, order=1, mode="nearest")

    def slopes(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of what the points see in an image (H, W).

        (P,): how steep it is, by pixels. (P, 6): by an increment of the pose, a turn about the origin of the scene and a shift, in the camera's axes
        (``cameras.pose``). (P, 3): by motions of the points in the scene.
        """
        down, right = (self.look_up(part) for part in np.gradient(image))
        steep = np.hypot(right, down)
        depth = self.at[:, 2:]
        # The slope by K x: the place is its first two components over the third.
        scaled = np.stack([right, down], axis=1) / depth
        scaled = np.concatenate([scaled, -(scaled * self.place).sum(1, keepdims=True)], axis=1)
        slope = scaled @ self.camera.intrinsics
        turn = np.cross(self.at - self.camera.translation, slope)
        return steep, np.concatenate([turn, slope], axis=1), slope @ self.camera.rotation


def projected(camera: Camera, points: np.ndarray) -> Projected:
    """Points (P, 3) of the scene in a camera."""
    at = points @ camera.rotation.T + camera.translation
    depth = np.where(np.abs(at[:, 2:]) < 1e-12, 1e-12, at[:, 2:])
    place = (at @ camera.intrinsics.T)[:, :2] / depth
    return Projected(camera, place, at)
