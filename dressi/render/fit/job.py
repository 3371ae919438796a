"""The whole fit: rounds of the shape, then the texture, with checkpoints and a way to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..engine import Engine, MakeEngine
from ..forms.hard_soft_ras import SOFT_FORMS
from ..forms.reach import check_reach, marked
from ..mesh import Mesh
from .bundle.adjust import adjusted
from .dataset import Dataset
from .disk import Checkpoint, Keeper, locked, task_key
from .disk.checkpoint import MOST_BYTES
from .options import FitOptions
from .parts import Parts
from .phases.learned import learned, round_size
from .phases.moving import Moving
from .phases.remeshed import mended, refined
from .phases.shape import ShapeRound
from .phases.texture import TextureRound
from .phases.unfold import unfolded
from .result import FitResult, Progress, Timing
from .rounds import moving_cameras, rounds_of
from .running import FitRun
from .textures.charts import with_charts
from .watch import Watch


class FitJob:
    """Fits a mesh to a dataset; ``run`` once.

    init: a mesh with UVs, in units of the world, to start from; its topology and details are kept. Without it the fit starts
    from what ``options.start`` says, which is refined from round to round.  folder: for checkpoints, None for none.  Raises
    InputError.
    """

    def __init__(
        self,
        dataset: Dataset,
        options: FitOptions,
        make_engine: MakeEngine,
        *,
        init: Mesh | None = None,
        folder: Path | None = None,
    ):
        if options.depth and dataset.train.depths is None:
            raise InputError(
                "there are no depths to fit the shape to; give photographs with depths, or leave out --depth"
            )
        self.dataset, self.options, self.make_engine, self.folder = dataset, options, make_engine, folder
        self.keeper = Keeper(folder)
        self._learned = learned(dataset)
        self.cameras = moving_cameras(dataset) if options.refine_poses else None
        """In units of the scene, at the start of the round; None if poses are not learned."""
        self.keeps_faces = init is not None
        self._start, self.rounds = rounds_of(dataset, options, init)
        self._key = task_key(
            options.as_dict(),
            dataset.matrices,
            dataset.train.masks,
            dataset.train.colors,
            *(array for array in (dataset.train.known, dataset.train.depths) if array is not None),
            self._start.positions,
            self._start.faces,
        )
        self.timing = Timing()
        self.plans: dict[str, dict[str, int]] = {}
        self.texts: dict[str, str] = {}

    # ---- the rounds as graphs
    def shape_round(self, number: int, mesh: Mesh) -> ShapeRound:
        matrices, masks, colors, known, depths = self._learned
        plan = self.rounds[number]
        if self.cameras is not None:
            matrices = Moving(self.cameras, plan.turn, plan.shift, plan.steps)
        size = round_size(self.options.size, plan.pixels, len(masks), self.options.form)
        rest = self._start.positions if self.keeps_faces else None
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
            depths,
        )

    def texture_round(self, mesh: Mesh) -> TextureRound:
        options = self.options
        matrices, masks, colors = self._learned[:3]
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
            # Outlines of photographs are not known to a part of a pixel.
            shape=self.dataset.exact and options.joint,
            rest=self._start.positions if self.keeps_faces else None,
        )

    def topology(self, number: int) -> Mesh:
        """The start mesh subdivided for round ``number``; the texture round uses the mesh of the last shape round."""
        number = min(number, len(self.rounds) - 1)
        return self._start.subdivide(self.rounds[number].subdivisions - self.rounds[0].subdivisions)

    def works(self) -> Iterator[tuple[str, ShapeRound | TextureRound]]:
        """Every round with its name (``shape 1``, ..., ``texture``), as it would begin with the mesh of the start."""
        for number in range(len(self.rounds)):
            yield f"shape {number + 1}", self.shape_round(number, self.topology(number))
        yield "texture", self.texture_round(self.topology(len(self.rounds)))

    def plan(self) -> dict[str, Any]:
        """The plan of every round by its name, without a step. ``plans`` and ``texts`` get the last of each phase."""
        found = {}
        for name, work in self.works():
            engine = self.engine(work)
            try:
                found[name] = engine.plan
                self.note(work.name, engine.plan)
            finally:
                engine.close()
        return found

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
        point = self._checkpoint() if resume else Checkpoint(self._key)
        return FitRun(self, point, Watch(point, sum(self._steps), progress, preview), stop)

    @property
    def _steps(self) -> list[int]:
        """Number of steps of each round; the last is the texture round."""
        return [*(plan.steps for plan in self.rounds), self.options.texture_steps]

    def _checkpoint(self) -> Checkpoint:
        """The checkpoint to resume from. Raises InputError."""
        # Room for parameters, their moments and the mesh, a few times.
        most = MOST_BYTES + 1000 * len(self.topology(len(self.rounds)).faces)
        views = None if self.cameras is None else len(self.cameras)
        point = self.keeper.load(self._key, self._steps, views, most + 100 * self.options.texture_size**2)
        self.keeper.check_mesh(point, self.topology(point.round), self.keeps_faces)
        return point

    def adjusts(self, number: int) -> bool:
        """Whether bundle adjustment follows round ``number``."""
        return self.cameras is not None and number < len(self.rounds) and self.rounds[number].adjusts

    def adjusted(self, mesh: Mesh, stop: Callable[[], bool]) -> tuple[Mesh, bool]:
        """The mesh after bundle adjustment, which moves the cameras too, and whether that was not stopped."""
        assert self.cameras is not None
        views, details = self._learned, self.keeps_faces
        train = views.masks, views.colors, views.known
        found = adjusted(mesh, self.cameras, *train, self.make_engine, details=details, stop=stop)
        mesh, self.cameras = found or (mesh, self.cameras)
        return mesh, found is not None

    def mended(self, mesh: Mesh, number: int) -> Mesh:
        """The mesh after round ``number`` without holes and folds that masks contradict; a given topology is kept."""
        if self.keeps_faces:
            return mesh
        if number == len(self.rounds):
            return unfolded(mesh)
        matrices = self.dataset.matrices if self.cameras is None else self.cameras.matrices
        train, size = self.dataset.train, self.options.texture_size
        return mended(mesh, self.rounds[number], matrices, train.masks, train.known, size)

    def refined(self, mesh: Mesh, number: int) -> Mesh:
        """The mesh with the faces for round ``number`` and, for the texture round, with UVs."""
        if number >= len(self.rounds):
            textured = number > len(self.rounds) or self.keeps_faces
            return mesh if textured else with_charts(mesh, self.options.texture_size)
        plan, before = self.rounds[number], self.rounds[number - 1]
        if plan.faces:
            return refined(mesh, plan.faces) if plan.faces > before.faces else mesh
        return mesh.subdivide(plan.subdivisions - before.subdivisions)

    def _check_reach(self) -> None:
        matrices, masks = self._learned[:2]
        radius = self.shape_radius(0)
        note = check_reach(marked(matrices, self._start.positions, masks.shape[1:]), masks, radius)
        if note is not None:
            warnings.warn(note, stacklevel=4)
        note = Parts.of(self.dataset).note(self._start.component_count())
        if note is not None:
            warnings.warn(note, stacklevel=4)

    def shape_radius(self, number: int) -> float:
        """The radius that round ``number`` starts with, in image heights."""
        plan, form = self.rounds[number], self.options.form
        size = round_size(self.options.size, plan.pixels, len(self._learned[1]), form)
        return SOFT_FORMS[form].usable_radius(plan.radius[0], size[1])

    def engine(self, work: ShapeRound | TextureRound) -> Engine:
        """A fresh engine that optimises a round; the caller closes it."""
        engine = self.make_engine()
        engine.set_loss(work.loss)
        engine.set_optimizer(work.optimizer, work.parameters)
        for name, variable in getattr(work, "outputs", {}).items():
            engine.set_output(name, variable)
        return engine

    def note(self, name: str, plan: Any) -> None:
        counts = plan.counts
        """Keep counts and text of the plan of a phase."""
        self.plans[name] = {key: int(counts[key]) for key in ("substages", "stages", "functions")}
        self.texts[name] = str(plan)
