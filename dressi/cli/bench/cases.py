"""The cases: which trials each of them makes of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dressi.ad.graph.types import Size
from dressi.cli.bench import stencils, work
from dressi.cli.bench.request import Request
from dressi.cli.bench.work import Targets, Trial, Work
from dressi.vk.plan.core.limits import PROFILES, profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT, PlanOptions
from dressi.vk.plan.model.records import model_of_profile

COMPARED = ("table2", "table3")
"""Cases whose trials are different ways to the same images."""
MakeTrials = Callable[[Request, Targets], Iterator[Trial]]
# What table 3 of the paper switches off; the last is its baseline, one Function a pass.
ABLATION: dict[str, PlanOptions] = {
    "full": DEFAULT,
    "no stage packing": replace(DEFAULT, pack_stages=False),
    "no reactive cache": replace(DEFAULT, cache_static=False),
    "neither": replace(DEFAULT, pack_stages=False, cache_static=False),
    "one function a pass": BASELINE,
}


def _by_size(make: Callable[[Size, Request], Work]) -> MakeTrials:
    """The trials of a work without a mesh: sizes."""

    def trials(request: Request, targets: Targets) -> Iterator[Trial]:
        return (Trial(make(size, request)) for size in request.sizes)

    return trials


def _trained(make: Callable[[Size, Request], stencils.Training]) -> MakeTrials:
    return _by_size(lambda size, request: work.descent(make(size, request), request.peers))


def _table4(request: Request, targets: Targets) -> Iterator[Trial]:
    """Meshes against sizes."""
    for model in request.models:
        for size in request.sizes:
            yield Trial(work.silhouette(model, size, request, targets))


def _silhouette(request: Request, targets: Targets) -> Iterator[Trial]:
    """Meshes against sizes. The first trial makes the loss only where somebody reads it; the second records
    it in every step, which is the default of engines."""
    for trial in _table4(request, targets):
        yield trial
        yield replace(trial, label="loss recorded", record=True)


def _textured(make: Callable[..., Work]) -> MakeTrials:
    """The trials of a work with a texture and targets: textures against sizes, as in table 5."""

    def trials(request: Request, targets: Targets) -> Iterator[Trial]:
        for model in request.models:
            for size in request.sizes:
                for texels in request.textures:
                    yield Trial(make(model, size, texels, request, targets))

    return trials


def _shaded(make: Callable[..., Work]) -> MakeTrials:
    """The trials of a work with a material, which makes its own targets."""
    return _textured(lambda model, size, texels, request, _: make(model, size, texels, request))


def _phases(request: Request, targets: Targets) -> Iterator[tuple[str, Work]]:
    """The two kinds of steps of the cross-platform application."""
    for model in request.models:
        for size in request.sizes:
            yield "geometry", work.silhouette(model, size, request, targets)
            for texels in request.textures:
                yield "texture", work.texture(model, size, texels, request, targets)


def _table2(request: Request, targets: Targets) -> Iterator[Trial]:
    """Every profile: what its limits and its device model make of the graph, and its time on this device."""
    names = PROFILES if request.profile is None else (request.profile,)
    for phase, done in _phases(request, targets):
        for name in names:
            counts = {
                when: profile_counts(done, name, replace(DEFAULT, cache_static=cached))
                for when, cached in (("before_cache", False), ("after_cache", True))
            }
            facts = {"phase": phase, "profile": name, "profile_plan": counts}
            yield for_profile(Trial(done, f"{phase}, {name}", facts=facts), name)


def for_profile(trial: Trial, name: str) -> Trial:
    """The trial, planned with the limits and the device model of a named profile. Raises InputError."""
    return replace(trial, limits=profile(name), model=model_of_profile(name))


def profile_counts(done: Work, name: str, options: PlanOptions) -> dict[str, int]:
    """SubStages and Stages of each step under the pure profile, whatever this device could do."""
    step = for_profile(Trial(done, options=options), name).plan(profile(name), model_of_profile(name)).step
    return {"substages": len(step.sub_stages), "stages": len(step.stages)}


def _table3(request: Request, targets: Targets) -> Iterator[Trial]:
    """The phases, and a material under a known light, which the paper has not: a cache keeps its filters."""
    trials = () if request.quick else _shaded(work.roughness)(request, targets)
    shaded = (("roughness", trial.work) for trial in trials)
    for phase, done in (*_phases(request, targets), *shaded):
        for name, options in ABLATION.items():
            yield Trial(done, f"{phase}, {name}", options, facts={"phase": phase, "ablation": name})


def _figure9(request: Request, targets: Targets) -> Iterator[Trial]:
    for phase, done in _phases(request, targets):
        yield Trial(done, phase, facts={"phase": phase}, traced=True)


CASES: dict[str, MakeTrials] = {
    "image_fitting": _by_size(lambda size, request: work.pixels(size, request.steps)),
    "silhouette": _silhouette,
    "texture": _textured(work.texture),
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "table5": _textured(work.texture),
    "figure9": _figure9,
    "joint": _textured(work.joint),
    "shading": _shaded(work.shading),
    "material": _shaded(work.material),
    "environment": _shaded(work.environment),
    "convolution": _trained(stencils.convolution),
    "matmul": _trained(stencils.product),
    "slice": _trained(stencils.slicing),
    "blur": _trained(stencils.blur),
    "chain": _trained(stencils.chain),
    "pyramid": _trained(stencils.pyramid),
}
