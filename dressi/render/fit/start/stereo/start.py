"""A start of a fit by stereo: depths of the photographs, fused with the visual hull of their masks."""

from __future__ import annotations

from scipy.ndimage import gaussian_filter

from .....errors import InputError
from ....cameras.units import unit_cameras
from ....engine import MakeEngine
from ....mesh import Mesh
from ....mesh.remesh.volume import surface_of
from ...data.dataset import Dataset
from ..carved.hull import Hull
from .fuse import fused
from .maps import depth_maps
from .repair import repaired
from .sweep import NEIGHBOURS

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
    views, maps = depth_maps(cameras, train, hull, make_engine)
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
