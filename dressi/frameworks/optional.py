"""Libraries that dressi can do without."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import InputError


def library(name: str, extra: str) -> Any:
    """A library that an extra of dressi installs. Raises InputError where it is missing or broken.

    extra: what ``pip install 'dressi[...]'`` names.
    """
    try:
        return import_module(name)
    except (ImportError, OSError) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        state = "which is not installed" if missing else f"which does not load ({error})"
        raise InputError(f"dressi.{extra} needs {name}, {state}: pip install 'dressi[{extra}]'") from None
