"""Shared libraries that come in two parts."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any

_RTLD_NOW, _LM_ID_NEWLM, _RTLD_DI_LMID = 2, -1, 1  # of glibc


class Parts:
    """Two libraries as one: a function is looked for in the first, then in the second."""

    def __init__(self, first: ctypes.CDLL, second: ctypes.CDLL):
        self._both = first, second

    def __getattr__(self, name: str) -> Any:
        first, second = self._both
        with suppress(AttributeError):
            return getattr(first, name)
        return getattr(second, name)


def load_with_partner(path: Path, partner: str, function: str) -> Any:
    """The library at ``path``; where it lacks ``function`` and the file ``partner`` is beside it, both as one.

    The partner may need names of the library without saying where they are. Raises OSError.
    """
    library = ctypes.CDLL(str(path))
    other = path.with_name(partner)
    return library if hasattr(library, function) or not other.is_file() else _both(path, other)


def _both(path: Path, other: Path) -> Parts:
    """In a namespace of their own where the system has that (glibc). With names that the whole process sees, another version of
    the library, which a driver may bring, would call into this one."""
    system = ctypes.CDLL(None)
    if not hasattr(system, "dlmopen"):
        return Parts(ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL), ctypes.CDLL(str(other)))
    system.dlmopen.restype = ctypes.c_void_p
    system.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
    system.dlinfo.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    system.dlerror.restype = ctypes.c_char_p
    space = ctypes.c_long(_LM_ID_NEWLM)
    found = []
    for file in (path, other):
        handle = system.dlmopen(space.value, str(file).encode(), _RTLD_NOW)
        # The first library opens the namespace, and its names are those that all others in it see.
        if handle is None or system.dlinfo(handle, _RTLD_DI_LMID, ctypes.byref(space)):
            raise OSError((system.dlerror() or b"cannot be loaded").decode(errors="replace"))
        found.append(ctypes.CDLL(str(file), handle=handle))
    return Parts(*found)
