"""Views of a bowl, whose inside no outline shows, and folders of photographs with depth pictures."""

from pathlib import Path

import numpy as np
from reference import rasterize

from dressi.render import Cameras, Mesh, orbit
from dressi.render.io import encode_png, save_image
from dressi.render.io.cameras import encode_cameras
from dressi.render.io.lens import Lens


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
