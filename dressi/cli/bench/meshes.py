"""The meshes of the benchmarks: made by code, or read from a file; all in a unit sphere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.cameras import Cameras
from dressi.render.cameras.views import ring
from dressi.render.formats import load_mesh
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import pear

MESHES = {"small": (19, 19), "medium": (84, 84), "large": (160, 160)}
"""Pears of 684, 13,944 and 50,880 faces: points around and along."""
ROOM = 1.2
"""Radius that the cameras show: the deformed mesh and a band around it fit into the image."""


@dataclass(frozen=True, eq=False)
class Model:
    """name: as it was asked for.  mesh: with UVs and a texture, in the unit sphere."""

    name: str
    mesh: Mesh

    @property
    def facts(self) -> dict[str, str | int]:
        return {"mesh": self.name, "faces": len(self.mesh.faces), "vertices": len(self.mesh.positions)}


def load(name: str) -> Model:
    """A mesh by its name or from a file. Raises InputError."""
    if name in MESHES:
        return _made(name)
    if not Path(name).suffix and not Path(name).exists():
        raise InputError(f"there is no mesh {name!r}; give {', '.join(MESHES)} or a file")
    return _in_unit_sphere(Path(name).stem, load_mesh(name))


@cache
def _made(name: str) -> Model:
    return _in_unit_sphere(name, pear(*MESHES[name], 256))


def _in_unit_sphere(name: str, mesh: Mesh) -> Model:
    center, radius = mesh.bounding_sphere()
    if not radius > 0:
        raise InputError(f"mesh {name!r} has no extent; give a mesh with some area")
    return Model(name, mesh.moved((mesh.positions - center) / radius))


def textured(mesh: Mesh, texels: int = 256) -> Mesh:
    """The mesh with UVs and a texture; a pattern where it has none."""
    mesh = mesh if mesh.uvs is not None else mesh.unwrap()
    if mesh.texture is not None:
        return mesh
    y, x = (np.mgrid[:texels, :texels] + 0.5) / texels
    waves = 6 * np.pi * np.stack([x + y, 2 * x - y, x - 3 * y], axis=-1)
    return replace(mesh, texture=0.5 + 0.4 * np.sin(waves))


def deformed(mesh: Mesh) -> Mesh:
    """Stretched by a few percent, with dents: what a silhouette fit starting from the mesh has to find."""
    p = mesh.positions
    dents = 0.04 * np.sin(3.0 * p[:, [1, 2, 0]] + (0.3, 1.1, 2.0))
    return mesh.moved(p * (1.06, 0.95, 1.03) + dents)


def cameras(views: int, size: tuple[int, int]) -> Cameras:
    """A ring around the unit sphere."""
    return ring(np.zeros(3), ROOM, views, size)
