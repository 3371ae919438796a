"""The GLSL files that the snippets of Functions include: their paths and their versions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...config import shader_path
from ...errors import GraphError, InputError

if TYPE_CHECKING:
    from . import Function

_OWN = __name__.partition(".")[0] + "."


def is_own(kind: type) -> bool:
    """Whether a class is defined in dressi."""
    return f"{kind.__module__}.".startswith(_OWN)


def included_files(f: Function) -> Iterator[str]:
    """The files that the snippet of a Function includes: names of files in ``shaders/``, or full paths.

    A name is looked up in the folder of the class that declares ``includes``, then among dressi's own
    shaders. Raises GraphError if it is in neither.
    """
    names = (f.includes,) if isinstance(f.includes, str | os.PathLike) else f.includes
    for name in names:
        yield _find(f, os.fspath(name))


def _find(f: Function, name: str) -> str:
    kind = type(f)
    declares = next(c for c in kind.__mro__ if "includes" in vars(c))
    if is_own(declares):
        return name
    file = getattr(sys.modules.get(declares.__module__), "__file__", None)
    folder = Path(file).resolve().parent if file else Path.cwd()
    if (folder / name).is_file():
        return str(folder / name)
    try:
        if not os.path.isabs(name):
            shader_path(name)
            return name
    except InputError:
        pass
    place = f"in {folder}, where {kind.__name__} is defined, nor among dressi's own shaders"
    raise GraphError(
        f"{kind.__name__} includes {name!r}, which is no file{'' if os.path.isabs(name) else f' {place}'};"
        f" give its path from there, or a full one (applied at {f.where})"
    )


def versions(f: Function) -> tuple[tuple[str, int, int], ...]:
    """(path, modification time, length) of each included file of the user, to notice that it was edited."""
    if not f.includes:
        return ()
    files = []
    for name in included_files(f):
        if os.path.isabs(name):
            status = os.stat(name)
            files.append((name, status.st_mtime_ns, status.st_size))
    return tuple(files)
