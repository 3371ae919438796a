"""The state of a fit on disk: a resumed fit computes the same numbers as one that was never stopped."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.lib.format as npy

from ....errors import InputError
from ...core.engine import Engine
from ...mesh import Mesh
from .folder import cannot_write, replace_file

NAME = "checkpoint.npz"
START = "start.npz"
"""What a fit that was stopped had started from: making it again takes as long as a round."""
OLD = "checkpoint-old.npz"
"""The checkpoint of another fit is renamed to this before the first one of this fit is written."""
MOST_BYTES = 1 << 28
"""Default limit for the size of a checkpoint that is read."""
_STATE, _MESH, _MAPS = "state/", "mesh/", "map/"
_ARRAYS = {
    "positions": (3, np.float64),
    "faces": (3, np.int64),
    "uvs": (2, np.float64),
    "uv_faces": (3, np.int64),
}
"""Arrays of a mesh, with columns and type. Name and colour are those of the start mesh."""


@dataclass
class Checkpoint:
    """round: number of the current round; the last one is the texture round.  step: steps done in it.  state:
    of the engine in that round.  mesh, views, maps: what the round began with: the mesh with its UVs, (N, 4,
    4) world to camera in units of the scene if poses are learned, and arrays such as those of the material.
    losses: of all steps so far, with the number of their round.  quality: number of steps, IoU, and PSNR
    (NaN: none) at each look.  seconds: time spent.  key: of the task, see ``task_key``.
    """

    key: str
    round: int = 0
    step: int = 0
    state: dict[str, np.ndarray] = field(default_factory=dict)
    mesh: Mesh | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    views: np.ndarray | None = None
    quality: list[tuple[int, float, float]] = field(default_factory=list)
    maps: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, folder: Path, name: str = NAME) -> None:
        """Replace the folder's checkpoint, or another file of this kind, atomically. Raises InputError if it
        cannot be written."""
        facts = {"key": self.key, "round": self.round, "step": self.step, "seconds": self.seconds}
        arrays: dict[str, Any] = {_STATE + part: array for part, array in self.state.items()}
        arrays |= {_MAPS + part: array for part, array in self.maps.items()}
        if self.mesh is not None:
            given = {part: getattr(self.mesh, part) for part in _ARRAYS}
            arrays |= {_MESH + part: array for part, array in given.items() if array is not None}
        if self.views is not None:
            arrays["views"] = self.views
        arrays["facts"] = np.array(json.dumps(facts))
        arrays["losses"] = np.array(self.losses, np.float64).reshape(-1, 2)
        arrays["quality"] = np.array(self.quality, np.float64).reshape(-1, 3)
        try:
            replace_file(folder / name, lambda stream: write_arrays(stream, arrays))
        except (OSError, ValueError) as error:
            raise InputError(cannot_write(folder, error)) from None

    @classmethod
    def load(cls, folder: Path, key: str, most_bytes: int = MOST_BYTES) -> Checkpoint:
        """The folder's checkpoint, of at most ``most_bytes``. Raises InputError if there is none, it belongs
        to another task, or is no checkpoint. ``check_progress`` checks it against the rounds of the task."""
        path = folder / NAME
        if not path.is_file():
            raise InputError(f"there is nothing to resume in '{folder}' (no {NAME}); run without --resume")
        point = cls.read(path, most_bytes)
        if point.key != key:
            what = f"'{path}' belongs to another target or other options"
            raise InputError(f"{what}; give those again, or run without --resume")
        return point

    @classmethod
    def read(cls, path: Path, most_bytes: int) -> Checkpoint:
        """The checkpoint of any task in a file. Raises InputError if it is none."""
        try:
            arrays = read_arrays(path, most_bytes)
            facts = _facts(arrays.pop("facts", None))
            point = cls(facts["key"], facts["round"], facts["step"], seconds=facts["seconds"])
            point.losses = _losses(arrays.pop("losses", None))
            point.quality = _quality(arrays.pop("quality", None), len(point.losses))
            point.views = _views(arrays.pop("views", None))
            point.state, point.maps = _numbers(arrays, _STATE), _numbers(arrays, _MAPS)
            point.mesh = _mesh(arrays)
        except Damaged as error:
            raise damaged(path, str(error)) from None
        return point

    def check_progress(self, steps: Sequence[int], views: int | None) -> None:
        """Raise Damaged unless this is a possible state of rounds with these numbers of steps.

        views: how many poses are learned, None without.
        """
        if not 0 <= self.round < len(steps):
            raise Damaged(f"is in round {self.round} of {len(steps)}")
        if not 0 <= self.step <= steps[self.round]:
            raise Damaged(f"is at step {self.step} of {steps[self.round]}")
        rounds = [number for number, count in enumerate(steps[: self.round]) for _ in range(count)]
        if [number for number, _ in self.losses] != rounds + [self.round] * self.step:
            raise Damaged(f"has {len(self.losses)} losses, which are not those of its steps")
        if self.mesh is None:
            raise Damaged("has no mesh")
        if (None if self.views is None else len(self.views)) != views:
            raise Damaged("has other cameras")

    def check_mesh(self, topology: Mesh, fixed: bool) -> None:
        """Raise Damaged unless the mesh fits its round. topology: the start mesh, subdivided as in that
        round. fixed: whether the topology cannot change because the start mesh was given. Otherwise the mesh
        must have no empty faces or unused vertices."""
        assert self.mesh is not None
        a, b, c = self.mesh.faces.T
        if fixed and not np.array_equal(self.mesh.faces, topology.faces):
            raise Damaged("has a mesh of other faces than the one that was given")
        if not fixed and ((a == b) | (b == c) | (c == a)).any():
            raise Damaged("has a mesh with empty faces")
        if not fixed and len(np.unique(self.mesh.faces)) < len(self.mesh.positions):
            raise Damaged("has a mesh with unused vertices")

    def check_state(self, expected: Mapping[str, np.ndarray]) -> None:
        """Raise Damaged unless the state has the names, shapes and types of an expected one."""
        other = set(self.state) ^ set(expected)
        if other:
            raise Damaged(f"has a state of other parts: {', '.join(sorted(other))[:200]}")
        for name, array in self.state.items():
            own, right = (f"{a.dtype}{a.shape}" for a in (array, expected[name]))
            if own != right:
                raise Damaged(f"has '{name}' as {own} instead of {right}")
            # Integers in a state are step counters.
            if array.dtype.kind == "i" and (array != self.step).any():
                raise Damaged(f"counts other steps in '{name}'")

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove the checkpoint of the folder, and its start."""
        for name in (NAME, START):
            (folder / name).unlink(missing_ok=True)


def damaged(path: Path, what: str) -> InputError:
    """The error for a checkpoint; what: a phrase whose subject is the file."""
    return InputError(f"'{path}' is damaged: it {what}; remove it and run without --resume")


def set_aside(folder: Path) -> None:
    """Rename the checkpoint of another fit, with a warning. Raises OSError."""
    path = folder / NAME
    if path.is_symlink() or path.exists():
        os.replace(path, folder / OLD)
        warnings.warn(
            f"'{path}' is of a fit that was interrupted, and this one is not a --resume of it; it is kept as"
            f" '{OLD}'",
            stacklevel=2,
        )


def task_key(options: dict[str, Any], *arrays: np.ndarray) -> str:
    """Hash of everything that determines the result of a fit."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------------------- validation


def _facts(array: np.ndarray | None) -> dict[str, Any]:
    if array is None or array.dtype.kind != "U" or array.shape != ():
        raise Damaged("does not say what it is of")
    try:
        facts = json.loads(str(array))
    except (ValueError, RecursionError):
        raise Damaged("does not say what it is of") from None
    kinds = {"key": str, "round": int, "step": int, "seconds": (int, float)}
    if not isinstance(facts, dict) or set(facts) != set(kinds):
        raise Damaged("does not say what it is of")
    for name, kind in kinds.items():
        if not isinstance(facts[name], kind) or isinstance(facts[name], bool):
            raise Damaged(f"has no usable '{name}'")
    try:
        seconds = float(facts["seconds"])
    except OverflowError:
        seconds = math.inf
    if not 0 <= seconds < 1e12:
        raise Damaged("has no usable 'seconds'")
    return {**facts, "seconds": seconds}


def _rows(array: np.ndarray | None, columns: int, what: str) -> np.ndarray:
    if array is None or array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != columns:
        raise Damaged(what)
    return array


def _losses(array: np.ndarray | None) -> list[tuple[int, float]]:
    array = _rows(array, 2, "has no losses")
    numbers = array[:, 0]
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 1e6)).all():
        raise Damaged("has losses of no round")
    return [(int(number), float(loss)) for number, loss in array]


def _quality(array: np.ndarray | None, steps: int) -> list[tuple[int, float, float]]:
    array = _rows(array, 3, "does not say how good it was")
    done, iou, psnr = array.T
    whole = np.isfinite(done) & (done == np.floor(done)) & (done >= 1) & (done <= steps)
    if not (whole & (iou >= 0) & (iou <= 1) & (np.isnan(psnr) | np.isfinite(psnr))).all():
        raise Damaged("says of no step how good it was")
    return [(int(a), float(b), float(c)) for a, b, c in array]


def _views(array: np.ndarray | None) -> np.ndarray | None:
    if array is None:
        return None
    if array.dtype != np.float64 or array.ndim != 3 or array.shape[1:] != (4, 4):
        raise Damaged("has no usable cameras")
    turns = array[:, :3, :3]
    if not np.isfinite(array).all() or np.abs(turns @ np.swapaxes(turns, 1, 2) - np.eye(3)).max() > 1e-3:
        raise Damaged("has cameras that are no poses")
    return array


def _numbers(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The finite arrays whose names have the prefix, by the rest of the name; removed from ``arrays``."""
    names = [name for name in arrays if name.startswith(prefix)]
    numbers = {name.removeprefix(prefix): arrays.pop(name) for name in names}
    for name, array in numbers.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            raise Damaged(f"has values in '{name[:40]}' that are not finite numbers")
    return numbers


def _mesh(arrays: dict[str, np.ndarray]) -> Mesh | None:
    if not arrays:
        return None
    given = {_MESH + name for name in _ARRAYS}
    if set(arrays) not in (given, {name for name in given if "uv" not in name}):
        raise Damaged(f"holds other things: {', '.join(sorted(arrays))[:200]}")
    parts: dict[str, Any] = {name.removeprefix(_MESH): array for name, array in arrays.items()}
    for name, array in parts.items():
        columns, dtype = _ARRAYS[name]
        if array.ndim != 2 or array.shape[1] != columns or array.dtype != dtype:
            raise Damaged(f"has a mesh without usable {name}")
    try:
        return Mesh(**parts).validate()
    except InputError as error:
        raise Damaged(f"has no usable mesh ({error})") from None


# Arrays in one untrusted file: nothing is unpickled, and every size is checked before it is used.


class Damaged(InputError):
    """A file is damaged; the message is a phrase whose subject is the file."""


_KINDS = "biufU"
"""Kinds of dtypes that are read: numbers and text."""
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, SyntaxError, TypeError, MemoryError, OverflowError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
"""What readers of damaged files raise; a RuntimeError is NotImplementedError and RecursionError, too."""


def write_arrays(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an uncompressed ``.npz``. Raises ValueError for object arrays, and OSError."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asarray(array), allow_pickle=False)


def read_arrays(path: Path, most_bytes: int) -> dict[str, np.ndarray]:
    """The arrays of a file by ``write_arrays``. Raises Damaged.

    Members must be uncompressed, so that none is larger than the file, and each array must fill its member. A
    file larger than ``most_bytes`` is not read.
    """
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise Damaged(f"has {size} bytes, and this fit needs at most {most_bytes}")
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            _check_members(members, size)
            return {m.filename.removesuffix(".npy"): _read(file, m) for m in members}
    except Damaged:
        raise
    except _UNREADABLE:
        raise Damaged("is truncated, or not a file of arrays") from None


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise Damaged("has two arrays of one name")
    for member in members:
        if member.flag_bits & 1:
            raise Damaged("is encrypted")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise Damaged("is compressed, which this program's files never are")
        if not member.filename.endswith(".npy"):
            raise Damaged(f"holds '{member.filename[:40]}', which is no array")
    if sum(member.file_size for member in members) > size:
        raise Damaged("declares more bytes than it has")


def _read(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with file.open(member) as stream:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise Damaged(f"has an array of the unknown format {version}")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        if dtype.kind not in _KINDS or dtype.hasobject or fortran:
            raise Damaged(f"has an array of type {str(dtype)[:40]}")
        if any(not isinstance(length, int) or length < 0 for length in shape) or len(shape) > 8:
            raise Damaged("has an array of an impossible shape")
        room = member.file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != room:
            raise Damaged("has an array whose size is not that of its data")
        data = stream.read()
    # Reading to the end checks the CRC.
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy() if data else np.zeros(shape, dtype)


Started = tuple[Mesh, bool]
"""A mesh to start from, in units of the scene, and whether it fits already."""


class Keeper:
    """Writes the checkpoint of a running fit into a folder, and tolerates a full disk; without a folder
    nothing is kept. A checkpoint that this object has neither written nor read belongs to another fit and is
    renamed first.
    """

    def __init__(self, folder: Path | None):
        self.folder = folder
        self.unsaved: str | None = None
        """Why the last checkpoint could not be written; None if it was."""
        self.kept = False
        """Whether the folder has a checkpoint of this fit."""
        self._warned = False
        self._start: Checkpoint | None = None

    def started(self, key: str, make: Callable[[], Started | None]) -> Started | None:
        """What a fit starts from: as a stopped fit of this key has left it in the folder, or made now."""
        if self.folder is not None and (self.folder / START).is_file():
            try:
                point = Checkpoint.read(self.folder / START, MOST_BYTES)
                if point.key == key and point.mesh is not None:
                    return point.mesh, bool(point.maps["fits"].any())
            except (InputError, LookupError):
                pass  # it is made anew
        made = make()
        if made is not None:
            self._start = Checkpoint(key, mesh=made[0], maps={"fits": np.array([made[1]], np.int64)})
        return made

    def load(self, key: str, steps: Sequence[int], views: int | None, most_bytes: int) -> Checkpoint:
        """The checkpoint to resume from. steps: of each round.  views: number of learned poses, or None.
        Raises InputError."""
        if self.folder is None:
            raise InputError("this fit has no folder with a checkpoint to resume; give it one")
        point = Checkpoint.load(self.folder, key, most_bytes)
        with _said_of(self.folder / NAME):
            point.check_progress(steps, views)
        self.kept = True
        return point

    def check_mesh(self, point: Checkpoint, topology: Mesh, fixed: bool) -> None:
        assert self.folder is not None
        with _said_of(self.folder / NAME):
            point.check_mesh(topology, fixed)

    def restore(self, engine: Engine, point: Checkpoint) -> None:
        """Send the state of a checkpoint to the engine of its round. Raises InputError."""
        if self.folder is not None:
            with _said_of(self.folder / NAME):
                point.check_state(engine.state())
        engine.restore(point.state)

    def save(self, point: Checkpoint) -> None:
        """Write a checkpoint. If that fails the previous one stays; the first failure warns."""
        if self.folder is None:
            return
        try:
            if not self.kept:
                set_aside(self.folder)
            point.save(self.folder)
            if self._start is not None:
                self._start.save(self.folder, START)
                self._start = None
            self.kept, self.unsaved = True, None
        except (OSError, InputError) as error:
            self.unsaved = getattr(error, "strerror", None) or str(error)
            if not self._warned:
                kept = "the checkpoint before it is kept" if self.kept else "there is none yet"
                text = f"the checkpoint could not be written ({self.unsaved}); {kept}, the fit goes on"
                warnings.warn(f"{text} and tries again", stacklevel=2)
            self._warned = True

    def forget(self) -> None:
        """Remove the checkpoint of this fit; it can no longer be resumed."""
        if self.folder is not None and self.kept:
            Checkpoint.remove(self.folder)
            self.kept = False


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """Turns Damaged into the error that names the file."""
    try:
        yield
    except Damaged as error:
        raise damaged(path, str(error)) from None
