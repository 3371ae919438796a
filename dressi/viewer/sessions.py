"""What the viewer shows: an optimisation of one's own, or a fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import FLOAT, IVEC3, VEC3, VEC4
from ..errors import InputError
from ..render.core.lists import as_list
from ..render.fit import FitJob, FitResult, Progress
from ..render.fit.graphs.round import CHUNK, Subject
from ..render.fit.graphs.term import RANGES, Controls
from ..render.fit.job import FitRun, Moment
from ..render.formats import save_mesh
from ..render.io import save_png
from ..render.mesh import Mesh
from ..render.scene.scene import Scene as Nodes
from ..render.surface.color import encoded, linear_to_srgb, srgb_to_linear
from ..vk.run.engine import DressiAD
from .handles import Handle
from .scenes import SceneGraph
from .session import Scene, Slider, Status, Views, stamped

# An optimisation of one's own in the viewer: any ``DressiAD``.


class EngineSession:
    """Steps of an engine, with a picture or a mesh of it.

    image: a FLOAT, VEC3 or VEC4 image of the engine, linear unless ``codes``, whose tile ``tile`` is shown.
    Or positions and faces: a VEC3 and an IVEC3 list (or arrays), drawn from any camera; they should lie about
    the origin, within a distance of 1. Or a scene with Variables of the engine, drawn with its materials and lights.
    sliders: leaves (FLOAT, one texel) with their range. handles: leaves (VEC3 or MAT4, one texel) that axes in the
    picture move (``Handle``); by default the places of nodes and lights of a scene that are leaves. steps: how many there
    will be; None: until the window is closed. Raises InputError.

    >>> from dressi.viewer.sessions import EngineSession
    >>> image = Variable.of(np.zeros((4, 6, 3)), name="image")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.mean(F.square(F.length(image - 0.5))))
    ...     ad.set_optimizer(adam(0.05), [image])
    ...     session = EngineSession(ad, image=image, steps=3)
    ...     session.advance(0.0, steps=3)
    ...     session.status.done, session.status.finished
    (3, True)
    """

    views = None

    def __init__(
        self,
        engine: DressiAD,
        *,
        image: Variable | None = None,
        positions: Variable | None = None,
        faces: Variable | np.ndarray | None = None,
        scene: Nodes | None = None,
        codes: bool = False,
        tile: int = 0,
        sliders: Mapping[Variable, tuple[float, float]] | None = None,
        handles: Sequence[Variable] | None = None,
        steps: int | None = None,
        folder: Path | None = None,
        title: str = "dressi",
        up: Sequence[float] = (0.0, 1.0, 0.0),
    ):
        given = sum(one is not None for one in (image, positions, scene))
        if given != 1 or (positions is None) != (faces is None):
            raise InputError("show either an image, positions and faces, or a scene")
        if image is not None and handles:
            raise InputError(
                "an image has no camera that handles could be seen from; show positions or a scene"
            )
        self._engine, self._folder = engine, folder
        self.status = Status(title, total=steps or 0)
        self.up = np.asarray(up, np.float64)
        shown = None if image is None else _one_tile(image, tile, codes)
        subject = None
        if positions is not None:
            table = as_list("faces", IVEC3, faces)
            count = len(faces) if isinstance(faces, np.ndarray) else table.size[0] * table.size[1]
            subject = Subject(as_list("positions", VEC3, positions), table, count)
        leaves = tuple(Handle(leaf, engine) for leaf in handles or ())
        self.scene = Scene(engine, subject, image=shown, handles=leaves)
        if scene is not None:
            graph = SceneGraph(engine, scene, handles=handles)
            self.scene = Scene(engine, graph.subject, handles=graph.handles)
        self._image = shown
        self._values: dict[Variable, float] = {}
        self.sliders = [self._slider(leaf, *ends) for leaf, ends in (sliders or {}).items()]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {} if self._folder is None or self._image is None else {"save": self._save}

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        status, begin = self.status, time.perf_counter()
        before, count = status.done, 1
        while not status.finished:
            if status.total:
                count = min(count, status.total - status.done)
            self._engine.step(count)
            self._engine.wait()
            status.done += count
            status.finished = bool(status.total) and status.done >= status.total
            now = time.perf_counter() - begin
            if (status.done - before >= steps) if steps is not None else now >= seconds:
                break
            status.step_ms = 1e3 * now / (status.done - before)
            left = seconds - now
            count = 1 if steps is not None else int(np.clip(1e3 * left / max(status.step_ms, 1e-3), 1, 64))
        losses = self._engine.losses()
        if losses:
            status.curves["loss"] = [*status.curves.get("loss", []), (len(losses), losses[-1])]

    def stop(self) -> None:
        self.status.finished = True

    def _slider(self, leaf: Variable, least: float, most: float) -> Slider:
        if leaf.vtype is not FLOAT or leaf.size != (1, 1) or not 0 < least < most:
            raise InputError(f"a slider moves a FLOAT leaf of one texel between positive numbers, not {leaf}")
        data = leaf.data
        self._values[leaf] = float(np.clip(1.0 if data is None else np.asarray(data).flat[0], least, most))

        def move(value: float) -> None:
            self._engine.send(leaf, np.full((1, 1, 1), value))
            self._values[leaf] = value

        return Slider(leaf.name or "value", least, most, lambda: self._values[leaf], move)

    def _save(self) -> None:
        assert self._folder is not None and self._image is not None
        path = stamped(self._folder, self.status.done, ".png")
        save_png(path, srgb_to_linear(np.clip(self._engine.recv(self._image)[0], 0, 1)))
        self.status.note = f"saved {path.name}"


def _one_tile(image: Variable, tile: int, codes: bool) -> Variable:
    """VEC3 sRGB codes of one tile. Raises InputError."""
    if image.vtype not in (FLOAT, VEC3, VEC4):
        raise InputError(f"an image of FLOAT, VEC3 or VEC4 can be shown, not {image}")
    if not 0 <= tile < image.batch:
        raise InputError(f"{image} has tiles 0 to {image.batch - 1}, not {tile}")
    if image.batch > 1:
        image = F.take(image, F.constant(tile))
    colour = F.vec3(image) if image.vtype is FLOAT else F.swizzle(image, "xyz")
    return F.clamp(colour if codes else encoded(F.maximum(colour, 0.0)), 0.0, 1.0)


# A running fit in the viewer.

KEPT = 12
"""Checkpoints in memory."""


class FitSession:
    """Drives a FitJob: pause, single steps, factors of rates and weights, rewind, save.

    The arguments are those of ``FitJob.started``; folder: for what is saved, None for none. The caller holds
    the lock of the job's folder. Raises InputError as ``FitJob.run``.
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
        self.scene: Scene | None = None
        self._moment: Moment | None = None
        self.status = Status("dressi fit", total=sum(job.steps))
        dataset = job.dataset
        away = dataset.train.cameras.centers - dataset.center
        self.views = Views(
            linear_to_srgb(dataset.train.colors),
            dataset.train.masks,
            dataset.matrices,
            away / np.linalg.norm(away, axis=1, keepdims=True),
        )
        self.up = dataset.up

    @property
    def sliders(self) -> Sequence[Slider]:
        values = self.controls.values
        return [
            Slider(name, *ends, partial(values.__getitem__, name), partial(self._steer, name))
            for name, ends in RANGES.items()
        ]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"rewind": self._rewind} | ({} if self._folder is None else {"save": self._save})

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        begin = time.perf_counter()
        end, count = begin + seconds, 0
        while not self.status.finished:
            # As many steps as fit into what is left of the time.
            step, left = self.status.step_ms, 1e3 * (end - time.perf_counter())
            self.run.most = 1 if steps is not None or step is None else int(np.clip(left / step, 1, CHUNK))
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
    def _next(self) -> int:
        """Go on to the next moment; the number of steps that it took."""
        before = self._moment
        moment = next(self._moments, None)
        if moment is None:
            self.status.finished, self.scene, self._moment = True, None, None
            return 0
        self._moment = moment
        if before is None or before.engine is not moment.engine:
            assert isinstance(moment.engine, DressiAD)
            self.scene = Scene(moment.engine, moment.work.subject)
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
        return None if self._moment is None else self.run.reached(self._moment)

    def _save(self) -> None:
        mesh = self.mesh()
        if mesh is None or self._folder is None:
            self.status.note = "there is nothing to save yet"
            return
        path = stamped(self._folder, self.status.done, ".glb")
        save_mesh(path, mesh)
        self.status.note = f"saved {path.name}"
