"""Gates and slices of Stages: work that a flag on the device switches off, and work in several submissions.

Dispatches and full-screen draws behind a gate take their counts from a buffer, indirectly. Whenever the flag
may have changed, one small dispatch copies the counts into that buffer, or zeros if the flag is zero. Closed
work costs a few microseconds a command, and some ten of them on CPU drivers, where the host looks at the
counts and leaves it out. No feature of the device is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.types import FLOAT
from ....errors import PlanError
from ...plan.core.substage import PrimitiveWork, SparseWork, Stage
from ...plan.execution.plan import Plan
from ...plan.execution.sync import Command, Level, Part
from ...plan.glsl.writer import Resource, fetched_at
from ...plan.model.device import DeviceModel
from ...plan.predict.stages import stage_seconds
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import DeviceBuffer, DeviceImage
from ..shaders.pipeline import PipelineCache, PipelineMaker
from ..shaders.pyglslang import Shader

WORDS = 4  # of the counts of one draw; a dispatch needs three of them
COMMANDS = 128  # different counts behind one gate
GROUP = 64

SOURCE = f"""#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = {GROUP}) in;
layout(set = 0, binding = 0) uniform texture2D flag;
layout(set = 0, binding = 1) readonly buffer Open {{ uint open[]; }};
layout(set = 0, binding = 2) writeonly buffer Now {{ uint now[]; }};
void main() {{
    uint k = gl_GlobalInvocationID.x;
    ivec2 size = textureSize(flag, 0);
    bool any_open = false;
    for (int j = 0; j < size.y && !any_open; ++j)
        for (int i = 0; i < size.x; ++i) any_open = any_open || texelFetch(flag, {fetched_at("ivec2(i, j)")}, 0).x != 0.0;
    now[k] = any_open ? open[k] : 0u;
}}
"""


def can_be_gated(plan: Plan) -> bool:
    """Whether the step of a plan can be switched off."""
    return not copies_new_values(plan) and not draws_lists(plan)


def copies_new_values(plan: Plan) -> bool:
    """Whether values that the step computes are copied at its end: a copy cannot be skipped."""
    made = {v for s in plan.step.sub_stages for v in s.outputs}
    return any(new in made for _, new in plan.step.copies)


def draws_lists(plan: Plan) -> bool:
    """Whether the step draws lists of faces, which have counts of their own."""
    return any(isinstance(s.work, PrimitiveWork) for s in plan.step.sub_stages)


class Gate:
    """The counts of the commands behind one flag. image: of the flag, a FLOAT of one texel a tile. The gate
    is open while one of them is not 0."""

    def __init__(self, device: Device, commands: Commands, cache: PipelineCache, image: DeviceImage):
        self._device, self._commands = device, commands
        size = 4 * WORDS * COMMANDS
        self._whole = DeviceBuffer(device, size, "counts of an open gate", host=True)
        self.seen = device.on_cpu  # where the host reads them as fast as the device
        self._now = DeviceBuffer(device, size, "counts behind a gate", host=self.seen)
        self._whole.mapped[:] = 0
        self._numbers: dict[tuple[int, ...], int] = {}
        flag = Variable(FLOAT)
        resources = (Resource("texture", flag), Resource("open"), Resource("now"))
        self._maker = PipelineMaker(device, cache, [resources])
        buffers = {"open": self._whole, "now": self._now}
        shader = Shader(SOURCE, "compute", "gate")
        self._pipeline = self._maker.make_dispatch(shader, resources, {flag: [image]}, buffers)

    @property
    def open(self) -> bool:
        """Whether work is done behind it, when all that was submitted has ended. For gates that are ``seen``."""
        return bool(self._now.mapped.any())

    # ---- recording
    def _place(self, *counts: int) -> int:
        """The byte at which these counts begin in the buffers."""
        if counts not in self._numbers:
            if len(self._numbers) == COMMANDS:
                raise PlanError(
                    f"more than {COMMANDS} different dispatches behind one gate; split the program"
                )
            self._numbers[counts] = len(self._numbers)
            self.unshut()
        return 4 * WORDS * self._numbers[counts]

    def unshut(self) -> None:
        """Obey the flag again after ``shut``. No work may be under way that should end."""
        words = self._whole.mapped.view(np.uint32)
        for key, k in self._numbers.items():
            words[WORDS * k : WORDS * (k + 1)] = key

    def dispatch(self, buffer: Any, x: int, y: int, z: int) -> None:
        """A dispatch of so many workgroups if the gate is open, else of none."""
        self._device.vk.vkCmdDispatchIndirect(buffer, self._now.handle, self._place(x, y, z, 0))

    def draw(self, buffer: Any, vertices: int) -> None:
        """A draw of so many vertices, or of none."""
        place = self._place(vertices, 1, 0, 0)
        self._device.vk.vkCmdDrawIndirect(buffer, self._now.handle, place, 1, 4 * WORDS)

    def refresh(self, buffer: Any) -> None:
        """Look at the flag again, for the commands in later command buffers, which begin with a barrier."""
        vk, p = self._device.vk, self._pipeline
        self._commands.barrier(buffer)
        point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(buffer, point, p.handles["compute"])
        vk.vkCmdBindDescriptorSets(buffer, point, p.layout, 0, 1, [p.set], 0, None)
        vk.vkCmdDispatch(buffer, WORDS * COMMANDS // GROUP, 1, 1)

    def shut(self) -> None:
        """Close the gate for work under way too, whatever its flag: the device's next ``refresh`` sees it."""
        self._whole.mapped[:] = 0

    def destroy(self) -> None:
        """Release everything. The work behind the gate must have ended."""
        self._maker.destroy()
        for buffer in (self._whole, self._now):
            buffer.destroy()


class Gating(NamedTuple):
    """gate: switches the whole program off. flags: the gates whose flag the program updates."""

    gate: Gate | None
    flags: tuple[Gate, ...]


UNGATED = Gating(None, ())


# Slices of a Stage: its workgroups or pixels in several parts, each of which is a submission of its own
# where the whole would take too long for one.
#
# Dispatches take a part of their workgroups, draws a band of the framebuffer: the area of the render pass and
# the scissor. Invocations of a Stage do not depend on each other, so the values are those of the whole. Slices
# of active blocks are of all blocks, those behind a gate have counts of their own and take their first
# workgroup from push constants.

Area = tuple[int, int, int, int]
MOST = 256  # slices of a Stage
SAFETY = 4.0  # what is predicted from the class of a device may take so many times as long
FINER = 4.0  # a Stage gets at most so many times as many slices as before
WORTH = 0.7  # finer slices are worth it if one takes less than this part of the seconds of before
HEAVIER = 2.0  # a slice that takes so many times as long as before does other work than before


class Slice(NamedTuple):
    """One of ``of`` parts of equal size, the one with the number ``number``."""

    number: int = 0
    of: int = 1

    def area(self, width: int, height: int) -> Area:
        """Its columns or rows, along the longer side: x, y, width, height. Some of more parts than rows are
        empty."""
        across = width > height
        extent = width if across else height
        parts = min(self.of, extent)
        first, end = (extent * min(self.number + k, parts) // parts for k in (0, 1))
        return (first, 0, end - first, height) if across else (0, first, width, end - first)


WHOLE = Slice()


def common(a: Area, b: Area) -> Area:
    """What two areas have in common; its width or height is 0 or less where that is nothing."""
    x, y = max(a[0], b[0]), max(a[1], b[1])
    return x, y, min(a[0] + a[2], b[0] + b[2]) - x, min(a[1] + a[3], b[1] + b[3]) - y


class Item(NamedTuple):
    """A command of a level, or a slice of one."""

    level: Level[Command]
    command: Command
    slice: Slice


class _Tried(NamedTuple):
    """A Stage in so many slices, one of which took these seconds; and those expected of the whole."""

    slices: int
    seconds: float
    expected: float


def seconds_at_most(plan: Plan, record: DeviceModel, bound: float) -> list[float]:
    """Seconds of each Stage, those of ``static`` first, with ``SAFETY``. Work on lists of blocks is cut only
    where it was measured too long: a slice starts a workgroup for every block of the image, listed or not."""

    def sparse(stage: Stage) -> bool:
        return any(isinstance(s.work, SparseWork) and s.work.sparse is not None for s in stage.sub_stages)

    return [
        min(SAFETY * seconds, bound) if sparse(stage) else SAFETY * seconds
        for stage, seconds in zip(plan.stages, stage_seconds(plan, record), strict=True)
    ]


class Cut:
    """Cuts the commands of a plan into pieces that take no longer than a bound. seconds: of each Stage at
    most, as far as is known; measurements correct them."""

    def __init__(self, seconds: list[float], bound: float):
        self._seconds, self._bound = list(seconds), bound
        self._tried: dict[int, _Tried] = {}

    def seconds(self, items: Iterable[Item]) -> float:
        """Expected of a piece."""
        return sum(self._seconds[i.command.stage] / i.slice.of for i in items if i.command.stage >= 0)

    def pieces(self, levels: Iterable[Level[Command]]) -> list[list[Item]]:
        """At least one piece; each is recorded into a command buffer."""
        pieces: list[list[Item]] = [[]]
        total = 0.0
        for level in levels:
            for command in level.commands:
                cut = command.stage >= 0 and command.part in (Part.WORK, Part.RESOLVE)
                seconds = self._seconds[command.stage] if cut else 0.0
                count = min(max(math.ceil(seconds / self._bound), 1), MOST)
                for k in range(count):
                    total += seconds / count
                    if pieces[-1] and total > self._bound:
                        pieces.append([])
                        total = seconds / count
                    pieces[-1].append(Item(level, command, Slice(k, count)))
        return pieces

    def correct(self, long: Iterable[tuple[Sequence[Item], float]]) -> None:
        """Pieces took these seconds, which is longer than the bound. Stages that share a piece get pieces of
        their own. Others are cut finer as long as that makes pieces shorter. It may not: every slice of a
        draw transforms all vertices, and on a machine with other work everything is slow."""
        slowest: dict[int, tuple[float, int]] = {}
        for items, seconds in long:
            counts = {i.command.stage: i.slice.of for i in items if i.command.stage >= 0}
            for stage, count in counts.items():
                if len(counts) > 1:
                    self._seconds[stage] = max(self._seconds[stage], self._bound)
                else:
                    slowest[stage] = max(slowest.get(stage, (0.0, 0)), (seconds, count))
        for stage, (seconds, count) in slowest.items():
            before = self._tried.get(stage)
            if before is not None and seconds > HEAVIER * before.seconds:
                before = None  # the work itself grew
            if before is None or (count > before.slices and seconds < WORTH * before.seconds):
                self._tried[stage] = _Tried(count, seconds, self._seconds[stage])
                finer = min(1.5 * seconds / self._bound, FINER) * count
                self._seconds[stage] = min(finer, MOST) * self._bound
            else:
                self._seconds[stage] = before.expected
