"""The whole fit: rounds of the shape, then the texture, with checkpoints and a way to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import label

from ..forms.soft_target import check_reach, marked
from .data.dataset import Dataset, FitResult, Progress
from .disk import Checkpoint, locked
from .disk.checkpoint import MOST_BYTES
from .run.rounds import FitRounds
from .run.running import FitRun, Watch


class FitJob(FitRounds):
    """Fits a mesh to a dataset; ``run`` once.

    init: a mesh with UVs, in units of the world, to start from; its topology and details are kept. Without it
    the fit starts from what ``options.start`` says, which is refined from round to round.  folder: for
    checkpoints, None for none. measure: called with the name of each round that ends and its engine, which is
    not read any more.  recovery: of a material, after the texture. Raises InputError.
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
        """Optimise until done or until ``stop()``, polled every ``CHUNK`` steps, is true; a stopped fit saves
        a checkpoint.

        preview: a PNG file that shows the training views as they become, see ``Watch``.

        Checkpoints are also saved every ``SAVE_SECONDS`` and before the last steps; ``forget`` removes them.
        The folder is locked while this runs. A checkpoint that cannot be written does not end the fit, see
        ``FitResult.unsaved``.

        Raises InputError if there is nothing to resume, the checkpoint is damaged, another fit runs in the
        folder, or the start mesh is out of reach of its target in every view; warns if it is in some.
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
        """The same as ``run``, as an iterator of its moments, for a program with a loop of its own. That
        program holds the lock of the folder. Raises InputError as ``run``."""
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


# Targets of several objects, which a fit that starts from one sphere cannot reach.

LEAST = 0.01
"""Least area of a region, as a share of its mask; smaller regions are probably errors of the mask."""


@dataclass(frozen=True)
class Parts:
    """components: connected components of the target mesh; None for photographs.
    views, apart: the number of training views, and of those whose mask has several regions.
    """

    components: int | None
    views: int
    apart: int

    @classmethod
    def of(cls, dataset: Dataset) -> Parts:
        train = dataset.train
        known = train.known
        apart = sum(
            regions(mask, None if known is None else known[i]) > 1 for i, mask in enumerate(train.masks)
        )
        count = None if dataset.reference is None else dataset.reference.component_count()
        return cls(count, len(train.masks), apart)

    def note(self, start: int = 1) -> str | None:
        """A sentence that says what a mesh with this many connected components cannot reach, with the cure;
        None if nothing."""
        cure = "fit each object by itself, or give --init a mesh of as many parts, such as a sphere about where each is"
        here = f"apart in {self.apart} of {self.views} views"
        surface = "one closed surface" if start == 1 else f"a surface of {start} parts"
        if self.components is not None:
            if self.components <= start:
                return None
            what = f"the target has {self.components} connected components"
            if self.apart == 0:
                return f"{what} that touch or hide each other in all views: the fit makes {surface} around all of them"
            return f"{what}, {here}: the fit makes {surface}, which leaves out some of them or joins them by bridges; {cure}"
        # A single mask among several may be wrong.
        if self.apart < min(2, self.views) or start > 1:
            return None
        return (
            f"the masks show several objects, {here}: the fit makes {surface}, which leaves out some of them or joins"
            f" them by bridges; remove what is not the object from the masks, {cure}"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def regions(mask: np.ndarray, known: np.ndarray | None = None) -> int:
    """How many regions of a mask (H, W), connected by sides or corners, are large enough to count.

    Regions that touch the border of the picture, or pixels that are not ``known`` (H, W), count as one: they
    may be connected there.
    """
    mask = np.asarray(mask) >= 0.5
    number = np.zeros(mask.shape, dtype=np.int32)
    label(mask, np.ones((3, 3)), output=number)
    areas = np.bincount(number.reshape(-1))
    large = areas >= max(LEAST * mask.sum(), 1)
    large[0] = False
    told = np.ones(mask.shape, dtype=bool) if known is None else np.asarray(known) > 0
    edge = ~np.pad(told, 1)
    beside = edge[:-2, 1:-1] | edge[2:, 1:-1] | edge[1:-1, :-2] | edge[1:-1, 2:]
    cut = large.copy()
    cut[:] = False
    cut[np.unique(number[beside & mask])] = True
    return int((large & ~cut).sum()) + int((large & cut).any())
