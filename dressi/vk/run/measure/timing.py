"""Device time of each Stage, measured with timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import DeviceError
from ...plan.predict.stages import stage_name
from ..executor import VulkanExecutor


@dataclass(frozen=True)
class StageTime:
    """A Stage of the step and its median device time."""

    name: str
    ms: float


def profile(executor: VulkanExecutor, steps: int = 10) -> list[StageTime]:
    """Run ``steps`` real steps, one by one, with a timestamp after each Stage. What a timestamp takes by itself is
    subtracted. Raises DeviceError if the device has no timestamps."""
    device, vk = executor.device, executor.device.vk
    if not device.timestamp_bits:
        raise DeviceError(f"{device.name} has no timestamps")
    executor.run(1)
    executor.wait()
    stages = executor.plan.step.stages
    count = len(stages) + 2
    info = vk.VkQueryPoolCreateInfo(queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=count)
    pool = device.create("QueryPool", info, "timestamps")

    def stamp(buffer: Any, number: int) -> None:
        """Between full barriers: lavapipe takes the time when it rasterizes next, which can be after the dispatches of
        the next Stage."""
        executor.commands.barrier(buffer)
        vk.vkCmdWriteTimestamp(buffer, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, number)
        executor.commands.barrier(buffer)

    def begin(buffer: Any) -> None:
        vk.vkCmdResetQueryPool(buffer, pool, 0, count)
        stamp(buffer, 0)
        stamp(buffer, 1)

    buffers = executor.record_step(begin, after_stage=lambda b, k: stamp(b, k + 2))
    ticks = np.zeros((steps, count), np.uint64)
    for row in ticks:
        executor.commands.submit(*buffers)
        executor.commands.wait()
        data = vk.ffi.from_buffer(row)
        wait = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
        vk.lib.vkGetQueryPoolResults(device.handle, pool, 0, count, row.nbytes, data, 8, wait)
    for buffer in buffers:
        executor.commands.release(buffer)
    device.destroy(pool)
    ms = np.median(np.diff(ticks.astype(np.int64), axis=1), axis=0) * device.timestamp_period * 1e-6
    ms = np.maximum(ms[1:] - ms[0], 0.0)
    return [StageTime(stage_name(stage), float(t)) for stage, t in zip(stages, ms, strict=True)]


def print_times(executor: VulkanExecutor) -> None:
    """Prints what each Stage takes, where the device can tell and the program can run."""
    device = executor.device
    if device.timestamp_bits and device.work.lost is None and not executor.missing:
        for stage in profile(executor, 3):
            print(f"dressi: {stage.ms:9.3f} ms  {stage.name}")
