"""The cases: which trials each of them makes of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dressi.ad.types import Size
from dressi.cli.bench.request import Request
from dressi.cli.bench.stencils import Training, blur, chain, convolution, product, pyramid, slicing
from dressi.cli.bench.work import (
    Targets,
    Trial,
    Work,
    descent,
    environment,
    joint,
    material,
    pixels,
    roughness,
    shading,
    silhouette,
    texture,
)
from dressi.vk.plan.limits import PROFILES, profile
from dressi.vk.plan.model.records import model_of_profile
from dressi.vk.plan.options import BASELINE, DEFAULT, PlanOptions

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


def _image_fitting(request: Request, targets: Targets) -> Iterator[Trial]:
    for size in request.sizes:
        yield Trial(pixels(size, request.steps))


def _silhouette(request: Request, targets: Targets) -> Iterator[Trial]:
    """Meshes against sizes. The loss is made in every step only where somebody reads it; beside it stands the default, in
    which every step records it."""
    for trial in _table4(request, targets):
        yield trial
        yield replace(trial, label="loss recorded", record=True)


def _table4(request: Request, targets: Targets) -> Iterator[Trial]:
    """Meshes against sizes."""
    for model in request.models:
        for size in request.sizes:
            yield Trial(silhouette(model, size, request, targets))


def _textured(make: Callable[..., Work]) -> MakeTrials:
    """The trials of a work with a texture and targets: textures against sizes, as in table 5."""

    def trials(request: Request, targets: Targets) -> Iterator[Trial]:
        for model in request.models:
            for size in request.sizes:
                for texels in request.textures:
                    yield Trial(make(model, size, texels, request, targets))

    return trials


def _phases(request: Request, targets: Targets) -> Iterator[tuple[str, Work]]:
    """The two kinds of steps of the cross-platform application."""
    for model in request.models:
        for size in request.sizes:
            yield "geometry", silhouette(model, size, request, targets)
            for texels in request.textures:
                yield "texture", texture(model, size, texels, request, targets)


def _trained(make: Callable[[Size, Request], Training]) -> MakeTrials:
    """The trials of a stencil: sizes."""

    def trials(request: Request, targets: Targets) -> Iterator[Trial]:
        for size in request.sizes:
            yield Trial(descent(make(size, request), request.peer))

    return trials


def _convolution(size: Size, request: Request) -> Training:
    return convolution(size, request.views, request.channels, request.kernel, depthwise=request.depthwise)


def _table2(request: Request, targets: Targets) -> Iterator[Trial]:
    """Every profile: what its limits and its device model make of the graph, and the time of that plan on this device."""
    names = PROFILES if request.profile is None else (request.profile,)
    for phase, work in _phases(request, targets):
        for name in names:
            counts = {
                when: profile_counts(work, name, replace(DEFAULT, cache_static=cached))
                for when, cached in (("before_cache", False), ("after_cache", True))
            }
            facts = {"phase": phase, "profile": name, "profile_plan": counts}
            yield for_profile(Trial(work, f"{phase}, {name}", facts=facts), name)


def for_profile(trial: Trial, name: str) -> Trial:
    """The trial, planned with the limits and the device model of a named profile. Raises InputError."""
    return replace(trial, limits=profile(name), model=model_of_profile(name))


def profile_counts(work: Work, name: str, options: PlanOptions) -> dict[str, int]:
    """SubStages and Stages of each step under the pure profile, whatever this device could do."""
    step = for_profile(Trial(work, options=options), name).plan(profile(name), model_of_profile(name)).step
    return {"substages": len(step.sub_stages), "stages": len(step.stages)}


def _table3(request: Request, targets: Targets) -> Iterator[Trial]:
    """The phases, and a material under a known light: its filters are what a cache of what does not change is for."""
    shaded = (("roughness", trial.work) for trial in _shaded(roughness)(request, targets))
    for phase, work in (*_phases(request, targets), *shaded):
        for name, options in ABLATION.items():
            yield Trial(work, f"{phase}, {name}", options, facts={"phase": phase, "ablation": name})


def _figure9(request: Request, targets: Targets) -> Iterator[Trial]:
    for phase, work in _phases(request, targets):
        yield Trial(work, phase, facts={"phase": phase}, traced=True)


def _shaded(make: Callable[..., Work]) -> MakeTrials:
    """The trials of a work with a material, which makes its own targets."""
    return _textured(lambda model, size, texels, request, _: make(model, size, texels, request))


CASES: dict[str, MakeTrials] = {
    "image_fitting": _image_fitting,
    "silhouette": _silhouette,
    "texture": _textured(texture),
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "table5": _textured(texture),
    "figure9": _figure9,
    "joint": _textured(joint),
    "shading": _shaded(shading),
    "material": _shaded(material),
    "environment": _shaded(environment),
    "convolution": _trained(_convolution),
    "matmul": _trained(lambda size, _: product(size)),
    "slice": _trained(lambda size, request: slicing(size, request.views)),
    "blur": _trained(lambda size, request: blur(size, request.views)),
    "chain": _trained(lambda size, request: chain(size, request.views)),
    "pyramid": _trained(lambda size, request: pyramid(size, request.views)),
}
