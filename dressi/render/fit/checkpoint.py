"""What a fit has reached, on disk: enough to go on as if it had never stopped."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..io import write_files
from ..mesh import Mesh

NAME = "checkpoint.npz"
_STATE, _MESH = "state/", "mesh/"
_ARRAYS = ("positions", "faces", "uvs", "uv_faces")
"""Of a mesh; its name and colour are the start's."""


@dataclass
class Checkpoint:
    """round: number of the round under way, the last being that of the texture.  step: steps done in it.
    state: of the engine in that round.  mesh: that the round started from, with its UVs.
    views: (N, 4, 4) world to camera, in units of the scene, that the round started from, where poses are learned.
    losses: of all steps so far, with the number of their round.  seconds: spent.  key: of the task, see ``task_key``.
    """

    key: str
    round: int = 0
    step: int = 0
    state: dict[str, np.ndarray] = field(default_factory=dict)
    mesh: Mesh | None = None
    losses: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    views: np.ndarray | None = None

    def save(self, folder: Path) -> None:
        """Replace the folder's checkpoint, whole or not at all. Raises InputError when it cannot be written."""
        facts = {"key": self.key, "round": self.round, "step": self.step, "seconds": self.seconds}
        arrays: dict[str, Any] = {_STATE + name: array for name, array in self.state.items()}
        if self.mesh is not None:
            arrays |= {_MESH + name: getattr(self.mesh, name) for name in _ARRAYS}
        if self.views is not None:
            arrays["views"] = self.views
        stream = io.BytesIO()
        np.savez(
            stream,
            facts=np.array(json.dumps(facts)),
            losses=np.array(self.losses, np.float64).reshape(-1, 2),
            **arrays,
        )
        write_files({folder / NAME: stream.getvalue()})

    @classmethod
    def load(cls, folder: Path, key: str) -> Checkpoint:
        """The folder's checkpoint. Raises InputError when there is none, or it belongs to another task."""
        path = folder / NAME
        if not path.is_file():
            raise InputError(f"there is nothing to resume in '{folder}' (no {NAME}); run without --resume")
        try:
            with np.load(path, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                state = {n.removeprefix(_STATE): file[n] for n in file.files if n.startswith(_STATE)}
                mesh = None
                if any(n.startswith(_MESH) for n in file.files):
                    mesh = Mesh(**{name: file[_MESH + name] for name in _ARRAYS}).validate()
                views = file["views"] if "views" in file.files else None
                losses = [(int(r), float(loss)) for r, loss in file["losses"]]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, InputError):
            raise InputError(f"'{path}' is damaged; remove it and run without --resume") from None
        if facts["key"] != key:
            raise InputError(
                f"'{path}' belongs to another target or other options; give those again, or run without --resume"
            )
        return cls(key, facts["round"], facts["step"], state, mesh, losses, facts["seconds"], views)

    @staticmethod
    def remove(folder: Path) -> None:
        """Nothing is left to resume."""
        (folder / NAME).unlink(missing_ok=True)


def task_key(options: dict[str, Any], *arrays: np.ndarray) -> str:
    """Hash of everything that decides what a fit computes."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
