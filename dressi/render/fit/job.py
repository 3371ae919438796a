"""The whole fit: rounds of the shape, then the texture, with checkpoints and a way to stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..cameras import Cameras
from ..cameras.alignment import align
from ..engine import Engine, MakeEngine
from ..mesh import Mesh
from ..reach import check_reach, marked
from .checkpoint import Checkpoint, task_key
from .moving import Moving, with_views
from .openings import opened
from .options import FitOptions, Round
from .scene import Scene
from .shape import ShapeRound, outer_radius
from .texture import TextureRound
from .unfold import unfolded
from .units import unit_cameras, world_cameras

CHUNK = 10
"""Steps between two looks at the outside world; radii change at multiples of it, so that a fit which was stopped
and resumed computes the same numbers."""
SAVE_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    """done, total: steps of all phases."""

    phase: str
    done: int
    total: int
    loss: float


@dataclass
class Timing:
    first_build_ms: float | None = None
    steps: int = 0
    seconds: float = 0.0

    @property
    def step_ms(self) -> float | None:
        return 1e3 * self.seconds / self.steps if self.steps else None


@dataclass
class FitResult:
    """mesh: in the world, with a texture once the second phase has begun."""

    mesh: Mesh
    losses: list[tuple[str, float]]
    plans: dict[str, dict[str, int]]
    timing: Timing
    finished: bool
    texts: dict[str, str] = field(default_factory=dict)
    cameras: Cameras | None = None
    """Those that were learned from, as they were found, where poses were refined: in the world's place, size and turn in
    which they are nearest to those given."""
    earlier_s: float = 0.0
    """Seconds spent in runs that this one went on from."""


def rounds_of(scene: Scene, options: FitOptions, init: Mesh | None) -> tuple[Mesh, list[Round]]:
    """The mesh to start from, in units of the scene, and the rounds of the shape phase."""
    rounds = options.rounds(scene.exact)
    if init is None:
        return scene.start(rounds[0].subdivisions), rounds
    return scene.placed(init), [replace(plan, subdivisions=0) for plan in rounds]


class FitJob:
    """Fits a mesh to a scene; ``run`` once.

    init: a mesh with UVs in the world's units to start from (its topology and details stay), else a sphere that is refined from
    round to round.  folder: where checkpoints go, None for none.
    """

    def __init__(
        self,
        scene: Scene,
        options: FitOptions,
        make_engine: MakeEngine,
        *,
        init: Mesh | None = None,
        folder: Path | None = None,
    ):
        self.scene, self.options, self.make_engine, self.folder = scene, options, make_engine, folder
        self._learned = _batch(scene)
        self.cameras = self._moving_cameras()
        """In units of the scene, at the start of the round; None where they stay."""
        self._rest_is_start = init is not None
        self._start, self.rounds = rounds_of(scene, options, init)
        self._key = task_key(
            options.as_dict(),
            scene.matrices,
            scene.train.masks,
            scene.train.colors,
            *([] if scene.train.known is None else [scene.train.known]),
            self._start.positions,
            self._start.faces,
        )
        self._total = sum(plan.steps for plan in self.rounds) + options.texture_steps
        self.timing = Timing()
        self.plans: dict[str, dict[str, int]] = {}
        self.texts: dict[str, str] = {}

    # ---- the rounds as graphs
    def shape_round(self, number: int, mesh: Mesh) -> ShapeRound:
        matrices, masks, colors, known = self._learned
        plan = self.rounds[number]
        if self.cameras is not None:
            matrices = Moving(self.cameras, plan.turn, plan.shift, plan.steps)
        size = round_size(self.options.size, plan.pixels, len(masks), self.options.form)
        rest = self._start.positions if self._rest_is_start else None
        options = self.options
        return ShapeRound(
            mesh,
            matrices,
            masks,
            size,
            plan,
            options.peels,
            rest,
            options.form,
            known,
            colors,
            options.batch,
            options.seed,
        )

    def texture_round(self, mesh: Mesh) -> TextureRound:
        options = self.options
        matrices, masks, colors, _ = self._learned
        return TextureRound(
            mesh,
            matrices if self.cameras is None else self.cameras.matrices,
            masks,
            colors,
            steps=options.texture_steps,
            texture_size=options.texture_size,
            gradient=options.texture_gradient,
            seed=options.seed,
            batch=options.batch,
            exposure=options.exposure,
        )

    def topology(self, number: int) -> Mesh:
        """The start mesh as fine as round ``number`` wants it (the texture: as the last round)."""
        number = min(number, len(self.rounds) - 1)
        return self._start.subdivide(self.rounds[number].subdivisions - self.rounds[0].subdivisions)

    def plan(self) -> None:
        """Fill ``plans`` and ``texts`` without a step; the last round of the shape stands for all."""
        mesh = self.topology(len(self.rounds))
        for work in (self.shape_round(len(self.rounds) - 1, mesh), self.texture_round(mesh)):
            engine = self._engine(work)
            try:
                self._note(work.name, engine.plan)
            finally:
                engine.close()

    def forget(self) -> None:
        """Remove the checkpoint: nothing is left to resume."""
        if self.folder is not None:
            Checkpoint.remove(self.folder)

    # ---- running
    def run(
        self,
        *,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> FitResult:
        """Optimise until done, or until ``stop()`` says so between two chunks of steps; then a checkpoint is kept.

        Raises InputError when there is nothing to resume, the folder cannot be written, or the mesh at the start reaches
        its target in no view; warns when it does not in some.
        """
        self._check_reach()
        point = Checkpoint(self._key)
        if resume:
            assert self.folder is not None
            point = Checkpoint.load(self.folder, self._key)
        self._began, self._earlier = time.perf_counter(), point.seconds
        mesh = self.topology(point.round)
        if point.mesh is not None:
            mesh = replace(point.mesh, color=mesh.color, name=mesh.name)
        if point.views is not None and self.cameras is not None:
            self.cameras = with_views(self.cameras, point.views)
        finished = True
        while point.round <= len(self.rounds) and finished:
            textured = point.round == len(self.rounds)
            work = self.texture_round(mesh) if textured else self.shape_round(point.round, mesh)
            point.mesh = mesh
            point.views = None if self.cameras is None else self.cameras.views
            mesh, finished = self._run_round(work, point, progress, stop)
            if finished:
                # A mesh that was given may be as it is on purpose.
                if not textured and not self._rest_is_start:
                    mesh = self._mended(mesh, point.round)
                fine = point.round + 1 < len(self.rounds)
                if fine:
                    mesh = mesh.subdivide(
                        self.rounds[point.round + 1].subdivisions - self.rounds[point.round].subdivisions
                    )
                point.round, point.step, point.state = point.round + 1, 0, {}
        names = [*("shape" for _ in self.rounds), "texture"]
        losses = [(names[number], loss) for number, loss in point.losses]
        mesh, cameras = self._in_world(mesh)
        return FitResult(mesh, losses, self.plans, self.timing, finished, self.texts, cameras, self._earlier)

    def _mended(self, mesh: Mesh, number: int) -> Mesh:
        """The mesh after round ``number``, without folds, and open where pictures see through it."""
        mesh = unfolded(mesh)
        if not self.rounds[number].opens:
            return mesh
        train = self.scene.train
        matrices = self.scene.matrices if self.cameras is None else self.cameras.matrices
        size = self.options.texture_size
        return opened(mesh, matrices, train.masks, train.known, resolution=size) or mesh

    def _moving_cameras(self) -> Cameras | None:
        if not self.options.refine_poses:
            return None
        scene = self.scene
        if len(scene.train.cameras) == 1:
            warnings.warn(
                "one view says nothing about its pose: it stays as it is; give more to refine them",
                stacklevel=3,
            )
            return None
        return unit_cameras(scene.train.cameras, scene.center, scene.radius)

    def _in_world(self, mesh: Mesh) -> tuple[Mesh, Cameras | None]:
        """Mesh and cameras from units of the scene. Poses that are learned leave it open where both lie together."""
        scene = self.scene
        mesh = scene.to_world(mesh)
        if self.cameras is None:
            return mesh, None
        cameras = world_cameras(self.cameras, scene.center, scene.radius)
        back = align(cameras, scene.train.cameras)
        return mesh.moved(back.points(mesh.positions)), back.cameras(cameras)

    def _check_reach(self) -> None:
        matrices, masks = self._learned[:2]
        radius = self.shape_radius(0)
        note = check_reach(marked(matrices, self._start.positions, masks.shape[1:]), masks, radius)
        if note is not None:
            warnings.warn(note, stacklevel=3)

    def shape_radius(self, number: int) -> float:
        """The radius that round ``number`` starts with, in image heights."""
        plan, form = self.rounds[number], self.options.form
        size = round_size(self.options.size, plan.pixels, len(self._learned[1]), form)
        return outer_radius(plan.radius[0], size) if form == "outer" else plan.radius[0]

    def _run_round(
        self,
        work: ShapeRound | TextureRound,
        point: Checkpoint,
        progress: Callable[[Progress], None] | None,
        stop: Callable[[], bool],
    ) -> tuple[Mesh, bool]:
        begin = time.perf_counter()
        before = len(point.losses)
        engine = self._engine(work)
        try:
            if point.state:
                engine.restore(point.state)
            saved, first = time.perf_counter(), True
            while point.step < work.steps and not stop():
                work.before(engine, point.step)
                # One step alone first: its end is the end of the build.
                count = 1 if first and point.step == 0 else CHUNK - point.step % CHUNK
                count = min(count, work.steps - point.step)
                start = time.perf_counter()
                engine.step(count)
                losses = engine.losses()
                now = time.perf_counter()
                if first:
                    if self.timing.first_build_ms is None:
                        self.timing.first_build_ms = 1e3 * (now - begin)
                    self._note(work.name, engine.plan)
                else:
                    self.timing.steps += count
                    self.timing.seconds += now - start
                first = False
                point.step += count
                point.losses[before:] = [(point.round, loss) for loss in losses]
                if progress is not None:
                    progress(Progress(work.name, len(point.losses), self._total, losses[-1]))
                if self.folder is not None and now - saved > SAVE_SECONDS:
                    self._save(point, engine)
                    saved = now
            finished = point.step >= work.steps
            if not finished and self.folder is not None:
                self._save(point, engine)
            if isinstance(work, ShapeRound) and work.moving is not None:
                self.cameras = work.moving.found(engine)
            return self._result(work, engine), finished
        finally:
            engine.close()

    def _result(self, work: ShapeRound | TextureRound, engine: Engine) -> Mesh:
        state = engine.state()
        if isinstance(work, ShapeRound):
            return work.result(state)
        return work.result(state, engine.recv("uv"), engine.recv("shown"))

    def _save(self, point: Checkpoint, engine: Engine) -> None:
        assert self.folder is not None
        point.state = engine.state()
        point.seconds = self._earlier + time.perf_counter() - self._began
        point.save(self.folder)

    def _engine(self, work: ShapeRound | TextureRound) -> Engine:
        engine = self.make_engine()
        engine.set_loss(work.loss)
        engine.set_optimizer(work.optimizer, work.parameters)
        for name, variable in getattr(work, "outputs", {}).items():
            engine.set_output(name, variable)
        return engine

    def _note(self, name: str, plan: Any) -> None:
        counts = plan.counts
        self.plans[name] = {key: int(counts[key]) for key in ("substages", "stages", "functions")}
        self.texts[name] = str(plan)


def _batch(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Matrices, masks, colours and what is known of the views to learn from, at least two: a view that is alone is
    taken twice.

    Everything a view has then differs in its domain from what views share, and the plan for one view is that for
    many. The losses are means, so they stay what they are.
    """
    train = scene.train
    arrays = (scene.matrices, train.masks, train.colors)
    if len(scene.matrices) > 1:
        return (*arrays, train.known)
    matrices, masks, colors = (np.repeat(array, 2, axis=0) for array in arrays)
    return matrices, masks, colors, None if train.known is None else np.repeat(train.known, 2, axis=0)


PIXELS = 400_000
"""Most pixels of all views together in the shape phase; of the outer form, whose pixels cost less, more."""


def round_size(size: tuple[int, int], rows: int, views: int, form: str = "outer") -> tuple[int, int]:
    """A size of the proportions of ``size`` with about ``rows`` rows, never larger than it, nor too many pixels."""
    width, height = size
    most = 2.5 * PIXELS if form == "outer" else PIXELS
    scale = min(1.0, rows / height, float(np.sqrt(most / (width * height * views))))
    return max(round(width * scale), 1), max(round(height * scale), 1)
