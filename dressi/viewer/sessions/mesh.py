"""A mesh in the viewer: nothing is optimised."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import IVEC3, VEC3, list_values
from ...render.drawing.draw import albedo
from ...render.fit.graphs.subject import Subject
from ...render.lists import list_leaf
from ...render.mesh import Mesh
from ...render.scene.scene import Scene as Nodes
from ...render.surface.screen import DrawnMesh
from ...render.surface.transfer import encoded
from ...vk.run.engine import DressiAD
from ...vk.run.values.evaluate import evaluate
from .session import Scene, Status


class MeshSession:
    """Shows a mesh, or several with a texture each, scaled so that their bounding sphere has the radius 1 around the origin.
    The engine stays open."""

    views = None
    sliders = ()

    def __init__(self, mesh: Mesh | Sequence[Mesh], engine: DressiAD, title: str | None = None):
        self.parts = [mesh] if isinstance(mesh, Mesh) else list(mesh)
        mesh = self.mesh = self.parts[0] if len(self.parts) == 1 else _joined(self.parts)
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
        """Each part by its own texture and colours: its faces follow those of the parts before it."""
        colour, first, vertices = F.constant((0.0, 0.0, 0.0)), 0, 0
        for part in self.parts:
            own = F.logical_and(
                F.greater_equal(drawn.face, first), F.less(drawn.face, first + len(part.faces))
            )
            face = F.select(own, drawn.face - first, -1)
            faces = list_leaf("faces", IVEC3, part.faces + vertices)
            colour = colour + albedo(part, drawn.position, faces, face, drawn.size, 4)
            first, vertices = first + len(part.faces), vertices + len(part.positions)
        return encoded(F.maximum(colour, 0.0))

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        time.sleep(max(seconds, 0.0))

    def stop(self) -> None:
        self.status.finished = True


def meshes_of(scene: Nodes) -> list[Mesh]:
    """The shapes of the nodes of a scene in the world, each with its texture and colours; without nodes that have none."""
    found = []
    for node in scene:
        mesh, place = node.geometry.mesh, node.to_world
        if mesh is None or isinstance(place, Variable):
            continue
        given = node.geometry.lists().get("positions")
        if isinstance(given, Variable):
            mesh = mesh.moved(list_values(evaluate(given), len(mesh.positions))[0])
        if place is not None:
            matrix = place if place.ndim == 2 else place[0]
            mesh = mesh.moved(mesh.positions @ matrix[:3, :3].T + matrix[:3, 3])
        found.append(mesh)
    return found


def _joined(parts: Sequence[Mesh]) -> Mesh:
    counts = np.cumsum([0, *(len(part.positions) for part in parts)])
    faces = [part.faces + first for part, first in zip(parts, counts[:-1], strict=True)]
    return Mesh(np.concatenate([part.positions for part in parts]), np.concatenate(faces), name=parts[0].name)
