"""The state of a fit on disk: a resumed fit computes the same numbers as one that was never stopped."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ...mesh import Mesh
from .archive import Damaged, read_arrays, write_arrays
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
    """round: number of the current round; the last one is the texture round.  step: steps done in it.
    state: of the engine in that round.  mesh: the mesh at the start of the round, with its UVs.
    views: (N, 4, 4) world to camera, in units of the scene, at the start of the round, if poses are learned.
    losses: of all steps so far, with the number of their round.  quality: number of steps, IoU, and PSNR (NaN: none) at
    each look.  seconds: time spent.  key: of the task, see ``task_key``.
    maps: other arrays that the round began with, such as those of the material.
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
        """Replace the folder's checkpoint, or another file of this kind, atomically. Raises InputError if it cannot be written."""
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
        """The folder's checkpoint, of at most ``most_bytes``. Raises InputError if there is none, it belongs to
        another task, or is no checkpoint. ``check_progress`` checks it against the rounds of the task."""
        path = folder / NAME
        if not path.is_file():
            raise InputError(f"there is nothing to resume in '{folder}' (no {NAME}); run without --resume")
        point = cls.read(path, most_bytes)
        if point.key != key:
            raise InputError(
                f"'{path}' belongs to another target or other options; give those again, or run without --resume"
            )
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
        """Raise Damaged unless the mesh fits its round. topology: the start mesh, subdivided as in that round.

        fixed: whether the topology cannot change because the start mesh was given. Otherwise the mesh must have no empty
        faces or unused vertices.
        """
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
        if set(self.state) != set(expected):
            raise Damaged(
                f"has a state of other parts: {', '.join(sorted(set(self.state) ^ set(expected)))[:200]}"
            )
        for name, array in self.state.items():
            other = expected[name]
            if array.shape != other.shape or array.dtype != other.dtype:
                raise Damaged(
                    f"has '{name}' as {array.dtype}{array.shape} instead of {other.dtype}{other.shape}"
                )
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
        value = facts[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Damaged(f"has no usable '{name}'")
    try:
        seconds = float(facts["seconds"])
    except OverflowError:
        seconds = math.inf
    if not 0 <= seconds < 1e12:
        raise Damaged("has no usable 'seconds'")
    return {**facts, "seconds": seconds}


def _losses(array: np.ndarray | None) -> list[tuple[int, float]]:
    if array is None or array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != 2:
        raise Damaged("has no losses")
    numbers = array[:, 0]
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 1e6)).all():
        raise Damaged("has losses of no round")
    return [(int(number), float(loss)) for number, loss in array]


def _quality(array: np.ndarray | None, steps: int) -> list[tuple[int, float, float]]:
    if array is None or array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != 3:
        raise Damaged("does not say how good it was")
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
    state = {name.removeprefix(prefix): arrays.pop(name) for name in names}
    for name, array in state.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            raise Damaged(f"has values in '{name[:40]}' that are not finite numbers")
    return state


def _mesh(arrays: dict[str, np.ndarray]) -> Mesh | None:
    if not arrays:
        return None
    given = {_MESH + name for name in _ARRAYS}
    if set(arrays) not in (given, {name for name in given if "uv" not in name}):
        raise Damaged(f"holds other things: {', '.join(sorted(arrays))[:200]}")
    parts = {}
    for name, array in ((name.removeprefix(_MESH), array) for name, array in arrays.items()):
        columns, dtype = _ARRAYS[name]
        parts[name] = array
        if array.ndim != 2 or array.shape[1] != columns or array.dtype != dtype:
            raise Damaged(f"has a mesh without usable {name}")
    try:
        return Mesh(**parts).validate()
    except InputError as error:
        raise Damaged(f"has no usable mesh ({error})") from None
