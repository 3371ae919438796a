"""A rasterizer that clips nothing, pictures by it, and meshes and masks that tests put together.

Coverage is decided in homogeneous coordinates (Olano and Greer 1997): with the corners' (X, Y, W) as the
columns of a matrix M, a point of the screen (x, y, 1) = M lambda / w has the barycentric weights lambda ~
M^-1 (x, y, 1), all >= 0 inside, whether or not a corner lies behind the camera. Nothing is clipped; the depth
is tested at each pixel.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dressi.render import Cameras, Mesh, orbit
from dressi.render.io import encode_png, save_image
from dressi.render.io.calibration import encode_cameras
from dressi.render.io.lens import Lens

CHUNK = 2_000_000
"""(face, pixel) pairs looked at together."""


class Raster(NamedTuple):
    """One picture. Where nothing is hit: face -1, weights 0, depth 1."""

    face: np.ndarray
    """(H, W) int64: the nearest face; the lower number of two at the same depth."""
    weights: np.ndarray
    """(H, W, 3) perspective-correct barycentric weights of its corners."""
    depth: np.ndarray
    """(H, W) Z / W in [0, 1]."""

    @property
    def mask(self) -> np.ndarray:
        """(H, W) 1.0 where something is hit."""
        return (self.face >= 0).astype(np.float64)


def rasterize(positions: np.ndarray, faces: np.ndarray, matrix: np.ndarray, size: tuple[int, int]) -> Raster:
    """Hard picture of positions (V, 3) under a world -> clip matrix (4, 4): x right, y down, z in [0, w].

    A pixel is covered when its centre lies in a face or on its border, at a depth in [0, 1]. Both sides are
    drawn. Faces without area on the screen or with a coordinate that is not finite cover nothing.
    """
    clip = (
        np.concatenate([positions, np.ones((len(positions), 1))], axis=1)
        @ np.asarray(matrix, dtype=np.float64).T
    )
    return rasterize_clip(clip, faces, size)


def rasterize_clip(clip: np.ndarray, faces: np.ndarray, size: tuple[int, int]) -> Raster:
    """`rasterize` of clip-space positions (V, 4)."""
    width, height = size
    corners = np.asarray(clip, dtype=np.float64)[faces]
    columns = corners[:, :, [0, 1, 3]].transpose(0, 2, 1)
    finite = np.isfinite(corners).all((1, 2))
    columns = np.where(finite[:, None, None], columns, 0.0)
    scale = np.abs(columns).max((1, 2))
    drawn = finite & (np.abs(np.linalg.det(columns)) > 1e-14 * np.maximum(scale, 1e-300) ** 3)
    inverse = np.zeros_like(columns)
    inverse[drawn] = np.linalg.inv(columns[drawn])
    left, top, right, bottom = _boxes(corners, size)
    wide, high = np.maximum(right - left, 0) * drawn, np.maximum(bottom - top, 0) * drawn
    order = np.nonzero(wide * high)[0]
    best_face = np.full(width * height, -1, dtype=np.int64)
    best_depth = np.full(width * height, np.inf)
    best_weights = np.zeros((width * height, 3))
    ends = np.cumsum((wide * high)[order])
    start = 0
    while start < len(order):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
        chosen = order[start:stop]
        start = stop
        count = (wide * high)[chosen]
        face = np.repeat(chosen, count)
        within = np.arange(len(face)) - np.repeat(np.cumsum(count) - count, count)
        x, y = left[face] + within % wide[face], top[face] + within // wide[face]
        ndc = np.stack([(x + 0.5) / width * 2 - 1, (y + 0.5) / height * 2 - 1, np.ones(len(face))], axis=1)
        weights = np.einsum("nij,nj->ni", inverse[face], ndc)  # barycentric weights over W
        total = weights.sum(1)
        hit = (weights >= 0).all(1) & (total > 0)
        face, pixel, weights = face[hit], (y * width + x)[hit], weights[hit] / total[hit, None]
        z = np.einsum("ni,ni->n", weights, corners[face, :, 2])
        depth = z / np.einsum("ni,ni->n", weights, corners[face, :, 3])
        hit = (depth >= 0) & (depth <= 1)
        face, pixel, weights, depth = face[hit], pixel[hit], weights[hit], depth[hit]
        first = np.lexsort((face, depth, pixel))
        first = first[np.concatenate([[True], np.diff(pixel[first]) > 0])[: len(first)]]
        # Chunks run through the faces in order, so an earlier face keeps a tie.
        first = first[depth[first] < best_depth[pixel[first]]]
        best_face[pixel[first]], best_depth[pixel[first]] = face[first], depth[first]
        best_weights[pixel[first]] = weights[first]
    return Raster(
        best_face.reshape(height, width),
        best_weights.reshape(height, width, 3),
        np.where(np.isinf(best_depth), 1.0, best_depth).reshape(height, width),
    )


def masks_of(
    positions: np.ndarray, faces: np.ndarray, matrices: np.ndarray, size: tuple[int, int]
) -> np.ndarray:
    """(N, H, W) hard silhouettes under N matrices (N, 4, 4)."""
    return np.stack([rasterize(positions, faces, matrix, size).mask for matrix in matrices])


def images_of(mesh, matrices: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Unlit linear pictures (N, H, W, 3) on black, and masks (N, H, W), of a textured Mesh."""
    images, masks = [], []
    for matrix in matrices:
        raster = rasterize(mesh.positions, mesh.faces, matrix, size)
        inside = raster.face >= 0
        uv = np.zeros(inside.shape + (2,))
        if mesh.uvs is not None:
            corner_uvs = mesh.uvs[mesh.uv_faces[raster.face[inside]]]
            uv[inside] = np.einsum("nk,nkd->nd", raster.weights[inside], corner_uvs)
        images.append(mesh.sample_texture(uv) * inside[..., None])
        masks.append(raster.mask)
    return np.stack(images), np.stack(masks)


def _boxes(
    corners: np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels (left, top, right, bottom), each (F,), that a face can cover: all of them when it reaches
    behind."""
    w = corners[..., 3:]
    front = (w > 0).all((1, 2))
    with np.errstate(all="ignore"):
        pixel = (corners[..., :2] / np.where(w > 0, w, 1.0) * 0.5 + 0.5) * size
    low, high = np.floor(pixel.min(1)), np.ceil(pixel.max(1))
    low, high = np.where(front[:, None], low, 0), np.where(front[:, None], high, size)
    low = np.clip(np.nan_to_num(low), 0, size).astype(np.int64)
    high = np.clip(np.nan_to_num(high), 0, size).astype(np.int64)
    return low[:, 0], low[:, 1], high[:, 0], high[:, 1]


def views_of_bowl(count: int, size: tuple[int, int]) -> Cameras:
    """From above, from below and from aside, so that outlines show all but the inside."""
    azimuths = 144.0 * np.arange(count)
    return orbit(np.zeros(3), 1.0, azimuths, [(55, -15, 35)[k % 3] for k in range(count)], size)


def depth_pictures(mesh: Mesh, cameras: Cameras) -> tuple[np.ndarray, np.ndarray]:
    """Masks and depths along the optical axis (N, H, W) by the reference rasterizer."""
    masks, depths = [], []
    for camera in cameras:
        raster = rasterize(mesh.positions, mesh.faces, camera.world_to_clip, cameras.size)
        corners = camera.project(mesh.positions)[1][mesh.faces[raster.face]]
        masks.append(raster.mask)
        depths.append((raster.weights * corners).sum(-1))
    return np.stack(masks), np.stack(depths)


def photographed(
    folder: Path,
    cameras: Cameras,
    masks: np.ndarray,
    depths: np.ndarray,
    bounds: np.ndarray,
    codes: float = 1000,
) -> Path:
    """A folder of grey photographs with alpha, cameras.json and depths of so many codes in a unit."""
    (folder / "depth").mkdir(parents=True)
    views = []
    for k, (camera, mask, depth) in enumerate(zip(cameras, masks, depths, strict=True)):
        save_image(folder / f"{k}.png", np.stack([0.5 * mask] * 3 + [mask], axis=-1))
        write_depth(folder / "depth" / f"{k}.png", np.round(depth * codes))
        views.append((f"{k}.png", camera, Lens()))
    (folder / "cameras.json").write_bytes(encode_cameras(views, bounds))
    return folder


def write_depth(path: Path, codes: np.ndarray) -> None:
    """A PNG of codes (H, W), at most 65535."""
    path.write_bytes(encode_png(codes / 65535, bits=16))


def both(first: Mesh, second: Mesh) -> Mesh:
    """Two meshes as one, each in its place."""
    positions = np.concatenate([first.positions, second.positions])
    return Mesh(positions, np.concatenate([first.faces, second.faces + len(first.positions)]))


def disc(size: int, radius: float) -> np.ndarray:
    """(size, size) float32: 1 within ``radius`` pixels of the middle."""
    y, x = np.mgrid[:size, :size] + 0.5 - size / 2
    return (np.hypot(x, y) < radius).astype(np.float32)
