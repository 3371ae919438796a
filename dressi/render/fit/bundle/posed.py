"""Poses of further photographs by a shape that is known, by Gauss-Newton: those that a fit does not learn from.

    minimise over each pose   sum (I(x) - a C - b)^2 / (noise^2 + (PLACE |dI|)^2) + OUTLINES / height sum d^2

x, I, dI, d: as in ``adjust``, of the picture of that pose.  C: the colours of points of the surface, means over the pictures
whose poses are known, smoothed alike.  a, b: found with each step, for exposure and haze.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from ...cameras import Cameras
from ...cameras.units import unit_cameras
from ...engine import MakeEngine
from ...io.images import scaled_size
from ...mesh import Mesh
from ..data.dataset import Observations
from ..graphs.mask_distances import outline_distances
from ..graphs.moving import with_views
from .adjust import MOST_ROWS, OUTLINES, SAMPLES, Pictures, inner_edges, moved_by, smoothings
from .depths import Depths
from .pinhole import Projected
from .terms import LEAST_NOISE, PLACE, Equations, Samples, blurred, outlines_alike, visible

STEPS = 4
"""Steps at each smoothing of the pictures."""
SLACK = 1.02
"""How much more of a picture may be covered wrongly than before, relative to that, where colours agree better."""
LEAST_SEEN = 50
"""Points that a picture shows at least: a pose has six unknowns."""

Seen = tuple[np.ndarray, Projected, np.ndarray]


@dataclass(frozen=True, eq=False)
class _Looks:
    """Pictures of a mesh, and what draws its depths in them."""

    pictures: Pictures
    depths: Depths

    def seen(self, mesh: Mesh, samples: Samples, cameras: Cameras) -> tuple[list[Seen], np.ndarray]:
        """Of each view the points that it shows, and (N, H, W) the depths of the mesh."""
        depths = self.depths.draw(mesh.positions, cameras)
        return visible(mesh, samples, cameras, depths, self.pictures.masks), depths


def posed(mesh: Mesh, known: Observations, others: Observations, make_engine: MakeEngine) -> Cameras:
    """The cameras of other pictures of a mesh, near the ones that they have, by what the pictures with known cameras show of it.

    mesh: in the world of the cameras. Intrinsics stay, and so does a camera by which colours or outlines do not agree better.
    """
    center, radius = mesh.bounding_sphere()
    mesh = mesh.moved((mesh.positions - center) / radius)
    width, height = known.cameras.size
    size = scaled_size((width, height), min(1.0, MOST_ROWS / height))
    samples = Samples(mesh, SAMPLES)
    there, cameras = (unit_cameras(views.cameras, center, radius).resized(size) for views in (known, others))
    shown, given = (Pictures.of(v.masks, v.colors, v.known, size) for v in (known, others))
    with closing(Depths(mesh, there, make_engine)) as depths:
        fixed = _Looks(shown, depths).seen(mesh, samples, there)[0]
    colours = {
        sigma: _colours(fixed, blurred(shown.codes, shown.masks, sigma), len(samples.face))
        for sigma in smoothings(size[1])
    }
    with closing(Depths(mesh, cameras, make_engine)) as depths:
        search = _Search(mesh, samples, _Looks(given, depths), colours)
        start, before = cameras, search.errors(cameras)
        for sigma in colours:
            for _ in range(STEPS):
                cameras = search.step(cameras, sigma)
        after = search.errors(cameras)
    better = (after[:, 0] < before[:, 0]) & (after[:, 1] <= SLACK * before[:, 1])
    views = np.where(better[:, None, None], cameras.views, start.views)
    # The distance to the scene is in its units.
    views[:, :3, 3] = views[:, :3, 3] * radius - views[:, :3, :3] @ center
    return with_views(others.cameras, views)


def _colours(seen: Sequence[Seen], codes: np.ndarray, count: int) -> np.ndarray:
    """(P,): mean codes of points in pictures (N, H, W), weighted by cosines; NaN where no picture shows them."""
    total, weight = np.zeros(count), np.zeros(count)
    for view, (index, there, cosine) in enumerate(seen):
        total[index] += cosine * there.look_up(codes[view])
        weight[index] += cosine
    return np.where(weight > 0, total / np.maximum(weight, 1e-12), np.nan)


class _Search:
    """colours: (P,) of points by the smoothing of the pictures."""

    def __init__(self, mesh: Mesh, samples: Samples, looks: _Looks, colours: dict[float, np.ndarray]):
        self.mesh, self.samples, self.looks, self.colours = mesh, samples, looks, colours
        self.edges = inner_edges(mesh)
        codes, masks = looks.pictures.codes, looks.pictures.masks
        self.codes = {sigma: blurred(codes, masks, sigma) for sigma in colours}

    def step(self, cameras: Cameras, sigma: float) -> Cameras:
        """The cameras after a step of Gauss-Newton with pictures smoothed by ``sigma`` pixels."""
        seen, depths = self.looks.seen(self.mesh, self.samples, cameras)
        lines = self._outlines(cameras, depths)
        moved = []
        for k, camera in enumerate(cameras):
            away, slopes, weight = self._residuals(seen[k], sigma, k)
            at, share = slice(6 * k, 6 * k + 6), OUTLINES / camera.size[1]
            matrix = slopes.T @ (weight[:, None] * slopes) + share * lines.matrix[at, at].toarray()
            right = slopes.T @ (weight * away) + share * lines.right[at]
            matrix += np.diag(1e-3 * matrix.diagonal() + 1e-9)
            moved.append(moved_by(camera, -np.linalg.solve(matrix, right)))
        return Cameras(moved)

    def errors(self, cameras: Cameras) -> np.ndarray:
        """(N, 2) of each view: root of the weighted mean of squared residuals of colours, infinite where it shows too few points;
        and the share of the picture that is covered in one of mesh and mask alone."""
        seen, depths = self.looks.seen(self.mesh, self.samples, cameras)
        sharpest, found = min(self.colours), []
        for k, distances in enumerate(self.looks.pictures.distances):
            away, _, weight = self._residuals(seen[k], sharpest, k)
            colour = np.sqrt((weight * away * away).sum() / weight.sum()) if len(away) else np.inf
            found.append((colour, ((depths[k] > 0) != (distances > 0)).mean()))
        return np.array(found)

    def _outlines(self, cameras: Cameras, depths: np.ndarray) -> Equations:
        drawn = np.stack([outline_distances((depth > 0).astype(np.float32)) for depth in depths])
        return outlines_alike(self.mesh, cameras, self.edges, drawn, self.looks.pictures.distances)

    def _residuals(self, seen: Seen, sigma: float, view: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the points that a view shows: residuals of colours (M,), their derivatives by its pose (M, 6), weights (M,)."""
        index, there, cosine = seen
        kept = np.isfinite(self.colours[sigma][index])
        index, there, cosine = index[kept], there[kept], cosine[kept]
        if len(index) < LEAST_SEEN:
            return np.zeros(0), np.zeros((0, 6)), np.zeros(0)
        image, colour = self.codes[sigma][view], self.colours[sigma][index]
        steep, by_pose, _ = there.slopes(image)
        value = there.look_up(image)
        rows, weight = np.stack([colour, np.ones_like(colour)], axis=1), cosine
        for _ in range(3):
            scaled = rows.T * weight
            away = value - rows @ np.linalg.solve(scaled @ rows + 1e-6 * np.eye(2), scaled @ value)
            noise = max(1.4826 * float(np.median(np.abs(away))), LEAST_NOISE)
            weight = cosine / (noise**2 + (PLACE * steep) ** 2 + away**2 / 4)
        return away, by_pose, weight
