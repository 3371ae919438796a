"""Device time of each Stage, measured with timestamps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import DeviceError
from ...plan.execution.images import ImageSlot
from ...plan.predict.stages import predict, stage_name
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import make_image
from ..execution.executor import VulkanExecutor
from .calibration import model_of


@dataclass(frozen=True)
class StageTime:
    """A Stage of the step and its median device time."""

    name: str
    ms: float


def profile(executor: VulkanExecutor, steps: int = 10) -> list[StageTime]:
    """Run ``steps`` real steps, one by one, with a timestamp after each Stage. What a timestamp takes by
    itself is subtracted. Raises DeviceError if the device has no timestamps."""
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
        """Between full barriers: lavapipe takes the time when it rasterizes next, which can be after the
        dispatches of the next Stage."""
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


# How fast a device copies images: measured by recorded commands alone.

COPIED = ImageSlot(4, False, 2048, 2048)
COPIES = 8


def copy_bandwidth(device: Device, repeats: int = 5) -> float:
    """Bytes a second, read and written together, of copies between two images of 64 MiB; the median."""
    commands = Commands(device)
    images = [make_image(device, COPIED, name) for name in ("copy source", "copy target")]
    commands.initialize(images, images)

    def write(buffer: object) -> None:
        for k in range(COPIES):
            commands.copy(buffer, [images[k % 2]], [images[1 - k % 2]])
            commands.barrier(buffer)

    seconds = []
    try:
        buffer = commands.record(write)
        for _ in range(repeats + 1):
            start = time.perf_counter()
            commands.submit(buffer)
            commands.wait()
            seconds.append(time.perf_counter() - start)
    finally:
        commands.wait()
        for image in images:
            image.destroy(device)
        commands.destroy()
    return 2 * COPIES * COPIED.bytes / float(np.median(seconds[1:]))  # the first one does not count


# The Stages of a step as facts: what each is predicted to take and to move, and what it takes.


def stage_facts(executor: VulkanExecutor, steps: int = 5) -> list[dict[str, Any]]:
    """Facts of each Stage that runs in every step, in their order, copies last: ``name``, ``functions``, ``bytes``
    that leave the chip, ``predicted_ms`` by the model of the device, and ``ms``, the median of ``steps`` real
    steps; None for copies and on devices without timestamps. The steps change what is optimised."""
    device, plan = executor.device, executor.plan
    found = predict(plan, model_of(device))
    if device.timestamp_bits:
        times = zip(profile(executor, steps), plan.step.with_dependencies, strict=True)
        found = found.measured(time.ms for time, (_, sources) in times if sources is None)
    return [
        {
            "name": stage.name,
            "functions": stage.functions,
            "ms": None if stage.measured is None else 1e3 * stage.measured,
            "predicted_ms": 1e3 * stage.seconds,
            "bytes": stage.bytes,
        }
        for stage in found.stages
    ]


class RoundStages(list[dict[str, Any]]):
    """The ``stage_facts`` of engines by name, for files: called with each when it has done its work."""

    def __call__(self, name: str, engine: Any) -> None:
        self.append({"round": name, "stages": stage_facts(engine.executor)})
