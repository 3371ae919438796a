"""The whole fit: rounds of the shape, then the texture, with checkpoints and a way to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from ..forms.soft_target import check_reach, marked
from .data.dataset import FitResult, Progress
from .disk import Checkpoint, locked
from .disk.checkpoint import MOST_BYTES
from .parts import Parts
from .run.rounds import FitRounds
from .run.running import FitRun, Watch


class FitJob(FitRounds):
    """Fits a mesh to a dataset; ``run`` once.

    init: a mesh with UVs, in units of the world, to start from; its topology and details are kept. Without it the fit starts
    from what ``options.start`` says, which is refined from round to round.  folder: for checkpoints, None for none.
    measure: called with the name of each round that ends and its engine, which is not read any more.  recovery: of a
    material, after the texture. Raises InputError.
    """

    @property
    def resumable(self) -> bool:
        """Whether this fit has left a checkpoint."""
        return self.keeper.kept

    def forget(self) -> None:
        """Remove the checkpoint of this fit; it can no longer be resumed."""
        self.keeper.forget()

    # ---- running
    def run(
        self,
        *,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        preview: Path | None = None,
    ) -> FitResult:
        """Optimise until done or until ``stop()``, polled every ``CHUNK`` steps, is true; a stopped fit saves a checkpoint.

        preview: a PNG file that shows the training views as they become, see ``Watch``.

        Checkpoints are also saved every ``SAVE_SECONDS`` and before the last steps; ``forget`` removes them. The folder is
        locked while this runs. A checkpoint that cannot be written does not end the fit, see ``FitResult.unsaved``.

        Raises InputError if there is nothing to resume, the checkpoint is damaged, another fit runs in the folder, or the
        start mesh is out of reach of its target in every view; warns if it is in some.
        """
        with locked(self.folder) if self.folder is not None else nullcontext():
            running = self.started(resume=resume, progress=progress, stop=stop, preview=preview)
            for _ in running:
                pass
            return running.result()

    def started(
        self,
        *,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        preview: Path | None = None,
    ) -> FitRun:
        """The same as ``run``, as an iterator of its moments, for a program with a loop of its own. That program holds the
        lock of the folder. Raises InputError as ``run``."""
        self._check_reach()
        point = self._checkpoint() if resume else Checkpoint(self.key)
        return FitRun(self, point, Watch(point, self.steps, progress, preview), stop)

    def _checkpoint(self) -> Checkpoint:
        """The checkpoint to resume from. Raises InputError."""
        # Room for parameters, their moments and the mesh, a few times.
        most = MOST_BYTES + 1000 * len(self.topology(len(self.rounds)).faces)
        views = None if self.cameras is None else len(self.cameras)
        point = self.keeper.load(self.key, self.steps, views, most + self._texels * self.options.texels**2)
        self.keeper.check_mesh(point, self.topology(point.round), self.keeps_faces)
        return point

    @property
    def _texels(self) -> int:
        """Bytes of a checkpoint for each texel: the texture, maps, and their moments."""
        return 100 if self.recovery is None else 600

    def _check_reach(self) -> None:
        matrices, masks = self.learned[:2]
        radius = self.shape_radius(0)
        note = check_reach(marked(matrices, self.start.positions, masks.shape[1:]), masks, radius)
        if note is not None:
            warnings.warn(note, stacklevel=4)
        note = Parts.of(self.dataset).note(self.start.component_count())
        if note is not None:
            warnings.warn(note, stacklevel=4)
