"""Limits for the size of a mesh that is read, checked from counts before memory is allocated."""

from __future__ import annotations

from pathlib import Path

from dressi.config import config
from dressi.errors import InputError


def check_counts(path: Path, vertices: int, faces: int) -> None:
    """Raise InputError when a mesh has more vertices or faces than ``config.max_faces``."""
    if max(vertices, faces) > config.max_faces:
        what = f"{faces:,} faces" if faces >= vertices else f"{vertices:,} vertices"
        raise InputError(
            f"'{path}' has {what} or more, above the limit of {config.max_faces:,}; decimate it,"
            f" or set DRESSI_MAX_FACES={max(vertices, faces)} where the memory suffices"
        )
