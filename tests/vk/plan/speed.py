"""CPU seconds of planning and building large graphs.

    python tests/vk/plan/speed.py [DEVICE]

Plans 10,000 mixed Functions (three times), then builds and steps a chain of 10,000 operations at one pixel,
with gradient, on the device, without any cache of shaders. CPU time counts all threads, those of a software
driver included. The time of the main thread alone stands beside it.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ["MESA_SHADER_CACHE_DISABLE"] = "true"  # before a driver is loaded

from graphs import large_program

from dressi import DressiAD, F, Variable, sgd
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import UNBOUNDED

OPERATIONS = 10_000


def timed(title: str, work: Callable[[], object]) -> None:
    start = time.process_time(), time.thread_time()
    work()
    print(
        f"{title}: {time.process_time() - start[0]:.2f} s, main thread {time.thread_time() - start[1]:.2f} s",
        flush=True,
    )


def main(device: str) -> None:
    mixed = large_program("mixed", 8_300)
    print(f"mixed: {len(mixed.functions)} Functions")
    for _ in range(3):
        timed("  plan", lambda: build_plan(mixed, UNBOUNDED, shader_text))
    x = Variable.of([0.3])
    y = x
    for k in range(OPERATIONS // 2):
        y = F.sin(y) + 0.1 * (k % 3 + 1)
    with config(cache=None), DressiAD(device) as ad:
        ad.set_loss(F.square(y))
        ad.set_optimizer(sgd(1e-3), [x])
        timed("chain: graph of a step", ad.program)
        timed("chain: plan, shaders, pipelines and the first step", lambda: (ad.step(), ad.recv(x)))
        print(f"  {ad.plan.counts}")
        timed("chain: another step", lambda: (ad.step(), ad.recv(x)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "llvmpipe")
