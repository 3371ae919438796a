"""The checkpoint of a recovery in stages: a resumed one computes the same numbers as one that was not stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import InputError
from ...engine import Engine
from ...mesh import Mesh
from ...shading.lights import LightSource
from ..disk import Keeper, task_key
from ..disk.archive import Damaged
from ..disk.checkpoint import MOST_BYTES, Checkpoint, damaged
from .light import LIGHT, with_light
from .maps import with_maps

CHUNK = 10
"""Steps between two polls of ``stop`` and ``progress``."""
SAVE_SECONDS = 10.0
"""Seconds between two checkpoints."""
EXPOSURES = "exposures"


class StageKeeper:
    """Keeps the present stage of a recovery: what it began with, and the state of its engine.

    keeper: of the file.  task: what determines the result, beside the mesh and the light.  mesh, light: what the first stage
    begins with.  resume: whether to go on from a checkpoint of the same task, where there is one; that of another is set
    aside.  steps: of each stage.  texels: along each side of the maps.  views: arrays of the pictures.

    ``mesh``, ``light`` and ``exposures`` are what the present stage, ``point.round``, begins with. Raises InputError where
    the checkpoint is damaged.
    """

    def __init__(
        self,
        keeper: Keeper,
        task: dict[str, Any],
        mesh: Mesh,
        light: LightSource,
        resume: bool,
        steps: Sequence[int],
        texels: int,
        views: Sequence[np.ndarray],
    ):
        self.keeper, self.steps, self.texels = keeper, list(steps), texels
        self.mesh, self.light = mesh, light
        self.exposures: np.ndarray | None = None
        self.point = Checkpoint("", mesh=mesh)
        if keeper.folder is not None:
            arrays = [*views, mesh.positions, mesh.faces, *([] if mesh.texture is None else [mesh.texture])]
            arrays += [np.asarray(getattr(light, name), np.float64) for name in light.parameters]
            self.point.key = task_key({**task, "light": type(light).__name__}, *arrays)
        if resume:
            self._load()
        self._begin = self._saved = time.perf_counter()
        self._earlier, self._before = self.point.seconds, 0

    def _load(self) -> None:
        folder, name = self.keeper.folder, self.keeper.name
        if folder is None or not (folder / name).is_file():
            return
        # Parameters and their moments, and the maps that the stage began with.
        most = MOST_BYTES + 1000 * len(self.mesh.faces) + 500 * self.texels**2
        point = Checkpoint.read(folder / name, most)
        if point.key != self.point.key:
            return
        try:
            point.check_progress(self.steps, None)
            if point.mesh is None or not np.array_equal(point.mesh.faces, self.mesh.faces):
                raise Damaged("has a mesh of other faces")
            self._take(point.mesh, point.maps)
        except (InputError, KeyError, ValueError) as error:
            what = str(error) if isinstance(error, Damaged) else "holds other maps than those of this task"
            raise damaged(folder / name, what) from None
        self.point, self.keeper.kept = point, True

    def _take(self, mesh: Mesh, found: dict[str, np.ndarray]) -> None:
        self.mesh = with_maps(self.mesh, found, (self.texels, self.texels)).moved(mesh.positions)
        if self.mesh.material is not None:
            self.mesh.material.validate()
        self.light = with_light(self.light, {name: x for name, x in found.items() if name.startswith(LIGHT)})
        self.exposures = found.get(EXPOSURES)

    def begin(self, number: int, mesh: Mesh, found: dict[str, np.ndarray]) -> None:
        """The next stage, and what the one before found for it: its mesh, and the values of maps, light and exposures."""
        self._take(mesh, found)
        point = self.point
        point.round, point.step, point.state = number, 0, {}
        point.mesh, point.maps = Mesh(mesh.positions, mesh.faces), found

    def restore(self, engine: Engine) -> int:
        """Send what the checkpoint has of the stage to its engine. The number of steps that it has done."""
        self._before = len(self.point.losses)
        if self.point.state:
            self.keeper.restore(engine, self.point)
        return self.point.step

    def stepped(self, engine: Engine, done: int) -> None:
        """After ``done`` steps of the stage: save where it is time, and before its last steps."""
        point = self.point
        point.step = done
        point.losses[self._before :] = [(point.round, loss) for loss in engine.losses()]
        left, late = self.steps[point.round] - done, time.perf_counter() - self._saved > SAVE_SECONDS
        if left > 0 and (late or left <= CHUNK):
            self.save(engine)

    def save(self, engine: Engine) -> None:
        """Write the checkpoint, as far as a file can be written."""
        self.point.state = engine.state()
        self.point.seconds = self._earlier + time.perf_counter() - self._begin
        self.keeper.save(self.point)
        self._saved = time.perf_counter()
