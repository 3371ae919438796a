"""Remeshing between the rounds of the shape phase."""

from __future__ import annotations

from ...mesh import Mesh
from ...mesh.remesh import remesh

FILL = 0.85
"""Faces that remeshing aims at, relative to those there is room for."""


def bare(mesh: Mesh) -> Mesh:
    """The shape alone. UVs of the start have seams that would keep their vertices; new ones are made before the texture."""
    return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)


def refined(mesh: Mesh, faces: int) -> Mesh:
    """The mesh with at most ``faces`` faces, more where the surface bends; without UVs."""
    return remesh(bare(mesh), faces=int(FILL * faces), most_faces=faces, rounds=3).mesh
