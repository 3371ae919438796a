"""The keys of many plans, to see whether a change of the planner changes what it plans.

    python tests/vk/plan/keys.py > before.json      # then again after the change, and compare the two files

Every benchmark's graph is planned for every limits profile: the forms of HardSoftRas and a texture, one view
and six, and both together, with the default options, with subpasses only and as the baseline. A key is a hash
of all shaders of a plan; beside it stand the counts. No device is needed.
"""

import json
import sys
from dataclasses import replace

from dressi.cli.bench.request import Request, load
from dressi.cli.bench.work import Work, joint, pixels, silhouette, texture, without_values
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, UNBOUNDED, profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine

SUBPASSES = replace(DEFAULT, without=("choose_lowering", "run_on_active_blocks"))
OPTIONS = {"default": DEFAULT, "subpasses": SUBPASSES, "baseline": BASELINE}
SIZE = (64, 64)


def request(views: int, form: str, peels: int, target: str) -> Request:
    names = ("case", "sizes", "textures", "gradient", "models", "radius_px", "profile", "device", "peer")
    values = ("silhouette", (SIZE,), (64,), "exact", (load("small"),), 2.0, None, None, None)
    more = {"steps": 20, "batches": 1, "cold": False, "json_file": None}
    return Request(
        views=views, form=form, peels=peels, target=target, **dict(zip(names, values, strict=True)), **more
    )


def works() -> dict[str, Work]:
    found = {"pixels": pixels(SIZE, 20)}
    for views in (1, 6):
        for form, peels in (("outer", 1), ("face", 1), ("face", 3)):
            asked = request(views, form, peels, "soft")
            found[f"{form} {peels}, {views} views"] = silhouette(asked.models[0], SIZE, asked, without_values)
        for gradient in ("exact", "inverse_uv"):
            asked = replace(request(views, "outer", 1, "hard"), gradient=gradient)
            found[f"texture {gradient}, {views} views"] = texture(
                asked.models[0], SIZE, 64, asked, without_values
            )
    asked = request(6, "outer", 1, "hard")
    found["joint"] = joint(asked.models[0], SIZE, 64, asked, without_values)
    return found


def main() -> None:
    found = {}
    for name, work in works().items():
        engine = PlanningEngine(UNBOUNDED, CPU, shader_text)
        work.describe(engine)
        program = engine.program()
        for limits in PROFILES:
            for title, options in OPTIONS.items():
                plan = build_plan(program, profile(limits), shader_text, options, CPU)
                found[f"{name}, {limits}, {title}"] = {"key": plan.key, **plan.counts}
        print(f"{name}: {len(found)} plans", file=sys.stderr, flush=True)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
