"""A chain of layers under a bound of memory: bytes, seconds and planning of a step, beside the plan that stores everything.

    python apps/pipelines/chain.py --size 1024 --steps 3 --json apps/results/pipelines/chain.json

Each of 20 layers is a 3x3 convolution of 4 channels, a sigmoid and a skip: written one after the other, which stores what each
needs; as a loop; and as a loop under a bound, a part of what the first takes. Steps, with gradients by the weights, are timed in
turns; the seconds are the least of --steps turns.
"""

import time

import numpy as np
from pipeline_tools import options, report

from dressi import FLOAT, DressiAD, F, PlanOptions, Variable, adam

LAYERS, BOUND = 20, 0.235

given = options(__doc__, steps=3, size=1024, seed=0, data=False)
shape, random = (1, 4, given.size, given.size), np.random.default_rng(given.seed)
values = random.normal(size=(4, 4, 3, 3)) * 0.2
picture = Variable(FLOAT, (given.size, given.size), channels=4, data=random.random(shape), name="picture")


def network(layers: int, looped: bool = True) -> tuple[Variable, Variable]:
    """The loss of a chain of layers, and its weights. looped: as a loop; else layer after layer."""
    weight = Variable(FLOAT, (3, 3), 4, channels=4, data=values, name="weight")

    def layer(x: Variable) -> Variable:
        return x + 0.1 * F.sigmoid(F.correlate(x, weight, border="clamp"))

    last = F.loop(layer, picture, layers) if looped else picture
    assert isinstance(last, Variable)
    for _ in range(0 if looped else layers):
        last = layer(last)
    return F.mean(F.square(last)), weight


def engine(layers: int, looped: bool = True, memory: int = 0) -> tuple[DressiAD, float, int]:
    """What trains a chain, the seconds of this process that its plan took, and the bytes that it uses on the device."""
    ad = DressiAD(given.device, options=PlanOptions(memory=memory))
    loss, weight = network(layers, looped)
    ad.set_loss(loss)
    ad.set_optimizer(adam(1e-3), [weight])
    start = time.process_time()
    ad.plan  # noqa: B018
    took = time.process_time() - start
    ad.step()
    ad.wait()
    return ad, took, ad.device.memory.used


figures: dict[str, float] = {}
engine(1)[0].close()
written, figures[f"plan_{LAYERS}_written_s"], whole = engine(LAYERS, looped=False)
stored, figures[f"plan_{LAYERS}_layers_s"], used = engine(LAYERS)
bounded, figures["plan_bounded_s"], least = engine(LAYERS, memory=int(BOUND * whole))
figures |= {"written_mb": whole / 1e6, "stored_mb": used / 1e6, "bounded_mb": least / 1e6}
clocks = {"": time.perf_counter, "_processor": time.process_time}  # the second is that of drivers on the CPU
names = {"written": written, "stored": stored, "bounded": bounded}
seconds: dict[str, list[float]] = {f"{name}{c}": [] for name in names for c in clocks}
with written, stored, bounded:
    for turn in range(given.steps + 1):
        for name, ad in names.items():
            starts = {c: clock() for c, clock in clocks.items()}
            ad.step()
            ad.wait()
            for c, clock in clocks.items():
                seconds[name + c] += [clock() - starts[c]] if turn else []
    losses = [ad.losses()[-1] for ad in names.values()]
figures |= {f"{name}_s": min(times) for name, times in seconds.items()}
for name in ("stored", "bounded"):
    figures |= {f"{name}_time_ratio{c}": figures[f"{name}{c}_s"] / figures[f"written{c}_s"] for c in clocks}
    figures[f"{name}_memory_ratio"] = figures[f"{name}_mb"] / figures["written_mb"]
figures["loss_difference"] = max(losses) / min(losses) - 1
report(given, "chain", figures)
