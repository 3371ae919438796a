"""Pictures: image leaves, rendered pictures, and meshes, drawn on the default device."""

from __future__ import annotations

import numpy as np

from ..ad.graph import Variable
from ..errors import DressiError
from ..render.drawing.entry import render
from ..render.drawing.pixels import Pixels
from ..render.io.images import encode_png
from ..render.mesh import Mesh
from .graphs import show_as_picture
from .kinds import Raw, cell, html, image, png

SMALL, LARGE = 128, 1024
"""Pictures with fewer rows are enlarged by whole factors; those with more rows or columns lose some."""
TILES = 8
"""Pictures of a batch that stand side by side."""
SIZE = (320, 240)
"""Pixels of the picture of a mesh."""


def sheet(images: np.ndarray) -> np.ndarray:
    """Pictures (N, H, W, ...) side by side, at most TILES of them, at a size for the eye."""
    row = np.concatenate(list(images[:TILES]), axis=1)
    step = -(-max(row.shape[0], row.shape[1] / TILES) // LARGE)
    row = row[:: int(step), :: int(step)]
    grow = max(SMALL // row.shape[0], 1)
    return row.repeat(grow, axis=0).repeat(grow, axis=1)


def levels(values: np.ndarray) -> np.ndarray:
    """The values themselves where all are in [0, 1], else spread over it; NaN and infinity become 0."""
    values = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(), values.max()
    return values if low >= 0 and high <= 1 else (values - low) / max(high - low, 1e-300)


@png.register
def _(value: Variable) -> bytes | None:
    """An image leaf, by its own data: colours as linear light, one number as grey, two as red and green."""
    if not show_as_picture(value):
        return None
    pixels = levels(np.asarray(value.data))
    if value.vtype.components == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], axis=-1)
    return encode_png(sheet(pixels))


@png.register
def _(value: Pixels) -> bytes:
    colour = value.colour
    return encode_png(np.clip(sheet(colour[None] if colour.ndim == 3 else colour), 0, 1))


@png.register
def _(value: Mesh) -> bytes:
    return encode_png(np.clip(render(value, size=SIZE).colour, 0, 1))


@html.register
def _(value: Mesh) -> str:
    return f"{mesh_image(value)}<p>{cell(repr(value))}</p>"


def mesh_image(mesh: Mesh) -> Raw:
    """A drawn mesh; where it cannot be drawn, why."""
    try:
        return Raw(image(png(mesh) or b"", repr(mesh)))
    except DressiError as error:
        return Raw(f"<p><i>not drawn: {cell(error)}</i></p>")
