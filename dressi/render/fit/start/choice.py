"""Chooses what a fit starts from."""

from __future__ import annotations

import warnings

import numpy as np

from ....errors import InputError
from ...mesh import Mesh
from ..data.dataset import Dataset
from ..options import FitOptions
from .carving import SCENE
from .hull import Hull

LEAST_VIEWS = 4
"""With fewer views the hull has more phantom volume than shape."""


def hull_start(dataset: Dataset, options: FitOptions, faces: int) -> Mesh | None:
    """The visual hull of the training masks, in units of the scene, with UVs and about that many faces; None if the fit
    starts from the sphere.

    "auto" takes the hull if there are LEAST_VIEWS views whose poses are right, if the masks agree, and if its silhouettes
    overlap the masks better than those of the sphere. Warns if masks contradict each other. Raises InputError if the
    hull was asked for and is empty.
    """
    if options.start == "sphere":
        return None
    asked, train = options.start == "hull", dataset.train
    if not asked and (options.refine_poses or len(train.masks) < LEAST_VIEWS):
        return None
    # The true box of a mesh is not known from its pictures.
    box = SCENE if dataset.exact else _widened((dataset.bounds - dataset.center) / dataset.radius)
    hull = Hull.of(dataset.matrices, train.masks, train.known, box)
    names = [f"'{train.cameras.cameras[view].name}'" for view in hull.wrong]
    if not hull.agree:
        what = f"the masks contradict each other, those of {_listed(names)} most: their visual hull is empty"
        cure = "check these masks and their cameras"
        if asked:
            raise InputError(f"{what}; {cure}, or give --start sphere")
        warnings.warn(f"{what} and the fit starts from a sphere; {cure}", stacklevel=5)
        return None
    if names:
        one = len(names) == 1
        warnings.warn(
            f"the {'mask' if one else 'masks'} of {_listed(names)} {'contradicts' if one else 'contradict'} the others and"
            f" {'is' if one else 'are'} left out of the visual hull that the fit starts from; check {'it' if one else 'them'}"
            " and the camera",
            stacklevel=5,
        )
    if not asked and hull.small.iou(hull.points()) <= hull.small.iou(_ball(dataset.start(0))):
        return None
    try:
        mesh = hull.mesh(faces)
    except InputError as error:
        if asked:
            raise
        warnings.warn(f"{error}; the fit starts from a sphere", stacklevel=5)
        return None
    with warnings.catch_warnings():
        # The mesh has no UVs that could be lost.
        warnings.simplefilter("ignore")
        return mesh.unwrap(options.texels)


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


def _listed(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
