"""Strands in and out of files, and of lists of lines."""

from __future__ import annotations

import os
from numbers import Real
from pathlib import Path

import numpy as np

from dressi.ad.graph import Variable
from dressi.errors import InputError
from dressi.render.io.files import read_bytes, usable
from dressi.render.io.hair import StrandTable, load_hair, load_tfx, save_hair, save_tfx
from dressi.render.strands.geometry import StrandGeometry

THIN = 0.0002
"""The radius of strands whose file has none, a fraction of the largest extent of their bounds."""
_LOADERS = {".hair": load_hair, ".tfx": load_tfx}
_SAVERS = {".hair": save_hair, ".tfx": save_tfx}


def load_strands(path: str | os.PathLike, radius: float | None = None) -> StrandGeometry:
    """Read .hair (Cem Yuksel's HAIR format) or .tfx (AMD TressFX 4) as polylines.

    radius: half of the width, instead of that of the file; where neither is known, 0.0002 of the largest extent. Colours are
    taken as linear. Raises InputError, one sentence naming the file: another or a damaged file, more points than
    `config.max_faces`, a strand of one point, values that are NaN.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "two.hair")
    >>> save_strands(path, StrandGeometry(np.eye(4)[:, :3], [0, 2, 4], radius=0.5))
    >>> load_strands(path).strands
    2
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None:
        read_bytes(path, "file of strands")
        raise InputError(f"'{path}' is not a known kind of strands; give a {' or '.join(_LOADERS)} file")
    if radius is not None and not (isinstance(radius, Real) and 0 <= radius < np.inf):
        raise InputError(f"the radius of strands is a number, at least 0, not {radius!r}")
    with usable(path, "its strands"):
        table = load(path)
        if radius is not None:
            width = np.array([radius], np.float64)
        elif table.thickness is not None:
            width = 0.5 * table.thickness
        else:
            width = np.array([THIN * float(np.ptp(table.points, axis=0).max())])
        return StrandGeometry(
            table.points,
            table.offsets,
            width,
            (1.0, 1.0, 1.0) if table.colours is None else table.colours,
            1.0 if table.opacity is None else table.opacity,
            name=path.stem,
        )


def save_strands(path: str | os.PathLike, strands: StrandGeometry) -> None:
    """Write strands of arrays as .hair or .tfx, by the ending; .tfx keeps points and colours alone, and its strands are equally
    long. Raises InputError.

    >>> import os, tempfile
    >>> save_strands(os.path.join(tempfile.mkdtemp(), "a.tfx"), StrandGeometry(np.eye(3)))
    """
    save = _SAVERS.get(Path(path).suffix.lower())
    if save is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {' or '.join(_SAVERS)}")
    tables = (strands.points, strands.radius, strands.colours, strands.opacity)
    if any(isinstance(t, Variable) for t in tables):
        raise InputError(
            f"'{strands.name}' holds Variables; save the arrays that they were sent or received as"
        )
    if strands.unit != "world":
        raise InputError(
            f"radii of '{strands.name}' are in pixels, and files hold lengths of the world; give radii in the world"
        )
    points, radius, colours, opacity = tables
    save(path, StrandTable(points, strands.offsets, 2 * radius, colours, opacity))


def line_strands(
    positions: np.ndarray, indices: np.ndarray | None = None, mode: int = 1, name: str = "lines"
) -> StrandGeometry:
    """Strands of a primitive of lines, as glTF has them.

    positions: (V, 3).  indices: numbers of positions in order, by default all.  mode: 1, pairs, which are joined where one
    ends at the start of the next; 2, one closed line; 3, one open line. Lines are one pixel wide. Raises InputError.

    >>> line_strands(np.eye(3), np.array([0, 1, 1, 2])).offsets.tolist()
    [0, 3]
    """
    positions = np.asarray(positions, np.float64)
    numbers = np.arange(len(positions)) if indices is None else np.asarray(indices).reshape(-1)
    if mode not in (1, 2, 3):
        raise InputError(f"primitive '{name}' has mode {mode}; lines have 1, 2 or 3")
    least = 2
    if len(numbers) < least or (mode == 1 and len(numbers) % 2):
        raise InputError(f"lines '{name}' have {len(numbers)} points; give two for each line")
    if numbers.min() < 0 or numbers.max() >= len(positions):
        raise InputError(f"lines '{name}' use point {numbers.max()} of {len(positions)}; export them again")
    if mode == 1:
        pairs = numbers.reshape(-1, 2)
        starts = np.concatenate([[True], pairs[1:, 0] != pairs[:-1, 1]])
        # A point of each pair, and before it the start of a new strand.
        kept = np.column_stack([starts, np.ones(len(pairs), bool)]).reshape(-1)
        numbers = pairs.reshape(-1)[kept]
        lengths = np.diff(np.flatnonzero(np.concatenate([starts, [True]]))) + 1
    else:
        numbers = np.concatenate([numbers, numbers[:1]]) if mode == 2 else numbers
        lengths = np.array([len(numbers)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return StrandGeometry(positions[numbers], offsets, 0.5, unit="pixels", name=name)
