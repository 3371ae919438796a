"""Photographs without their lens, and what resampling does with colours, masks and depths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from ..cameras import Camera
from ..cameras.lens import Lens


@dataclass(frozen=True, eq=False)
class Undistortion:
    """The picture that the same camera would take without its lens.

    place: (2, H, W) rows and columns, counted from the first pixel's centre, where each pixel finds its
    value.
    inside: (H, W) bool, False where the photograph does not reach.
    mode: of SciPy, for what lies beyond its border.
    """

    place: np.ndarray
    inside: np.ndarray
    mode: str = "nearest"

    @classmethod
    def cut(cls, camera: Camera, panorama: Camera) -> Undistortion:
        """What a camera in the place of a panorama would take."""
        seen = panorama.project(camera.center + camera.rays()[1])[0] - 0.5
        return cls(np.moveaxis(seen, -1, 0)[::-1], np.ones(seen.shape[:2], bool), "grid-wrap")

    @classmethod
    def of(cls, camera: Camera, lens: Lens) -> Undistortion:
        """For pictures of the camera's size."""
        width, height = camera.size
        x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        plane = (np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(camera.intrinsics).T)[..., :2]
        seen = lens.distort(plane) @ camera.intrinsics[:2, :2].T + camera.intrinsics[:2, 2] - 0.5
        # Half a pixel beyond the outermost centres is still in the picture; there the nearest pixels are
        # taken.
        inside = ((seen >= -0.5) & (seen <= np.array(camera.size) - 0.5)).all(-1)
        inside &= np.hypot(plane[..., 0], plane[..., 1]) < lens.reach
        return cls(np.where(inside[..., None], seen, -1).transpose(2, 0, 1)[::-1].astype(np.float32), inside)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """(H, W) or (H, W, C) by linear interpolation between pixel centres; 0 where nothing is seen."""
        channels = image.reshape(*image.shape[:2], -1)
        planes = [
            scipy.ndimage.map_coordinates(channels[..., c], self.place, order=1, mode=self.mode) * self.inside
            for c in range(channels.shape[-1])
        ]
        return np.stack(planes, axis=-1).reshape(*self.inside.shape, *image.shape[2:])


@dataclass(frozen=True)
class Layers:
    """A photograph during resampling: linear colours (H, W, 3), coverage (H, W) and known share (H, W), in
    [0, 1], and depths (H, W), 0 where unknown."""

    color: np.ndarray
    coverage: np.ndarray
    known: np.ndarray
    depth: np.ndarray

    def mapped(self, weights: Callable[[np.ndarray], np.ndarray]) -> Layers:
        """By a map that is linear, with weights that are not negative and sum to 1 at most.

        Straight alpha: the colour of an uncovered pixel is undefined, so colours are weighted by coverage.
        Far from the object, where nothing is covered, the plain mean shows the background. Unknown pixels
        have weight 0. A depth is the mean of those known on the object, unknown if they are less than half of
        what is covered.
        """
        told = self.coverage * self.known
        known, small = weights(self.known), weights(told)
        weighted = weights(self.color * told[..., None]) / np.maximum(small, 1e-6)[..., None]
        share = np.maximum(known, 1e-6)
        plain = weights(self.color * self.known[..., None]) / share[..., None]
        color = np.where(small[..., None] > 1e-3, weighted, plain)
        if not self.depth.any():
            return Layers(color, small / share, known, np.zeros_like(known))
        measured = told * (self.depth > 0)
        part = weights(measured)
        mean = weights(self.depth * measured) / np.maximum(part, 1e-6)
        return Layers(color, small / share, known, np.where(part > np.maximum(0.5 * small, 1e-3), mean, 0.0))

    def cut(self, corner: tuple[int, int], size: tuple[int, int]) -> Layers:
        """The part of ``size`` (W, H) from the pixel ``corner`` (x, y) on."""
        part = np.s_[corner[1] : corner[1] + size[1], corner[0] : corner[0] + size[0]]
        return Layers(self.color[part], self.coverage[part], self.known[part], self.depth[part])

    def padded(self, size: tuple[int, int]) -> Layers:
        """Padded with unknown columns on the right and unknown rows below."""
        height, width = self.known.shape
        room = ((0, size[1] - height), (0, size[0] - width))
        rest = (np.pad(image, room) for image in (self.coverage, self.known, self.depth))
        return Layers(np.pad(self.color, (*room, (0, 0))), *rest)
