"""The lines of the meshes of a glTF file, as strands."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.formats.gltf.document import Document
from dressi.render.io.files import check_counts
from dressi.render.io.strands import line_strands
from dressi.render.strands.geometry import StrandGeometry

MODES = (1, 2, 3)
"""Of primitives that are lines: pairs, a closed line, an open line."""


def lines_of(document: Document, index: int, name: str) -> Iterator[StrandGeometry]:
    """The primitives of a mesh that are lines, one pixel wide, with the colour of their material. Raises InputError naming the
    file."""
    for entry in document.item("meshes", index)["primitives"]:
        attributes = entry.get("attributes", {})
        if entry.get("mode", 4) not in MODES or "POSITION" not in attributes:
            continue
        if "COLOR_0" in attributes:
            warnings.warn(f"'{document.path}': colours of the vertices of lines were left out", stacklevel=5)
        vertices = document.count(attributes["POSITION"])
        numbers = document.accessor(entry["indices"])[:, 0].astype(np.int64) if "indices" in entry else None
        check_counts(document.path, vertices, vertices if numbers is None else len(numbers))
        positions = document.accessor(attributes["POSITION"])
        if positions.shape[1:] != (3,):
            raise InputError(f"'{document.path}': positions of lines are three numbers each; export it again")
        try:
            found = line_strands(positions, numbers, entry["mode"], name)
        except InputError as error:
            raise InputError(f"'{document.path}': {error}") from None
        yield StrandGeometry(
            found.points, found.offsets, found.radius, _colour(document, entry), unit="pixels", name=name
        )


def _colour(document: Document, entry: dict[str, Any]) -> tuple[float, ...]:
    """Linear, of the material."""
    if "material" not in entry:
        return (1.0, 1.0, 1.0)
    found = document.item("materials", entry["material"]).get("pbrMetallicRoughness", {})
    factor = np.asarray(found.get("baseColorFactor", (1.0,) * 4), np.float64)
    if factor.shape != (4,) or not ((factor >= 0) & (factor <= 1)).all():
        raise InputError(
            f"'{document.path}': a colour of lines is not four numbers from 0 to 1; export it again"
        )
    return tuple(factor[:3].tolist())
