"""What the rounds of a fit learn from: arrays of the views, and the size at which they are drawn."""

from __future__ import annotations

import numpy as np

from ...forms.hard_soft_ras import SOFT_FORMS
from ..dataset import Dataset

PIXELS = 400_000
"""Most pixels of all views together in the shape phase."""
CHEAP_PIXELS = 1_000_000
"""The same for forms with ``full_resolution``, whose pixels cost less."""


def learned(dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Matrices, masks, colours and what is known of the views to learn from, at least two: a view that is alone is
    taken twice.

    Everything a view has then differs in its domain from what views share, and the plan for one view is that for
    many. The losses are means, so they stay what they are.
    """
    train = dataset.train
    arrays = (dataset.matrices, train.masks, train.colors)
    if len(dataset.matrices) > 1:
        return (*arrays, train.known)
    matrices, masks, colors = (np.repeat(array, 2, axis=0) for array in arrays)
    return matrices, masks, colors, None if train.known is None else np.repeat(train.known, 2, axis=0)


def round_size(size: tuple[int, int], rows: int, views: int, form: str = "outer") -> tuple[int, int]:
    """A size of the proportions of ``size`` with about ``rows`` rows, never larger than it, nor too many pixels."""
    width, height = size
    most = CHEAP_PIXELS if SOFT_FORMS[form].full_resolution else PIXELS
    scale = min(1.0, rows / height, float(np.sqrt(most / (width * height * views))))
    return max(round(width * scale), 1), max(round(height * scale), 1)
