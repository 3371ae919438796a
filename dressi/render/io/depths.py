"""Depth pictures beside photographs: the distance from the camera along its axis, in units of the world, 0 where unknown.

``depth/NAME.png`` of 16 bits holds codes, so many to one unit of the world: 1000 by default (millimetres, in a world in
metres), 5000 in data sets of TUM. ``depth/NAME.npy`` holds such codes as integers, or floats in units of the world.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dressi.config import config
from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.io.files import followed, read_bytes, usable
from dressi.render.io.pixels import decode_pixels

FOLDER = "depth"
CODES = 1000.0
"""Codes in one unit of the world if nobody says how many."""
FAR = 10.0
"""Depths that differ from the distance of the object by such a factor are in other units."""


@dataclass(frozen=True)
class Depths:
    """The depth pictures in the folder ``depth`` of a folder of photographs.

    scale: codes in one unit of the world; of floats, their units in one. None: CODES, and 1 for floats.
    """

    folder: Path
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(
                f"a scale of depths is the number of codes in one unit of the scene, such as 1000, not {self.scale}"
            )
        if not (self.folder / FOLDER).is_dir():
            raise InputError(
                f"'{self.folder}' has no folder '{FOLDER}'; add one with a depth picture for each photograph, or leave out --depth"
            )

    def read(self, image: Path, size: tuple[int, int]) -> np.ndarray:
        """(H, W) float32: the depths of a photograph of that size, 0 where unknown. Raises InputError."""
        path = self._file(image)
        data = read_bytes(path, "depth picture")
        with usable(path, "the depth picture"):
            values = _array(data) if path.suffix == ".npy" else _codes(data, path)
        if values.shape[::-1] != tuple(size):
            raise InputError(
                f"the depth picture '{path}' has {values.shape[1]}x{values.shape[0]} pixels and its photograph '{image.name}'"
                f" {size[0]}x{size[1]}; register the depth to the photograph's camera"
            )
        scale = self.scale or (1.0 if values.dtype.kind == "f" else CODES)
        depths = values.astype(np.float64) / scale
        depths = np.where(np.isfinite(depths) & (depths > 0), depths, 0.0).astype(np.float32)
        if not depths.any():
            raise InputError(
                f"the depth picture '{path}' is 0 (unknown) everywhere; export it again, or remove the view"
            )
        return depths

    def check(self, name: str, depths: np.ndarray, camera: Camera, center: np.ndarray) -> None:
        """Raise InputError if depths (H, W) of an object, 0 where unknown, are in other units than the camera."""
        known = depths[depths > 0]
        away = float(camera.project(center)[1])
        if len(known) == 0 or 1 / FAR < np.median(known) / away < FAR:
            return
        codes = "" if self.scale is None else f" (now {self.scale:g})"
        raise InputError(
            f"the depth of '{name}' is {float(np.median(known)):.4g} units of the scene, but its camera is {away:.4g} away from"
            f" the object; give --depth-scale, the number of codes in one unit{codes}"
        )

    def _file(self, image: Path) -> Path:
        folder = self.folder / FOLDER
        found = [folder / (image.stem + suffix) for suffix in (".png", ".npy")]
        path = next((file for file in found if file.is_file()), None)
        if path is None:
            raise InputError(
                f"'{folder}' has no depth picture for '{image.name}'; add '{found[0].name}', or remove the view"
            )
        return followed(path, self.folder, folder)


def _codes(data: bytes, path: Path) -> np.ndarray:
    """(H, W) uint16."""
    values = decode_pixels(data, str(path)).values
    if values.dtype != np.uint16 or values.shape[-1] != 1:
        raise InputError(
            f"the depth picture '{path}' is no grey PNG of 16 bits; export depths as such, or as a .npy array"
        )
    return values[..., 0]


def _array(data: bytes) -> np.ndarray:
    """(H, W) numbers of a .npy file; nothing is allocated from what its head says."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(stream)
    if dtype.kind not in "fui" or len(shape) != 2:
        raise InputError(f"it must hold (H, W) numbers, not {shape} of {dtype}; save the depths as float32")
    if shape[0] * shape[1] > config.max_megapixels * 1_000_000:
        raise InputError(
            f"{shape[1]}x{shape[0]} depths are above the limit of {config.max_megapixels} megapixels"
        )
    values = np.frombuffer(data, dtype, shape[0] * shape[1], stream.tell())
    return values.reshape(shape, order="F" if columns_first else "C")
