"""What is seen of a face: pictures, landmarks, depths and masks, with the cameras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ...errors import InputError
from ..cameras import Camera, Cameras
from ..fit.graphs.terms import depth_at
from ..io.images import resize
from .model import POINTS


@dataclass(frozen=True)
class Noise:
    """Standard deviations: what a residual of 1 means.

    landmarks: pixels at 256 rows, in proportion at others.  jaw: times that for the landmarks of the jaw,
    which detectors put onto the contour.  colour: linear light.  depth: millimetres.  mask: coverage. pixels:
    how many independent pixels those of all views count as.  truncated: differences of depths, in standard
    deviations, from which on they do not count.  light: of what the directional harmonics add, relative to
    the even light.  zoom: of its logarithm. Raises InputError.
    """

    landmarks: float = 1.0
    jaw: float = 1.0
    colour: float = 0.03
    depth: float = 1.5
    mask: float = 0.1
    pixels: float = 4000.0
    truncated: float = 10.0
    light: float = 1.0
    zoom: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (isinstance(value, Real) and 0 < float(value) < np.inf):
                raise InputError(f"the noise {name} of a face is a number above 0, not {value!r}")


ROUNDING = 1e-6
"""Masks are outside of [0, 1] by this at most."""
WHITE = 0.999
"""Channels of pictures from here on are over-exposed: the light was at least this."""


@dataclass(frozen=True, eq=False)
class FaceData:
    """One face in N views. Lengths of cameras and depths are in units of the model.

    cameras: a ``Camera``, ``Cameras`` or a list of them.  pictures: (N, H, W, 3), linear light.  clipped: (N,
    H, W, 3), above 0 where a channel of a picture is over-exposed and says only that the light is at least as
    bright; by default where pictures reach 1.  landmarks: (N, 68, 2) in pixels, NaN for points that are not
    seen (``load_landmarks``).  depths: (N, H, W), along the optical axis, 0 or NaN where unknown.  masks: (N,
    H, W) in [0, 1], 1 where the model covers the picture.  One view may leave out the first axis. Raises
    InputError.

    >>> camera = Camera.perspective(30, (64, 48), (0, 0, 40), (0, 0, 0))
    >>> FaceData(camera, landmarks=np.ones((68, 2))).landmarks.shape
    (1, 68, 2)
    """

    cameras: Any
    pictures: Any = None
    landmarks: Any = None
    depths: Any = None
    masks: Any = None
    clipped: Any = None

    def __post_init__(self) -> None:
        cameras = [self.cameras] if isinstance(self.cameras, Camera) else self.cameras
        if not isinstance(cameras, Cameras):
            some = isinstance(cameras, Sequence) and cameras
            if not (some and all(isinstance(camera, Camera) for camera in cameras)):
                kind = type(cameras).__name__
                raise InputError(f"cameras of a face are a Camera or a list of them, not {kind}")
            cameras = Cameras(cameras)
        object.__setattr__(self, "cameras", cameras)
        plane = cameras.size[::-1]
        shapes = {"pictures": (*plane, 3), "landmarks": (POINTS, 2), "depths": plane, "masks": plane}
        for name, shape in {**shapes, "clipped": (*plane, 3)}.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._stack(name, shape))
        if self.pictures is not None and self.clipped is None:
            object.__setattr__(self, "clipped", (self.pictures >= WHITE).astype(np.float64))
        if self.landmarks is None and self.pictures is None and self.depths is None:
            raise InputError("a face is found from pictures, landmarks or depths; give one of them")

    def _stack(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        values = np.asarray(getattr(self, name))
        if values.dtype.kind not in "biuf":
            raise InputError(f"{name} of a face are numbers, not {values.dtype}")
        if name == "pictures" and values.dtype.kind in "iu":
            raise InputError(
                "pictures of a face are linear light; srgb_to_linear(codes / 255) converts 8 bit codes"
            )
        values = values[None] if values.ndim == len(shape) else values
        wanted = (len(self.cameras), *shape)
        if values.shape != wanted:
            raise InputError(
                f"{name} of a face in {len(self.cameras)} views are an array {wanted}, not {values.shape}"
            )
        values = values.astype(np.float64)
        if name in ("pictures", "masks", "clipped") and not np.isfinite(values).all():
            raise InputError(f"{name} of a face have values that are NaN or infinite; repair them")
        if name == "masks":
            if values.min() < -ROUNDING or values.max() > 1 + ROUNDING:
                raise InputError(f"masks of a face are in [0, 1], not {values.min():g} to {values.max():g}")
            if not (values > 0.5).any():
                raise InputError("the masks of a face are empty: it is not visible in any view; check them")
        return np.where(np.isfinite(values), values, 0.0) if name == "depths" else values

    def at_rows(self, rows: int) -> FaceData:
        """The same in pictures of at most so many rows. A pixel knows its depth where more than half of it
        does, and is over-exposed where any part of it is: its mean is too dark."""
        width, height = self.cameras.size
        if rows >= height:
            return self
        size = (max(round(width * rows / height), 1), rows)
        smaller: dict[str, Any] = {}
        if self.depths is not None:
            whole = np.ones((height, width)) > 0
            smaller["depths"] = np.stack([depth_at(depth, whole, size) for depth in self.depths])
        for name in ("pictures", "masks", "clipped"):
            if getattr(self, name) is not None:
                smaller[name] = np.stack([resize(image, size) for image in getattr(self, name)])
        marks = None if self.landmarks is None else self.landmarks * np.divide(size, (width, height))
        return FaceData(self.cameras.resized(size), landmarks=marks, **smaller)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of what is given."""
        return tuple(n for n in ("pictures", "landmarks", "depths", "masks") if getattr(self, n) is not None)

    @property
    def known(self) -> np.ndarray:
        """(N, 68) bool: the landmarks that are seen."""
        assert self.landmarks is not None
        return np.isfinite(self.landmarks).all(-1)
