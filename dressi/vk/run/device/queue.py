"""The queue of a device: submission, and waiting that ctrl-C can end.

A shader may never end. The host therefore waits in slices, between which Python delivers signals: a ctrl-C raises
KeyboardInterrupt within ``SLICE``. That alone loses nothing: the work goes on, and whoever waits again gets the values.
Only the end is impatient: after an interrupt, and when the process exits, ``settle`` waits for ``PATIENCE`` seconds and
then gives the device up.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from ....errors import DeviceError, DeviceLostError
from .results import Binding

SLICE = 0.05
"""Seconds between two looks at the signals."""
PATIENCE = 5.0
"""Seconds that the end of a device waits for work that nobody waits for any more."""


class Queue:
    """The one queue of a device.

    lock: held while anything is submitted: Vulkan lets one thread at a time use a queue, and a program that dressi runs
    in may submit to it as well.  lost: why nothing can be submitted any more, or None.  abandoned: the device was given up while it worked, so that
    none of its objects may be destroyed.  exiting: the process is about to exit, and
    nobody can read what is still under way.
    """

    def __init__(self, vk: Binding, device: Any, queue: Any, name: str, lock: AbstractContextManager[Any]):
        self.vk, self.device, self.handle, self.name, self.lock = vk, device, queue, name, lock
        self.lost: str | None = None
        self.abandoned = False
        self.exiting = False
        self._interrupted = False  # the last wait
        self._in_vain = False  # the last settle ended before the work did
        self._fence = vk.vkCreateFence(
            device, vk.VkFenceCreateInfo(), None
        )  # behind everything, for wait_idle
        self._marked = False  # whether it was submitted and not yet reset

    def check(self) -> None:
        """Raises DeviceLostError when the device is lost."""
        if self.lost is not None:
            raise DeviceLostError(self.lost)

    def submit(self, info: Any, fence: Any) -> None:
        """One VkSubmitInfo, or None for the fence alone."""
        self.check()
        with self.lock:
            self.vk.call("vkQueueSubmit", "refused work", self.handle, 0 if info is None else 1, info, fence)

    def wait(self, fences: Sequence[Any], patience: float | None = None) -> bool:
        """Until all fences are signalled: True; or for ``patience`` seconds: False. Raises DeviceErrors."""
        self.check()
        vk, start = self.vk, time.monotonic()
        array, slice_ns = vk.ffi.new("VkFence[]", list(fences)), int(1e9 * SLICE)
        try:
            while True:
                code = vk.lib.vkWaitForFences(self.device, len(fences), array, True, slice_ns)
                if code == vk.VK_SUCCESS:
                    self._interrupted = self._in_vain = False
                    return True
                if code != vk.VK_TIMEOUT:
                    vk.fail(code, "failed while working")
                if patience is not None and time.monotonic() - start >= patience:
                    return False
        except KeyboardInterrupt:
            self._interrupted = True
            raise

    def wait_idle(self, patience: float | None = None) -> bool:
        """``wait`` for everything submitted so far."""
        self.check()
        vk, fence = self.vk, self._fence
        if self._marked and not self.wait([fence], patience):
            return False
        vk.vkResetFences(self.device, 1, [fence])
        self._marked = False
        self.submit(None, fence)
        self._marked = True
        return self.wait([fence], patience)

    def settle(self, *, give_up: bool = False) -> bool:
        """The end of all work, before objects are destroyed; whether they may be.

        Waits as long as it takes, but only for ``PATIENCE`` seconds after a ctrl-C or when the process exits, and once
        that was in vain for one slice. What is not done then is left to the end of the device, which gives up: so does a
        ctrl-C meanwhile.
        """
        if self.abandoned:
            return False
        hurry = self.exiting or self._interrupted or isinstance(sys.exception(), KeyboardInterrupt)
        try:
            if self.wait_idle((0.0 if self._in_vain else PATIENCE) if hurry else None):
                return True
        except DeviceError:
            # No memory for a submission; or the device is lost, then this returns soon.
            with self.lock:
                self.vk.lib.vkQueueWaitIdle(self.handle)
            return True
        except KeyboardInterrupt:
            if give_up:
                self._give_up()
            raise
        self._in_vain = True
        if give_up:
            self._give_up()
        return False

    def destroy(self) -> None:
        """Release what is the queue's own; nothing may be under way."""
        self.vk.vkDestroyFence(self.device, self._fence, None)

    def _give_up(self) -> None:
        self.abandoned = True
        self.lost = (
            f"{self.name} was given up: its work did not end in {PATIENCE:g} s after it was interrupted; if it never "
            "ends, look for a loop without an end in GLSL of your own, and start the process again"
        )
        warnings.warn(self.lost, RuntimeWarning, stacklevel=4)
