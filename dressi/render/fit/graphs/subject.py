"""What is drawn of an optimisation that runs, from any camera."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import Size
from ...surface.screen import DrawnMesh


@dataclass(frozen=True, eq=False)
class Subject:
    """A mesh as Variables of the engine that optimises it.

    position: VEC3 list.  faces: IVEC3 list, of which the first ``face_count`` are drawn; those without area are not.
    codes: from the mesh as it is drawn to its colours at each pixel, VEC3 sRGB codes; None while it has none.  picture: instead,
    from matrices (MAT4, position to clip space) and a size to the whole picture, VEC3 sRGB codes.
    """

    position: Variable
    faces: Variable
    face_count: int
    codes: Callable[[DrawnMesh], Variable] | None = None
    picture: Callable[[Variable, Size], Variable] | None = None

    def moved(self, scale: float, shift: np.ndarray) -> Subject:
        """In other units."""
        return replace(self, position=self.position * scale + F.constant(tuple(shift.tolist())))
