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
) -> FitResult:
    """The result of a fit with a material in place of its texture, the light and the exposures.

    light: what shines, or what the light starts from.  measure: called with "material" and the engine at its end. Shape and cameras are those of the result. Its losses go on with the
    phase "material"; one that was stopped is not ``finished``. Raises InputError.
    """
    train = dataset.train if result.cameras is None else replace(dataset.train, cameras=result.cameras)
    before = len(result.losses)

    def shown(now: Progress) -> None:
        if progress is not None:
            progress(replace(now, done=before + now.done, total=before + now.total))

    job = MaterialFit(result.mesh, train, options, light, make_engine)
    found = job.run(progress=shown, stop=stop, measure=measure)
    counts = {key: int(found.plan.counts[key]) for key in ("substages", "stages", "functions")}
    return replace(
        result,
        mesh=replace(found.mesh, name=result.mesh.name),
        light=found.light,
        exposures=found.exposures if "exposure" in options.optimize else None,
        losses=result.losses + [("material", loss) for loss in found.losses],
        plans={**result.plans, "material": counts},
        finished=found.finished,
    )
