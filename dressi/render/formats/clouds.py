"""Clouds of points in: .xyz as text, .las and .laz (ASPRS LAS) by the library laspy; and colours of vertices.

Those of .ply are read in ``polygons``, of .obj in ``obj``, and points of glTF files in ``gltf.primitives``.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np

from ...errors import InputError, warn
from ..io.files import Damaged, check_counts, library, read_bytes
from ..strands.geometry import PointGeometry
from ..surface.color import srgb_to_linear

FAR = 1e4
"""Points whose places are so many times their extent move to the origin: single precision loses digits."""


def cloud(points: np.ndarray, colours: np.ndarray | None, path: Path) -> list[PointGeometry]:
    """Points of one pixel.  points: (N, 3).  colours: linear (N, 3), white without. Raises InputError."""
    check_counts(len(points), 0)
    if len(points) < 2:
        raise InputError(f"it has {len(points)} points, and a cloud has two or more; export it again")
    if not np.isfinite(points).all():
        row = int(np.argmin(np.isfinite(points).all(1)))
        raise InputError(f"point {row} is {points[row].tolist()}; leave out points that are not finite")
    low, high = points.min(0), points.max(0)
    if abs(points).max() > np.finfo(np.float32).max:
        raise InputError(
            f"its places reach {abs(points).max():.3g}, beyond single precision; export it in other units"
        )
    if abs(points).max() > FAR * max((high - low).max(), 1e-30):
        middle = np.floor((low + high) / 2)
        warn(f"'{path}': {middle.tolist()} was taken from its places, which single precision does not hold")
        points = points - middle
    return [PointGeometry(points, radius=1.0, colours=colours, unit="pixels", name=path.stem)]


def linear_codes(codes: np.ndarray, most: float | None = None) -> np.ndarray:
    """Linear light of sRGB colours up to ``most``, by default up to 1 or, where one is above, up to 255.
    Raises Damaged."""
    most = most or (255.0 if (codes > 1).any() else 1.0)
    if not ((codes >= 0) & (codes <= most)).all():
        raise Damaged(f"it has colours outside [0, {most:g}]")
    return srgb_to_linear(codes / most)


def load_xyz(path: Path) -> list[PointGeometry]:
    """Read lines of x y z, or x y z r g b with colours to 1 or to 255; more columns are left out, and so are
    columns 4 to 6 that are normals: one of them is negative, or all rows are of length 1 and not pure
    colours. Lines that start with # or // are comments. Raises InputError."""
    text = read_bytes(path, "cloud").decode("ascii", errors="replace")
    rows = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "//"))]
    if not rows:
        raise Damaged("it has no points")
    try:
        table = np.loadtxt(io.StringIO("\n".join(rows).replace(",", " ")), ndmin=2)
    except ValueError as error:
        raise Damaged(f"it is no table of numbers ({str(error)[:80]})") from None
    if table.shape[1] < 3:
        raise Damaged(f"it has {table.shape[1]} numbers a line, and a point has three")
    colours = table[:, 3:6] if table.shape[1] > 5 else None
    if colours is not None:
        unit = np.allclose((colours**2).sum(1), 1, atol=0.01) and not np.isin(colours, (0, 1)).all()
        colours = None if unit or not colours.min() >= 0 else linear_codes(colours)
    left = table.shape[1] - (3 if colours is None else 6)
    if left:
        warn(f"'{path}': {left} columns beyond places and colours were left out")
    return cloud(table[:, :3], colours, path)


def load_las(path: Path) -> list[PointGeometry]:
    """Read places and colours of .las or .laz; intensities, classes and times are left out. Raises
    InputError."""
    data = read_bytes(path, "cloud")
    laspy = library("laspy", "clouds", "export it as .ply")
    _check_records(data)
    try:
        with laspy.open(io.BytesIO(data)) as reader:
            check_counts(reader.header.point_count, 0)
            found = reader.read()
    except laspy.errors.LaspyException as error:
        raise Damaged(f"it cannot be read as LAS ({str(error)[:80]})") from None
    colours = None
    if "red" in found.point_format.dimension_names:
        codes = np.stack([found.red, found.green, found.blue], axis=1)
        # Some programs write 8 bits into these 16.
        colours = linear_codes(codes, 255.0 if codes.max(initial=0) < 256 else 65535.0)
    return cloud(np.array(found.xyz, np.float64), colours, path)


def _check_records(data: bytes) -> None:
    """Raise Damaged when the header counts more variable-length records than the file has bytes for: laspy
    makes an object for each that is counted, 10 million of a file of 17 kB in 28 s and 1.2 GB."""
    if len(data) < 227:
        raise Damaged("it is truncated")
    size, _, count = struct.unpack_from("<HII", data, 94)
    extended = struct.unpack_from("<I", data, 243)[0] if data[25] >= 4 and len(data) >= 247 else 0
    if size + 54 * count + 60 * extended > len(data):
        raise Damaged(
            f"its header counts {count + extended:,} records, which {len(data):,} bytes do not hold"
        )
