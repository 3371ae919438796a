"""What is fitted: views with masks and colours, those to learn from and those to judge by."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ..cameras import Cameras
from ..cameras.units import unit_matrices
from ..cameras.views import held_out_ring, ring
from ..cameras.views import upward as guess_upward
from ..drawing.draw import draw
from ..engine import MakeEngine
from ..hull import estimate_bounds, sphere_of
from ..io import Photos
from ..mesh import Mesh
from ..mesh.primitives import octasphere


@dataclass(frozen=True, eq=False)
class Views:
    """N pictures. masks: (N, H, W) 0 or 1.  colors: (N, H, W, 3) linear, black outside of the masks.

    known: (N, H, W) bool, where the pictures mean something; None is everywhere. Masks are 0 elsewhere.
    """

    cameras: Cameras
    masks: np.ndarray
    colors: np.ndarray
    known: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Scene:
    """center, radius: sphere around the object; a fit works in units of it.  bounds: (2, 3) box of the object.

    reference: the true mesh in the world, where there is one.
    """

    train: Views
    held_out: Views | None
    center: np.ndarray
    radius: float
    bounds: np.ndarray
    up: np.ndarray
    reference: Mesh | None = None

    @property
    def exact(self) -> bool:
        """Whether the masks are: pictures drawn of a mesh, not photographs."""
        return self.reference is not None

    @property
    def matrices(self) -> np.ndarray:
        """(N, 4, 4) from units of the scene to clip space."""
        return unit_matrices(self.train.cameras, self.center, self.radius)

    def to_world(self, mesh: Mesh) -> Mesh:
        return mesh.moved(mesh.positions * self.radius + self.center)

    def to_unit(self, mesh: Mesh) -> Mesh:
        return mesh.moved((mesh.positions - self.center) / self.radius)

    def placed(self, mesh: Mesh) -> Mesh:
        """A mesh to start from, in units of the scene.

        It stays where it is in the world when it lies in the scene; one of another place or size is moved and
        scaled to where the masks are, with a warning.
        """
        center, radius = mesh.bounding_sphere()
        away = float(np.linalg.norm(center - self.center))
        if 0.2 * self.radius < radius < 1.5 * self.radius and away < 0.5 * self.radius:
            return self.to_unit(mesh)
        warnings.warn(
            f"mesh '{mesh.name}' is not where the pictures show the object; it was moved and scaled",
            stacklevel=2,
        )
        middle, size = self._extent()
        return mesh.moved((mesh.positions - center) * (size / max(radius, 1e-30)) + middle)

    def start(self, subdivisions: int) -> Mesh:
        """A sphere, in units of the scene, that is about as large as the masks say and lies where they say."""
        middle, size = self._extent()
        return octasphere(subdivisions, size, (float(middle[0]), float(middle[1]), float(middle[2])))

    def _extent(self) -> tuple[np.ndarray, float]:
        """Middle (3,) and radius of a sphere to start from, in units of the scene."""
        try:
            bounds = estimate_bounds(self.train.masks, self.train.cameras, known=self.train.known)
        except InputError:  # one view alone does not say how far away the object is
            bounds = self.bounds
        middle = (bounds.mean(0) - self.center) / self.radius
        extent = (bounds[1] - bounds[0]) / (2 * self.radius)
        return middle, float(np.clip(0.7 * np.cbrt(extent.prod()), 0.1, 0.7))


def mesh_scene(mesh: Mesh, views: int, size: tuple[int, int], make_engine: MakeEngine) -> Scene:
    """Views of a mesh: a ring to learn from and twelve others to judge by, unlit on black. Raises InputError."""
    center, radius = mesh.bounding_sphere()
    if not radius > 0:
        raise InputError(f"mesh '{mesh.name}' has no extent; give a mesh with some area")
    pictures = []
    for cameras in (ring(center, radius, views, size), held_out_ring(center, radius, size)):
        masks, colors = draw(mesh, cameras, make_engine)
        for camera, mask in zip(cameras, masks, strict=True):
            if not mask.any():
                raise InputError(
                    f"mesh '{mesh.name}' covers no pixel of {camera.name}: it is thinner than a pixel there, as a flat mesh seen edge-on is;"
                    " turn the mesh, or use a larger --size"
                )
        pictures.append(Views(cameras, masks, colors))
    upward = np.array([0.0, 1.0, 0.0])
    return Scene(pictures[0], pictures[1], center, radius, mesh.bounds(), upward, mesh)


def photo_scene(photos: Photos) -> Scene:
    """Photographs; every fourth is held out. Raises InputError when none is left to learn from."""
    center, radius = sphere_of(photos.bounds)

    def part(index: np.ndarray) -> Views:
        cameras = Cameras([photos.cameras.cameras[i] for i in index])
        known = None if photos.known is None else photos.known[index]
        return Views(cameras, photos.masks[index], photos.targets[index], known)

    if len(photos.train) == 0:
        raise InputError("there are no photographs to learn from; give at least one")
    held_out = part(photos.held_out) if len(photos.held_out) else None
    return Scene(part(photos.train), held_out, center, radius, photos.bounds, guess_upward(photos.cameras))
