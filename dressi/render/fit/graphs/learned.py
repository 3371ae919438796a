"""The training data of the rounds: arrays of the views, and the image size of a round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...forms.hard_soft_ras import SOFT_FORMS
from ...io.images import scaled_size
from ..data.dataset import Dataset

PIXELS = 400_000
"""Most pixels of all views together in the shape phase."""
CHEAP_PIXELS = 1_000_000
"""The same for forms with ``full_resolution``, whose pixels cost less."""


class Learned(NamedTuple):
    """Arrays of the training views; ``Observations`` explains them."""

    matrices: np.ndarray
    """(N, 4, 4) from units of the scene to clip space."""
    masks: np.ndarray
    colors: np.ndarray
    known: np.ndarray | None
    depths: np.ndarray | None
    """In units of the scene."""


def learned(dataset: Dataset) -> Learned:
    """Of the training views of a dataset. A single view is used twice.

    So values of a view always have another domain than shared values, and one view gets the same plan as many. The losses
    are means and do not change.
    """
    train = dataset.train
    depths = None if train.depths is None else train.depths / dataset.radius
    found = Learned(dataset.matrices, train.masks, train.colors, train.known, depths)
    if len(dataset.matrices) > 1:
        return found
    matrices, masks, colors = (np.repeat(array, 2, axis=0) for array in found[:3])
    known, depths = (None if array is None else np.repeat(array, 2, axis=0) for array in found[3:])
    return Learned(matrices, masks, colors, known, depths)


def round_size(size: tuple[int, int], rows: int, views: int, form: str = "outer") -> tuple[int, int]:
    """A size with the proportions of ``size`` and about ``rows`` rows, at most ``size`` and within the limit of pixels."""
    width, height = size
    most = CHEAP_PIXELS if SOFT_FORMS[form].full_resolution else PIXELS
    scale = min(1.0, rows / height, float(np.sqrt(most / (width * height * views))))
    return scaled_size(size, scale)
