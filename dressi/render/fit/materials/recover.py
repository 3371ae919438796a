"""The material phase of a fit: after shape and texture, for the shape that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...engine import Engine, MakeEngine
from ...shading.lights import LightSource
from ..dataset import Dataset
from ..result import FitResult, Progress
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
) -> FitResult:
    """The result of a fit with a material in place of its texture, the light and the exposures.

    moves: whether vertices move under the light in a quarter of the steps (``stages``), for exact masks.

    light: what shines, or what the light starts from.  measure: called with "material" and the engine at its end. Cameras
    are those of the result. Its losses go on with the phase "material"; one that was stopped is not ``finished``. Raises
    InputError.
    """
    train = dataset.train if result.cameras is None else replace(dataset.train, cameras=result.cameras)
    before = len(result.losses)

    mesh, exposures, losses = result.mesh, None, list[float]()

    def shown(now: Progress) -> None:
        if progress is not None:
            done = before + len(losses)
            progress(replace(now, done=done + now.done, total=before + options.steps))

    plan = stages(options, moves)
    for number, (part, moving) in enumerate(plan):
        job = MaterialFit(mesh, train, part, light, make_engine, moving, exposures)
        last = number == len(plan) - 1
        found = job.run(progress=shown, stop=stop, measure=measure if last else None)
        mesh, light, exposures, losses = found.mesh, found.light, found.exposures, losses + found.losses
        if not found.finished:
            break
    counts = {key: int(found.plan.counts[key]) for key in ("substages", "stages", "functions")}
    return replace(
        result,
        mesh=replace(mesh, name=result.mesh.name),
        light=found.light,
        exposures=found.exposures if "exposure" in options.optimize else None,
        losses=result.losses + [("material", loss) for loss in losses],
        plans={**result.plans, "material": counts},
        finished=found.finished,
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
