"""A fit: rounds of the shape, then the texture, then perhaps a material, with checkpoints and a way to
stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..cameras import Cameras
from ..cameras.pose import world_cameras
from ..core.engine import Engine, MakeEngine
from ..forms.hard_soft_ras import SOFT_FORMS
from ..forms.soft_target import check_reach, marked
from ..io import save_png
from ..mesh import Mesh
from .data.dataset import Dataset, FitResult, Parts, Progress, Quality, Timing
from .data.directional import DirectionalColour
from .data.learned import learned, resized, round_size
from .data.seen import glossy
from .data.textures import with_charts
from .disk import Checkpoint, Keeper, locked, task_key
from .disk.checkpoint import MOST_BYTES
from .graphs.round import CHUNK, Found, Round, start
from .graphs.term import UNCHANGED, Controls, Factors, FitRound, Moving, in_world, moving_cameras, with_views
from .options import FitOptions
from .options.schedule import AT_ONCE as PIXELS_AT_ONCE
from .options.schedule import fitted_rounds, shape_rounds, sphere_faces, texture_levels
from .phases.bundle import adjusted
from .phases.materials import MaterialFit, Recovery
from .phases.remeshed import healed, opened, refined, unfolded, unfolded_from
from .phases.shape import ShapeRound
from .phases.texture import OF_PHOTOGRAPHS, PARTS, SMOOTHNESS, VIEWS, TextureRound
from .start.choice import MANY_VIEWS, fits, start_anew, start_mesh

MOST_DETAIL = 1024
"""Texels along each side of slopes by direction; half as many as those of a smaller texture."""
GLOSS = "gloss"
"""Of the values that the texture round begins with: 1 where the thing is glossy all over."""
AT_ONCE = 16
"""Views of a step of the shape, where all of them would have smaller pictures."""


class FitJob:
    """Fits a mesh to a dataset; ``run`` once.

    init: a mesh with UVs, in units of the world, to start from; its topology and details are kept. Without it
    the fit starts from what ``options.start`` says, which is refined from round to round.  folder: for
    checkpoints, None for none.  measure: called with the name of each round that ends and its engine, which
    is not read any more.  recovery: of a material, after the texture. Raises InputError.

    timing, plans and texts tell of the rounds that ran so far.
    """

    def __init__(
        self,
        dataset: Dataset,
        options: FitOptions,
        make_engine: MakeEngine,
        *,
        init: Mesh | None = None,
        folder: Path | None = None,
        measure: Callable[[str, Engine], None] | None = None,
        recovery: Recovery | None = None,
    ):
        if options.depth and dataset.train.depths is None:
            raise InputError(
                "there are no depths to fit the shape to; give photographs with depths, or leave out --depth"
            )
        self.dataset, self.options, self.make_engine, self.folder = dataset, options, make_engine, folder
        self.keeper, self.measure, self.recovery = Keeper(folder), measure, recovery
        self.learned = learned(dataset)
        moving = options.refine_poses or (options.adjust_poses and not dataset.exact)
        self.cameras = moving_cameras(dataset) if moving else None
        """In units of the scene, at the start; None if poses are not learned."""
        self.keeps_faces = init is not None
        self._stages = () if recovery is None else recovery.stages
        self.start, self.rounds = rounds_of(dataset, options, init, make_engine, self.keeper)
        """The mesh to start from, in units of the scene, and what each round of the shape phase does."""
        self.key = task_key(
            options.as_dict() if recovery is None else {**options.as_dict(), "material": recovery.task},
            dataset.matrices,
            dataset.train.masks,
            dataset.train.colors,
            np.array(dataset.train.fringe),
            *(array for array in (dataset.train.known, dataset.train.depths) if array is not None),
            self.start.positions,
            self.start.faces,
            *(() if recovery is None else recovery.arrays),
        )
        self.controls: Controls | None = None
        """What a person may change meanwhile; set it before the first round."""
        self.timing = Timing()
        self.plans: dict[str, dict[str, int]] = {}
        self.texts: dict[str, str] = {}

    # ---- the rounds as graphs
    @property
    def names(self) -> list[str]:
        """The phase of each round."""
        return [*("shape" for _ in self.rounds), TextureRound.name, *(MaterialFit.name for _ in self._stages)]

    @property
    def steps(self) -> list[int]:
        """The number of steps of each round."""
        shape = (plan.steps for plan in self.rounds)
        return [*shape, self.texture_steps, *(stage.options.steps for stage in self._stages)]

    def round(self, number: int, begin: Found, step: int = 0) -> Round:
        """Round ``number`` from what it begins with, as it is at a step of it."""
        texture = len(self.rounds)
        if number < texture:
            return self.shape_round(number, begin)
        if number == texture:
            return self.texture_round(begin, step)
        assert self.recovery is not None
        views = self.dataset.train
        if begin.cameras is not None:
            views = replace(views, cameras=in_world(self.dataset, begin.cameras)[0])
        work = self.recovery.round(number - texture - 1, begin, views, self.factors)
        (center, radius), scene = begin.mesh.bounding_sphere(), self.dataset
        work.subject = work.subject.moved(radius / scene.radius, (center - scene.center) / scene.radius)
        return work

    def shape_round(self, number: int, begin: Found) -> ShapeRound:
        plan, options, cameras = self.rounds[number], self.options, begin.cameras
        views, moving = self.learned, None
        if cameras is not None and plan.moves:
            moving = Moving(cameras, plan.turn, plan.shift, plan.steps)
        elif cameras is not None:
            views = views._replace(matrices=cameras.matrices)
        return ShapeRound(
            begin.mesh,
            views,
            self._size(plan),
            plan,
            options.peels,
            moving=moving,
            rest=self.start.positions if self.keeps_faces else None,
            form=options.form,
            batch=self._batch(plan),
            seed=options.seed,
            factors=self.factors,
        )

    def _batch(self, plan: FitRound) -> int:
        """Views of each step of a shape round, 0 for all: where there are so many that their pictures would be made
        smaller, some of them in larger pictures show more."""
        options, count = self.options, len(self.learned.masks)
        if options.batch or plan.moves or count <= AT_ONCE:
            return options.batch
        sizes = [round_size(options.size, plan.pixels, views, options.form) for views in (1, count)]
        return AT_ONCE if sizes[0] != sizes[1] else 0

    def _size(self, plan: FitRound) -> tuple[int, int]:
        options, views = self.options, self._batch(plan) or len(self.learned.masks)
        return round_size(options.size, plan.pixels, views, options.form)

    def texture_round(self, begin: Found, step: int = 0) -> TextureRound:
        options, views, cameras = self.options, self.learned, begin.cameras
        exact, whole, levels = self.dataset.exact, self.dataset.train.cameras.size, self._levels
        size, texels, until = next(level for level in levels if step < level[2] or level is levels[-1])
        fringe = None if exact else self.dataset.train.fringe * size[0] / whole[0]
        masks, colors, known = views.masks, views.colors, views.known
        if size != whole:
            masks, colors = resized(masks, size), resized(colors, size)
            known = None if known is None else resized(known, size) > 0.999
        batch = options.batch
        if not batch and len(levels) > 1 and size[0] * size[1] * VIEWS > PIXELS_AT_ONCE:
            batch = max(PIXELS_AT_ONCE // (size[0] * size[1]), 1)
        work = TextureRound(
            begin.mesh,
            views.matrices if cameras is None else cameras.matrices,
            masks,
            colors,
            steps=self.texture_steps,
            texture_size=texels,
            gradient=options.texture_gradient,
            seed=options.seed,
            batch=batch,
            smoothness=SMOOTHNESS if exact else OF_PHOTOGRAPHS,
            exposure=not exact if options.exposure is None else options.exposure,
            shape=self.joint,
            # Outlines of photographs are not known to a part of a pixel.
            fringe=fringe,
            known=known,
            rest=self.start.positions if self.keeps_faces else None,
            factors=self.factors,
            loss=options.loss,
            parts=1.0 if exact else PARTS,
            directional=max(min(options.texels // 2, MOST_DETAIL), 1) if self.directional else 0,
            gloss=bool(options.gloss or begin.values.get(GLOSS, np.zeros(1)).any()),
        )
        work.until = until
        return work

    @property
    def _levels(self) -> list[tuple[tuple[int, int], int, int]]:
        """Of the texture round: ``texture_levels``."""
        return texture_levels(self.dataset.train.cameras.size, self.options.texels, self.texture_steps, CHUNK)

    @property
    def joint(self) -> bool:
        """Whether the texture round moves vertices too."""
        options = self.options
        follows = self.dataset.exact or (
            options.follows_colours if self.cameras is None else options.ends_by_colours
        )
        return options.joint and not options.lit and follows

    @property
    def directional(self) -> bool:
        """Whether colours change with the direction of the view."""
        if self.options.directional is None and not self.options.gloss:
            return self.recovery is None and not self.dataset.exact and len(self.learned.masks) >= MANY_VIEWS
        return self.options.directional is not False

    @property
    def texture_steps(self) -> int:
        """Steps of the texture round: twice as many where it moves vertices by photographs, each of which is
        in few of the steps."""
        return self.options.texture_steps * (2 if self.joint and not self.dataset.exact else 1)

    @property
    def factors(self) -> Factors:
        """What a person may change meanwhile."""
        return self.controls.factors if self.controls else UNCHANGED

    def topology(self, number: int) -> Mesh:
        """The start mesh subdivided for a round; the texture round uses the mesh of the last shape round."""
        number = min(number, len(self.rounds) - 1)
        return self.start.subdivide(self.rounds[number].subdivisions - self.rounds[0].subdivisions)

    def works(self) -> Iterator[tuple[str, Round]]:
        """Every round as it would begin with the mesh of the start, with its name: ``shape 1``, ...,
        ``texture``, ``material 1``, ..."""
        texture = len(self.rounds)
        for number in range(texture):
            yield f"shape {number + 1}", self.round(number, Found(self.topology(number), self.cameras))
        mesh = self.topology(texture)
        mesh = mesh if mesh.uvs is not None else with_charts(mesh, self.options.texels)
        yield "texture", self.round(texture, Found(mesh, self.cameras), self.texture_steps)
        if self.recovery is None:
            return
        mesh = self.placed(Found(mesh, self.cameras))[0]
        mesh = replace(mesh, texture=np.ones((self.options.texels, self.options.texels, 3)))
        begin = Found(mesh, self.cameras, values=self.recovery.values(mesh))
        for number in range(len(self.recovery.stages)):
            yield f"material {number + 1}", self.round(texture + 1 + number, begin)

    def plan(self) -> dict[str, Any]:
        """The plan of every round by its name, without a step. ``plans`` and ``texts`` get the last of each
        phase."""
        plans = {}
        for name, work in self.works():
            with closing(self.engine(work)) as engine:
                plans[name] = engine.plan
                self.note(work.name, engine.plan)
        return plans

    def adjusts(self, number: int) -> bool:
        """Whether bundle adjustment follows round ``number``."""
        return self.cameras is not None and number < len(self.rounds) and self.rounds[number].adjusts

    def after(self, number: int, before: Found, found: Found, stop: Callable[[], bool]) -> Found | None:
        """What the next round begins with: the mesh mended, shape and poses adjusted, faces added. None if
        that was stopped."""
        found = replace(found, mesh=self._mended(number, before, found))
        if self.adjusts(number):
            assert found.cameras is not None
            train, details = self.learned, self.keeps_faces
            views = train.masks, train.colors, train.known
            near = not self.options.refine_poses
            moved = adjusted(
                found.mesh, found.cameras, *views, self.make_engine, details=details, near=near, stop=stop
            )
            if moved is None:
                return None
            found = Found(*moved)
            if not (self.keeps_faces or near):
                found = replace(found, mesh=self._begun_anew(number, moved[1]) or found.mesh)
        if number < len(self.rounds):
            found = replace(found, mesh=self._refined(found.mesh, number + 1))
            # Kept with the mesh, for a fit that is resumed.
            asked = number + 1 == len(self.rounds) and self.directional and self.options.gloss is None
            return (
                replace(found, values={GLOSS: np.array([self._glossy(found)], np.int64)}) if asked else found
            )
        if number == len(self.rounds) and self.recovery is not None:
            mesh = self.placed(found)[0]
            return replace(found, mesh=mesh, values=self.recovery.values(mesh))
        return found

    def _glossy(self, begin: Found) -> bool:
        """Whether the thing is ``glossy``, in pictures as small as those that the texture round begins with."""
        train = self.dataset.train
        mesh, cameras = self.placed(begin)
        size = self._levels[0][0]
        cameras = (cameras or train.cameras).resized(size)
        masks, colors = (resized(images, size) for images in (train.masks, train.colors))
        return glossy(mesh, replace(train, cameras=cameras, masks=masks, colors=colors), self.make_engine)

    def _mended(self, number: int, before: Found, found: Found) -> Mesh:
        """The mesh after a round: folds healed, or smoothed where faces stay, and holes of masks opened where
        the round says so; a given topology is kept."""
        mesh = found.mesh
        if self.keeps_faces or number > len(self.rounds):
            return mesh
        if number == len(self.rounds):
            return unfolded_from(mesh, before.mesh)
        matrices = self.dataset.matrices if found.cameras is None else found.cameras.matrices
        train, plan = self.dataset.train, self.rounds[number]
        mesh = healed(mesh, pixels=max(train.masks.shape[1:])) if plan.faces else unfolded(mesh)
        if not plan.opens:
            return mesh
        return opened(mesh, matrices, train.masks, train.known) or mesh

    def _begun_anew(self, number: int, cameras: Cameras) -> Mesh | None:
        """What stereo finds by the cameras that round ``number`` has found, both in units of the scene; None
        where the fit goes on with its own shape."""
        dataset = self.dataset
        train = replace(dataset.train, cameras=world_cameras(cameras, dataset.center, dataset.radius))
        faces = sphere_faces(self.rounds[number].subdivisions)
        return start_anew(replace(dataset, train=train), self.options, faces, self.make_engine)

    def _refined(self, mesh: Mesh, number: int) -> Mesh:
        """The mesh with the faces for round ``number`` and, for the texture round, with UVs."""
        if number == len(self.rounds):
            return mesh if self.keeps_faces else with_charts(mesh, self.options.texels)
        plan, before = self.rounds[number], self.rounds[number - 1]
        if plan.faces:
            return refined(mesh, plan.faces) if plan.faces > before.faces else mesh
        return mesh.subdivide(plan.subdivisions - before.subdivisions)

    def outcome(self, number: int, found: Found) -> dict[str, Any]:
        """What a fit has found in round ``number``, as fields of ``FitResult``: mesh and learned cameras in
        the world and, in the rounds of a material, light and exposures."""
        if self.recovery is None or number <= len(self.rounds):
            mesh, cameras = self.placed(found)
            gains = found.values.get("gains")
            # A single view is learned from twice.
            gains = None if gains is None else gains[: len(self.dataset.train.masks)]
            return {
                "mesh": mesh,
                "cameras": cameras,
                "gains": gains,
                "directional": self._directional(found, mesh),
            }
        recovery = self.recovery
        cameras = None if found.cameras is None else in_world(self.dataset, found.cameras)[0]
        mesh = replace(recovery.mesh(found), name=self.start.name)
        lit = {"light": recovery.lit_by(found), "exposures": recovery.exposures(found)}
        return {"mesh": mesh, "cameras": cameras, **lit}

    def _directional(self, found: Found, mesh: Mesh) -> DirectionalColour | None:
        """Of a mesh in the world, whose directions turn with learned cameras."""
        if "slopes" not in found.values:
            return None
        mean, *slopes = found.values["slopes"]
        others = ("detail", "mirror", "shine", "glow")
        more = {name: found.values[name] for name in others if name in found.values}
        colour = DirectionalColour(mesh.positions, mean, np.stack(slopes), **more)
        if found.cameras is None:
            return colour
        return colour.turned(mesh.positions, in_world(self.dataset, found.cameras)[1].rotation)

    def placed(self, found: Found) -> tuple[Mesh, Cameras | None]:
        """Mesh and learned cameras (None where they stay), found by shape and texture, in the world."""
        mesh = self.dataset.to_world(found.mesh)
        if found.cameras is None:
            return mesh, None
        cameras, back = in_world(self.dataset, found.cameras)
        return mesh.moved(back.points(mesh.positions)), cameras

    def shape_radius(self, number: int) -> float:
        """The radius that round ``number`` starts with, in image heights."""
        plan = self.rounds[number]
        return SOFT_FORMS[self.options.form].usable_radius(plan.radius[0], self._size(plan)[1])

    def engine(self, work: Round) -> Engine:
        """A fresh engine that optimises a round; the caller closes it."""
        engine = self.make_engine()
        start(engine, work)
        if self.controls is not None:
            self.controls.send(engine, work.factors)
        return engine

    def note(self, name: str, plan: Any) -> None:
        """Keep counts and text of the plan of a phase."""
        counts = plan.counts
        self.plans[name] = {key: int(counts[key]) for key in ("substages", "stages", "functions")}
        self.texts[name] = str(plan)

    # ---- running
    @property
    def resumable(self) -> bool:
        """Whether this fit has left a checkpoint."""
        return self.keeper.kept

    def forget(self) -> None:
        """Remove the checkpoint of this fit; it can no longer be resumed."""
        self.keeper.forget()

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
        ``FitResult.unsaved``. Raises InputError if there is nothing to resume, the checkpoint is damaged,
        another fit runs in the folder, or the start mesh is out of reach of its target in every view; warns
        if it is in some.
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
        # Room for parameters, their moments and the mesh, a few times; for each texel, that of all maps.
        most = MOST_BYTES + 1000 * len(self.topology(len(self.rounds)).faces)
        most += (100 if self.recovery is None else 600) * self.options.texels**2
        views = None if self.cameras is None else len(self.cameras)
        point = self.keeper.load(self.key, self.steps, views, most)
        self.keeper.check_mesh(point, self.topology(point.round), self.keeps_faces)
        return point

    def _check_reach(self) -> None:
        matrices, masks = self.learned[:2]
        seen = marked(matrices, self.start.positions, masks.shape[1:])
        reach = check_reach(seen, masks, self.shape_radius(0))
        for note in (reach, Parts.of(self.dataset).note(self.start.component_count())):
            if note is not None:
                warnings.warn(note, stacklevel=4)


# What a fit starts from, with the rounds of the shape phase that follow.


def rounds_of(
    dataset: Dataset,
    options: FitOptions,
    init: Mesh | None,
    make_engine: MakeEngine,
    keeper: Keeper | None = None,
) -> tuple[Mesh, list[FitRound]]:
    """The mesh to start from, in units of the scene, and the rounds of the shape phase.

    init: a mesh in the world to start from instead of what ``options.start`` says.  make_engine: for stereo.
    keeper: of the folder in which a fit that was stopped has left its start.
    """
    if init is not None:
        mesh = dataset.placed(init)
        rounds = (fitted_rounds if fits(mesh, dataset) else shape_rounds)(options, dataset.exact)
        return mesh, [replace(plan, subdivisions=0, faces=0, remesh=0) for plan in rounds]
    near = shape_rounds(options, dataset.exact, near=True)
    many, train = near[-1].faces or sphere_faces(near[-1].subdivisions), dataset.train
    few = many // 4
    arrays = (array for array in (train.masks, train.colors, train.known) if array is not None)
    found = (keeper or Keeper(None)).started(
        task_key({**options.as_dict(), "faces": [few, many]}, dataset.matrices, *arrays),
        lambda: start_mesh(dataset, options, (few, many), make_engine),
    )
    if found is None:
        rounds = shape_rounds(options, dataset.exact)
        return dataset.start(rounds[0].subdivisions), rounds
    mesh, fitted = found
    if fitted:
        near = fitted_rounds(options, dataset.exact)
    elif len(mesh.faces) > few:
        # Thin parts need more faces than were asked for.
        near = shape_rounds(options, dataset.exact, near=True, thin=True)
    # Rounds that remesh have room for the faces of the start.
    count = len(mesh.faces)
    return mesh, [replace(plan, faces=max(plan.faces, count)) if plan.faces else plan for plan in near]


# A running fit: an iterator of its moments, with checkpoints on disk and in memory.

SAVE_SECONDS = 10.0
"""Seconds between two checkpoints."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The steps that a fit has just done: its round, the round's engine, and the steps of it so far."""

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

    def __init__(self, job: FitJob, point: Checkpoint, watch: Watch, stop: Callable[[], bool]):
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
            self.found, work = begin, job.round(point.round, begin, point.step)
            point.mesh, point.maps = begin.mesh, dict(begin.values)
            point.views = None if begin.cameras is None else begin.cameras.views
            yield from self._round(work, begin)
            while self.finished and self._target is None and point.step < work.steps:
                work = job.round(point.round, replace(begin, mesh=point.mesh), point.step)
                yield from self._round(work, begin, further=True)
            if self._target is not None:
                return
            if self.finished:
                self._watch.between(work, "mending the surface")
                found = job.after(point.round, replace(begin, mesh=point.mesh), self.found, self._stop)
                self.finished = found is not None
                begin = self.found = found or self.found
            if self.finished:
                point.round, point.step, point.state = point.round + 1, 0, {}

    def _round(self, work: Round, begin: Found, further: bool = False) -> Iterator[Moment]:
        """The steps of a round, up to ``until``. Then ``found`` is what it found, at its last step, and
        ``finished`` says whether it was not stopped. further: whether it goes on from another ``Round``."""
        job, point, started = self.job, self.point, time.perf_counter()
        before = len(point.losses)
        with closing(job.engine(work)) as engine:
            if point.state:
                if further:
                    # Larger pictures may have a finer level of the texture, which begins with nothing.
                    point.state = {**engine.state(), **point.state}
                job.keeper.restore(engine, point)
            saved, first, safe = started, True, False
            while point.step < work.until and self._target is None and not self._stop():
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
                end = min(point.step + count, work.until)
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
                        if now - saved > SAVE_SECONDS and (end < work.until or end == work.steps):
                            self._save(engine)
                            saved = now
                    yield Moment(work, engine, point.step, losses[-1])
            if self._target is not None:
                return
            self.finished = point.step >= work.until
            if self.finished and point.step < work.steps:
                point.state = engine.state()
                return
            if not self.finished or job.adjusts(point.round):
                self._save(engine)
            self.found = work.found(engine).over(begin)
            # After a step alone: a round that was saved at its end and goes on was not sent what a step
            # reads.
            if job.measure is not None and self.finished and not first:
                job.measure(f"{work.name} {point.round + 1}", engine)

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
    """Looks at the rounds of a fit, which have so many ``steps``, and tells ``progress``. The checkpoint
    keeps the numbers, so that the curves of a resumed fit go on.

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
