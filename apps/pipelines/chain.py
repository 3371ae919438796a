"""A chain of layers under a bound of memory: bytes, seconds and planning of a step, beside the plan that stores everything.

    python apps/pipelines/chain.py --size 1024 --steps 3 --json apps/results/pipelines/chain.json

Each of 20 layers is a 3x3 convolution of 4 channels, a sigmoid and a skip. The bound is a quarter of what the stored plan takes.
Steps, with gradients by the weights, are timed in turns; the seconds are the least of --steps turns.
"""

import time

import numpy as np
from pipeline_tools import options, report

from dressi import FLOAT, DressiAD, F, PlanOptions, Variable, adam

LAYERS = 20

given = options(__doc__, steps=3, size=1024)
shape, random = (1, 4, given.size, given.size), np.random.default_rng(given.seed)
values = random.normal(size=(4, 4, 3, 3)) * 0.2
picture = Variable(FLOAT, (given.size, given.size), channels=4, data=random.random(shape), name="picture")


def network(layers: int) -> tuple[Variable, Variable]:
    """The loss of a chain of layers, and its weights."""
    weight = Variable(FLOAT, (3, 3), 4, channels=4, data=values, name="weight")
    last = F.loop(lambda x: x + 0.1 * F.sigmoid(F.correlate(x, weight, border="clamp")), picture, layers)
    return F.mean(F.square(last)), weight


def engine(layers: int, memory: int = 0) -> tuple[DressiAD, float]:
    """What trains a chain, and the seconds of this process that its plan took."""
    ad = DressiAD(given.device, options=PlanOptions(memory=memory))
    loss, weight = network(layers)
    ad.set_loss(loss)
    ad.set_optimizer(adam(1e-3), [weight])
    start = time.process_time()
    ad.plan  # noqa: B018
    return ad, time.process_time() - start


figures: dict[str, float] = {}
one, figures["plan_1_layer_s"] = engine(1)
one.close()
stored, figures[f"plan_{LAYERS}_layers_s"] = engine(LAYERS)
whole = stored.plan.counts["image_bytes"]
bounded, figures["plan_bounded_s"] = engine(LAYERS, whole // 4)
figures |= {"stored_mb": whole / 1e6, "bounded_mb": bounded.plan.counts["image_bytes"] / 1e6}
clocks = {"": time.perf_counter, "_processor": time.process_time}  # the second is that of drivers on the CPU
seconds: dict[str, list[float]] = {f"{name}{c}": [] for name in ("stored", "bounded") for c in clocks}
with stored, bounded:
    for turn in range(given.steps + 1):
        for name, ad in (("stored", stored), ("bounded", bounded)):
            starts = {c: clock() for c, clock in clocks.items()}
            ad.step()
            ad.wait()
            for c, clock in clocks.items():
                seconds[name + c] += [clock() - starts[c]] if turn else []
    losses = [ad.losses()[-1] for ad in (stored, bounded)]
figures |= {f"{name}_s": min(times) for name, times in seconds.items()}
figures |= {f"time_ratio{c}": figures[f"bounded{c}_s"] / figures[f"stored{c}_s"] for c in clocks}
figures["memory_ratio"] = figures["bounded_mb"] / figures["stored_mb"]
figures["loss_difference"] = abs(losses[0] / losses[1] - 1)
report(given, "chain", figures)
