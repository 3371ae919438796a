"""What happens to a mesh between the rounds of the shape phase: folds are healed, holes opened, faces added."""

from __future__ import annotations

import numpy as np

from ...mesh import Mesh
from ...mesh.remesh import remesh
from ..graphs.plan import FitRound
from .openings import opened
from .unfold import healed, unfolded

FILL = 0.85
"""Faces that remeshing aims at, relative to those there is room for."""


def bare(mesh: Mesh) -> Mesh:
    """The shape alone. UVs of the start have seams that would keep their vertices; new ones are made before the texture."""
    return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)


def refined(mesh: Mesh, faces: int) -> Mesh:
    """The mesh with at most ``faces`` faces, more where the surface bends; without UVs."""
    return remesh(bare(mesh), faces=int(FILL * faces), most_faces=faces, rounds=3).mesh


def mended(
    mesh: Mesh,
    plan: FitRound,
    matrices: np.ndarray,
    masks: np.ndarray,
    known: np.ndarray | None,
    resolution: int,
) -> Mesh:
    """The mesh after the round ``plan``: with its folds healed, or smoothed where faces stay, and with the holes of masks
    (N, H, W) opened where the round says so. matrices, known, resolution: as ``opened`` takes them."""
    mesh = healed(mesh, pixels=max(masks.shape[1:])) if plan.faces else unfolded(mesh)
    if not plan.opens:
        return mesh
    return opened(mesh, matrices, masks, known, resolution=resolution) or mesh
