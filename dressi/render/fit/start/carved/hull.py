"""The visual hull of the masks as a mesh to start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from .....errors import InputError
from ....mesh import Mesh
from ....mesh.remesh.volume import Grid, surface_of
from ...phases.unfold import unfolded
from .agreement import Agreement, Small, needed
from .carving import SCENE, Cones

CELLS = 160
"""Most cells of the grid of the hull along its longest side."""
CELLS_OF_PIXEL = 4
"""Most of them for a pixel of the longer side of the masks: smaller ones show nothing more."""
BLURS = (0.5, 1.0, 2.0)
"""Smoothing of the field in cells: takes the edge off the creases where cones meet. The hull of frayed masks needs more."""
MOST_FACES = 4.0
"""Most faces of the start relative to those that it should have."""


@dataclass(frozen=True, eq=False)
class Hull:
    """field: (X, Y, Z) on the grid, positive inside.  wrong: views left out because their masks contradict the others.
    agree: whether the others agree; if not there is no field."""

    field: np.ndarray
    grid: Grid
    small: Small
    wrong: list[int]
    agree: bool

    @classmethod
    def of(
        cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None, box: np.ndarray = SCENE
    ) -> Hull:
        """The hull of masks (N, H, W), valid where known (N, H, W) is true.

        matrices: (N, 4, 4) from units of the scene to clip space.  box: (2, 3) around the object, in these units.
        """
        cones, small = Cones.of(matrices, masks, known, box), Small.of(matrices, masks, known)
        found = Agreement.of(cones, small)
        if not found.agree or found.box is None:
            return cls(np.full((1, 1, 1), -1.0), Grid(np.zeros(3), 1.0, (1, 1, 1)), small, found.wrong, False)
        if found.wrong:
            cones = cones.without(set(found.wrong))
        grid = Grid.around(found.box, min(CELLS, CELLS_OF_PIXEL * max(cones.size)))
        field = cones.on(grid)
        keep = needed(field > 0, grid, small)
        # Points that are dropped lie outside; the surface between them and those that are kept is half way.
        field = np.where((field > 0) & ~keep, -0.5 * grid.step, field)
        reach = 3 * grid.step
        return cls(np.clip(field, -reach, reach), grid, small, found.wrong, bool(keep.any()))

    def points(self) -> np.ndarray:
        """(P, 3) the points of the grid inside the hull."""
        return self.grid.origin + self.grid.step * np.argwhere(self.field > 0)

    def mesh(self, faces: int) -> Mesh:
        """The surface as a closed mesh of about that many faces, more where thin parts need them, without UVs and folds.

        Raises InputError if no smoothing of BLURS gives one.
        """
        for blur in BLURS:
            found = surface_of(gaussian_filter(self.field, blur), self.grid, faces)
            if found is not None and len(found.faces) <= MOST_FACES * faces:
                return unfolded(found)
        raise InputError(
            f"the visual hull of the masks is too rough for a closed mesh of {faces} faces: check the masks, or give --start"
            " sphere"
        )
