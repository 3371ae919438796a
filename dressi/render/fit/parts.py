"""Targets of several objects, which a fit that starts from one sphere cannot reach."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.ndimage import label

from .data.dataset import Dataset

LEAST = 0.01
"""Least area of a region, as a share of its mask; smaller regions are probably errors of the mask."""


@dataclass(frozen=True)
class Parts:
    """components: connected components of the target mesh; None for photographs.
    views, apart: the number of training views, and of those whose mask has several regions.
    """

    components: int | None
    views: int
    apart: int

    @classmethod
    def of(cls, dataset: Dataset) -> Parts:
        train = dataset.train
        known = train.known
        apart = sum(
            regions(mask, None if known is None else known[i]) > 1 for i, mask in enumerate(train.masks)
        )
        count = None if dataset.reference is None else dataset.reference.component_count()
        return cls(count, len(train.masks), apart)

    def note(self, start: int = 1) -> str | None:
        """A sentence that says what a mesh with this many connected components cannot reach, with the cure; None if nothing."""
        cure = "fit each object by itself, or give --init a mesh of as many parts, such as a sphere about where each is"
        here = f"apart in {self.apart} of {self.views} views"
        surface = "one closed surface" if start == 1 else f"a surface of {start} parts"
        if self.components is not None:
            if self.components <= start:
                return None
            what = f"the target has {self.components} connected components"
            if self.apart == 0:
                return f"{what} that touch or hide each other in all views: the fit makes {surface} around all of them"
            return f"{what}, {here}: the fit makes {surface}, which leaves out some of them or joins them by bridges; {cure}"
        # A single mask among several may be wrong.
        if self.apart < min(2, self.views) or start > 1:
            return None
        return (
            f"the masks show several objects, {here}: the fit makes {surface}, which leaves out some of them or joins"
            f" them by bridges; remove what is not the object from the masks, {cure}"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def regions(mask: np.ndarray, known: np.ndarray | None = None) -> int:
    """How many regions of a mask (H, W), connected by sides or corners, are large enough to count.

    Regions that touch the border of the picture, or pixels that are not ``known`` (H, W), count as one: they may be
    connected there.
    """
    mask = np.asarray(mask) >= 0.5
    number = np.zeros(mask.shape, dtype=np.int32)
    label(mask, np.ones((3, 3)), output=number)
    areas = np.bincount(number.reshape(-1))
    large = areas >= max(LEAST * mask.sum(), 1)
    large[0] = False
    told = np.ones(mask.shape, dtype=bool) if known is None else np.asarray(known) > 0
    edge = ~np.pad(told, 1)
    beside = edge[:-2, 1:-1] | edge[2:, 1:-1] | edge[1:-1, :-2] | edge[1:-1, 2:]
    cut = large.copy()
    cut[:] = False
    cut[np.unique(number[beside & mask])] = True
    return int((large & ~cut).sum()) + int((large & cut).any())
