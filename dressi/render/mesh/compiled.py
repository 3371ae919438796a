"""Libraries that are compiled for some machines only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import InputError


def compiled(module: str, package: str, purpose: str) -> Any:
    """The module of a package that pip leaves out where there is no wheel of it. Raises InputError where it
    is missing or does not load."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:
        raise InputError(
            f"{purpose} needs {package} ({error}); install it with `pip install {package.lower()}`, which"
            " compiles it where there is no wheel for the machine (a C++ compiler is needed)"
        ) from None
