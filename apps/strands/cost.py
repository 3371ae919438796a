"""What strands and points cost: memory, and what a frame and a step are predicted to take on each kind of device.

    python apps/strands/cost.py --hair ../shared/data/hair/Ratboy_mohawk.tfx --json cost.json

2,228 strands of 32 points of a .hair or .tfx file, and 100,000 points on a sphere, at --size squared. A frame draws colours over white; a
step of Adam moves all points (and colours of the cloud) towards grey. With --measure both run on the device, in turns, and the
median is the time of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dressi import DressiAD, F, Variable, adam
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import VEC3
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import Camera, KajiyaKay, PointGeometry, StrandGeometry, draw_strands, load_strands
from dressi.render.cameras.views import frame
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.plan.predict.stages import stage_seconds

POINTS = 100_000
PROFILES = {"cpu": "desktop", "tiler": "mali_g76", "integrated": "uhd620"}
"""Limits that stand for the devices of a record; those of a desktop GPU for the others."""


def hair(path: Path, size: int) -> tuple[Variable, list[Variable]]:
    """A picture of strands, and what a step moves."""
    given = load_strands(path)
    points = Variable.of(given.points, VEC3, name="points")
    strands = StrandGeometry(points, given.offsets, given.radius, (0.5, 0.35, 0.2))
    view = frame(*given.bounds(), (size, size))
    return draw_strands(strands, view, shader=KajiyaKay((0.3, 1, 1))).over((1.0, 1.0, 1.0)), [points]


def cloud(size: int) -> tuple[Variable, list[Variable]]:
    """A picture of points, and what a step moves."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(POINTS, 3))
    points = Variable.of(places / np.linalg.norm(places, axis=1)[:, None], VEC3, name="points")
    colours = Variable.of(rng.uniform(size=(POINTS, 3)), VEC3, name="colours")
    view = Camera.perspective(45, (size, size), (0, 0, 3), (0, 0, 0))
    return draw_strands(PointGeometry(points, 0.006, colours), view).over((1.0, 1.0, 1.0)), [points, colours]


def prepared(ad: DressiAD, picture: Variable, moved: list[Variable], *, step: bool) -> None:
    """An engine that draws the picture, or takes steps."""
    if step:
        ad.set_loss(F.mean(F.square(F.length(picture - 0.5))))
        ad.set_optimizer(adam(1e-4), moved)
    else:
        ad.set_output("picture", picture)


def predicted(program: Program) -> dict[str, Any]:
    """Milliseconds by record, and megabytes of images and accumulators."""
    found: dict[str, Any] = {}
    for name, model in RECORDS.items():
        limits = profile(PROFILES.get(name, "desktop"))
        plan = build_plan(simplify(program), limits, shader_text, cost=model)
        found[name] = {
            "ms": 1e3 * sum(stage_seconds(plan, model)),
            "MB": (plan.counts["image_bytes"] + plan.counts["buffer_bytes"]) / 2**20,
        }
    return found


def measured(make: Callable[[], tuple[Variable, list[Variable]]], turns: int) -> dict[str, float]:
    """Milliseconds of the processor that a frame and a step take, in turns."""
    engines, times = [], {"frame": [], "step": []}
    for step in (False, True):
        picture, moved = make()
        ad = DressiAD()
        prepared(ad, picture, moved, step=step)
        ad.step(8)
        if not step:
            ad.recv("picture")
        ad.wait()
        engines.append((ad, moved))
    for _ in range(turns):
        for (ad, moved), kind in zip(engines, times, strict=True):
            if kind == "frame":
                ad.send(moved[0], moved[0].data)
            ad.wait()
            start = time.process_time()
            ad.step()
            if kind == "frame":
                ad.recv("picture")
            ad.wait()
            times[kind].append(1e3 * (time.process_time() - start))
    for ad, _ in engines:
        ad.close()
    return {f"{kind} processor ms": float(np.median(found)) for kind, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hair", type=Path, required=True)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for name, make in (("hair", lambda: hair(args.hair, args.size)), ("points", lambda: cloud(args.size))):
        for step in (False, True):
            picture, moved = make()
            with DressiAD() as ad:
                prepared(ad, picture, moved, step=step)
                key = f"{name} {'step' if step else 'frame'}"
                found[key] = predicted(ad.program() if step else Program({"picture": picture}))
            print(key, ", ".join(f"{k} {v['ms']:.2f} ms {v['MB']:.0f} MB" for k, v in found[key].items()))
        if args.measure:
            found[name] = measured(make, args.turns)
            print(name, found[name])
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
