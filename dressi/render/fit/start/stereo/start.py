"""A start of a fit by stereo: depths of the photographs, fused with the visual hull of their masks."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from .....errors import InputError
from ....cameras.units import unit_cameras
from ....engine import MakeEngine
from ....mesh import Mesh
from ....mesh.remesh.volume import surface_of
from ...data.dataset import Dataset
from ..carved.hull import Hull
from .depths import DepthMap, agreeing, picked
from .fuse import fused
from .repair import repaired
from .sgm import aggregated
from .sweep import NEIGHBOURS, Sweep
from .views import Views

PIXELS = 40_000
"""Most pixels of the part of a picture that is swept."""
PLANES = 112
"""Planes between the nearest and the farthest point of the hull; a multiple of those that are swept at once."""
RADII = (2, 4)
"""Of the windows that are compared, in pixels."""
OUTSIDE = 2.0
"""Cost of a plane outside of the hull."""
MOST_VIEWS = 18
"""Pictures with depths: more add little."""
BLUR = 0.7
"""Smoothing of the field in cells before it becomes a mesh."""


def stereo_start(dataset: Dataset, hull: Hull, faces: int, make_engine: MakeEngine, least: float) -> Mesh:
    """The surface that the training pictures show, in units of the scene, with at least so many faces or about, no UVs.

    hull: of their masks.  least: share of the pixels of the masks whose depths have to agree. Raises InputError where there
    are too few pictures, or where they agree in less.
    """
    train = dataset.train
    if len(train.masks) <= NEIGHBOURS:
        raise InputError(
            f"stereo needs {NEIGHBOURS + 1} pictures to learn from, and there are {len(train.masks)}"
        )
    cameras = unit_cameras(train.cameras, dataset.center, dataset.radius)
    views = Views.of(cameras, train.masks, train.colors, PIXELS)
    maps = depth_maps(views, hull, make_engine)
    inside = sum(int((views.cropped(views.masks, k) >= 0.5).sum()) for k in maps)
    share = sum(int(one.sure.sum()) for one in maps.values()) / max(inside, 1)
    if share < least:
        raise InputError(
            f"depths of {len(maps)} pictures agree at {100 * share:.0f} % of the pixels of their masks, less than"
            f" {100 * least:.0f} %: stereo needs texture, the same light in all pictures, and views 10 to 30 degrees apart"
        )
    field = fused(views, maps, hull.field, hull.grid)
    field = repaired(field, hull.field, hull.grid, views)
    found = surface_of(gaussian_filter(field, BLUR), hull.grid, faces)
    if found is None:
        raise InputError("the depths of the pictures give no closed surface")
    return found


def depth_maps(views: Views, hull: Hull, make_engine: MakeEngine) -> dict[int, DepthMap]:
    """Depths of the pictures, by the number of the view, where several of them agree."""
    points = hull.points()
    beside = views.beside(points.mean(0))
    sweep = Sweep(views.crop, views.size, RADII)
    maps = {}
    with closing(make_engine()) as engine:
        sweep.start(engine)
        for k in chosen(views, points.mean(0)):
            z = points @ views.R[k][2] + views.t[k][2]
            near, far = max(z.min() - hull.grid.step, 1e-3), z.max() + hull.grid.step
            depths = 1 / np.linspace(1 / near, 1 / far, PLANES)
            scores = sweep.scores(engine, views, k, beside[k, :NEIGHBOURS].tolist(), depths)
            scores = np.ascontiguousarray(np.moveaxis(scores, 0, 2))
            allowed = within(views, k, hull, depths)
            costs = np.where(allowed, 1 - scores, np.float32(OUTSIDE))
            maps[k] = picked(scores, aggregated(costs, np.asarray(allowed.any(2))), allowed, depths)
    return agreeing(views, maps, beside)


def chosen(views: Views, middle: np.ndarray) -> list[int]:
    """MOST_VIEWS of the views whose directions from a point (3,) are far from each other, or all."""
    away = views.centres - middle
    away = away / np.linalg.norm(away, axis=1, keepdims=True)
    found, nearness = [0], away @ away[0]
    while len(found) < min(MOST_VIEWS, len(views)):
        found.append(int(nearness.argmin()))
        nearness = np.maximum(nearness, away @ away[found[-1]])
    return sorted(found)


def within(views: Views, k: int, hull: Hull, depths: np.ndarray) -> np.ndarray:
    """(H, W, D) bool: whether a plane crosses the hull at a pixel of the mask; told for two by two pixels."""
    inside = views.cropped(views.masks, k) > 0.5
    points = views.centres[k] + views.rays(k)[::2, ::2, None] * depths[:, None]
    at = np.moveaxis((points - hull.grid.origin) / hull.grid.step, -1, 0)
    field = map_coordinates(hull.field.astype(np.float32), at, order=0, mode="constant", cval=-np.inf)
    there = (field > -hull.grid.step).repeat(2, 0).repeat(2, 1)[: inside.shape[0], : inside.shape[1]]
    return there & inside[..., None]
