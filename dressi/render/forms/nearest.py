"""The nearest pixel outside of a mask, for each pixel in it."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np


def nearest_outside(mask: np.ndarray) -> np.ndarray:
    """(2, H, W) row and column of the nearest pixel that is not in a mask (H, W), for each pixel in it.

    >>> nearest_outside(np.array([[True, True, False, True]])).tolist()
    [[[0, 0, 0, 0]], [[2, 2, 2, 2]]]
    """
    compiled = None if "scipy.ndimage" in sys.modules else _compiled()
    if compiled is not None:
        found = np.zeros((2, *mask.shape), np.int32)
        with suppress(AttributeError, TypeError, ValueError, RuntimeError):  # of another version of SciPy
            compiled.euclidean_feature_transform(mask.astype(np.int8), None, found)
            return found
    import scipy

    found = scipy.ndimage.distance_transform_edt(mask, return_distances=False, return_indices=True)
    assert isinstance(found, np.ndarray)
    return found


@cache
def _compiled() -> Any:
    """The compiled part of scipy.ndimage, without the package: that imports scipy.special and scipy.linalg,
    which takes .2 s, a fifth of all that the first step of a fit takes. None if it is not there."""
    scipy = find_spec("scipy")
    folders = [str(Path(path) / "ndimage") for path in (scipy and scipy.submodule_search_locations) or ()]
    spec = PathFinder.find_spec("scipy.ndimage._nd_image", folders)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    return module
