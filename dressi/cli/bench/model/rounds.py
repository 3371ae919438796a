"""The rounds of `dressi fit` as steps to plan: graphs, sizes and options are those of a fit of one of the meshes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dressi.cli.bench.meshes import Model
from dressi.cli.bench.request import Request
from dressi.render.engine import Engine
from dressi.render.fit import Dataset, FitJob, FitOptions


def fit_job(
    model: Model,
    size: tuple[int, int],
    request: Request,
    make_scene: Callable[[FitOptions], Dataset],
    make_engine: Callable[[], Engine],
) -> FitJob:
    """The fit of a mesh, not run."""
    options = FitOptions(
        size=size,
        views=request.views,
        form=request.form,
        peels=request.peels,
        texture_gradient=request.gradient,
        texture_size=max(request.textures),
        steps=request.steps,
    )
    return FitJob(make_scene(options), options, make_engine)


def rounds(job: FitJob) -> Iterator[tuple[str, Any, Engine]]:
    """Name, graph and a fresh engine of each round of a fit; engines are closed when the next one is asked for."""
    for name, work in job.works():
        engine = job.engine(work)
        try:
            yield name, work, engine
        finally:
            engine.close()
