"""The material phase of a fit: after shape and texture, for the shape that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from ...engine import Engine, MakeEngine
from ...shading.lights import LightSource
from ..dataset import Dataset
from ..disk import Keeper
from ..result import FitResult, Progress
from .kept import StageKeeper
from .material_fit import MaterialFit
from .options import MaterialOptions


def with_material(
    dataset: Dataset,
    result: FitResult,
    options: MaterialOptions,
    light: LightSource,
    make_engine: MakeEngine,
    *,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    measure: Callable[[str, Engine], None] | None = None,
    moves: bool = False,
    keeper: Keeper | None = None,
    resume: bool = False,
) -> FitResult:
    """The result of a fit with a material in place of its texture, the light and the exposures.

    moves: whether vertices move under the light in some of the steps (``stages``), for exact masks.

    light: what shines, or what the light starts from.  measure: called with "material" and the engine at its end. Cameras
    are those of the result. Its losses go on with the phase "material"; one that was stopped is not ``finished``.  keeper: of
    the file (``MATERIAL``) of its checkpoints.  resume: whether to go on from the one there is, if it is of this task. Raises
    InputError.
    """
    train = dataset.train if result.cameras is None else replace(dataset.train, cameras=result.cameras)
    before, plan = len(result.losses), stages(options, moves)
    task = {"options": asdict(options), "moves": moves}
    steps, views = [part.steps for part, _ in plan], [train.masks, train.colors]
    keeper = keeper or Keeper(None)
    kept = StageKeeper(keeper, task, result.mesh, light, resume, steps, options.texture_size, views)
    point, found = kept.point, None
    first, earlier = point.round, point.seconds

    def shown(now: Progress) -> None:
        if progress is not None:
            progress(replace(now, done=before + len(point.losses), total=before + options.steps))

    for number, (part, moving) in enumerate(plan[first:], first):
        job = MaterialFit(kept.mesh, train, part, kept.light, make_engine, moving, kept.exposures)
        last = number == len(plan) - 1
        found = job.run(progress=shown, stop=stop, measure=measure if last else None, kept=kept)
        if last or not found.finished:
            break
        kept.begin(number + 1, found.mesh, found.values)
    assert found is not None
    counts = {key: int(found.plan.counts[key]) for key in ("substages", "stages", "functions")}
    return replace(
        result,
        mesh=replace(found.mesh, name=result.mesh.name),
        light=found.light,
        exposures=found.exposures if "exposure" in options.optimize else None,
        losses=result.losses + [("material", loss) for _, loss in point.losses],
        plans={**result.plans, "material": counts},
        finished=found.finished,
        earlier_s=result.earlier_s + earlier,
        unsaved=result.unsaved if keeper.folder is None else keeper.unsaved,
    )


def stages(options: MaterialOptions, moves: bool) -> list[tuple[MaterialOptions, bool]]:
    """The parts of a recovery, and whether vertices move in each; together they have the steps of ``options``.

    Vertices move when the rest of the material is known roughly, and before there is a normal map, which would take what is
    wrong with the shape upon itself.
    """
    smooth = tuple(part for part in options.optimize if part != "normal")
    quarter = options.steps // 4
    if not moves or not smooth or quarter == 0:
        return [(options, False)]
    first = replace(options, optimize=smooth, steps=quarter)
    return [(first, False), (first, True), (replace(options, steps=options.steps - 2 * quarter), False)]
