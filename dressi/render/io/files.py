"""Reading and writing whole files, with errors that a user can act on.

Files are untrusted, so three rules hold for every reader:

- Only regular files of a bounded size are opened: never pipes, devices or sockets, which could block.
- A file that names another one (a texture, a buffer, a mask) reaches its own folder and those below only. Links
  are followed before that is decided. Absolute paths and URLs are refused; of a texture that a mesh names by a
  path of somebody else's machine, the file of the same name beside the mesh is taken (`beside`).
- Any error caused by damaged content becomes one InputError that names the file (`usable`). Readers inside it
  say what is wrong and leave the name to it.
"""

from __future__ import annotations

import contextlib
import csv
import json
import lzma
import math
import os
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any
from urllib.parse import unquote, urlsplit

from dressi.config import config
from dressi.errors import InputError, shown
from dressi.lazy import needed

BROKEN = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError, EOFError, MemoryError,
    OSError, SyntaxError, TokenError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, csv.Error,
)  # fmt: skip
"""Exceptions that damaged content causes in readers."""


class Damaged(InputError):
    """What is wrong in the content of a file; `usable` adds its name and the cure, to export it again."""


@contextmanager
def usable(path: Path, what: str) -> Iterator[None]:
    """Turn errors in the content of a file into one sentence that names the file and the part."""
    try:
        yield
    except Damaged as error:
        raise InputError(f"'{path}': {error}; export it again") from None
    except InputError as error:
        if path.name in str(error):
            raise
        raise InputError(f"'{path}': {error}") from None
    except BROKEN as error:
        raise InputError(
            f"'{path}': {what} cannot be used ({type(error).__name__}: {reason(error)}); check the file"
        ) from None


def data_file(*names: str) -> Path:
    """A file of the folder of ``DRESSI_DATA`` (default: ``../shared/data``), by the names of folders and
    file. Raises InputError when it is not there.

    >>> data_file("meshes", "none.glb")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dressi.errors.InputError: there is no file ...
    """
    path = Path(config.data or "../shared/data").joinpath(*names)
    if not path.exists():
        raise InputError(f"there is no file '{path}'; set DRESSI_DATA, or name your own files")
    return path


LARGEST_FILE = 1 << 30
"""Bytes of a file that is read at once."""
LARGEST_TEXT = 64 << 20
"""Bytes of a JSON or material file: parsed text takes twenty times its size."""


def read_bytes(path: str | os.PathLike, what: str = "file", *, most: int = LARGEST_FILE) -> bytes:
    """The bytes of a regular file.

    what: the word for it in messages.  most: the largest size that is accepted, in bytes.  Raises InputError
    when the file is missing, a folder, not a regular file (a pipe is not waited for), larger than that, or
    cannot be read.
    """
    path = Path(path)
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        flags = os.O_RDONLY
        for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"):  # systems lack some
            flags |= getattr(os, name, 0)
        if path.is_dir():
            raise IsADirectoryError
        with open(os.open(path, flags), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"the {what} '{path}' is not a regular file; copy its content into one")
            if (size := status.st_size) > most:
                raise InputError(
                    f"the {what} '{path}' has {size:,} bytes, and at most {most:,} are read; split or reduce"
                    " it"
                )
            return stream.read(size)  # not `most`: read() allocates the requested size first
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no {what} '{path}'; check the path") from None
    except IsADirectoryError:
        raise InputError(f"'{path}' is a folder, not a {what}; name the file in it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the {what} '{path}': {reason(error)}") from None


def read_json(path: Path, what: str) -> Any:
    """The content of a JSON file. Raises InputError, also for NaN and Infinity, which are not JSON."""
    return parse_json(read_bytes(path, what, most=LARGEST_TEXT), path)


def parse_json(text: bytes, path: Path) -> Any:
    """Like ``read_json`` for the text of a file, or of a part of it."""

    def refuse(name: str) -> None:
        raise InputError(f"'{path}' contains {name}, which is not a JSON number; write the file again")

    if len(text) > LARGEST_TEXT:
        raise InputError(f"'{path}' has {len(text):,} bytes of JSON, and at most {LARGEST_TEXT:,} are read")
    with usable(path, "its JSON"):
        return json.loads(text, parse_constant=refuse)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files atomically: each is either the complete old or the complete new one.

    All are first written under temporary names beside their targets, and renamed once every one is complete.
    Raises InputError, before anything is overwritten, if a folder does not exist, is full or read-only, or a
    target is no regular file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.bin"
    >>> write_files({path: b"whole"})
    >>> path.read_bytes()
    b'whole'
    """
    pending: list[tuple[str, Path]] = []
    target = Path()
    try:
        for target in files:
            if target.exists() and not target.is_file():
                raise InputError(f"cannot write '{target}': it is a folder, a device or a pipe; name a file")
        for target, content in files.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            pending.append((temporary, target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.umask(mask := os.umask(0))  # asking for it sets it
            os.chmod(temporary, 0o666 & ~mask)
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
    """Write a JSON file atomically (`write_files`). NaN and infinite numbers, which JSON lacks, become null.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> write_json(path, {"loss": float("nan")})
    >>> path.read_text().split()
    ['{', '"loss":', 'null', '}']
    """
    path = Path(path)
    write_files({path: (json.dumps(finite(content), indent=1, allow_nan=False) + "\n").encode()})


def finite(value: Any, most: float = math.inf) -> Any:
    """The value with None for NaN, infinite numbers and those from ``most`` on, such as a diverged loss."""
    if isinstance(value, dict):
        return {key: finite(item, most) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item, most) for item in value]
    return None if isinstance(value, float) and not abs(value) < most else value


def inside(folder: Path, uri: str, owner: Path) -> Path:
    """The file that a relative URI names; InputError when it is absolute, has a scheme or leaves `folder`.

    Links are followed first: a link inside the folder that leads out of it is outside.
    """
    name = unquote(uri)
    try:
        parts = urlsplit(uri)
        elsewhere = bool(parts.scheme or parts.netloc)
    except ValueError:
        elsewhere = True
    if elsewhere or ":" in name or "\\" in name or "\0" in name or Path(name).is_absolute():
        raise InputError(
            f"'{owner}' refers to '{shown(uri)}', which is not a file name relative to it; embed or copy the"
            " file"
        )
    return followed(folder / name, folder, owner)


def followed(path: Path, folder: Path, owner: Path) -> Path:
    """The file behind a path in the folder or below. Raises InputError when links lead out of it."""
    try:
        file = path.resolve()
        within = file.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, or a loop of links
        raise InputError(f"'{owner}' refers to '{shown(path)}': {reason(error)}") from None
    if not within:
        raise InputError(
            f"'{owner}' refers to '{shown(path)}', outside its folder; copy the file beside it"
            " (links that lead out of the folder are not followed)"
        )
    return file


def beside(owner: Path, name: str) -> Path | None:
    """The file that a mesh names, or the one of that base name, in the mesh's folder; None when neither is
    there.

    Exporters write paths of the machine they ran on, so a path that is not relative counts by its last part.
    """
    for candidate in (name, name.replace("\\", "/").rpartition("/")[2]):
        if candidate.strip():
            with contextlib.suppress(InputError, ValueError, OSError):
                file = inside(owner.parent, candidate, owner)
                if file.is_file():
                    return file
    return None


@contextmanager
def silenced() -> Iterator[None]:
    """Drop what a library in C prints to the output and error streams of this process."""
    kept: list[tuple[int, int]] = []
    with open(os.devnull, "w") as nowhere:
        try:
            for number in (1, 2):
                with contextlib.suppress(OSError):  # a program without a terminal has none
                    kept.append((number, os.dup(number)))
            for number, _ in kept:
                os.dup2(nowhere.fileno(), number)
            yield
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)


def library(name: str, extra: str, otherwise: str) -> Any:
    """A package of an extra. Raises InputError with what to do otherwise."""
    return needed(name, f"it needs the library {name}: pip install 'dressi[{extra}]'; or {otherwise}")


def reason(error: Exception) -> str:
    """What went wrong, as a few words of one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text)


def check_counts(vertices: int, faces: int, of: str = "faces") -> None:
    """Raise InputError when there are more than ``config.max_faces``.  of: what is counted as faces."""
    if max(vertices, faces) > config.max_faces:
        what = f"{faces:,} {of}" if faces >= vertices else f"{vertices:,} vertices"
        raise InputError(
            f"it has {what} or more, above the limit of {config.max_faces:,}; decimate it,"
            f" or set DRESSI_MAX_FACES={max(vertices, faces)} where the memory suffices"
        )


def truncated() -> InputError:
    """The error of a file that ends early."""
    return Damaged("it is truncated: it has fewer values than its header says")


SURFACES = "load_scene draws clouds of points, and MeshLab or Open3D reconstruct a surface"


def without_faces(vertices: int) -> InputError:
    """The error of a file that has points at most."""
    if not vertices:
        return InputError("it has no faces; give a mesh with at least one triangle")
    return InputError(f"it is a point cloud of {vertices:,} vertices without faces; {SURFACES}")
