"""Pictures of values in notebooks: graphs, plans, meshes and pictures show themselves.

A class that shows itself derives from ``Figures``. What is drawn depends on parts that its module may not
import, such as an engine for meshes, so the top-level package, which joins all parts, provides who draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

_load: Callable[[], Callable[[str, Any], Any]] | None = None


def provide_figures(load: Callable[[], Callable[[str, Any], Any]]) -> None:
    """Figures are ``load()(kind, value)`` from now on. kind: "svg", "html" (texts), "png" (bytes)."""
    global _load
    _load = load


def figure(kind: str, value: Any) -> Any:
    """The figure of a value, None if there is none. Never raises: a value that cannot be drawn warns."""
    if _load is None:
        return None
    try:
        return _load()(kind, value)
    except Exception as error:
        warnings.warn(
            f"no {kind} figure of this {type(value).__name__}: {str(error) or type(error).__name__}",
            stacklevel=3,
        )
        return None


class Figures:
    """What Jupyter and other notebooks call to show a value; ``repr`` where all give None."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return figure("svg", self)

    def _repr_png_(self) -> bytes | None:
        return figure("png", self)

    def _repr_html_(self) -> str | None:
        return figure("html", self)
