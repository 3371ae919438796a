"""One step through everything of figure 15: derivatives of the picture by its parameters against differences of pictures."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from human import PARAMETERS, Human

from dressi import Device, DressiAD, F, Variable, adam
from dressi.ad.graph.types import VEC3

DECAY = 0.9
"""Of the first moment of Adam, which after the first step is 1 - DECAY times the derivative."""
AWAY, STEP = 0.1, 0.001
"""How far the parameters are from those of the target, and half of a central difference: parts of the parameters."""


def backward(
    device: Device,
    human: Human,
    steps: int = 3,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
    earlier: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The loss is the mean of the squares of differences from a picture with the parameters of the figure; derivatives are
    taken at random parameters, differences from pictures drawn again, in double precision. Says what it has done as it goes.  keep: gets
    the result so far.  earlier: what an earlier run gave to ``keep``; its differences are not taken again."""
    rng = np.random.default_rng(0)
    at = {name: x * (1 + AWAY * rng.uniform(-1, 1)) for name, x in PARAMETERS.items()}
    result: dict[str, Any] = {"size": human.colour.size[0], "parameters": at}
    differences = result["differences"] = dict((earlier or {}).get("differences", {}))
    result["processor seconds of differences"] = (earlier or {}).get("processor seconds of differences", 0.0)
    with DressiAD(device) as ad:
        ad.set_output("colour", human.colour)
        processor = time.process_time()
        target = _picture(ad, human, PARAMETERS)
        print(f"target: {time.process_time() - processor:.0f} processor s with its build", flush=True)
        if {*at} - {*differences}:
            _picture(ad, human, at)
        for name in [name for name in at if name not in differences]:
            processor = time.process_time()
            step = STEP * at[name]
            # The steps as single precision has them. Only what the parameter changes is drawn again.
            high, low = (float(np.float32(at[name] + sign * step)) for sign in (1, -1))
            losses = [np.square(_picture(ad, human, {name: x}) - target).sum(-1).mean() for x in (high, low)]
            ad.send(human.leaves[name], np.full((1, 1, 1), at[name]))
            differences[name] = float((losses[0] - losses[1]) / (high - low))
            seconds = time.process_time() - processor
            result["processor seconds of differences"] += seconds
            print(
                f"difference {len(differences)} of {len(at)}, {name}: {seconds:.0f} processor s", flush=True
            )
            keep(result)
    known = Variable(VEC3, human.colour.size, name="target", data=target[None])
    with DressiAD(device) as ad:
        ad.set_loss(F.mean(F.sum_components(F.square(human.colour - known))))
        ad.set_optimizer(adam(1e-9, (DECAY, 0.999)), list(human.leaves.values()))
        ad.send_many({human.leaves[name]: np.full((1, 1, 1), x) for name, x in at.items()})
        print("first step of Adam, with its build", flush=True)
        clock, processor = time.perf_counter(), time.process_time()
        ad.step()
        ad.wait()
        result["first build seconds"] = {
            "wall": time.perf_counter() - clock,
            "processor": time.process_time() - processor,
        }
        state = ad.state()
        result["loss"] = ad.losses()[0]
        result["plan"] = str(ad.plan).splitlines()[0]
        print(f"{result['first build seconds']['processor']:.0f} processor s; {result['plan']}", flush=True)
        result["derivatives"] = rows = _compared(at, differences, state)
        result["largest error"] = max(row["error"] for row in rows.values())
        keep(result)
        for k in range(steps):
            processor = time.process_time()
            ad.step()
            ad.wait()
            result.setdefault("processor ms of steps", []).append(1e3 * (time.process_time() - processor))
            print(
                f"step {k + 1} of {steps}: {result['processor ms of steps'][-1]:.0f} processor ms", flush=True
            )
            keep(result)
        result["processor ms a step"] = float(np.median(result["processor ms of steps"]))
    return result


def _compared(
    at: dict[str, float], differences: dict[str, float], state: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Derivatives, read off the first moments of Adam, beside differences, by parameter."""
    rows = {}
    for name in at:
        expected = differences[name]
        found = float(state[f"{name}.adam_m"].item()) / (1 - DECAY)
        rows[name] = {
            "at": at[name],
            "derivative": found,
            "difference": expected,
            "error": abs(found / expected - 1),
        }
        print(f"{name:18s} {found:12.5g} {expected:12.5g}  {100 * rows[name]['error']:.2f} %", flush=True)
    return rows


def _picture(ad: DressiAD, human: Human, values: dict[str, float]) -> np.ndarray:
    ad.send_many({human.leaves[name]: np.full((1, 1, 1), x) for name, x in values.items()})
    return ad.recv("colour")[0].astype(np.float64)
