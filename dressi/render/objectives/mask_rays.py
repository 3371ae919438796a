"""Where masks of calibrated cameras show an object: the rays through their centroids, and the point nearest to rays."""

from __future__ import annotations

import numpy as np

from dressi.render.cameras import Cameras


def mask_rays(masks: np.ndarray, cameras: Cameras) -> tuple[np.ndarray, np.ndarray]:
    """Origins (N, 3) and unit directions (N, 3) in the world of the rays through the centroids of masks (N, H, W), covered
    where not 0. No mask may be empty."""
    directions = []
    for mask, camera in zip(masks, cameras, strict=True):
        y, x = np.nonzero(mask)
        inside = np.linalg.solve(camera.intrinsics, [x.mean() + 0.5, y.mean() + 0.5, 1.0])
        directions.append(camera.rotation.T @ (inside / np.linalg.norm(inside)))
    return np.stack([camera.center for camera in cameras]), np.stack(directions)


def nearest_point(
    origins: np.ndarray, directions: np.ndarray, guess: np.ndarray | None = None, pull: float = 1e-3
) -> np.ndarray:
    """(3,) the point with the least squared distance to rays from origins (N, 3) in unit directions (N, 3).

    guess: (3,) a point whose squared distance counts ``pull`` times; it decides along directions that the rays leave open.
    """
    across = np.eye(3) - directions[:, :, None] * directions[:, None, :]
    system, right = across.sum(0), np.einsum("nij,nj->i", across, origins)
    if guess is not None:
        system, right = system + pull * np.eye(3), right + pull * guess
    return np.linalg.lstsq(system, right, rcond=None)[0]
