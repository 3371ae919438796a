"""Masks that `dressi fit --masks` makes, kept until the folder of the results is there to show them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from dressi.cli.terminal import say
from dressi.errors import InputError
from dressi.render.fit.masks import mask_maker
from dressi.render.io import encode_png, write_files
from dressi.render.io.calibration import Calibration, View

LEAST, MOST = 0.002, 0.9
"""Shares of a picture between which a mask is not surprising."""


class MadeMasks:
    """Makes masks as ``--masks`` asks, for ``load_photos``. Raises InputError."""

    def __init__(self, how: str, calibration: Calibration):
        self._how = how
        self._make = mask_maker(how, calibration)
        self._made: dict[str, np.ndarray] = {}

    def __call__(self, view: View, codes: np.ndarray) -> np.ndarray:
        mask = self._make(view, codes)
        self._made[view.image.name] = mask
        return mask

    def write(self, folder: Path) -> None:
        """PNG files of the photographs' names, to be looked at and, if need be, drawn over. Raises InputError."""
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write the masks into '{folder}': {error.strerror}; remove it") from None
        write_files(
            {folder / f"{name}.png": encode_png(mask.astype(float)) for name, mask in self._made.items()}
        )
        shares = np.array([mask.mean() for mask in self._made.values()])
        say(
            f"dressi: {len(shares)} masks by {self._how} are in '{folder}', look at them: they cover"
            f" {shares.min():.1%} to {shares.max():.1%} of the pictures"
        )
        odd = [name for name, share in zip(self._made, shares, strict=True) if not LEAST < share < MOST]
        if odd:
            warnings.warn(
                f"the masks of {len(odd)} photographs, such as '{odd[0]}', cover almost nothing or everything;"
                " choose another --masks or remove the views",
                stacklevel=2,
            )
