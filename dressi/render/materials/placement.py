"""Where a map lies on a surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WRAPS = ("repeat", "clamp", "mirror")
"""What maps do outside [0, 1], along u and v."""


@dataclass(frozen=True)
class Placement:
    """How a map is looked up: at ``matrix @ uv + offset``.

    uv_set: 0 for `Mesh.uvs`, 1 for `Mesh.second_uvs`.  matrix: (2, 2), rows.  offset: (2,).  wrap: along u and v; None: as
    the material says.

    >>> Placement(offset=(0.5, 0.0)).moves
    True
    """

    uv_set: int = 0
    matrix: tuple[tuple[float, float], tuple[float, float]] = ((1.0, 0.0), (0.0, 1.0))
    offset: tuple[float, float] = (0.0, 0.0)
    wrap: tuple[str, str] | None = None

    @property
    def moves(self) -> bool:
        """Whether the map lies elsewhere than the UVs say."""
        return self.matrix != ((1.0, 0.0), (0.0, 1.0)) or self.offset != (0.0, 0.0)

    def problem(self) -> str | None:
        """What is wrong with it, as a sentence."""
        if self.uv_set not in (0, 1):
            return f"uv_set is {self.uv_set}; give 0 or 1"
        if np.shape(self.matrix) != (2, 2) or np.shape(self.offset) != (2,):
            return "matrix is (2, 2) and offset (2,)"
        if not (np.isfinite(self.matrix).all() and np.isfinite(self.offset).all()):
            return "matrix or offset is NaN or infinite; give finite numbers"
        if self.wrap is not None and (len(self.wrap) != 2 or not set(self.wrap) <= set(WRAPS)):
            return f"wrap is {self.wrap}; give two of {', '.join(WRAPS)}, for u and v"
        return None
