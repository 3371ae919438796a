"""The user's code: the line that made a Variable or Function, and functions that users give."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from ...errors import GraphError

_PACKAGE = str(Path(__file__).absolute().parents[2]) + os.sep
_NAME = __name__.partition(".")[0]
_STANDARD = os.path.dirname(os.__file__) + os.sep

_inside: dict[str, bool] = {}


def _inside_of_package(frame: FrameType) -> bool:
    """Whether a file belongs to dressi, the standard library or a package, or is no file at all."""
    file = frame.f_code.co_filename
    if file not in _inside:
        packages = "site-packages" in file or "dist-packages" in file
        _inside[file] = packages or file.startswith((_PACKAGE, _STANDARD, "<frozen"))
    return _inside[file]


def of_dressi(frame: FrameType) -> bool:
    """Whether a frame runs code of dressi. Methods of a ``dataclass`` have no file: their module counts."""
    file = frame.f_code.co_filename
    if file == "<string>":
        return str(frame.f_globals.get("__name__")).startswith(f"{_NAME}.")
    return file.startswith(_PACKAGE)


def user_level() -> int:
    """The ``stacklevel`` of a warning by the caller that names the same frame as ``user_line``."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _inside_of_package(frame):
        frame, level = frame.f_back, level + 1
    return level


def user_line(made: object = None) -> str:
    """``file:line`` of the innermost frame that is neither in dressi nor in an installed package.

    made: the object under construction. Its own ``__init__`` is skipped: the line that calls it counts.
    """
    frame = sys._getframe(1)
    while frame is not None:
        # Most frames are known; every Function looks at all of them.
        inside = _inside.get(frame.f_code.co_filename)
        if inside is None:
            inside = _inside_of_package(frame)
        making = made is not None and frame.f_code.co_name == "__init__"
        if not inside and not (making and any(value is made for value in frame.f_locals.values())):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "dressi"


def check_function(function: Any, arguments: int, what: str, cure: str) -> None:
    """Raises GraphError unless a function of the user takes so many positional arguments. what: its name in
    the sentence. cure: what to write instead."""
    if not callable(function):
        raise GraphError(f"{what} is a function, not {function!r}; {cure}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some functions of C do not tell
    try:
        signature.bind(*range(arguments))
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        name = "a lambda" if name == "<lambda>" else name
        several = "argument" if arguments == 1 else "arguments"
        raise GraphError(f"{what} gets {arguments} {several}, but {name} takes {signature}; {cure}") from None
