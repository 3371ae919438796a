"""A running fit: an iterator of its moments, with checkpoints on disk and in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...engine import Engine
from ..disk import Checkpoint
from ..phases.moving import with_views
from ..phases.shape import ShapeRound
from ..phases.texture import TextureRound
from ..result import FitResult
from ..rounds import FitRounds, in_world
from .watch import Watch, qualities

CHUNK = 10
"""Steps between two polls of ``stop`` and ``progress``. Radii change at multiples of it, so that a resumed fit computes the
same numbers as one that was not stopped."""
SAVE_SECONDS = 10.0
"""Seconds between two checkpoints."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The steps that a fit has just done: its round, the engine that holds the round's values, and the steps of that round
    so far."""

    work: ShapeRound | TextureRound
    engine: Engine
    step: int
    loss: float


class FitRun:
    """The rounds of a job from a checkpoint on. Iterate over it to the end, then ask for ``result``.

    Between two moments the values of a moment's engine may be read, and outputs of the caller's added to it. The engine is
    closed when its round ends. A stopped run saves a checkpoint.

    most: steps of a moment at most, whole chunks unless set. kept: checkpoints in memory, for ``rewind``, the oldest first;
    ``keeping`` says how many.
    """

    def __init__(self, job: FitRounds, point: Checkpoint, watch: Watch, stop: Callable[[], bool]):
        self.job, self.point, self._watch, self._stop = job, point, watch, stop
        self.most, self.keeping = CHUNK, 0
        self.kept: list[Checkpoint] = []
        self.mesh = job.topology(point.round)
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
        names = [*("shape" for _ in job.rounds), "texture"]
        mesh, cameras = in_world(job.dataset, self.mesh, job.cameras)
        return FitResult(
            mesh,
            [(names[number], loss) for number, loss in point.losses],
            job.plans,
            job.timing,
            self.finished,
            job.texts,
            cameras,
            self._earlier,
            qualities(point, names),
            steered=[] if job.controls is None else job.controls.changes,
            unsaved=job.keeper.unsaved,
        )

    def __iter__(self) -> Iterator[Moment]:
        yield from self._rounds()
        while self._target is not None:
            self.point, self._target = self._target, None
            self._watch.point, self.finished = self.point, True
            yield from self._rounds()

    def _rounds(self) -> Iterator[Moment]:
        job, point = self.job, self.point
        mesh = job.topology(point.round)
        if point.mesh is not None:
            mesh = replace(point.mesh, color=mesh.color, name=mesh.name)
        if point.views is not None and job.cameras is not None:
            job.cameras = with_views(job.cameras, point.views)
        while point.round <= len(job.rounds) and self.finished:
            textured = point.round == len(job.rounds)
            work = job.texture_round(mesh) if textured else job.shape_round(point.round, mesh)
            point.mesh = mesh
            point.views = None if job.cameras is None else job.cameras.views
            yield from self._round(work)
            if self._target is not None:
                return
            mesh = self.mesh
            if self.finished:
                mesh = job.mended(mesh, point.round, point.mesh or mesh)
                if job.adjusts(point.round):
                    mesh, self.finished = job.adjusted(mesh, self._stop)
            if self.finished:
                mesh = job.refined(mesh, point.round + 1)
                point.round, point.step, point.state = point.round + 1, 0, {}
            self.mesh = mesh

    def _round(self, work: ShapeRound | TextureRound) -> Iterator[Moment]:
        """The steps of a round. Then ``mesh`` is what it found and ``finished`` says whether it was not stopped."""
        job, point, begin = self.job, self.point, time.perf_counter()
        before = len(point.losses)
        engine = job.engine(work)
        try:
            if point.state:
                job.keeper.restore(engine, point)
            saved, first, safe = begin, True, False
            while point.step < work.steps and self._target is None and not self._stop():
                work.before(engine, point.step)
                point.mesh = work.mesh
                if isinstance(work, TextureRound) and not safe and point.step + CHUNK >= work.steps:
                    # If the process is killed while it writes results, or the disk is full, only the steps after this are lost.
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
                            job.timing.first_build_ms = 1e3 * (now - begin)
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
            if isinstance(work, ShapeRound) and work.moving is not None:
                job.cameras = work.moving.found(engine)
            state = engine.state()
            self.mesh = (
                work.result(state)
                if isinstance(work, ShapeRound)
                else work.result(state, engine.recv("texture"))
            )
            if job.measure is not None and self.finished:
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
