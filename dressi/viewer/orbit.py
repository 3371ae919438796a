"""A camera that orbits around a mesh, moved by mouse and keys."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..render.cameras import Camera

FOV_Y = 35.0
"""Vertical field of view in degrees."""
NEAREST, FARTHEST = 0.2, 40.0
"""Range of the distance, in radii of the scene."""


@dataclass
class Orbit:
    """Angles in degrees, as in ``dressi.render.ring``: azimuth 0 looks from +z, 90 from +x. distance: in units of the scene.

    up: (3,) the direction that stays upright. center: (3,) what it looks at.

    >>> from dressi.viewer.orbit import Orbit
    >>> orbit = Orbit()
    >>> orbit.turn(90.0, 0.0); orbit.zoom(2.0)
    >>> orbit.camera((64, 64)).center.round(3).tolist()
    [-1.539, 0.596, 0.56]
    """

    azimuth: float = 20.0
    elevation: float = 20.0
    distance: float = 3.4857
    center: np.ndarray = field(default_factory=lambda: np.zeros(3))
    up: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0, 0.0]))

    def turn(self, right: float, down: float) -> None:
        """Turn the object by degrees to the right and down."""
        self.azimuth = (self.azimuth - right + 180.0) % 360.0 - 180.0
        self.elevation = float(np.clip(self.elevation + down, -89.0, 89.0))

    def zoom(self, factor: float) -> None:
        """Come nearer by a factor."""
        self.distance = float(np.clip(self.distance / factor, NEAREST, FARTHEST))

    def pan(self, right: float, down: float) -> None:
        """Shift the object to the right and down, in heights of the picture."""
        rotation = self.camera((2, 2)).rotation
        step = 2 * self.distance * np.tan(np.radians(FOV_Y / 2))
        self.center = self.center - step * (right * rotation[0] + down * rotation[1])

    def home(self) -> None:
        """Back to where it began."""
        start = Orbit()
        self.azimuth, self.elevation, self.distance, self.center = (
            start.azimuth, start.elevation, start.distance, start.center,
        )  # fmt: skip

    def camera(self, size: tuple[int, int]) -> Camera:
        """The camera for pictures of ``size`` (width, height). Narrow pictures show as much as square ones."""
        a, e = np.radians([self.azimuth, self.elevation])
        toward = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
        eye = self.center + self.distance * (self._upright() @ toward)
        narrow = min(1.0, size[0] / size[1])
        fov = 2 * np.degrees(np.arctan(np.tan(np.radians(FOV_Y / 2)) / narrow))
        near = max(self.distance - 3.0, 0.02 * self.distance)
        return Camera.perspective(
            float(fov), size, eye, self.center, up=self.up, near=near, far=self.distance + 10.0
        )

    def _upright(self) -> np.ndarray:
        """(3, 3): the rotation that takes +y to ``up``."""
        up = self.up / np.linalg.norm(self.up)
        side = np.cross(up, [0.0, 0.0, 1.0])
        if np.linalg.norm(side) < 1e-6:
            side = np.array([1.0, 0.0, 0.0])
        side /= np.linalg.norm(side)
        return np.stack([side, up, np.cross(side, up)], axis=1)
