"""Runs a Plan on a device: the Vulkan member of the executors' common protocol."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...ad.graph import ScatterFunction, Variable
from ...ad.program import Program
from ...ad.show import dot
from ...config import config, shader_text
from ...errors import GraphError, InputError
from ..plan.cost import CostModel
from ..plan.fixed_point import accumulators_of
from ..plan.limits import DeviceLimits, most_restrictive
from ..plan.plan import DEFAULT, Plan, PlanOptions, Schedule, build_plan
from ..plan.show import plan_dot
from ..plan.substage import Stage, SubStage
from .commands import Commands
from .device import Device
from .memory import DeviceBuffer, DeviceImage, from_planes, make_image, to_planes
from .pipeline import PipelineCache, PipelineMaker, Pipelines, make_pool
from .pyglslang import compile_glsl
from .record import Target, record_copies, record_stage
from .render_pass import DrawTarget, make_bare_target, make_target

Prepared = tuple[Stage, DrawTarget | None, list[Pipelines]]


class VulkanExecutor:
    """``send`` leaves, ``run(n)`` steps, ``recv`` leaves and outputs, ``close``.

    Values that no step can change are computed once after a ``send`` (reactive cache). Raises PlanError when the
    program does not fit the limits.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        *,
        options: PlanOptions = DEFAULT,
        limits: DeviceLimits | None = None,
        cost: CostModel | None = None,
    ):
        device.check_thread()
        self.program, self.device = program, device
        own = device.limits if limits is None else most_restrictive(device.limits, limits)
        self.plan: Plan = build_plan(program, own, shader_text, options, cost)
        _debug(self.plan, device)
        self._closed = False
        with device.undo_on_error():
            self._build()

    def _build(self) -> None:
        """Everything on the device; then the data that leaves came with."""
        device, program = self.device, self.program
        self.commands = Commands(device)
        self._images = [
            make_image(device, slot, f"image {k}") for k, slot in enumerate(self.plan.images.slots)
        ]
        self._of: dict[Variable, list[DeviceImage]] = {
            v: [self._images[k] for k in numbers] for v, numbers in self.plan.images.of.items()
        }
        # What can be read before it was written has zeros; the other images are written first.
        readable = {*program.leaves, *program.outputs.values(), *program.asked.values()}
        numbers = sorted({k for v in readable for k in self.plan.images.of.get(v, ())})
        self.commands.make_general(self._images, [self._images[k] for k in numbers])
        words = [accumulators_of(f).words for s in self.plan.shaders for f in _scatters(s)]
        self._buffers = {
            "buffer": DeviceBuffer(device, 4 * max(words, default=1), "scatter", host=False),
            "status": DeviceBuffer(device, 4, "status", host=True),
        }
        self._buffers["status"].mapped[:] = 0
        self.commands.zero(self._buffers["buffer"])
        self._target = Target(device, self.commands, self.plan.limits, self._of)
        self._cache = PipelineCache(device)
        self._cache.compile(self.plan.shaders)
        self._pool = make_pool(device, list(self.plan.shaders.values()))
        self._maker = PipelineMaker(device, self._cache, self._pool)
        self._targets: list[DrawTarget] = []
        once, self._step_parts, asked = (self._prepare(part) for part in self.plan.schedules)
        self._cache.release_modules()
        self._static = self.commands.record(lambda b: self._write(b, once, self.plan.static))
        self._step = self.commands.record(self.write_step)
        self._asked = self.commands.record(lambda b: self._write(b, asked, self.plan.asked))
        self._static_leaves = _leaves_of(self.plan)
        self._dirty = bool(self.plan.static.stages)
        self._idle = False  # nothing has changed since the last run and no step changes anything
        self.missing = {v for v in program.leaves if v.data is None}
        self.send_many({v: v.data for v in program.leaves if v.data is not None and v.data.any()})

    # ---- values
    def send(self, variable: Variable, values: Any) -> None:
        """Set a leaf. Raises GraphError when the array does not fit or the Variable is not a leaf in use."""
        self.send_many({variable: values})

    def send_many(self, values: Mapping[Variable, Any]) -> None:
        """Set several leaves in one submission."""
        self._check_open()
        arrays: dict[Variable, np.ndarray] = {}
        for variable, array in values.items():
            if not variable.is_leaf:
                raise GraphError(f"{variable} is computed; only leaves can be sent")
            if variable not in self._of:
                raise GraphError(f"{variable} is not part of this program")
            arrays[variable] = variable.conform(array, copy=False)
            self.missing.discard(variable)
            self._dirty = self._dirty or variable in self._static_leaves
        self._idle = False

        def fill(texels: list[np.ndarray]) -> None:
            rest = iter(texels)
            for v, array in arrays.items():
                to_planes(v, array, self.plan.limits.tiling(v), islice(rest, len(self._of[v])))

        if arrays:
            self.commands.upload([image for v in arrays for image in self._of[v]], fill)

    def recv(self, variable: Variable) -> np.ndarray:
        """A leaf or a value that is only asked for (after the last step), or an output (before its update).

        (batch, H, W) + vtype.shape.
        """
        self._check_open()
        asked = variable in self.program.asked.values()
        if asked:
            self._ready()
            self.commands.submit(self._asked)
        readable = asked or variable in self.program.leaves or variable in self.program.outputs.values()
        if not readable or variable not in self._of:
            raise GraphError(f"{variable} is not kept; name it among the outputs to read it")
        planes = self.commands.download(self._of[variable])
        return from_planes(variable, planes, self.plan.limits.tiling(variable))

    # ---- running
    def run(self, n: int = 1) -> None:
        """``n`` steps: one submission for many, one wait by whoever reads next."""
        self._check_open()
        if n < 1 or self._idle:
            return
        self._ready()
        self._idle = not self.program.updates
        self.commands.submit(self._step, 1 if self._idle else n)

    def _ready(self) -> None:
        """Everything was sent, and what follows from it alone is up to date."""
        if self.missing:
            names = ", ".join(str(v) for v in sorted(self.missing, key=lambda v: v.id))
            raise GraphError(f"nothing was ever sent to {names}; send an array or give the Variable data")
        if self._dirty:
            self.commands.submit(self._static)
            self._dirty = False

    def wait(self) -> None:
        """Until all steps are done; warns when a scatter met values beyond its bound."""
        self.commands.wait()
        status = self._buffers["status"].mapped.view(np.int32)
        if status[0]:
            status[0] = 0
            warnings.warn(
                "a scatter_add met values beyond the bound it was given (or undefined ones); they were clamped",
                RuntimeWarning,
                stacklevel=2,
            )

    # ---- building
    def _prepare(self, schedule: Schedule) -> list[Prepared]:
        prepared = []
        for k, stage in enumerate(schedule.stages):
            name = (
                f"stage {k} " + "+".join(type(f).__name__ for s in stage.sub_stages for f in s.functions)[:80]
            )
            target = None
            tiling = self.plan.limits.tiling(stage.sub_stages[0].domain)
            size = (tiling.width, tiling.height)
            if stage.draws:
                target = make_target(self.device, stage, self._of, size, name)
            elif stage.sub_stages[0].drawn is not None:
                target = make_bare_target(self.device, size, name)
            if target is not None:
                self._targets.append(target)
            pipelines = [
                self._maker.make(
                    s,
                    self.plan.shaders[s],
                    self._of,
                    self._buffers,
                    target.render_pass if target else None,
                    j,
                    name,
                )
                for j, s in enumerate(stage.sub_stages)
            ]
            prepared.append((stage, target, pipelines))
        return prepared

    def write_step(self, buffer: Any, after_stage: Callable[[Any, int], None] | None = None) -> None:
        """Record a step; ``after_stage(buffer, number)`` is called behind each Stage."""
        self._write(buffer, self._step_parts, self.plan.step, after_stage)

    def _write(
        self, buffer: Any, prepared: list[Prepared], schedule: Schedule, after_stage: Any = None
    ) -> None:
        for k, (stage, target, pipelines) in enumerate(prepared):
            record_stage(self._target, buffer, stage, target, pipelines)
            self.commands.barrier(buffer)
            if after_stage is not None:
                after_stage(buffer, k)
        record_copies(self._target, buffer, schedule.copies)

    # ---- the end
    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this executor is closed")
        self.device.check_thread()

    def close(self) -> None:
        """Release everything on the device. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self.device.handle is None:
            return
        self.commands.wait()
        self._cache.save()
        self._maker.destroy()
        for target in self._targets:
            for handle in (target.framebuffer, target.render_pass):
                self.device.destroy(handle)
            for image in target.depth_images:
                image.destroy(self.device)
        self.device.destroy(self._pool)
        self.device.destroy(self._cache.handle)
        for b in self._buffers.values():
            b.destroy()
        for image in self._images:
            image.destroy(self.device)
        self.commands.destroy()

    def __enter__(self) -> VulkanExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_KIND = {"resolve": "compute", "compute": "compute", "vertex": "vertex", "fragment": "fragment"}


def _scatters(s: SubStage) -> list[ScatterFunction]:
    return [f for f in s.functions if isinstance(f, ScatterFunction)]


def _leaves_of(plan: Plan) -> set[Variable]:
    """Leaves on which static values depend."""
    return {r.variable for s in plan.static.sub_stages for r in s.reads if r.variable.is_leaf}


def _debug(plan: Plan, device: Device) -> None:
    """What DRESSI_DEBUG and DRESSI_DUMP ask for."""
    if config.dump:
        folder = Path(config.dump)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{plan.key[:12]}.plan.txt").write_text(str(plan))
        (folder / f"{plan.key[:12]}.plan.dot").write_text(plan_dot(plan))
        (folder / f"{plan.key[:12]}.graph.dot").write_text(dot(plan.program))
        for k, s in enumerate(plan.sub_stages):
            for part, source in plan.shaders[s].sources.items():
                (folder / f"{plan.key[:12]}.{k:03d}.{part}.glsl").write_text(source)
                (folder / f"{plan.key[:12]}.{k:03d}.{part}.spv").write_bytes(
                    compile_glsl(source, _KIND[part], part)
                )
    if config.debug >= 1:
        print(f"dressi: {device.name}: {str(plan).splitlines()[0]}")
    if config.debug >= 3:
        print(plan)
    if config.debug >= 4:
        for shaders in plan.shaders.values():
            print("\n".join(shaders.sources.values()))
