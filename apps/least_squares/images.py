"""Inputs of the image energies.

The files are those of Opt's examples, of RubberWhale and of a depth camera, in the folders ``least_squares``, ``flow`` and
``rgbd`` of DRESSI_DATA. Images are (H, W) or (H, W, C) float64 arrays, row 0 on top; masks are 1 or 0.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.io import load_image, save_image
from dressi.render.io.files import data_file, read_bytes, read_json, usable

NEIGHBOURS = ((1, 0), (-1, 0), (0, 1), (0, -1))
GREY = (0.299, 0.587, 0.114)


def box(active: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns of the pixels that are not 0 and of their neighbours."""
    rows, columns = (slice(max(int(at.min()) - 1, 0), int(at.max()) + 2) for at in np.nonzero(active))
    return rows, columns


@dataclass(frozen=True)
class Splice:
    """A picture that is pasted into another one, colours in 0..255.

    base, inserted: (H, W, 3). active: (H, W), where the picture is changed.
    """

    base: np.ndarray
    inserted: np.ndarray
    active: np.ndarray

    def cropped(self) -> "Splice":
        """The same energy on the ``box`` of the mask alone."""
        at = box(self.active)
        return Splice(self.base[at], self.inserted[at], self.active[at])

    def pasted(self, picture: np.ndarray) -> np.ndarray:
        """(H, W, 3) the base with the active pixels of a solution of ``cropped``."""
        at, out = box(self.active), self.base.copy()
        out[at] = np.where(self.active[at][..., None] > 0, picture, out[at])
        return out


def splice() -> Splice:
    """Opt's pair for Poisson image editing, 448x320; white pixels of the mask are active."""
    base, inserted, mask = (codes("least_squares", f"poisson{name}.png") for name in ("0", "1", "_mask"))
    return Splice(base, inserted, (mask[..., 0] == 255).astype(float))


@dataclass(frozen=True)
class Warp:
    """A cut-out that is dragged by handles.

    picture: (H, W, 3) in 0..255. active: (H, W), the cut-out. goal: (H, W, 2), how far in pixels (x, y) the handle at
    a pixel is dragged. handle: (H, W), 1 where there is one.
    """

    picture: np.ndarray
    active: np.ndarray
    goal: np.ndarray
    handle: np.ndarray

    def cropped(self) -> "Warp":
        """The same energy on the ``box`` of the cut-out alone."""
        at = box(self.active)
        return Warp(self.picture[at], self.active[at], self.goal[at], self.handle[at])


def warp(every: int = 1) -> Warp:
    """Opt's cat, 512x512, or every so manieth of its pixels. Black pixels of the mask are the cat.

    A handle of the file is x, y and the place it goes to, divided by ``every`` and rounded down. Active pixels of the
    border of the picture are handles that stay. Raises InputError.
    """
    if every < 1:
        raise InputError(f"every is at least 1, not {every}")
    picture, mask = (
        codes("least_squares", name)[::every, ::every] for name in ("cat512.png", "cat512_mask.png")
    )
    active = (mask[..., 0] == 0).astype(float)
    goal, handle = np.zeros((*active.shape, 2)), np.zeros_like(active)
    handle[[0, -1]] = handle[:, [0, -1]] = 1
    path = data_file("least_squares", "cat512.constraints")
    with usable(path, "the constraints"):
        count, *numbers = (int(word) for word in read_bytes(path).split())
        for x, y, to_x, to_y in np.reshape(numbers, (count, 4)) // every:
            goal[y, x], handle[y, x] = (to_x - x, to_y - y), 1
    return Warp(picture[..., :3], active, goal, handle * active)


def flow_frames() -> tuple[np.ndarray, np.ndarray]:
    """Two frames of RubberWhale, (388, 584, 3) in 0..1."""
    first, second = (codes("flow", f"frame{k}.png") / 255 for k in (10, 11))
    return first, second


@dataclass(frozen=True)
class Shaded:
    """A depth image and what a camera at the same place sees.

    depth: (H, W) metres, 0 where unknown. grey: (H, W) in 0..1. edges: two (H, W) masks, 0 where the shading of a pixel
    and of its right (lower) neighbour are not compared. focal, centre: (x, y) in pixels; pixel (i, j) has its centre at
    (i, j). light: nine coefficients of spherical harmonics, of 1, y, z, x, xy, yz, 2zz - xx - yy, zx and xx - yy.
    weights: of fitting, smoothness and shading.
    """

    depth: np.ndarray
    grey: np.ndarray
    edges: tuple[np.ndarray, np.ndarray]
    focal: tuple[float, float]
    centre: tuple[float, float]
    light: np.ndarray
    weights: tuple[float, float, float]

    def cropped(self) -> "Shaded":
        """The same energy on the ``box`` of the known depths alone."""
        at = box(self.depth)
        right, below = (mask[at] for mask in self.edges)
        centre = (self.centre[0] - at[1].start, self.centre[1] - at[0].start)
        return replace(self, depth=self.depth[at], grey=self.grey[at], edges=(right, below), centre=centre)


def shaded() -> Shaded:
    """Opt's frame for shape from shading, 640x480. Raises InputError for files of another form."""
    depth, grey, edges = (_dump(name) for name in ("targetDepth", "targetIntensity", "maskEdgeMap"))
    path = data_file("least_squares", "shape_from_shading", "default.SFSSolverParameters")
    with usable(path, "the parameters"):
        p = np.array(struct.unpack_from("<36f", read_bytes(path)))
    height = len(depth)
    return Shaded(
        depth=np.where(np.isfinite(depth) & (depth > 0), depth, 0.0),
        grey=grey,
        edges=(edges[:height], edges[height:]),
        focal=(p[7], p[8]),
        centre=(p[9], p[10]),
        light=p[27:],
        weights=(p[0], p[1], p[3]),
    )


def _dump(name: str) -> np.ndarray:
    """(H, W) of a file with a header of four INTs: width, height, channels, and 0 for float32 or 1 for bytes."""
    path = data_file("least_squares", "shape_from_shading", f"default_{name}.imagedump")
    with usable(path, "the image"):
        content = read_bytes(path)
        width, height, _, kind = struct.unpack_from("<4i", content)
        values = np.frombuffer(content, ("<f4", "u1")[kind], offset=16)
        return values.reshape(height, width).astype(float)


@dataclass(frozen=True)
class DepthFrame:
    """One frame of a depth camera. depth: (H, W) metres, 0 where unknown. grey: (H, W) in 0..1."""

    depth: np.ndarray
    grey: np.ndarray


def depth_frames() -> tuple[list[DepthFrame], tuple[float, float], tuple[float, float]]:
    """The frames of ``rgbd``, in order, and the focal length and the principal point (x, y) of their camera, in pixels."""
    folder = data_file("rgbd")
    k = np.reshape(read_json(folder / "camera_primesense.json", "camera")["intrinsic_matrix"], (3, 3)).T
    frames = []
    for file in sorted((folder / "depth").glob("*.png")):
        depth = load_image(file, linear=False)[..., 0].astype(float) * 65535 / 1000
        frames.append(DepthFrame(depth, codes("rgbd", "color", f"{file.stem}.jpg") @ GREY / 255))
    if not frames:
        raise InputError(f"'{folder / 'depth'}' holds no PNG images")
    return frames, (k[0, 0], k[1, 1]), (k[0, 2], k[1, 2])


def codes(*names: str) -> np.ndarray:
    """(H, W, 3) the code values of a file of DRESSI_DATA, in 0..255."""
    return np.rint(load_image(Path(data_file(*names)), linear=False)[..., :3].astype(float) * 255)


def save_pictures(path: Path, pictures: Sequence[np.ndarray]) -> None:
    """Writes (H, W, 3) or (H, W) pictures in 0..1 beside each other."""
    height = max(len(p) for p in pictures)
    rows = [p if p.ndim == 3 else np.repeat(p[..., None], 3, axis=2) for p in pictures]
    padded = [np.pad(p, ((0, height - len(p)), (0, 4), (0, 0)), constant_values=1) for p in rows]
    save_image(path, np.concatenate(padded, axis=1)[:, :-4], linear=False)
