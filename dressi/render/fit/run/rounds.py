"""The rounds of a fit as graphs, its start in units of the scene, and its result in the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ...cameras import Cameras
from ...cameras.pose import world_cameras
from ...engine import Engine, MakeEngine
from ...forms.hard_soft_ras import SOFT_FORMS
from ...mesh import Mesh
from ..data.dataset import Dataset, Timing
from ..data.learned import learned, round_size
from ..data.textures import with_charts
from ..disk import Keeper, task_key
from ..graphs.round import Found, Round, start
from ..graphs.term import UNCHANGED, Controls, Factors, FitRound, Moving, in_world, moving_cameras
from ..options import FitOptions
from ..options.schedule import fitted_rounds, shape_rounds
from ..phases.bundle import adjusted
from ..phases.materials import MaterialFit, Recovery
from ..phases.remeshed import mended, refined, unfolded_from
from ..phases.shape import ShapeRound
from ..phases.texture import OF_PHOTOGRAPHS, PARTS, SMOOTHNESS, TextureRound
from ..start.choice import fits, start_anew, start_mesh


class FitRounds:
    """The rounds of a fit as graphs, and what is done to the mesh between them.

    Arguments as of ``FitJob``. timing, plans and texts tell of the rounds that ran so far.
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
        self.cameras = moving_cameras(dataset) if options.refine_poses else None
        """In units of the scene, at the start; None if poses are not learned."""
        self.keeps_faces = init is not None
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
        """Of the phase of each round."""
        stages = () if self.recovery is None else self.recovery.stages
        return [*("shape" for _ in self.rounds), TextureRound.name, *(MaterialFit.name for _ in stages)]

    @property
    def steps(self) -> list[int]:
        """Of each round."""
        stages = () if self.recovery is None else self.recovery.stages
        own = [*(plan.steps for plan in self.rounds), self.texture_steps]
        return [*own, *(stage.options.steps for stage in stages)]

    def round(self, number: int, begin: Found) -> Round:
        """Round ``number`` from what it begins with."""
        texture = len(self.rounds)
        if number < texture:
            return self.shape_round(number, begin)
        if number == texture:
            return self.texture_round(begin)
        assert self.recovery is not None
        views = self.dataset.train
        if begin.cameras is not None:
            views = replace(views, cameras=in_world(self.dataset, begin.cameras)[0])
        work = self.recovery.round(number - texture - 1, begin, views, self.factors)
        (center, radius), scene = begin.mesh.bounding_sphere(), self.dataset
        work.subject = work.subject.moved(radius / scene.radius, (center - scene.center) / scene.radius)
        return work

    def shape_round(self, number: int, begin: Found) -> ShapeRound:
        """A round of the shape phase."""
        plan, options, cameras = self.rounds[number], self.options, begin.cameras
        views, moving = self.learned, None
        if cameras is not None and plan.moves:
            moving = Moving(cameras, plan.turn, plan.shift, plan.steps)
        elif cameras is not None:
            views = views._replace(matrices=cameras.matrices)
        return ShapeRound(
            begin.mesh,
            views,
            round_size(options.size, plan.pixels, len(self.learned.masks), options.form),
            plan,
            options.peels,
            moving=moving,
            rest=self.start.positions if self.keeps_faces else None,
            form=options.form,
            batch=options.batch,
            seed=options.seed,
            factors=self.factors,
        )

    def texture_round(self, begin: Found) -> TextureRound:
        """The texture round."""
        options, views, cameras = self.options, self.learned, begin.cameras
        exact = self.dataset.exact
        return TextureRound(
            begin.mesh,
            views.matrices if cameras is None else cameras.matrices,
            views.masks,
            views.colors,
            steps=self.texture_steps,
            texture_size=options.texels,
            gradient=options.texture_gradient,
            seed=options.seed,
            batch=options.batch,
            smoothness=SMOOTHNESS if exact else OF_PHOTOGRAPHS,
            exposure=not exact if options.exposure is None else options.exposure,
            shape=self.joint,
            # Outlines of photographs are not known to a part of a pixel.
            fringe=None if exact else self.dataset.train.fringe,
            known=views.known,
            rest=self.start.positions if self.keeps_faces else None,
            factors=self.factors,
            loss=options.loss,
            parts=1.0 if exact else PARTS,
        )

    @property
    def joint(self) -> bool:
        """Whether the texture round moves vertices too."""
        options = self.options
        follows = self.dataset.exact or (
            options.follows_colours if self.cameras is None else options.ends_by_colours
        )
        return options.joint and not options.lit and follows

    @property
    def texture_steps(self) -> int:
        """Those of the texture round: twice as many where it moves vertices by photographs, which are many,
        and each is in a few of the steps."""
        return self.options.texture_steps * (2 if self.joint and not self.dataset.exact else 1)

    @property
    def factors(self) -> Factors:
        """What a person may change meanwhile."""
        return self.controls.factors if self.controls else UNCHANGED

    def topology(self, number: int) -> Mesh:
        """The start mesh subdivided for round ``number``; the texture round uses the mesh of the last shape
        round."""
        number = min(number, len(self.rounds) - 1)
        return self.start.subdivide(self.rounds[number].subdivisions - self.rounds[0].subdivisions)

    def works(self) -> Iterator[tuple[str, Round]]:
        """Every round with its name (``shape 1``, ..., ``texture``, ``material 1``, ...), as it would begin
        with the mesh of the start."""
        texture = len(self.rounds)
        for number in range(texture + 1):
            begin = Found(self.topology(number), self.cameras)
            yield f"shape {number + 1}" if number < texture else "texture", self.round(number, begin)
        if self.recovery is None:
            return
        mesh = self.placed(Found(self.topology(texture), self.cameras))[0]
        mesh = mesh if mesh.uvs is not None else with_charts(mesh, self.options.texels)
        mesh = replace(mesh, texture=np.ones((self.options.texels, self.options.texels, 3)))
        begin = Found(mesh, self.cameras, values=self.recovery.values(mesh))
        for number in range(len(self.recovery.stages)):
            yield f"material {number + 1}", self.round(texture + 1 + number, begin)

    def plan(self) -> dict[str, Any]:
        """The plan of every round by its name, without a step. ``plans`` and ``texts`` get the last of each
        phase."""
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

    def after(self, number: int, before: Found, found: Found, stop: Callable[[], bool]) -> Found | None:
        """What the next round begins with, after what is done to the mesh between two rounds; None if that
        was stopped."""
        found = replace(found, mesh=self._mended(number, before, found))
        if self.adjusts(number):
            assert found.cameras is not None
            train, details = self.learned, self.keeps_faces
            views = train.masks, train.colors, train.known
            moved = adjusted(found.mesh, found.cameras, *views, self.make_engine, details=details, stop=stop)
            if moved is None:
                return None
            found = Found(*moved)
            if not self.keeps_faces:
                faces = sphere_faces(self.rounds[number].subdivisions)
                begun = begun_anew(self.dataset, self.options, moved[1], faces, self.make_engine)
                found = found if begun is None else replace(found, mesh=begun)
        if number < len(self.rounds):
            return replace(found, mesh=self._refined(found.mesh, number + 1))
        if number == len(self.rounds) and self.recovery is not None:
            mesh = self.placed(found)[0]
            return replace(found, mesh=mesh, values=self.recovery.values(mesh))
        return found

    def _mended(self, number: int, before: Found, found: Found) -> Mesh:
        """The mesh after a round without holes and folds that masks contradict; a given topology is kept."""
        mesh = found.mesh
        if self.keeps_faces or number > len(self.rounds):
            return mesh
        if number == len(self.rounds):
            return unfolded_from(mesh, before.mesh)
        matrices = self.dataset.matrices if found.cameras is None else found.cameras.matrices
        train, size = self.dataset.train, self.options.texels
        return mended(mesh, self.rounds[number], matrices, train.masks, train.known, size)

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
            return {"mesh": mesh, "cameras": cameras, "gains": gains}
        recovery = self.recovery
        cameras = None if found.cameras is None else in_world(self.dataset, found.cameras)[0]
        mesh = replace(recovery.mesh(found), name=self.start.name)
        lit = {"light": recovery.lit_by(found), "exposures": recovery.exposures(found)}
        return {"mesh": mesh, "cameras": cameras, **lit}

    def placed(self, found: Found) -> tuple[Mesh, Cameras | None]:
        """Mesh and learned cameras (None where they stay), found by shape and texture, in the world."""
        mesh = self.dataset.to_world(found.mesh)
        if found.cameras is None:
            return mesh, None
        cameras, back = in_world(self.dataset, found.cameras)
        return mesh.moved(back.points(mesh.positions)), cameras

    def shape_radius(self, number: int) -> float:
        """The radius that round ``number`` starts with, in image heights."""
        plan, form = self.rounds[number], self.options.form
        size = round_size(self.options.size, plan.pixels, len(self.learned[1]), form)
        return SOFT_FORMS[form].usable_radius(plan.radius[0], size[1])

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


# What a fit starts from, with the rounds of the shape phase that follow, and what it begins anew from.


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
        rounds = (
            fitted_rounds(options, dataset.exact)
            if fits(mesh, dataset)
            else shape_rounds(options, dataset.exact)
        )
        return mesh, [replace(plan, subdivisions=0, faces=0, remesh=0) for plan in rounds]
    near = shape_rounds(options, dataset.exact, near=True)
    few, many = (sphere_faces(near[-1].subdivisions - less) for less in (1, 0))
    train = dataset.train
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
    return mesh, [_with_room(plan, len(mesh.faces)) for plan in near]


def begun_anew(
    dataset: Dataset, options: FitOptions, cameras: Cameras, faces: int, make_engine: MakeEngine
) -> Mesh | None:
    """What stereo finds by cameras that a fit has found, both in units of the scene; None where it goes on
    with its own shape.

    faces: as of ``start_anew``."""
    train = replace(dataset.train, cameras=world_cameras(cameras, dataset.center, dataset.radius))
    return start_anew(replace(dataset, train=train), options, faces, make_engine)


def _with_room(plan: FitRound, faces: int) -> FitRound:
    """A round that remeshes, with room for the faces of the start."""
    return replace(plan, faces=max(plan.faces, faces)) if plan.faces else plan


def sphere_faces(subdivisions: int) -> int:
    """The number of faces of the start sphere."""
    return 8 * 4**subdivisions
