"""The queue of a device: submission, and waiting that ctrl-C can end.

A shader may loop for ever. The host therefore waits in slices of ``SLICE`` seconds, and Python delivers
signals between two slices: ctrl-C raises KeyboardInterrupt. Nothing is lost by that. The work goes on, and
the next wait gets the values. Only closing has a limit: after an interrupt, and when the process exits,
``settle`` waits for ``PATIENCE`` seconds and then abandons the device.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ....errors import DeviceError, DeviceLostError
from .results import Binding

SLICE = 0.05
"""Seconds of one wait, after which Python can deliver a signal."""
PATIENCE = 5.0
"""Seconds that ``settle`` waits after an interrupt, or when the process exits."""


@dataclass
class Passage:
    """When a submission began and was last seen at work, by the host's clock.
    follows: whether it began behind work that the host had not seen end."""

    number: int
    began: float
    seen: float
    follows: bool


class Queue:
    """The one queue of a device.

    lock: held during submissions, because only one thread at a time may use a queue and another program may
    submit to it too. lost: why nothing can be submitted any more, or None. abandoned: the device was given up
    while it worked, so none of its objects may be destroyed. exiting: the process is about to exit.
    on_interrupt: called when a ctrl-C ends a wait; they may make the work that is left end sooner. pace: how
    long submissions take, and how much the next one may hold. clock: seconds, for ``pace``.
    """

    def __init__(
        self,
        vk: Binding,
        device: Any,
        queue: Any,
        name: str,
        lock: AbstractContextManager[Any],
        *,
        on_cpu: bool = False,
    ):
        self.vk, self.device, self.handle, self.name, self.lock = vk, device, queue, name, lock
        self.lost: str | None = None
        self.abandoned = False
        self.exiting = False
        self.on_interrupt: dict[Callable[[], None], None] = {}
        self.pace, self.clock = Pace(BOUND_ON_CPU if on_cpu else BOUND), time.perf_counter
        self._submitted = self._under_way = 0  # submissions between ``began`` and ``ended``
        self._last = (0, 0.0, 0.0)  # number of the submission that ended last, and between which times it did
        self._interrupted = False  # ctrl-C ended the last wait
        self._in_vain = False  # the last ``settle`` ran out of time
        self._fence = vk.vkCreateFence(device, vk.VkFenceCreateInfo(), None)  # of wait_idle
        self._marked = False  # whether that fence was submitted

    def check(self) -> None:
        """Raises DeviceLostError when the device is lost."""
        if self.lost is not None:
            raise DeviceLostError(self.lost)

    def submit(self, info: Any, fence: Any) -> None:
        """One VkSubmitInfo, or None for the fence alone. fence: not in use, or None. It is reset here, not when its last wait
        ended: a ctrl-C right behind the reset would leave a fence that is waited for and never signalled."""
        self.check()
        vk = self.vk
        if fence is not None:
            code = vk.lib.vkResetFences(self.device, 1, vk.ffi.new("VkFence*", fence))
            if code != vk.VK_SUCCESS:
                vk.fail(code, "failed in vkResetFences")
        with self.lock:
            vk.call("vkQueueSubmit", "refused work", self.handle, 0 if info is None else 1, info, fence)

    def began(self) -> Passage:
        """A submission whose end will be told to ``ended``."""
        now = self.clock()
        self._submitted += 1
        self._under_way += 1
        return Passage(self._submitted, now, now, self._under_way > 1)

    def refused(self) -> None:
        """The submission for which ``began`` was called failed."""
        self._submitted -= 1
        self._under_way -= 1

    def ended(self, passage: Passage, buffers: Sequence[Any], waited: bool) -> None:
        """A submission of these command buffers has ended. waited: the host saw it end just now."""
        now = self.clock()
        end = now if waited else passage.seen
        earliest = latest = passage.began
        if passage.follows:
            number, earliest, latest = self._last
            earliest = max(earliest, passage.began) if number == passage.number - 1 else passage.began
            latest = max(latest, passage.began) if number == passage.number - 1 else end
        self._last = (passage.number, max(end, earliest), now)
        self._under_way -= 1
        self.pace.ended(buffers, max(end - latest, 0.0), now - earliest)

    def wait(self, fences: Sequence[Any], patience: float | None = None) -> bool:
        """Wait until all fences are signalled, and return True; False if ``patience`` seconds pass first.
        Raises DeviceErrors."""
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
            for call in self.on_interrupt:
                call()
            raise

    def wait_idle(self, patience: float | None = None) -> bool:
        """``wait`` for everything submitted so far."""
        self.check()
        fence = self._fence
        if self._marked and not self.wait([fence], patience):
            return False
        self._marked = False
        self.submit(None, fence)
        self._marked = True
        return self.wait([fence], patience)

    def settle(self, *, give_up: bool = False) -> bool:
        """Wait for all work before objects are destroyed. Returns whether they may be destroyed.

        Waits without limit, except after a ctrl-C and when the process exits: then for ``PATIENCE`` seconds,
        and after that time ran out once, not at all. give_up: abandon the device, with a warning, if the work
        did not end; also on a ctrl-C during the wait.
        """
        if self.abandoned:
            return False
        hurry = self.exiting or self._interrupted or isinstance(sys.exception(), KeyboardInterrupt)
        try:
            if self.wait_idle((0.0 if self._in_vain else PATIENCE) if hurry else None):
                return True
        except DeviceError:
            # The submission found no memory, or the device is lost. The driver's own wait returns soon then.
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
        """Release the queue's fence. All work must have ended."""
        self.vk.vkDestroyFence(self.device, self._fence, None)

    def _give_up(self) -> None:
        self.abandoned = True
        self.lost = (
            f"{self.name} was given up: its work did not end in {PATIENCE:g} s after it was interrupted; if "
            "it never ends, look for a loop without an end in GLSL of your own, and start the process again"
        )
        warnings.warn(self.lost, RuntimeWarning, stacklevel=4)


# How much work one submission holds.
#
# Watchdogs of drivers and of Windows kill work that keeps a GPU for seconds. No submission is therefore meant
# to take longer than ``BOUND``. Command buffers that were never measured run alone. Those that were run
# together as far as their seconds allow, at most twice as often as in any submission before: 1, 2, 4, ...
# Together they take up to ``SHARED`` of the bound: a device that other programs use may be several times
# slower in the next submission than in the last.
#
# The host sees only when a fence is signalled, so it knows an interval for the seconds of a submission: from
# ``least`` to ``most``. It is a point where the host waited for this end and knew the one before.

BOUND = 0.2
"""Seconds of a submission. The shortest watchdog is that of Windows, 2 s."""
BOUND_ON_CPU = 2.0
"""The same for drivers that run on the CPU. No watchdog ends their work, but a ctrl-C waits for it; slices
cost them more: each band of a draw transforms all vertices again."""
SHARED = 0.5
RELIEF = 0.95
"""The seconds of a command buffer that took less are taken for this part of what they were, at least."""
BEHIND_A_GATE, FADING = 0.5, 0.998
"""Command buffers behind a gate are not taken to need less than this part of the most that they took, since
any of them may be heavy again at once. It fades with each submission: what is slow once, the first run,
passes."""
TIMES, AT_ONCE = 3, 5.0
"""A command buffer is too long when it exceeds the bound so many times in a row, or once by so many times: a
machine with other work is slow for a moment, which finer slices would only make worse."""


class Pace:
    """The seconds of command buffers, by their handles. longest: of the submissions so far, in seconds that
    certainly passed. compiling: command buffers without work, which only make a driver compile; they count
    for nothing. gated: those that a gate may switch off."""

    def __init__(self, bound: float = BOUND):
        self.bound = bound
        self.longest = 0.0
        self.compiling: set[Hashable] = set()
        self.gated: set[Hashable] = set()
        self._heaviest: dict[Hashable, float] = {}  # seconds of those behind a gate
        self._seconds: dict[Hashable, float] = {}
        self._runs: dict[Hashable, int] = {}  # the most of one submission that ended
        self._over: dict[Hashable, tuple[float, ...]] = {}  # seconds above the bound, of the last runs alone
        self._excess: dict[Hashable, float] = {}  # seconds of those that are too long

    def count(self, buffers: Sequence[Hashable], most: int) -> int:
        """How many command buffers from the front of a sequence go into the next submission: at least one, at
        most ``most``."""
        if len(buffers) == 1:
            return 1
        total, runs = 0.0, Counter[Hashable]()
        for k, buffer in enumerate(buffers[:most]):
            seconds = self._seconds.get(buffer)
            if seconds is None:
                return k or 1
            total += seconds
            runs[buffer] += 1
            if k and (total > SHARED * self.bound or runs[buffer] > 2 * self._runs[buffer]):
                return k
        return min(len(buffers), most)

    def ended(self, buffers: Sequence[Hashable], least: float, most: float) -> None:
        """A submission of these command buffers ended after ``least`` to ``most`` seconds."""
        if self.compiling.issuperset(buffers):
            return
        self.longest = max(self.longest, least)
        runs = {buffers[0]: 1} if len(buffers) == 1 else Counter(buffers)
        expected = sum(n * self._seconds.get(b, 0.0) for b, n in runs.items())
        if any(b not in self._seconds for b in runs):
            if len(runs) == 1 and (most <= self.bound or least > most / 2):
                (buffer,) = runs
                self._seconds[buffer] = most / runs[buffer]
                self._scale(runs, 1.0)
        elif least > expected:
            self._scale(runs, least / max(expected, 1e-9))
        elif most < expected:
            # Slowly: work behind a gate, and what depends on values, may be heavy again at once.
            self._scale(runs, max(most / expected, RELIEF))
        for buffer, n in runs.items():
            self._runs[buffer] = max(self._runs.get(buffer, 1), n)
        if len(buffers) == 1:
            self._look_at(buffers[0], least)

    def _look_at(self, buffer: Hashable, seconds: float) -> None:
        over = self._over.pop(buffer, ())
        if seconds > self.bound:
            over = (*over, seconds)
            if seconds > AT_ONCE * self.bound:
                self._excess[buffer] = seconds
            elif len(over) == TIMES:
                self._excess[buffer] = min(over)
            else:
                self._over[buffer] = over

    def _scale(self, buffers: Iterable[Hashable], factor: float) -> None:
        for buffer in buffers:
            seconds = self._seconds[buffer] * factor
            if buffer in self.gated:
                heaviest = max(seconds, FADING * self._heaviest.get(buffer, 0.0))
                self._heaviest[buffer] = heaviest
                seconds = max(seconds, BEHIND_A_GATE * heaviest)
            self._seconds[buffer] = seconds

    @property
    def exceeded(self) -> bool:
        """Whether any command buffer is too long by itself."""
        return bool(self._excess)

    def excess(self, buffer: Hashable) -> float:
        """Seconds of a command buffer that is too long by itself; 0 of others."""
        return self._excess.get(buffer, 0.0)

    def forget(self, buffer: Hashable) -> None:
        """The command buffer is gone, or holds other commands from now on."""
        for known in (self._seconds, self._runs, self._over, self._excess, self._heaviest):
            known.pop(buffer, None)
        self.compiling.discard(buffer)
        self.gated.discard(buffer)
