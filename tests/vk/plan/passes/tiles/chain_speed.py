"""CPU times of chains of two kernels, stored, computed again and once for each block, and which of these is
planned.

    python tests/vk/plan/passes/tiles/chain_speed.py [DEVICE]

The gradient by the image of a squared residual, as in section 4.3 of the paper of Halide's gradients, with
kernels of 1x5 and 3x5 texels, for ten sizes. Times are milliseconds of all threads, those of a software
driver included, taken in turns.
"""

import sys
import time
from dataclasses import replace

import numpy as np

from dressi import FLOAT, Device, F, Variable
from dressi.ad.graph.program import Program
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.core.substage import SubStage, TiledCompute
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.lowering.chains import links_of, staged_in
from dressi.vk.plan.passes import schedule_contractions as passes
from dressi.vk.run.execution.executor import VulkanExecutor

SIZES = ((128, 128), (256, 160), (256, 256), (512, 320), (512, 512), (800, 600), (1024, 640), (1280, 800), (1920, 1200),
         (2560, 1600))  # fmt: skip
TURNS, TEXELS = 7, 3e6
EACH_STEP = replace(DEFAULT, cache_static=False)
CHOICE = passes.soonest_chain
WAYS: tuple[str, ...] = ("planned", "stored", "computed again", "in registers", "in workgroups")


def program(kernel: tuple[int, int], size: tuple[int, int], way: str) -> Program:
    rng = np.random.default_rng(0)
    x, target = (Variable.of(rng.random(size[::-1]), FLOAT) for _ in range(2))
    w = Variable.of(rng.random(kernel[::-1]), FLOAT)
    hint = {"stored": F.store, "computed again": F.recompute}.get(way, lambda v: v)
    made = F.convolve(x, w)
    residual = 2.0 * ((made if way == "stored" else hint(made)) - target)
    return Program({"slope": F.correlate(hint(residual), w)})


def staged(s: SubStage) -> bool:
    return isinstance(s.work, TiledCompute) and bool(s.work.schedules) and bool(staged_in(links_of(s)))


def chained(s: SubStage, held: bool) -> bool:
    return isinstance(s.work, TiledCompute) and len(s.work.schedules) > 1 and staged(s) == held


def forced(way: str):
    """The fastest division of one form, however long it takes."""

    def one(s: SubStage, limits, model):
        held = way == "in workgroups"
        wide = replace(model, lanes=4096) if held else model
        found = [x for x in passes.chain_schedules(s, limits, wide) if chained(x, held)]
        return (-1.0, min(found, key=lambda x: passes.tiles_seconds(x, limits, model))) if found else None

    return one


def built(kernel: tuple[int, int], size: tuple[int, int], way: str, device: Device) -> VulkanExecutor:
    left_out = {"stored": ("overlap_tiles",), "computed again": ("tile_contractions",)}.get(way, ())
    passes.soonest_chain = forced(way) if way.startswith("in ") else CHOICE
    try:
        return VulkanExecutor(
            program(kernel, size, way), device, options=replace(EACH_STEP, without=left_out)
        )
    finally:
        passes.soonest_chain = CHOICE


def form(plan: Plan) -> list[tuple[str, int, bool]]:
    return [(s.work.name, len(getattr(s.work, "schedules", ())), staged(s)) for s in plan.sub_stages]


def main(name: str | None) -> None:
    with Device(name) as device:
        for kernel in ((1, 5), (3, 5)):
            good = 0
            for size in SIZES:
                runs = {way: built(kernel, size, way, device) for way in WAYS}
                steps = max(int(TEXELS / size[0] / size[1]), 1)
                least = dict.fromkeys(WAYS, float("inf"))
                for turn in range(TURNS + 1):
                    for way, run in runs.items():
                        start = time.process_time()
                        for _ in range(steps):
                            run.run()
                        run.wait()
                        spent = 1e3 * (time.process_time() - start) / steps
                        least[way] = min(least[way], spent) if turn else least[way]
                best = min(WAYS[1:], key=least.__getitem__)
                good += (
                    form(runs["planned"].plan) == form(runs[best].plan)
                    or least["planned"] < 1.05 * least[best]
                )
                times = ", ".join(f"{way} {ms:.2f}" for way, ms in least.items())
                print(f"{kernel[0]}x{kernel[1]}, {size[0]}x{size[1]}: {times}; best: {best}", flush=True)
                for run in runs.values():
                    run.close()
            print(f"{kernel[0]}x{kernel[1]}: the best way is planned for {good} of {len(SIZES)} sizes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
