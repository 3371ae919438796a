"""A mesh in the viewer: nothing is optimised."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import IVEC3, VEC3, list_values
from ...errors import DressiError
from ...render.drawing.draw import albedo
from ...render.fit.graphs.subject import Subject
from ...render.lists import list_leaf
from ...render.mesh import Mesh
from ...render.scene.geometry import Geometry
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
    """The shapes of the nodes of a scene in the world, each with its texture and colours. Of Variables the values that they were
    made with; a warning names nodes that have none, and strands and points, which have no faces."""
    found = []
    for node in scene:
        if not isinstance(node.geometry, Geometry):
            warnings.warn(
                f"node '{node.name}' has no faces and is not shown; `render` draws it", stacklevel=2
            )
            continue
        lists, place = node.geometry.lists(), node.to_world
        try:
            count = node.geometry.vertex_count or int(np.max(np.asarray(lists["faces"]))) + 1
            positions = _rows(lists["positions"], count)
            matrix = np.eye(4) if place is None else _rows(place, 1)
        except DressiError:
            warnings.warn(f"node '{node.name}' has Variables without values and is not shown", stacklevel=2)
            continue
        mesh = node.geometry.mesh or Mesh(positions, np.asarray(lists["faces"]), name=node.name)
        matrix = matrix.reshape(4, 4)
        moved = mesh.moved(positions @ matrix[:3, :3].T + matrix[:3, 3])
        found.append(_dressed(moved, node.material))
    return found


def _rows(value: np.ndarray | Variable, count: int) -> np.ndarray:
    """The first tile of a list, or of a matrix."""
    if isinstance(value, Variable):
        return list_values(evaluate(value), count)[0]
    return value if value.ndim == 2 else value[0]


def _dressed(mesh: Mesh, given: Any) -> Mesh:
    """The mesh with the base colour that a node gives it."""
    if not isinstance(given, Mapping):
        return mesh
    texture, colour = (None if isinstance(x, Variable) else x for x in map(given.get, ("texture", "colour")))
    if np.ndim(texture) == 3 and mesh.uvs is not None:
        mesh = replace(mesh, texture=np.asarray(texture))
    if colour is not None:
        red, green, blue = np.broadcast_to(np.asarray(colour, float), 3).tolist()
        mesh = replace(mesh, color=(red, green, blue))
    return mesh


def _joined(parts: Sequence[Mesh]) -> Mesh:
    counts = np.cumsum([0, *(len(part.positions) for part in parts)])
    faces = [part.faces + first for part, first in zip(parts, counts[:-1], strict=True)]
    return Mesh(np.concatenate([part.positions for part in parts]), np.concatenate(faces), name=parts[0].name)
