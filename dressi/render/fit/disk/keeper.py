"""Writes the checkpoint of a running fit, tolerates a full disk, and never overwrites the checkpoint of another fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ....errors import InputError
from ...engine import Engine
from ...mesh import Mesh
from .archive import Damaged
from .checkpoint import MOST_BYTES, NAME, START, Checkpoint, damaged, set_aside

Started = tuple[Mesh, bool]
"""A mesh to start from, in units of the scene, and whether it fits already."""


class Keeper:
    """The checkpoint in a folder; without a folder nothing is kept.

    A checkpoint that was neither written nor read by this object belongs to another fit and is renamed before writing.
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
        """What a fit starts from: as a fit of this key that was stopped has left it in the folder, or made now."""
        if self.folder is not None and (self.folder / START).is_file():
            try:
                point = Checkpoint.read(self.folder / START, MOST_BYTES)
                if point.key == key and point.mesh is not None:
                    return point.mesh, bool(point.maps["fits"].any())
            except (InputError, LookupError):
                pass  # it is made anew
        found = make()
        if found is not None:
            self._start = Checkpoint(key, mesh=found[0], maps={"fits": np.array([found[1]], np.int64)})
        return found

    def load(self, key: str, steps: Sequence[int], views: int | None, most_bytes: int) -> Checkpoint:
        """The checkpoint to resume from. steps: of each round.  views: number of learned poses, or None. Raises InputError."""
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
                warnings.warn(
                    f"the checkpoint could not be written ({self.unsaved}); {kept}, the fit goes on and tries again",
                    stacklevel=2,
                )
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
