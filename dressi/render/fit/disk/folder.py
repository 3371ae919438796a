"""The output folder of a fit: one fit at a time, atomic files, no leftovers of killed fits."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ....errors import InputError

LOCK = "fit.lock"
_TEMPORARY = re.compile(r"\.writing-\d+-\w+")


def temporary_prefix() -> str:
    """Prefix of the names of unfinished files and folders, by which later fits recognise them."""
    return f".writing-{os.getpid()}-"


def check_folder(folder: Path) -> None:
    """Create the folder if it is missing, and check that it is writable. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=temporary_prefix()) as file:
            # Write a block of bytes: an empty file can be created on a full disk.
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise InputError(f"'{folder}' is a file; give a folder with --out") from None
    except (OSError, ValueError) as error:
        raise InputError(cannot_write(folder, error)) from None


def cannot_write(folder: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return f"cannot write into '{folder}': {reason}; give a folder that is writable and has space"


def replace_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Replace a file atomically, also if the process is killed or the power fails. Raises OSError."""
    temporary = path.parent / f"{temporary_prefix()}{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


# ---------------------------------------------------------------------------- one fit at a time

_mine: dict[tuple[int, Path], int] = {}
"""(thread, folder) -> how often this thread has locked it."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder for this thread during the block; the thread may lock it again.

    It is a lock of the operating system on the file ``fit.lock``, which is released when the process ends in
    any way. Unfinished files of killed fits are removed. Raises an InputError that names the holder of the
    folder.
    """
    key = threading.get_ident(), folder.resolve()
    if key in _mine:
        _mine[key] += 1
        try:
            yield
        finally:
            _mine[key] -= 1
        return
    handle = _acquire(folder)
    _mine[key] = 1
    try:
        if handle is not None:
            _remove_leftovers(folder)
        yield
    finally:
        del _mine[key]
        if handle is not None:
            _release(folder / LOCK, handle)


def _acquire(folder: Path) -> int | None:
    """The handle of the locked file; None, with a warning, if the file system has no locks."""
    path = folder / LOCK
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            raise InputError(cannot_write(folder, error)) from None
        try:
            _lock(handle)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                what = f"another fit is running in '{folder}' ({holder})"
                raise InputError(f"{what}; wait for it, stop it, or give another --out") from None
            warnings.warn(
                f"'{folder}' is on a file system without locks ({error.strerror}); start no second fit in it",
                stacklevel=4,
            )
            return None
        # Another fit may have removed the file between open and lock.
        if _same(path, handle):
            break
        os.close(handle)
    # The name of the holder is only for messages: on a full disk the lock works without it.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        os.write(handle, json.dumps(facts).encode())
    return handle


def _release(path: Path, handle: int) -> None:
    """Removes the file while it is locked, so that it is not another fit's. Windows cannot remove an open
    one."""
    if sys.platform == "win32":
        os.close(handle)
    with contextlib.suppress(OSError):
        path.unlink()
    if sys.platform != "win32":
        os.close(handle)


def _same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _holder(handle: int) -> str:
    try:
        facts: dict[str, Any] = json.loads(os.read(handle, 4096))
        return f"process {int(facts['pid'])} on {str(facts['host'])[:60]!r} since {str(facts['since'])[:20]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"


def _lock(handle: int) -> None:
    """Raises OSError: EACCES or EAGAIN if another process holds it."""
    if sys.platform == "win32":
        import msvcrt

        # Locks a byte far behind the text, because other processes must be able to read the text.
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_leftovers(folder: Path) -> None:
    """Unfinished files of dead fits; call it only while holding the lock."""
    for entry in list(folder.iterdir()):
        if not _TEMPORARY.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()
