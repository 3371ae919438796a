"""How much work one submission holds.

Watchdogs of drivers and of Windows kill work that keeps a GPU for seconds. No submission is therefore meant to take longer
than ``BOUND``. Command buffers that were never measured run alone. Those that were run together as far as their seconds
allow, at most twice as often as in any submission before: 1, 2, 4, ... Together they take up to ``SHARED`` of the bound: a
device that other programs use may be several times slower in the next submission than in the last.

The host sees only when a fence is signalled, so it knows an interval for the seconds of a submission: from ``least`` to
``most``. The interval is a point where the host waited for the end of this submission and knew that of the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

BOUND = 0.2
"""Seconds of a submission. The shortest watchdog is that of Windows, 2 s."""
BOUND_ON_CPU = 2.0
"""The same for drivers that run on the CPU. No watchdog ends their work, but a ctrl-C waits for it; slices cost them
more: each band of a draw transforms all vertices again."""
SHARED = 0.5
RELIEF = 0.95
"""The seconds of a command buffer that took less are taken for this part of what they were, at least."""
BEHIND_A_GATE, FADING = 0.5, 0.998
"""Command buffers behind a gate are not taken to need less than this part of the most that they took, since any of them may be
heavy again at once. Each submission after that counts it for a little less: what is slow once, the first run, passes."""
TIMES, AT_ONCE = 3, 5.0
"""A command buffer is too long when it exceeds the bound so many times in a row, or once by so many times: a machine with
other work is slow for a moment, which finer slices would only make worse."""


class Pace:
    """The seconds of command buffers, by their handles. longest: of the submissions so far, in seconds that certainly
    passed. compiling: command buffers without work, which only make a driver compile; they count for nothing. gated: those
    that a gate may switch off."""

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
        """How many command buffers from the front of a sequence go into the next submission: at least one, at most
        ``most``."""
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
