"""A running fit: an iterator of its moments, with checkpoints on disk and in memory."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ....errors import InputError
from ...engine import Engine
from ...io import save_png
from ...mesh import Mesh
from ..data.dataset import FitResult, Progress, Quality
from ..disk import Checkpoint
from ..graphs.round import CHUNK, Found, Round
from ..graphs.term import with_views
from .rounds import FitRounds

SAVE_SECONDS = 10.0
"""Seconds between two checkpoints."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The steps that a fit has just done: its round, the engine that holds the round's values, and the steps
    of that round so far."""

    work: Round
    engine: Engine
    step: int
    loss: float


class FitRun:
    """The rounds of a job from a checkpoint on. Iterate over it to the end, then ask for ``result``.

    Between two moments the values of a moment's engine may be read, and outputs of the caller's added to it.
    The engine is closed when its round ends. A stopped run saves a checkpoint.

    most: steps of a moment at most, whole chunks unless set. kept: checkpoints in memory, for ``rewind``, the
    oldest first; ``keeping`` says how many.
    """

    def __init__(self, job: FitRounds, point: Checkpoint, watch: Watch, stop: Callable[[], bool]):
        self.job, self.point, self._watch, self._stop = job, point, watch, stop
        self.most, self.keeping = CHUNK, 0
        self.kept: list[Checkpoint] = []
        self.found = Found(job.topology(point.round), job.cameras)
        """What the present round began with or, where it has ended, what it has found."""
        self.finished = True
        self._target: Checkpoint | None = None
        self._began, self._earlier = time.perf_counter(), point.seconds

    def rewind(self, point: Checkpoint) -> None:
        """Go on from one of the kept checkpoints instead of the present state; later ones are forgotten."""
        self.kept = [other for other in self.kept if len(other.losses) <= len(point.losses)]
        self._target = _copied(point)

    def result(self) -> FitResult:
        """What was found; after the last moment."""
        job, point = self.job, self.point
        return FitResult(
            losses=[(job.names[number], loss) for number, loss in point.losses],
            plans=job.plans,
            timing=job.timing,
            finished=self.finished,
            texts=job.texts,
            earlier_s=self._earlier,
            quality=qualities(point, job.names),
            steered=[] if job.controls is None else job.controls.changes,
            unsaved=job.keeper.unsaved,
            **job.outcome(point.round, self.found),
        )

    def reached(self, moment: Moment) -> Mesh:
        """The mesh of a moment, in the world."""
        found = moment.work.found(moment.engine).over(self.found)
        return self.job.outcome(self.point.round, found)["mesh"]

    def __iter__(self) -> Iterator[Moment]:
        yield from self._rounds()
        while self._target is not None:
            self.point, self._target = self._target, None
            self._watch.point, self.finished = self.point, True
            yield from self._rounds()

    def _rounds(self) -> Iterator[Moment]:
        job, point = self.job, self.point
        begin = Found(job.topology(point.round), job.cameras)
        if point.mesh is not None:
            mesh = replace(point.mesh, color=begin.mesh.color, name=begin.mesh.name)
            cameras = begin.cameras
            if cameras is not None and point.views is not None:
                cameras = with_views(cameras, point.views)
            begin = Found(mesh, cameras, point.maps)
        while point.round < len(job.steps) and self.finished:
            self.found, work = begin, job.round(point.round, begin)
            point.mesh, point.maps = begin.mesh, dict(begin.values)
            point.views = None if begin.cameras is None else begin.cameras.views
            yield from self._round(work, begin)
            if self._target is not None:
                return
            if self.finished:
                self._watch.between(work, "mending the surface")
                found = job.after(point.round, replace(begin, mesh=point.mesh), self.found, self._stop)
                self.finished = found is not None
                begin = self.found = found or self.found
            if self.finished:
                point.round, point.step, point.state = point.round + 1, 0, {}

    def _round(self, work: Round, begin: Found) -> Iterator[Moment]:
        """The steps of a round. Then ``found`` is what it found and ``finished`` says whether it was not
        stopped."""
        job, point, started = self.job, self.point, time.perf_counter()
        before = len(point.losses)
        engine = job.engine(work)
        try:
            if point.state:
                job.keeper.restore(engine, point)
            saved, first, safe = started, True, False
            while point.step < work.steps and self._target is None and not self._stop():
                work.before(engine, point.step)
                point.mesh = work.mesh
                last = point.round == len(job.steps) - 1
                if last and not safe and point.step + CHUNK >= work.steps:
                    # If the process is killed while it writes results, or the disk is full, only the steps
                    # after this are lost.
                    self._save(engine)
                    safe = True
                # The first step runs alone, to measure the time of the build.
                count = 1 if first and point.step == 0 else CHUNK - point.step % CHUNK
                end = min(point.step + count, work.steps)
                while point.step < end:
                    count, start = min(self.most, end - point.step), time.perf_counter()
                    engine.step(count)
                    losses = engine.losses()
                    now = time.perf_counter()
                    if first:
                        if job.timing.first_build_ms is None:
                            job.timing.first_build_ms = 1e3 * (now - started)
                        job.note(work.name, engine.plan)
                    else:
                        job.timing.steps += count
                        job.timing.seconds += now - start
                    first = False
                    point.step += count
                    point.losses[before:] = [(point.round, loss) for loss in losses]
                    if point.step == end:
                        self._watch.stepped(work, engine, losses[-1])
                        if now - saved > SAVE_SECONDS:
                            self._save(engine)
                            saved = now
                    yield Moment(work, engine, point.step, losses[-1])
            if self._target is not None:
                return
            self.finished = point.step >= work.steps
            if not self.finished or job.adjusts(point.round):
                self._save(engine)
            self.found = work.found(engine).over(begin)
            # After a step alone: a round that was saved at its end and goes on was not sent what a step
            # reads.
            if job.measure is not None and self.finished and not first:
                job.measure(f"{work.name} {point.round + 1}", engine)
        finally:
            engine.close()

    def _save(self, engine: Engine) -> None:
        point = self.point
        if self.job.folder is None and not self.keeping:
            return
        point.state = engine.state()
        point.seconds = self._earlier + time.perf_counter() - self._began
        self.job.keeper.save(point)
        if self.keeping:
            self.kept = [*self.kept, _copied(point)][-self.keeping :]


def _copied(point: Checkpoint) -> Checkpoint:
    return replace(point, state=dict(point.state), losses=list(point.losses), quality=list(point.quality))


# What a running fit shows of itself: IoU and PSNR of the training views, and a picture that is written as it
# goes.

EVERY = 50
"""Steps between two looks; the first and the last step of a round are looked at, too."""


class Watch:
    """Looks at the rounds of a fit, which have so many ``steps``, and tells ``progress``. The numbers are
    kept in the checkpoint, so that the curves of a resumed fit go on.

    preview: a PNG file that each look replaces: targets, the fit, and the difference. A file that cannot be
    written is left out with a warning. Without progress and preview nothing is looked at.
    """

    def __init__(
        self,
        point: Checkpoint,
        steps: list[int],
        progress: Callable[[Progress], None] | None,
        preview: Path | None,
    ):
        self.point, self.rounds, self.total = point, len(steps), sum(steps)
        self.progress, self.preview = progress, preview

    def stepped(self, work: Round, engine: Engine, loss: float) -> None:
        """Called after some steps of a round, whose last loss is given."""
        if self.progress is None and self.preview is None:
            return
        point, done = self.point, len(self.point.losses)
        if point.step == 1 or point.step >= work.steps or done - self._looked >= EVERY:
            look = work.look(engine)
            # Colours start anew in every round, so its first step says nothing of them.
            psnr = None if point.step == 1 else look.psnr
            point.quality.append((done, look.iou, np.nan if psnr is None else psnr))
            if self.preview is not None:
                self._write(look.sheet())
        self._tell(work, loss, work.doing or work.name)

    def between(self, work: Round, doing: str) -> None:
        """Called when something is done after the steps of a round."""
        self._tell(work, self.point.losses[-1][1], doing)

    def _tell(self, work: Round, loss: float, doing: str) -> None:
        if self.progress is None:
            return
        point = self.point
        last = point.quality[-1] if point.quality else None
        found = (None, None) if last is None else (last[1], None if np.isnan(last[2]) else last[2])
        doing = f"{point.round + 1}/{self.rounds} {doing}"
        self.progress(Progress(work.name, len(point.losses), self.total, loss, *found, doing))

    @property
    def _looked(self) -> int:
        """The step of the last look, in an earlier run too: a resumed fit looks where one that was not
        stopped does."""
        return self.point.quality[-1][0] if self.point.quality else -EVERY

    def _write(self, sheet: np.ndarray) -> None:
        assert self.preview is not None
        try:
            save_png(self.preview, sheet)
        except (OSError, InputError) as error:
            warnings.warn(f"the preview is left out: {error}", stacklevel=2)
            self.preview = None


def qualities(point: Checkpoint, names: list[str]) -> list[Quality]:
    """The looks of a fit so far. names: of the phase of each round."""
    return [
        Quality(done, names[point.losses[done - 1][0]], iou, None if np.isnan(psnr) else psnr)
        for done, iou, psnr in point.quality
    ]
