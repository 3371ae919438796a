"""What a running fit shows: its pictures beside those that it learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...drawing.pictures import COLUMNS, compare
from ...objectives.metrics import code_psnr, iou
from ...surface.color import srgb_to_linear

MOST = 120.0
"""What stands for the infinite PSNR of equal pictures, which a table cannot hold."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """N training views at the size of the round.

    covered, masks: (N, h, w), of the fit and of the targets, covered from 1/2 on.  codes: (N, h, w, 3), the colours of the
    fit as sRGB codes, on black; None while it has none.  target_codes: those of the targets.
    """

    covered: np.ndarray
    masks: np.ndarray
    codes: np.ndarray | None
    target_codes: np.ndarray | None

    @property
    def iou(self) -> float:
        return iou(self.covered, self.masks)

    @property
    def psnr(self) -> float | None:
        """In dB, at most MOST, over the pixels of the masks; None without colours."""
        inside = self.masks >= 0.5
        if self.codes is None or self.target_codes is None or not inside.any():
            return None
        return min(code_psnr(np.clip(self.codes[inside], 0, 1), self.target_codes[inside]), MOST)

    def sheet(self) -> np.ndarray:
        """A linear image: targets above, the fit below them, and the difference; silhouettes while there are no colours."""
        pairs = []
        for codes, masks in ((self.target_codes, self.masks), (self.codes, self.covered)):
            if self.codes is None or codes is None:
                codes = 0.75 * np.repeat(masks[..., None], 3, axis=-1)
            pairs.append(srgb_to_linear(np.clip(codes[:COLUMNS], 0, 1)))
        return compare(*pairs)
