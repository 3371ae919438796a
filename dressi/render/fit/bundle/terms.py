"""The terms of a bundle adjustment as least squares: residuals of observations and their derivatives.

Unknowns are six numbers of each pose and one of each vertex: its motion along its normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter, maximum_filter, minimum_filter

from ...cameras import Cameras
from ...mesh import Mesh
from .light import shades
from .pinhole import Projected, projected

CLEAR = 0.3
"""Least cosine between the normal and the direction to the camera of points that are compared."""
STEP = 0.03
"""Radii of the scene: a pixel lies at a contour where depths around it differ by more than those of a surface that is
just ``CLEAR``, and by this."""
NEAR = 0.02
"""The same for the depth of a point and that of the pixel that it lies in."""
BORDER = 3
"""Pixels at the border of the pictures that are left out."""
REACH, SOFT = 6.0, 1.0
"""Pixels: outlines farther apart are not compared; those a few times farther than SOFT count less."""
PLACE = 0.25
"""Pixels: errors of places that residuals of colours come from, beside noise. Where colours are steep, large residuals are
expected; those a few times larger than expected count less."""
LEAST_NOISE = 0.002
"""Least scale of residuals of colours, in sRGB codes: half of a code of 8 bits."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Weighted normal equations: the step is -matrix^-1 right. matrix: sparse (U, U).  right: (U,).  error: root of the
    weighted mean of squared residuals."""

    matrix: sparse.csc_array
    right: np.ndarray
    error: float


@dataclass(frozen=True, eq=False)
class Observed:
    """Derivatives of M observations of one view. by_pose: (M, 6).  by_vertex: (M, K), by motions along their normals of
    the K vertices (M, K) that each depends on."""

    view: int
    by_pose: np.ndarray
    by_vertex: np.ndarray
    vertices: np.ndarray


class Samples:
    """Fixed points on the faces of a mesh, about ``count`` in all, at least one a face."""

    def __init__(self, mesh: Mesh, count: int):
        each = max(round(count / len(mesh.faces)), 1)
        rng = np.random.default_rng(0)
        self.face = np.tile(np.arange(len(mesh.faces)), each)
        self.weights = rng.dirichlet(np.full(3, 2.0), len(self.face))
        self.vertices = mesh.faces[self.face]

    def of(self, values: np.ndarray) -> np.ndarray:
        """(P, ...): values (V, ...) of vertices at the points."""
        return np.einsum("pk,pk...->p...", self.weights, values[self.vertices])


def visible(
    mesh: Mesh, samples: Samples, cameras: Cameras, depths: np.ndarray, masks: np.ndarray
) -> list[tuple[np.ndarray, Projected, np.ndarray]]:
    """Of each view: the points that it sees away from contours (M,), where, and their cosines to the camera (M,).

    depths: (N, H, W) of the mesh, 0 where there is none.  masks: (N, H, W) bool, where colours are known.
    """
    points, normals, found = samples.of(mesh.positions), mesh.face_normals()[samples.face], []
    for camera, depth, mask in zip(cameras, depths, masks, strict=True):
        seen = projected(camera, points)
        to_eye = camera.center - points
        cosine = (normals * to_eye).sum(1) / np.maximum(np.linalg.norm(to_eye, axis=1), 1e-12)
        near, far = minimum_filter(depth, 3), maximum_filter(depth, 3)
        # How much the depth of a surface that is just clear changes from pixel to pixel.
        steep = near / np.sqrt(abs(np.linalg.det(camera.intrinsics[:2, :2]))) / CLEAR
        clear = (near > 0) & (far - near < STEP + 2 * steep) & (minimum_filter(mask, 3) > 0)
        row, column = seen.pixels()
        away = np.abs(seen.at[:, 2] - depth[row, column])
        shown = clear[row, column] & (away < NEAR + steep[row, column] / 2)
        index = np.flatnonzero(shown & seen.inside(BORDER) & (cosine > CLEAR))
        found.append((index, seen[index], cosine[index]))
    return found


def blurred(codes: np.ndarray, masks: np.ndarray, sigma: float) -> np.ndarray:
    """(N, H, W): codes smoothed by a Gaussian of ``sigma`` pixels, of the pixels of the masks alone."""
    found = [
        gaussian_filter(c * m, sigma) / np.maximum(gaussian_filter(m.astype(float), sigma), 1e-3)
        for c, m in zip(codes, masks, strict=True)
    ]
    return np.stack(found)


def colours_alike(
    mesh: Mesh,
    samples: Samples,
    seen: Sequence[tuple[np.ndarray, Projected, np.ndarray]],
    codes: np.ndarray,
) -> Equations:
    """A point of the surface has one colour in all pictures, up to the light of each (``shades``).

    codes: (N, H, W). The colours of the points, their means, are eliminated. Large residuals count less.
    """
    normals, own = mesh.vertex_normals(), samples.of(mesh.vertex_normals())
    own = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
    times = np.bincount(np.concatenate([index for index, _, _ in seen]), minlength=len(own))
    parts, points, values, steeps, weights = [], [], [], [], []
    for view, (index, there, cosine) in enumerate(seen):
        kept = times[index] >= 2
        index, there = index[kept], there[kept]
        steep, by_pose, by_point = there.slopes(codes[view])
        vertices = samples.vertices[index]
        by_vertex = np.einsum("mkc,mc->mk", normals[vertices], by_point) * samples.weights[index]
        parts.append(Observed(view, by_pose, by_vertex, vertices))
        points.append(index)
        values.append(there.look_up(codes[view]))
        steeps.append(steep)
        weights.append(cosine[kept])
    value, weight = np.concatenate(values), np.concatenate(weights)
    point = np.concatenate(points)
    view = np.repeat(np.arange(len(points)), [len(index) for index in points])
    shade = shades(own, point, view, value)
    slopes = _scaled(jacobian(parts, len(seen), len(normals)), 1 / shade)
    value = value / shade

    def mean(weight: np.ndarray) -> sparse.csr_array:
        """Weighted means over the observations of each point."""
        total = np.bincount(point, weight, len(own))
        rows = weight / np.maximum(total, 1e-12)[point]
        return sparse.csr_array((rows, (point, np.arange(len(point)))), (len(own), len(point)))

    away = value - (mean(weight) @ value)[point]
    noise = max(1.4826 * float(np.median(np.abs(away))) if len(away) else 0.0, LEAST_NOISE)
    scale = noise**2 + (PLACE * np.concatenate(steeps) / shade) ** 2
    weight = weight / (scale + away**2 / 4)
    average = mean(weight)
    away = value - (average @ value)[point]
    common = average @ slopes
    total = np.bincount(point, weight, len(own))
    matrix = slopes.T @ _scaled(slopes, weight) - common.T @ _scaled(common, total)
    right = slopes.T @ (weight * away)
    return Equations(sparse.csc_array(matrix), right, _error(weight, away))


def outlines_alike(
    mesh: Mesh, cameras: Cameras, edges: tuple[np.ndarray, np.ndarray], drawn: np.ndarray, masks: np.ndarray
) -> Equations:
    """Outlines of the mesh lie on those of the masks; residuals in pixels, weights in pixels of length.

    edges: vertices (E, 2) and faces (E, 2) of the edges between two faces.  drawn, masks: (N, H, W) signed distances in
    pixels to the outlines of the mesh as it is drawn, and to those of the masks.
    """
    ends, beside = edges
    normals, faces = mesh.vertex_normals(), mesh.face_normals()
    corner, parts, residuals, weights = mesh.positions[mesh.faces[:, 0]], [], [], []
    for view, camera in enumerate(cameras):
        front = ((camera.center - corner) * faces).sum(1) > 0
        turns = np.flatnonzero(front[beside[:, 0]] != front[beside[:, 1]])
        seen = projected(camera, mesh.positions[ends[turns]].mean(1))
        # Of the edges where the surface turns away, those at the outline as it is drawn are visible there.
        away = seen.look_up(masks[view])
        kept = seen.inside(BORDER) & (np.abs(seen.look_up(drawn[view])) < 1) & (np.abs(away) < REACH)
        index, seen, away = turns[kept], seen[kept], away[kept]
        _, by_pose, by_point = seen.slopes(masks[view])
        by_vertex = np.einsum("mkc,mc->mk", normals[ends[index]], by_point) / 2
        parts.append(Observed(view, by_pose, by_vertex, ends[index]))
        first, second = (projected(camera, mesh.positions[ends[index, k]]).place for k in (0, 1))
        residuals.append(away)
        weights.append(np.linalg.norm(first - second, axis=1) / (1 + (away / SOFT) ** 2))
    slopes = jacobian(parts, len(cameras), len(normals))
    away, weight = np.concatenate(residuals), np.concatenate(weights)
    matrix = slopes.T @ _scaled(slopes, weight)
    return Equations(sparse.csc_array(matrix), slopes.T @ (weight * away), _error(weight, away))


def jacobian(parts: Sequence[Observed], views: int, vertices: int) -> sparse.csr_array:
    """(M, 6 views + vertices): the derivatives of all observations, view by view."""
    columns, values = [], []
    for part in parts:
        own = np.broadcast_to(6 * part.view + np.arange(6), part.by_pose.shape)
        columns.append(np.concatenate([own, 6 * views + part.vertices], axis=1))
        values.append(np.concatenate([part.by_pose, part.by_vertex], axis=1))
    column, value = np.concatenate(columns), np.concatenate(values)
    starts = np.arange(len(column) + 1) * column.shape[1]
    return sparse.csr_array((value.ravel(), column.ravel(), starts), (len(column), 6 * views + vertices))


def _scaled(rows: sparse.csr_array, factors: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array(np.asarray(factors, np.float64)) @ rows)


def _error(weight: np.ndarray, away: np.ndarray) -> float:
    return float(np.sqrt((weight * away * away).sum() / max(float(weight.sum()), 1e-12)))
