"""The rounds of a fit as graphs, its start in units of the scene, and its result in the world."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..cameras import Cameras
from ..cameras.alignment import align
from ..cameras.units import unit_cameras, world_cameras
from ..engine import Engine, MakeEngine
from ..forms.hard_soft_ras import SOFT_FORMS
from ..mesh import Mesh
from .bundle.adjust import adjusted
from .dataset import Dataset
from .disk import Keeper, task_key
from .options import FitOptions
from .phases.learned import learned, round_size
from .phases.moving import Moving
from .phases.remeshed import mended, refined
from .phases.shape import ShapeRound
from .phases.texture import TextureRound
from .phases.unfold import unfolded_from
from .result import Timing
from .run.controls import UNCHANGED, Controls
from .schedule import FitRound, shape_rounds
from .start.choice import hull_start
from .textures.charts import with_charts


class FitRounds:
    """The rounds of a fit as graphs, and what is done to the mesh between them.

    Arguments as of ``FitJob``. cameras, in units of the scene, are those of the start of the present round. timing, plans
    and texts tell of the rounds that ran so far.
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
    ):
        if options.depth and dataset.train.depths is None:
            raise InputError(
                "there are no depths to fit the shape to; give photographs with depths, or leave out --depth"
            )
        self.dataset, self.options, self.make_engine, self.folder = dataset, options, make_engine, folder
        self.keeper, self.measure = Keeper(folder), measure
        self.learned = learned(dataset)
        self.cameras = moving_cameras(dataset) if options.refine_poses else None
        """In units of the scene, at the start of the round; None if poses are not learned."""
        self.keeps_faces = init is not None
        self.start, self.rounds = rounds_of(dataset, options, init)
        """The mesh to start from, in units of the scene, and what each round of the shape phase does."""
        self.key = task_key(
            options.as_dict(),
            dataset.matrices,
            dataset.train.masks,
            dataset.train.colors,
            *(array for array in (dataset.train.known, dataset.train.depths) if array is not None),
            self.start.positions,
            self.start.faces,
        )
        self.controls: Controls | None = None
        """What a person may change meanwhile; set it before the first round."""
        self.timing = Timing()
        self.plans: dict[str, dict[str, int]] = {}
        self.texts: dict[str, str] = {}

    # ---- the rounds as graphs
    def shape_round(self, number: int, mesh: Mesh) -> ShapeRound:
        matrices, masks, colors, known, depths = self.learned
        plan = self.rounds[number]
        if self.cameras is not None:
            matrices = Moving(self.cameras, plan.turn, plan.shift, plan.steps)
        size = round_size(self.options.size, plan.pixels, len(masks), self.options.form)
        rest = self.start.positions if self.keeps_faces else None
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
            self.controls.factors if self.controls else UNCHANGED,
        )

    def texture_round(self, mesh: Mesh) -> TextureRound:
        options = self.options
        matrices, masks, colors = self.learned[:3]
        return TextureRound(
            mesh,
            matrices if self.cameras is None else self.cameras.matrices,
            masks,
            colors,
            steps=options.texture_steps,
            texture_size=options.texels,
            gradient=options.texture_gradient,
            seed=options.seed,
            batch=options.batch,
            exposure=options.exposure,
            # Outlines of photographs are not known to a part of a pixel.
            shape=self.dataset.exact and options.joint and not options.lit,
            rest=self.start.positions if self.keeps_faces else None,
            factors=self.controls.factors if self.controls else UNCHANGED,
        )

    def topology(self, number: int) -> Mesh:
        """The start mesh subdivided for round ``number``; the texture round uses the mesh of the last shape round."""
        number = min(number, len(self.rounds) - 1)
        return self.start.subdivide(self.rounds[number].subdivisions - self.rounds[0].subdivisions)

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

    def adjusts(self, number: int) -> bool:
        """Whether bundle adjustment follows round ``number``."""
        return self.cameras is not None and number < len(self.rounds) and self.rounds[number].adjusts

    def adjusted(self, mesh: Mesh, stop: Callable[[], bool]) -> tuple[Mesh, bool]:
        """The mesh after bundle adjustment, which moves the cameras too, and whether that was not stopped."""
        assert self.cameras is not None
        views, details = self.learned, self.keeps_faces
        train = views.masks, views.colors, views.known
        found = adjusted(mesh, self.cameras, *train, self.make_engine, details=details, stop=stop)
        mesh, self.cameras = found or (mesh, self.cameras)
        return mesh, found is not None

    def mended(self, mesh: Mesh, number: int, before: Mesh) -> Mesh:
        """The mesh after round ``number`` without holes and folds that masks contradict; a given topology is kept. before:
        the mesh at the start of the round."""
        if self.keeps_faces:
            return mesh
        if number == len(self.rounds):
            return unfolded_from(mesh, before)
        matrices = self.dataset.matrices if self.cameras is None else self.cameras.matrices
        train, size = self.dataset.train, self.options.texels
        return mended(mesh, self.rounds[number], matrices, train.masks, train.known, size)

    def refined(self, mesh: Mesh, number: int) -> Mesh:
        """The mesh with the faces for round ``number`` and, for the texture round, with UVs."""
        if number >= len(self.rounds):
            textured = number > len(self.rounds) or self.keeps_faces
            return mesh if textured else with_charts(mesh, self.options.texels)
        plan, before = self.rounds[number], self.rounds[number - 1]
        if plan.faces:
            return refined(mesh, plan.faces) if plan.faces > before.faces else mesh
        return mesh.subdivide(plan.subdivisions - before.subdivisions)

    def shape_radius(self, number: int) -> float:
        """The radius that round ``number`` starts with, in image heights."""
        plan, form = self.rounds[number], self.options.form
        size = round_size(self.options.size, plan.pixels, len(self.learned[1]), form)
        return SOFT_FORMS[form].usable_radius(plan.radius[0], size[1])

    def engine(self, work: ShapeRound | TextureRound) -> Engine:
        """A fresh engine that optimises a round; the caller closes it."""
        engine = self.make_engine()
        engine.set_loss(work.loss)
        engine.set_optimizer(work.optimizer, work.parameters)
        for name, variable in getattr(work, "outputs", {}).items():
            engine.set_output(name, variable)
        if self.controls is not None:
            self.controls.send(engine, work.factors)
        return engine

    def note(self, name: str, plan: Any) -> None:
        counts = plan.counts
        """Keep counts and text of the plan of a phase."""
        self.plans[name] = {key: int(counts[key]) for key in ("substages", "stages", "functions")}
        self.texts[name] = str(plan)


def rounds_of(dataset: Dataset, options: FitOptions, init: Mesh | None) -> tuple[Mesh, list[FitRound]]:
    """The mesh to start from, in units of the scene, and the rounds of the shape phase.

    init: a mesh in the world to start from instead of what ``options.start`` says.
    """
    if init is not None:
        rounds = shape_rounds(options, dataset.exact)
        return dataset.placed(init), [replace(plan, subdivisions=0, faces=0, remesh=0) for plan in rounds]
    near = shape_rounds(options, dataset.exact, near=True)
    few = sphere_faces(near[-1].subdivisions - 1)
    hull = hull_start(dataset, options, few)
    if hull is not None:
        # Thin parts need more faces than were asked for.
        near = shape_rounds(options, dataset.exact, near=True, thin=len(hull.faces) > few)
        return hull, [_with_room(plan, len(hull.faces)) for plan in near]
    rounds = shape_rounds(options, dataset.exact)
    return dataset.start(rounds[0].subdivisions), rounds


def _with_room(plan: FitRound, faces: int) -> FitRound:
    """A round that remeshes, with room for the faces of the start."""
    return replace(plan, faces=max(plan.faces, faces)) if plan.faces else plan


def sphere_faces(subdivisions: int) -> int:
    """The number of faces of the start sphere."""
    return 8 * 4**subdivisions


def moving_cameras(dataset: Dataset) -> Cameras | None:
    """The cameras whose poses are learned, in units of the scene; None, with a warning, for a single view, which says
    nothing about its own pose."""
    if len(dataset.train.cameras) == 1:
        warnings.warn(
            "one view says nothing about its pose: it stays as it is; give more to refine them", stacklevel=3
        )
        return None
    return unit_cameras(dataset.train.cameras, dataset.center, dataset.radius)


def in_world(dataset: Dataset, mesh: Mesh, cameras: Cameras | None) -> tuple[Mesh, Cameras | None]:
    """Mesh and learned cameras (None where they stay) from units of the scene to the world.

    A rigid motion and a scale of mesh and cameras together change no picture. Those are chosen that bring the learned
    cameras nearest to the given ones.
    """
    mesh = dataset.to_world(mesh)
    if cameras is None:
        return mesh, None
    cameras = world_cameras(cameras, dataset.center, dataset.radius)
    back = align(cameras, dataset.train.cameras)
    return mesh.moved(back.points(mesh.positions)), back.cameras(cameras)
