"""Lens distortion: the model of Brown and Conrady, as OpenCV and COLMAP write it, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
import scipy

from dressi.errors import InputError
from dressi.render.cameras import Camera


@dataclass(frozen=True)
class Lens:
    """Where a point (x, y) of the image plane at depth 1 is really seen, with r^2 = x^2 + y^2:

        x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2)
        y (1 + k1 r^2 + k2 r^4 + k3 r^6) + p1 (r^2 + 2 y^2) + 2 p2 x y

    Raises InputError when a coefficient is not finite.
    """

    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    k3: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(astuple(self)).all():
            raise InputError(f"the lens distortion {astuple(self)} must be finite numbers")

    def __bool__(self) -> bool:
        """Whether any coefficient is not 0."""
        return any(astuple(self))

    def distort(self, points: np.ndarray) -> np.ndarray:
        """(..., 2) where points (..., 2) at depth 1 are seen."""
        x, y = points[..., 0], points[..., 1]
        square = x * x + y * y
        radial = 1 + square * (self.k1 + square * (self.k2 + square * self.k3))
        return np.stack(
            [
                x * radial + 2 * self.p1 * x * y + self.p2 * (square + 2 * x * x),
                y * radial + self.p1 * (square + 2 * y * y) + 2 * self.p2 * x * y,
            ],
            axis=-1,
        )

    @property
    def reach(self) -> float:
        """The radius r up to which the polynomial is monotonic; beyond it the model is invalid.

        The end is where the derivative of r (1 + k1 r^2 + k2 r^4 + k3 r^6) first vanishes; inf without one.
        """
        roots = np.roots([7 * self.k3, 5 * self.k2, 3 * self.k1, 1.0])
        real = roots[(np.abs(roots.imag) < 1e-9) & (roots.real > 0)].real
        return float(np.sqrt(real.min())) if len(real) else float("inf")


@dataclass(frozen=True, eq=False)
class Undistortion:
    """The picture that the same camera would take without its lens.

    place: (2, H, W) rows and columns, counted from the first pixel's centre, where each pixel finds its
    value.
    inside: (H, W) bool, False where the photograph does not reach.
    """

    place: np.ndarray
    inside: np.ndarray

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
        channels = image.reshape(*self.inside.shape, -1)
        planes = [
            scipy.ndimage.map_coordinates(channels[..., c], self.place, order=1, mode="nearest") * self.inside
            for c in range(channels.shape[-1])
        ]
        return np.stack(planes, axis=-1).reshape(image.shape)


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

    def padded(self, size: tuple[int, int]) -> Layers:
        """Padded with unknown columns on the right and unknown rows below."""
        height, width = self.known.shape
        room = ((0, size[1] - height), (0, size[0] - width))
        rest = (np.pad(image, room) for image in (self.coverage, self.known, self.depth))
        return Layers(np.pad(self.color, (*room, (0, 0))), *rest)
