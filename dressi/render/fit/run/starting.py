"""What a fit starts from, with the rounds of the shape phase that follow, and what it begins anew from."""

from __future__ import annotations

from dataclasses import replace

from ...cameras import Cameras
from ...cameras.units import world_cameras
from ...engine import MakeEngine
from ...mesh import Mesh
from ..data.dataset import Dataset
from ..disk import Keeper, task_key
from ..graphs.plan import FitRound
from ..options import FitOptions
from ..options.schedule import fitted_rounds, shape_rounds
from ..start.choice import fits, start_anew, start_mesh


def rounds_of(
    dataset: Dataset,
    options: FitOptions,
    init: Mesh | None,
    make_engine: MakeEngine,
    keeper: Keeper | None = None,
) -> tuple[Mesh, list[FitRound]]:
    """The mesh to start from, in units of the scene, and the rounds of the shape phase.

    init: a mesh in the world to start from instead of what ``options.start`` says.  make_engine: for stereo.  keeper: of the folder in
    which a fit that was stopped has left its start.
    """
    if init is not None:
        mesh = dataset.placed(init)
        rounds = (
            fitted_rounds(options, dataset.exact)
            if fits(mesh, dataset)
            else shape_rounds(options, dataset.exact)
        )
        return mesh, [replace(plan, subdivisions=0, faces=0, remesh=0) for plan in rounds]
    near = shape_rounds(options, dataset.exact, near=True)
    few, many = (sphere_faces(near[-1].subdivisions - less) for less in (1, 0))
    train = dataset.train
    arrays = (array for array in (train.masks, train.colors, train.known) if array is not None)
    found = (keeper or Keeper(None)).started(
        task_key({**options.as_dict(), "faces": [few, many]}, dataset.matrices, *arrays),
        lambda: start_mesh(dataset, options, (few, many), make_engine),
    )
    if found is None:
        rounds = shape_rounds(options, dataset.exact)
        return dataset.start(rounds[0].subdivisions), rounds
    mesh, fitted = found
    if fitted:
        near = fitted_rounds(options, dataset.exact)
    elif len(mesh.faces) > few:
        # Thin parts need more faces than were asked for.
        near = shape_rounds(options, dataset.exact, near=True, thin=True)
    return mesh, [_with_room(plan, len(mesh.faces)) for plan in near]


def begun_anew(
    dataset: Dataset, options: FitOptions, cameras: Cameras, faces: int, make_engine: MakeEngine
) -> Mesh | None:
    """What stereo finds by cameras that a fit has found, both in units of the scene; None where it goes on with its own shape.

    faces: as of ``start_anew``."""
    train = replace(dataset.train, cameras=world_cameras(cameras, dataset.center, dataset.radius))
    return start_anew(replace(dataset, train=train), options, faces, make_engine)


def _with_room(plan: FitRound, faces: int) -> FitRound:
    """A round that remeshes, with room for the faces of the start."""
    return replace(plan, faces=max(plan.faces, faces)) if plan.faces else plan


def sphere_faces(subdivisions: int) -> int:
    """The number of faces of the start sphere."""
    return 8 * 4**subdivisions
