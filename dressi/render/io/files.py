"""Reading and writing whole files, with errors that a user can act on."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dressi.errors import InputError


@contextmanager
def usable(path: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong with the content of a file into one sentence that names the part."""
    try:
        yield
    except InputError:
        raise
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        raise InputError(
            f"'{path}': {what} cannot be used ({type(error).__name__}: {reason(error)}); check the file"
        ) from None


def read_bytes(path: str | os.PathLike, what: str = "file") -> bytes:
    """The file's bytes; InputError when it is missing, a folder, or cannot be read."""
    path = Path(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no {what} '{path}'; check the path") from None
    except IsADirectoryError:
        raise InputError(f"'{path}' is a folder, not a {what}; name the file in it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the {what} '{path}': {reason(error)}") from None


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files so that each is either the old or the new one, whole, whatever happens on the way.

    All are written under temporary names beside their targets first, and renamed when every one is complete.
    InputError when a folder does not exist, is full or read-only; then nothing was overwritten.
    """
    pending: list[tuple[str, Path]] = []
    target = Path()
    try:
        for target, content in files.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            pending.append((temporary, target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
        while pending:
            temporary, target = pending[0]
            os.replace(temporary, target)
            pending.pop(0)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot write '{target}': {reason(error)}; give a folder that exists, is writable and has space"
        ) from None
    finally:
        for temporary, _ in pending:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write a JSON file, whole or not at all (``write_files``). Numbers that JSON does not know are null."""
    path = Path(path)
    write_files({path: (json.dumps(finite(content), indent=1, allow_nan=False) + "\n").encode()})


def finite(value: Any) -> Any:
    """The value with None for numbers that are none, or infinite, such as a loss that became undefined."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def inside(folder: Path, uri: str, owner: Path) -> Path:
    """The file that a relative URI names; InputError when it is absolute, has a scheme or leaves `folder`.

    Links are followed first: a link inside the folder that leads out of it is outside.
    """
    name = unquote(uri)
    parts = urlsplit(uri)
    if (
        parts.scheme
        or parts.netloc
        or ":" in name
        or "\\" in name
        or "\0" in name
        or Path(name).is_absolute()
    ):
        raise InputError(
            f"'{owner}' refers to '{uri}', which is not a file name relative to it; embed or copy the file"
        )
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"'{owner}' refers to '{uri}', outside its folder; copy the file beside it")
    return path


def reason(error: Exception) -> str:
    """What went wrong, as a few words of one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
