"""Depth images of a mesh whose vertices and cameras move."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.types import IVEC3, VEC3, list_image
from ...cameras import Cameras
from ...cameras.units import matrices_leaf, send_matrices
from ...engine import MakeEngine
from ...lists import list_leaf
from ...mesh import Mesh
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, barycentric, corners, interpolate


class Depths:
    """One graph that draws all views; ``close`` it."""

    def __init__(self, mesh: Mesh, cameras: Cameras, make_engine: MakeEngine):
        self._position = list_leaf("position", VEC3, mesh.positions)
        self._matrices = matrices_leaf(cameras.matrices)
        clip, faces = to_clip(self._position, self._matrices), list_leaf("faces", IVEC3, mesh.faces)
        drawn = DrawnMesh(clip, faces, cameras.size, len(mesh.faces))
        at = corners(drawn.face, faces)
        depth = interpolate(F.component(clip, 3), at, barycentric(clip, at, cameras.size))
        self._engine = make_engine()
        self._engine.set_output("depth", depth)

    def draw(self, positions: np.ndarray, cameras: Cameras) -> np.ndarray:
        """(N, H, W): depths along the axes of the cameras, 0 where there is nothing."""
        self._engine.send(self._position, list_image(positions))
        send_matrices(self._engine, self._matrices, cameras.matrices)
        self._engine.step()
        return np.array(self._engine.recv("depth"))

    def close(self) -> None:
        self._engine.close()
