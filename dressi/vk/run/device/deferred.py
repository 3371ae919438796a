"""Engines that were garbage collected without ``close``: they are closed later, on the thread that owns their device.

The garbage collector runs at any time and on any thread, so it only registers what has to be closed. The next Device
or Workspace that the owning thread makes closes it. A notebook cell that is run again and again therefore keeps one
engine alive, not one for each run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Owner(Protocol):
    """A device, as far as this module needs it."""

    @property
    def here(self) -> bool:
        """Whether the calling thread may use it."""
        ...


_deferred: list[tuple[Owner, Callable[[], None]]] = []


def defer_close(owner: Owner, close: Callable[[], None]) -> None:
    """Register a close for the thread of ``owner``. The garbage collector calls this."""
    _deferred.append((owner, close))


def close_deferred() -> None:
    """Run every registered close that belongs to this thread of this process."""
    for entry in list(_deferred):
        owner, close = entry
        if owner.here and entry in _deferred:  # a close may collect garbage and get here again
            _deferred.remove(entry)
            close()
