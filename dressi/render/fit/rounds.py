"""The start of a fit in units of the scene, and its result in the world."""

from __future__ import annotations

import warnings
from dataclasses import replace

from ..cameras import Cameras
from ..cameras.alignment import align
from ..cameras.units import unit_cameras, world_cameras
from ..mesh import Mesh
from .dataset import Dataset
from .options import FitOptions, FitRound
from .start.choice import hull_start


def rounds_of(dataset: Dataset, options: FitOptions, init: Mesh | None) -> tuple[Mesh, list[FitRound]]:
    """The mesh to start from, in units of the scene, and the rounds of the shape phase.

    init: a mesh in the world to start from instead of what ``options.start`` says.
    """
    if init is not None:
        rounds = options.rounds(dataset.exact)
        return dataset.placed(init), [replace(plan, subdivisions=0, faces=0, remesh=0) for plan in rounds]
    near = options.rounds(dataset.exact, near=True)
    few = sphere_faces(near[-1].subdivisions - 1)
    hull = hull_start(dataset, options, few)
    if hull is not None:
        # Thin parts need more faces than were asked for.
        near = options.rounds(dataset.exact, near=True, thin=len(hull.faces) > few)
        return hull, [_with_room(plan, len(hull.faces)) for plan in near]
    rounds = options.rounds(dataset.exact)
    return dataset.start(rounds[0].subdivisions), rounds


def _with_room(plan: FitRound, faces: int) -> FitRound:
    """A round that remeshes, with room for the faces of the start."""
    return replace(plan, faces=max(plan.faces, faces)) if plan.faces else plan


def sphere_faces(subdivisions: int) -> int:
    """The number of faces of the start sphere."""
    return 8 * 4**subdivisions


def moving_cameras(dataset: Dataset) -> Cameras | None:
    """The cameras whose poses are learned, in units of the scene; None, with a warning, for a single view, which says
    nothing about its own pose."""
    if len(dataset.train.cameras) == 1:
        warnings.warn(
            "one view says nothing about its pose: it stays as it is; give more to refine them", stacklevel=3
        )
        return None
    return unit_cameras(dataset.train.cameras, dataset.center, dataset.radius)


def in_world(dataset: Dataset, mesh: Mesh, cameras: Cameras | None) -> tuple[Mesh, Cameras | None]:
    """Mesh and learned cameras (None where they stay) from units of the scene to the world.

    A rigid motion and a scale of mesh and cameras together change no picture. Those are chosen that bring the learned
    cameras nearest to the given ones.
    """
    mesh = dataset.to_world(mesh)
    if cameras is None:
        return mesh, None
    cameras = world_cameras(cameras, dataset.center, dataset.radius)
    back = align(cameras, dataset.train.cameras)
    return mesh.moved(back.points(mesh.positions)), back.cameras(cameras)
