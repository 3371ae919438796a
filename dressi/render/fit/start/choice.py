"""Chooses what a fit starts from."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ....errors import InputError, listed
from ...core.engine import MakeEngine
from ...mesh import Mesh
from ...mesh.queries import sample_surface
from ..data.dataset import Dataset
from ..options import FitOptions
from .carved import SCENE, Hull, Small
from .stereo import stereo_start

LEAST_VIEWS = 4
"""With fewer views the hull has more phantom volume than shape."""


MANY_VIEWS = 8
"""With fewer photographs stereo is not tried unasked: their views are too far apart."""
ENOUGH, LEAST = 0.3, 0.05
"""Share of the pixels of the masks whose depths agree, with which "auto" and with which "stereo" starts by
stereo."""
RIM = 0.12
"""Pixels of small pictures that a hull leaves uncovered along outlines, on average, from which found cameras are in
doubt: .003 to .11 with right ones, .04 of thin limbs behind a rolling shutter, .13 with cameras that were a degree off
and cost .03 of overlap, .16 with four degrees."""
NEAR, SAMPLES = 0.9, 50_000
"""Least IoU of the silhouettes of a mesh, by so many points of its surface, with the masks where it fits
already."""


def start_mesh(
    dataset: Dataset, options: FitOptions, faces: tuple[int, int], make_engine: MakeEngine
) -> tuple[Mesh, bool] | None:
    """The mesh that a fit starts from, in units of the scene, and whether it fits already; None for the
    sphere.

    faces: of the visual hull, whose faces the rounds refine, and of what fits already, about. Warns, with the
    reason, where stereo was asked for or tried and the hull is taken. Raises InputError as ``hull_of``.
    """
    hull = hull_of(dataset, options)
    if hull is None:
        return None
    if stereo_suits(dataset, options) and (options.start == "stereo" or not options.refine_poses):
        otherwise = "the fit starts from the visual hull"
        mesh = stereo_mesh(dataset, options, hull, faces[1], make_engine, otherwise)
        if mesh is not None:
            if options.start == "stereo" or fits(mesh, dataset):
                return mesh, True
            text = f"silhouettes of what stereo found have an IoU below {NEAR:g} with the masks, as where it loses thin parts"
            warnings.warn(f"{text}; {otherwise}", stacklevel=5)
    mesh = hull_mesh(hull, options, faces[0])
    return None if mesh is None else (mesh, False)


def start_anew(dataset: Dataset, options: FitOptions, faces: int, make_engine: MakeEngine) -> Mesh | None:
    """The mesh by stereo, in units of the scene with about so many faces, that a fit goes on from once its
    poses are found; None where it goes on from its own shape. dataset: with these poses."""
    if not stereo_suits(dataset, options):
        return None
    hull = hull_of(dataset, replace(options, refine_poses=False, start="auto"))
    otherwise = "the fit goes on from the shape found with the poses"
    return None if hull is None else stereo_mesh(dataset, options, hull, faces, make_engine, otherwise)


def stereo_suits(dataset: Dataset, options: FitOptions) -> bool:
    """Whether stereo is asked for, or these are enough photographs, whose shape nothing else shows."""
    if options.start == "auto":
        plain = dataset.exact or options.lit or options.depth
        return not plain and len(dataset.train.masks) >= MANY_VIEWS
    return options.start == "stereo"


def stereo_mesh(
    dataset: Dataset, options: FitOptions, hull: Hull, faces: int, make_engine: MakeEngine, otherwise: str
) -> Mesh | None:
    """What stereo finds within a hull, see ``stereo_start``. None, with a warning of the reason and what is
    done ``otherwise``, where too few depths agree."""
    least = LEAST if options.start == "stereo" else ENOUGH
    try:
        return stereo_start(dataset, hull, faces, make_engine, least)
    except InputError as error:
        warnings.warn(f"{error}; {otherwise}", stacklevel=6)
        return None


def fits(mesh: Mesh, dataset: Dataset) -> bool:
    """Whether a mesh in units of the scene covers about what the masks show."""
    small = Small.of(dataset.matrices, dataset.train.masks, dataset.train.known)
    return small.iou(sample_surface(mesh, SAMPLES)) >= NEAR


def doubtful(dataset: Dataset) -> bool:
    """Whether the hull of the training masks leaves so wide a rim of them uncovered that cameras cannot be right."""
    if len(dataset.train.masks) < LEAST_VIEWS:
        return False
    hull, _ = _hull(dataset)
    return not hull.agree or hull.small.rim(hull.points()) > RIM


def hull_of(dataset: Dataset, options: FitOptions) -> Hull | None:
    """The visual hull of the training masks; None if the fit starts from the sphere.

    "auto" takes the hull if there are LEAST_VIEWS views whose poses are right, if the masks agree, and if its
    silhouettes overlap the masks better than those of the sphere. Warns if masks contradict each other.
    Raises InputError if the hull, or stereo within it, was asked for and is empty.
    """
    if options.start == "sphere":
        return None
    asked, train = options.start != "auto", dataset.train
    if not asked and (options.refine_poses or len(train.masks) < LEAST_VIEWS):
        return None
    hull, names = _hull(dataset)
    if not hull.agree:
        what = f"the masks contradict each other, those of {listed(names)} most: their visual hull is empty"
        cure = "check these masks and their cameras"
        if asked:
            raise InputError(f"{what}; {cure}, or give --start sphere")
        warnings.warn(f"{what} and the fit starts from a sphere; {cure}", stacklevel=6)
        return None
    if names:
        mask, contradict, are, them = (
            ("mask", "contradicts", "is", "it") if len(names) == 1 else ("masks", "contradict", "are", "them")
        )
        warnings.warn(
            f"the {mask} of {listed(names)} {contradict} the others and {are} left out of the visual hull"
            f" that the fit starts from; check {them} and the camera",
            stacklevel=6,
        )
    if not asked and hull.small.iou(hull.points()) <= hull.small.iou(_ball(dataset.start(0))):
        return None
    return hull


def _hull(dataset: Dataset) -> tuple[Hull, list[str]]:
    """The hull, and the names of pictures whose masks contradict the others."""
    train = dataset.train
    # The true box of a mesh is not known from its pictures.
    box = SCENE if dataset.exact else _widened((dataset.bounds - dataset.center) / dataset.radius)
    hull = Hull.of(dataset.matrices, train.masks, train.known, box)
    return hull, [f"'{train.cameras.cameras[view].name}'" for view in hull.wrong]


def contradicting(dataset: Dataset) -> list[str]:
    """The names of pictures to learn from whose masks contradict the others."""
    return _hull(dataset)[1]


def hull_mesh(hull: Hull, options: FitOptions, faces: int) -> Mesh | None:
    """The surface of a hull with about that many faces, without UVs; None, with a warning, where it is too rough
    and was not asked for. Raises InputError if it was."""
    try:
        return hull.mesh(faces)
    except InputError as error:
        if options.start != "auto":
            raise
        warnings.warn(f"{error}; the fit starts from a sphere", stacklevel=6)
        return None


def _widened(box: np.ndarray, share: float = 0.02) -> np.ndarray:
    """A box (2, 3) with this share of its longest side more on every side."""
    margin = share * float((box[1] - box[0]).max())
    return np.stack([box[0] - margin, box[1] + margin])


def _ball(sphere: Mesh, cells: int = 24) -> np.ndarray:
    """(P, 3) points inside of a sphere."""
    center, radius = sphere.bounding_sphere()
    axis = np.linspace(-1, 1, 2 * cells + 1)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    return center + radius * points[(points**2).sum(1) <= 1]
