"""Whatever is given as cameras, as matrices and a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ad.graph import Variable
from ...ad.types import MAT4, Size, size_of
from ...errors import GraphError, InputError
from .camera import Camera, Cameras, Views
from .conventions import check_convention
from .pose import Poses
from .views import frame


class Seen(NamedTuple):
    """The views of a picture."""

    matrices: Variable | np.ndarray
    """World to clip: MAT4 1x1, one a view, or (N, 4, 4)."""
    size: Size
    single: bool
    """Whether one camera was given, not a list of them."""


def seen_by(cameras: Any, size: Size | None, places: np.ndarray | None) -> Seen:
    """A ``Camera`` or several, ``Cameras``, ``Views``, ``Poses``, or matrices with a size. places: (..., 3),
    what a view without cameras frames, if it is known. Raises InputError."""
    if size is not None:
        try:
            size = size_of(size, "the size of a picture")
        except GraphError as error:
            raise InputError(f"{error}; give size=(W, H) in pixels") from None
    if cameras is None:
        if places is None:
            raise InputError(
                "give cameras: the positions are computed, so the view that frames them is not known"
            )
        places = places.reshape(-1, 3)
        cameras = frame(places.min(0), places.max(0), size or (256, 256))
    if isinstance(cameras, Views):
        return Seen(cameras.matrices, size or cameras.size, cameras.matrices.batch == 1)
    if isinstance(cameras, Poses):
        return Seen(cameras.matrices, size or cameras.cameras.size, False)
    if isinstance(cameras, (Variable, np.ndarray)):
        if size is None:
            raise InputError("matrices need a size: size=(W, H)")
        if isinstance(cameras, Variable):
            if cameras.vtype is not MAT4 or cameras.size != (1, 1):
                raise InputError(f"cameras is a MAT4 of one texel, not {cameras} (made at {cameras.where})")
            return Seen(cameras, size, False)
        if cameras.ndim not in (2, 3) or cameras.shape[-2:] != (4, 4) or not len(cameras):
            raise InputError(f"cameras has shape (4, 4) or (N, 4, 4), not {cameras.shape}")
        if not np.isfinite(cameras).all():
            raise InputError("cameras has values that are NaN or infinite; repair them")
        matrices = np.asarray(cameras, np.float64).reshape(-1, 4, 4)
        check_convention(matrices)
        return Seen(matrices, size, cameras.ndim == 2)
    single = isinstance(cameras, Camera)
    if single:
        cameras = [cameras]
    if not isinstance(cameras, Cameras):
        if not isinstance(cameras, Sequence) or not all(isinstance(c, Camera) for c in cameras):
            raise InputError(f"cameras are a Camera, several, or matrices MAT4, not {type(cameras).__name__}")
        cameras = Cameras(cameras)
    if size is not None:
        cameras = cameras.resized(size)
    return Seen(cameras.matrices, cameras.size, single)
