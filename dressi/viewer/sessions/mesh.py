"""A mesh in the viewer: nothing is optimised."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import IVEC3, VEC3
from ...render.drawing.draw import albedo
from ...render.fit.graphs.subject import Subject
from ...render.lists import list_leaf
from ...render.mesh import Mesh
from ...render.surface.screen import DrawnMesh
from ...render.surface.transfer import encoded
from ...vk.run.engine import DressiAD
from .session import Scene, Status


class MeshSession:
    """Shows a mesh, scaled so that its bounding sphere has the radius 1 around the origin. The engine stays open."""

    views = None
    sliders = ()

    def __init__(self, mesh: Mesh, engine: DressiAD, title: str | None = None):
        self.mesh = mesh
        center, radius = mesh.bounding_sphere()
        positions = (mesh.positions - center) / max(radius, 1e-30)
        faces = list_leaf("faces", IVEC3, mesh.faces)
        subject = Subject(list_leaf("position", VEC3, positions), faces, len(mesh.faces), self._codes)
        self.scene = Scene(engine, subject)
        self.up = np.array([0.0, 1.0, 0.0])
        self.status = Status(title or mesh.name or "mesh", phase=f"{len(mesh.faces):,} faces", finished=True)

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {}

    def _codes(self, drawn: DrawnMesh) -> Variable:
        mesh = self.mesh
        colour = albedo(mesh, drawn.position, drawn.faces, drawn.face, drawn.size, 4)
        return encoded(F.maximum(colour, 0.0))

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        time.sleep(max(seconds, 0.0))

    def stop(self) -> None:
        self.status.finished = True
