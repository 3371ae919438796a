"""The loss of every step: a ring buffer on the device, which is read before it overflows."""

from __future__ import annotations

from ....ad.objective import HISTORY, Objective
from ....errors import DeviceError
from ..executor import VulkanExecutor
from ..steps import Steps
from ..workspace import Workspace


class Losses:
    """Runs steps and keeps their recorded losses, each as it was before the update of its step. found: those read so far."""

    def __init__(self, objective: Objective, workspace: Workspace):
        self._objective, self._workspace = objective, workspace
        self.found: list[float] = []
        self._count = 0  # steps whose loss was read, as the device counts them
        self._unread = 0  # steps since then, at most: an interrupt may leave some undone

    def run(self, executor: VulkanExecutor | Steps, n: int) -> None:
        """``n`` steps, in parts that the ring buffer holds."""
        recorded = self._objective.recorded
        while n > 0:
            room = HISTORY - self._unread if recorded else n
            if room == 0:
                self.read(executor)
                continue
            now = min(n, room)
            self._unread += now if recorded else 0
            executor.run(now)
            n -= now

    def read(self, executor: VulkanExecutor | Steps | None) -> list[float]:
        """All losses so far; waits for the steps that are not done."""
        if self._unread and executor is not None:
            count = int(self._workspace.read(self._objective.counter).result().reshape(()))
            if not self._count <= count <= self._count + self._unread:
                raise DeviceError(
                    f"{self._workspace.device.name} counted {count - self._count} steps where at most {self._unread} were"
                    " submitted; its driver is wrong: update it, or choose another device (`dressi devices` lists them)"
                )
            ring = self._workspace.read(self._objective.history).result().reshape(-1)
            self.found += [float(ring[k % HISTORY]) for k in range(self._count, count)]
            self._count, self._unread = count, 0
            executor.wait()
        return self.found
