"""The engine of functions that compute arrays, such as ``dressi.render.render`` of a mesh.

Neither ``ad`` nor ``render`` runs anything on a device. The top-level package, which joins them with one,
provides a factory here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import InputError

_factory: Callable[[], Any] | None = None


def provide_engine(make: Callable[[], Any]) -> None:
    """From now on ``default_engine`` calls ``make``, which returns an engine like ``DressiAD``."""
    global _factory
    _factory = make


def default_engine() -> Any:
    """A new engine on the default device. Raises InputError without one, DressiError if it does not open."""
    if _factory is None:
        raise InputError("no engine was provided; import dressi, or call provide_engine first")
    return _factory()
