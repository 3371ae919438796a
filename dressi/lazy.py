"""Names of packages that are imported when they are first used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


def needed(name: str, sentence: str) -> Any:
    """The package that an extra installs. Raises InputError with the ``sentence`` where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        from .errors import InputError

        raise InputError(sentence) from None


def resolve(package: str, name: str, modules: Iterable[str]) -> Any:
    """The value of a name of a package, which is no module: that of the first of its modules which has it.
    Those before that one are imported too, so the quick ones come first."""
    with uncollected():
        for module in modules:
            found = vars(import_module(f".{module}", package)).get(name)
            if found is not None and not isinstance(found, ModuleType):
                vars(sys.modules[package])[name] = found
                return found
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector: it goes through all classes and functions again and again while modules
    make more of them, which takes a tenth of the time of an import. What was made counts as old afterwards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # moves all objects to the oldest generation, and looks at none
            gc.enable()
