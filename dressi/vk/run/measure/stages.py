"""The Stages of a step as facts: what each is predicted to take and to move, and what it takes."""

from __future__ import annotations

from typing import Any

from ...plan.predict.stages import predict
from ..executor import VulkanExecutor
from .calibration import model_of
from .timing import profile


def stage_facts(executor: VulkanExecutor, steps: int = 5) -> list[dict[str, Any]]:
    """Of each Stage that runs in every step, in their order, copies last: ``name``, ``functions``, ``bytes`` that leave the
    chip, ``predicted_ms`` by the model of the device, and ``ms``, the median of ``steps`` real steps; None for copies and
    on devices without timestamps. The steps change what is optimised."""
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
