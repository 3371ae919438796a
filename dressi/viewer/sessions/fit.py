"""A running fit in the viewer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ...render.fit import FitJob, FitResult, Progress
from ...render.fit.graphs.controls import RANGES, Controls
from ...render.fit.graphs.round import CHUNK
from ...render.fit.run.running import FitRun, Moment
from ...render.formats import save_mesh
from ...render.mesh import Mesh
from ...render.surface.color import linear_to_srgb
from ...vk.run.engine import DressiAD
from .session import Scene, Slider, Status, Views, stamped

KEPT = 12
"""Checkpoints in memory."""


class FitSession:
    """Drives a FitJob: pause, single steps, factors of rates and weights, rewind, save.

    The arguments are those of ``FitJob.started``; folder: for what is saved, None for none. The caller holds the lock of
    the job's folder. ``result`` is that of the fit, stopped or finished. Raises InputError as ``FitJob.run``.
    """

    def __init__(
        self,
        job: FitJob,
        *,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        preview: Path | None = None,
        folder: Path | None = None,
    ):
        self.job, self._folder, self._told, self._asked = job, folder, progress, stop
        self.controls = job.controls = Controls()
        self._stopped = False
        self.run: FitRun = job.started(
            resume=resume,
            progress=self._progress,
            stop=lambda: self._stopped or self._asked(),
            preview=preview,
        )
        self.run.keeping, self.run.most = KEPT, 1
        self._moments: Iterator[Moment] = iter(self.run)
        self._scene: Scene | None = None
        self._moment: Moment | None = None
        self.status = Status("dressi fit", total=sum(job.steps))
        self.views = _views(job)
        self.up = job.dataset.up

    @property
    def scene(self) -> Scene | None:
        return self._scene

    @property
    def sliders(self) -> Sequence[Slider]:
        return [
            Slider(
                name,
                *RANGES[name],
                partial(self.controls.values.__getitem__, name),
                partial(self._steer, name),
            )
            for name in RANGES
        ]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"rewind": self._rewind} | ({} if self._folder is None else {"save": self._save})

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        begin = time.perf_counter()
        end, count = begin + seconds, 0
        while not self.status.finished:
            self.run.most = self._most(end - time.perf_counter()) if steps is None else 1
            count += self._next()
            if (count >= steps) if steps is not None else time.perf_counter() >= end:
                break
        if count and not self.status.finished:
            self.status.step_ms = 1e3 * (time.perf_counter() - begin) / count

    def stop(self) -> None:
        self._stopped = True
        while not self.status.finished:
            self._next()

    def result(self) -> FitResult:
        """What the fit has found, after it was finished or stopped."""
        return self.run.result()

    # ---- steps
    def _most(self, seconds: float) -> int:
        """How many steps fit into a time."""
        step = self.status.step_ms
        return 1 if step is None else int(np.clip(1e3 * seconds / step, 1, CHUNK))

    def _next(self) -> int:
        """Go on to the next moment; the number of steps that it took."""
        before = self._moment
        moment = next(self._moments, None)
        if moment is None:
            self.status.finished, self._scene, self._moment = True, None, None
            return 0
        self._moment = moment
        if before is None or before.engine is not moment.engine:
            assert isinstance(moment.engine, DressiAD)
            self._scene = Scene(moment.engine, moment.work.subject)
            self.status.step_ms = None
        status, done = self.status, len(self.run.point.losses)
        steps, status.phase, status.done = max(done - status.done, 1), moment.work.name, done
        status.curves.setdefault("loss", []).append((done, moment.loss))
        return steps

    def _progress(self, now: Progress) -> None:
        for name, value in (("IoU", now.iou), ("PSNR", now.psnr)):
            if value is not None:
                self.status.curves.setdefault(name, []).append((now.done, value))
        if self._told is not None:
            self._told(now)

    # ---- requests
    def _steer(self, name: str, value: float) -> None:
        self.controls.set(name, value, step=self.status.done)
        if self._moment is not None:
            self.controls.send(self._moment.engine, self._moment.work.factors)

    def _rewind(self) -> None:
        """To the last checkpoint before now; again, to the one before."""
        earlier = [point for point in self.run.kept if len(point.losses) < self.status.done]
        if not earlier:
            self.status.note = "there is no earlier checkpoint yet"
            return
        point = earlier[-1]
        done = len(point.losses)
        self.run.rewind(point)
        status = self.status
        status.curves = {name: [p for p in curve if p[0] <= done] for name, curve in status.curves.items()}
        status.done, status.note = done, f"rewound to step {done}"
        # The engine of the round that was left closes before the next picture.
        self._next()

    def mesh(self) -> Mesh | None:
        """The mesh as it is now, in the world; None before the first step."""
        moment = self._moment
        if moment is None:
            return None
        return self.run.reached(moment)

    def _save(self) -> None:
        mesh = self.mesh()
        if mesh is None or self._folder is None:
            self.status.note = "there is nothing to save yet"
            return
        path = stamped(self._folder, self.status.done, ".glb")
        save_mesh(path, mesh)
        self.status.note = f"saved {path.name}"


def _views(job: FitJob) -> Views:
    dataset = job.dataset
    away = (dataset.train.cameras.centers - dataset.center) / dataset.radius
    return Views(
        linear_to_srgb(dataset.train.colors),
        dataset.train.masks,
        dataset.matrices,
        away / np.linalg.norm(away, axis=1, keepdims=True),
    )
