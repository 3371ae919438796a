"""The cases: which trials each of them makes of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dressi import Device
from dressi.cli.bench.request import Request
from dressi.cli.bench.work import Trial, Work, pixels, silhouette, texture
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import PROFILES, profile
from dressi.vk.plan.options import BASELINE, DEFAULT, PlanOptions

COMPARED = ("table2", "table3")
"""Cases whose trials are different ways to the same images."""
MakeTrials = Callable[[Request, Device], Iterator[Trial]]
SUBPASSES = replace(DEFAULT, choose_lowering=False, run_on_active_blocks=False)
# What table 3 of the paper switches off; the last is its baseline, one Function a pass.
ABLATION: dict[str, PlanOptions] = {
    "full": DEFAULT,
    "no stage packing": replace(DEFAULT, pack_stages=False),
    "no reactive cache": replace(DEFAULT, cache_static=False),
    "neither": replace(DEFAULT, pack_stages=False, cache_static=False),
    "one function a pass": BASELINE,
}


def _image_fitting(request: Request, device: Device) -> Iterator[Trial]:
    for size in request.sizes:
        yield Trial(pixels(size, request.steps))


def _silhouette(request: Request, device: Device) -> Iterator[Trial]:
    """Also table 4: meshes against sizes."""
    for model in request.models:
        for size in request.sizes:
            yield Trial(silhouette(model, size, request, device))


def _texture(request: Request, device: Device) -> Iterator[Trial]:
    """Also table 5: textures against sizes."""
    for model in request.models:
        for size in request.sizes:
            for texels in request.textures:
                yield Trial(texture(model, size, texels, request, device))


def _phases(request: Request, device: Device) -> Iterator[tuple[str, Work]]:
    """The two kinds of steps of the cross-platform application."""
    for model in request.models:
        for size in request.sizes:
            yield "geometry", silhouette(model, size, request, device)
            for texels in request.textures:
                yield "texture", texture(model, size, texels, request, device)


def _table2(request: Request, device: Device) -> Iterator[Trial]:
    """Every profile: what the profile itself makes of the graph, and the time under it on this device.

    As in the paper, SubStages that would need more attachments are split: none becomes a dispatch instead.
    """
    names = PROFILES if request.profile is None else (request.profile,)
    for phase, work in _phases(request, device):
        for name in names:
            counts = {
                when: _counts(work, name, device, replace(SUBPASSES, cache_static=cached))
                for when, cached in (("before_cache", False), ("after_cache", True))
            }
            yield Trial(
                work,
                f"{phase}, {name}",
                SUBPASSES,
                limits=profile(name),
                facts={"phase": phase, "profile": name, "profile_plan": counts},
            )


def _counts(work: Work, name: str, device: Device, options: PlanOptions) -> dict[str, int]:
    """SubStages and Stages of each step under the pure profile, whatever this device could do."""
    with Trial(work).engine(device) as engine:
        step = build_plan(engine.program(), profile(name), shader_text, options).step
    return {"substages": len(step.sub_stages), "stages": len(step.stages)}


def _table3(request: Request, device: Device) -> Iterator[Trial]:
    for phase, work in _phases(request, device):
        for name, options in ABLATION.items():
            yield Trial(work, f"{phase}, {name}", options, facts={"phase": phase, "ablation": name})


def _figure9(request: Request, device: Device) -> Iterator[Trial]:
    for phase, work in _phases(request, device):
        yield Trial(work, phase, facts={"phase": phase})


CASES: dict[str, MakeTrials] = {
    "image_fitting": _image_fitting,
    "silhouette": _silhouette,
    "texture": _texture,
    "table2": _table2,
    "table3": _table3,
    "table4": _silhouette,
    "table5": _texture,
    "figure9": _figure9,
}
