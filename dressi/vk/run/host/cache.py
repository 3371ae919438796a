"""Files in `config.cache` that save work in later processes and can be made again.

What is loaded from the cache runs in this process: a linked library, machine code of drivers. Others may be
able to write to the folder (a shared DRESSI_CACHE, a folder in /tmp), and a crash or a full disk may truncate
its files. Therefore

- only folders and files are used that belong to this user (or to root) and that nobody else may write,
- an entry begins with the SHA-256 of its name and content; a damaged one is deleted and made again,
- an entry is written to a new file, so that no link is followed, and renamed when it is complete.

If the folder cannot be used, everything works but slower, and a warning says so once.
"""

import errno
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from dressi.config import config

_MAGIC = b"dressi1\n"
_LARGEST = 1 << 30  # bytes of an entry
_TEMPORARY = ".new-"
_OLD = 3600.0  # seconds; older temporary files were left behind by killed processes
_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_CURE = "set DRESSI_CACHE to a folder of your own (or to 'off')"

_told: set[str] = set()  # warnings that were given
_swept: set[Path] = set()  # folders in which old temporary files were deleted


def load(folder: str, name: str) -> bytes | None:
    """The content of an entry, e.g. ``load("spirv/ab", "ab12.spv")``; None if none can be trusted."""
    data = read(folder, name)
    if data is None:
        return None
    start, digest, content = data[:8], data[8:40], data[40:]
    if start == _MAGIC and digest == _digest(name, content):
        return content
    remove(folder, name)
    return None


def save(folder: str, name: str, content: bytes, *, durable: bool = True) -> None:
    """Keep an entry for ``load``; durable: as in ``write``."""
    write(folder, name, _MAGIC + _digest(name, content) + content, durable=durable)


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def read(folder: str, name: str, most: int = _LARGEST) -> bytes | None:
    """The bytes, at most so many, of a file that only this user can have written. Checks no hash."""
    place = trusted_folder(folder)
    if place is None:
        return None
    try:
        handle = os.open(place / name, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            _tell(place / name, "is a symbolic link or no plain file")
        return None
    if (wrong := _wrong(os.fstat(handle), stat.S_ISREG)) is not None:
        os.close(handle)
        _tell(place / name, wrong)
        return None
    with suppress(OSError), os.fdopen(handle, "rb") as stream:
        return stream.read(most)
    return None


def write(folder: str, name: str, data: bytes, *, durable: bool = True) -> None:
    """Write a file completely or not at all. durable: even if the machine crashes."""
    place = trusted_folder(folder, make=True)
    if place is None:
        return
    import tempfile  # imports as much as all else here

    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=place)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, place / name)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        _tell_error(place, error)


def remove(folder: str, name: str) -> None:
    """Delete a file."""
    if config.cache is not None:
        with suppress(OSError):
            os.unlink(config.cache / folder / name)


def touch(folder: str, name: str) -> None:
    """Note that a file was used, for ``shrink``."""
    if config.cache is not None:
        with suppress(OSError):
            os.utime(config.cache / folder / name)


def shrink(folder: str, most: int) -> None:
    """Delete the files of a folder that were used least recently, until the others have at most so many
    bytes."""
    place = trusted_folder(folder)
    if place is None:
        return
    with suppress(OSError), os.scandir(place) as entries:
        files = [(status.st_mtime_ns, status.st_size, e.name) for e in entries if (status := _status(e))]
        for _, size, name in sorted(files, reverse=True):
            most -= size
            if most < 0:
                remove(folder, name)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """The status of a file; None if another process has just deleted it."""
    with suppress(OSError):
        return entry.stat(follow_symlinks=False)
    return None


def fingerprint(files: Iterable[Path]) -> str:
    """A hash of the paths, sizes and times of installed files, which stands for their version."""
    digest = hashlib.sha256()
    for file in files:
        status = file.stat()
        digest.update(f"{file}:{status.st_size}:{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def trusted_folder(folder: str, *, make: bool = False) -> Path | None:
    """A folder of the cache that only this user can write; else None, with a warning. make: create it."""
    root = config.cache
    if root is None:
        return None
    places = [root]
    for part in Path(folder).parts:
        places.append(places[-1] / part)
    try:
        for place in places:
            if make:
                with suppress(FileExistsError):
                    place.mkdir(mode=0o700, parents=place == root)
            wrong = _wrong(os.lstat(place), stat.S_ISDIR if place != root else _folder_or_link)
            if wrong is None and place == root:
                wrong = _wrong(os.stat(place), stat.S_ISDIR)
            if wrong is not None:
                _tell(place, wrong)
                return None
    except FileNotFoundError as error:
        if make:
            _tell_error(root, error)
        return None
    except OSError as error:
        _tell_error(root, error)
        return None
    if make and places[-1] not in _swept:
        _swept.add(places[-1])
        _sweep(places[-1])
    return places[-1]


def _folder_or_link(mode: int) -> bool:
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


_KINDS = {stat.S_ISREG: "plain file", stat.S_ISDIR: "folder", _folder_or_link: "folder"}


def _wrong(status: os.stat_result, kind: Callable[[int], bool]) -> str | None:
    """Why a file or folder cannot be trusted, or None. Access control lists of Windows are not checked."""
    if not kind(status.st_mode):
        return "is a symbolic link" if stat.S_ISLNK(status.st_mode) else f"is not a {_KINDS[kind]}"
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to another user (number {status.st_uid})"
    if status.st_mode & 0o022 and not stat.S_ISLNK(status.st_mode):
        return "can be written by other users (`chmod -R go-w` makes it yours)"
    return None


def _sweep(place: Path) -> None:
    """Remove temporary files of processes that were killed."""
    import shutil

    with suppress(OSError):
        for file in place.glob(f"{_TEMPORARY}*"):
            if time.time() - file.lstat().st_mtime <= _OLD:
                continue
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink()


def _tell_error(place: Path, error: OSError) -> None:
    _tell(place, f"cannot be used ({error.strerror or error})")


def _tell(place: Path, wrong: str) -> None:
    sentence = f"the cache {place} {wrong}: nothing is kept there, and every process compiles its shaders anew; {_CURE}"
    if sentence not in _told:
        _told.add(sentence)
        warnings.warn(sentence, RuntimeWarning, stacklevel=3)
