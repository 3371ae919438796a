"""The training steps of this folder by Halide on the processor, with its own gradients and schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dressi.cli.bench.stencils.trained import RATE
from dressi.errors import DeviceError

SCHEDULER = "Li2018"
"""The autoscheduler that Halide has for gradients (Differentiable programming for image processing, SIGGRAPH 2018)."""
Algorithm = Callable[..., None]
"""Of the package halide, the Func to define, its Vars, and the Funcs of the parameters. Axes count from the innermost one."""


class Halide:
    """The same step by Halide: ``propagate_adjoints`` makes the gradients, its autoscheduler the schedule. Raises DeviceError
    where the package halide cannot be imported."""

    def __init__(self, algorithm: Algorithm, parameters: Sequence[np.ndarray], target: np.ndarray):
        try:
            hl: Any = import_module("halide")
        except ImportError as error:
            raise DeviceError(
                f"Halide cannot be imported ({error}); install it with `pip install halide`"
            ) from None
        self.facts: dict[str, Any] = {"name": "halide", "version": version("halide")}
        for folder in ("lib64", "lib", "bin"):
            for plugin in (Path(hl.__file__).parent / folder).glob(f"*autoschedule_{SCHEDULER.lower()}.*"):
                hl.load_plugin(str(plugin))
        self._values, self._goal = [p.copy() for p in parameters], target.copy()
        self._gradients = [np.zeros_like(p) for p in self._values]
        inputs = [hl.ImageParam(hl.Float(32), p.ndim) for p in (*self._values, self._goal)]
        self._kept = [hl.Buffer(p) for p in (*self._values, self._goal)]
        for given, buffer in zip(inputs, self._kept, strict=True):
            given.set(buffer)
            given.set_estimates(_extents(buffer))
        funcs = []
        for k, given in enumerate(inputs[:-1]):
            axes = [hl.Var(f"p{k}_{a}") for a in range(given.dimensions())]
            funcs.append(hl.Func(f"p{k}"))
            funcs[-1][axes] = given[axes]
        made, loss = hl.Func("made"), hl.Func("loss")
        algorithm(hl, made, [hl.Var(f"a{k}") for k in range(target.ndim)], *funcs)
        every = hl.RDom(_extents(self._kept[-1]))
        texel = [every[k] for k in range(target.ndim)]
        slope = made[texel] - inputs[-1][texel]
        loss[()] = hl.f32(0)
        loss[()] += slope * slope * hl.f32(1 / target.size)
        adjoints, outputs = hl.propagate_adjoints(loss), []
        for f, buffer in zip(funcs, self._kept, strict=False):
            axes = [hl.Var(f"g{a}") for a in range(buffer.dimensions())]
            outputs.append(hl.Func())
            outputs[-1][axes] = adjoints[f][axes]
            outputs[-1].set_estimates(_extents(buffer))
        self._pipeline, self._results = hl.Pipeline(outputs), [hl.Buffer(g) for g in self._gradients]
        self._pipeline.apply_autoscheduler(hl.get_host_target(), hl.AutoschedulerParams(SCHEDULER, {}))
        self._pipeline.compile_jit()

    def positions(self) -> np.ndarray:
        """The last parameter."""
        return self._values[-1]

    def run(self, steps: int) -> None:
        """Gradients by all parameters, and the update of these."""
        for _ in range(steps):
            self._pipeline.realize(self._results)
            for p, gradient in zip(self._values, self._gradients, strict=True):
                p -= np.float32(RATE) * gradient


def _extents(buffer: Any) -> list[tuple[int, int]]:
    return [(0, buffer.dim(k).extent()) for k in range(buffer.dimensions())]
