"""Profiles of luminaires from IES files (ANSI/IES LM-63, 1986 to 2019)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .files import Damaged, read_bytes, usable

SIZE = (64, 181)
"""Columns (azimuths) and rows (angles from the axis, one a degree) of a profile."""
MOST = 100_000
"""Values of a file."""


def load_ies(path: str | os.PathLike) -> np.ndarray:
    """Read the far field of a luminaire, of photometric type C, for ``IesLight``.

    Returns (181, 64) float32 candela, ballast factors included: rows by the angle from the axis, 0 to 180
    degrees, linear between the angles of the file, 0 beyond them; columns around the axis, the first centred
    at 0 degrees, completed by the symmetry of the file. Tilts are left out. Raises InputError, one sentence
    naming the file: another kind or type, cut off, angles that do not grow, values that are negative or NaN.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "lamp.ies")
    >>> head = "IESNA:LM-63-2002\\nTILT=NONE\\n1 -1 2 3 1 1 2 0 0 0\\n1 1 50\\n"
    >>> _ = open(path, "w").write(head + "0 45 90\\n0\\n200 100 0\\n")
    >>> load_ies(path)[[0, 18, 45, 90, 120], 0].tolist()
    [400.0, 320.0, 200.0, 0.0, 0.0]
    """
    path = Path(path)
    text = read_bytes(path, "IES file").decode("latin-1")
    with usable(path, "its photometry"):
        _, found, rest = text.partition("TILT=")
        if not found:
            raise Damaged("it has no line TILT=, which IES files have")
        tilt, _, rest = rest.partition("\n")
        words = rest.replace(",", " ").split()
        values = iter(words[:MOST])

        def numbers(count: int, what: str) -> np.ndarray:
            given = [next(values, None) for _ in range(count)]
            if None in given:
                raise Damaged(f"it is cut off in {what}")
            return np.array([float(x) for x in given if x is not None])

        if tilt.strip().upper() == "INCLUDE":
            numbers(1, "its tilt")
            numbers(2 * int(_count(numbers(1, "its tilt")[0])), "its tilt")
        elif tilt.strip().upper() != "NONE":
            raise Damaged(f"its tilt is in another file, {tilt.strip()!r}, which is not read")
        lamps = numbers(10, "its first numbers")
        if lamps[5] != 1:
            raise Damaged(f"its photometric type is {lamps[5]:g} and not 1, type C")
        ballast = numbers(3, "its ballast factors")[:2].prod()
        rows, columns = _count(lamps[3]), _count(lamps[4])
        if rows * columns > MOST:
            raise Damaged(f"it has {rows} x {columns} angles, above the limit of {MOST:,}")
        vertical, horizontal = numbers(rows, "its vertical angles"), numbers(columns, "its horizontal angles")
        candela = numbers(rows * columns, "its candela values").reshape(columns, rows) * (lamps[2] * ballast)
        if not (np.isfinite(candela).all() and (candela >= 0).all()):
            raise Damaged("it has candela values that are negative or not numbers")
        for angles, most in ((vertical, 180), (horizontal, 360)):
            if not ((np.diff(angles) > 0).all() and angles[0] >= 0 and angles[-1] <= most):
                raise Damaged(f"its angles do not grow within 0 to {most} degrees")
        return _profile(vertical, horizontal, candela)


def _count(value: float) -> int:
    if not (1 <= value <= MOST and value == int(value)):
        raise Damaged(f"it has {value:g} values where there is a count")
    return int(value)


def _profile(vertical: np.ndarray, horizontal: np.ndarray, candela: np.ndarray) -> np.ndarray:
    width, height = SIZE
    azimuth = np.arange(width) * (360 / width)
    if horizontal[-1] in (90.0, 180.0):
        # A quarter or a half that is mirrored.
        azimuth = np.minimum(azimuth, 360 - azimuth)
        if horizontal[-1] == 90:
            azimuth = np.minimum(azimuth, 180 - azimuth)
    angle = np.linspace(0, 180, height)
    around = np.stack([np.interp(azimuth, horizontal, row) for row in candela.T])
    return np.stack([np.interp(angle, vertical, row, 0, 0) for row in around.T], axis=1).astype(np.float32)
