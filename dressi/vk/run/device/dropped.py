"""What was dropped without a close: ended later, by the thread that may.

The garbage collector runs at any time and on any thread, so it only notes what is to be ended. The owner's next Device
or workspace ends it: a cell of a notebook that is run again and again keeps one engine alive, not all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import Device

_dropped: list[tuple[Device, Callable[[], None]]] = []


def note(device: Device, end: Callable[[], None]) -> None:
    """Called by the garbage collector: ``end`` is to be called on the thread of the device."""
    _dropped.append((device, end))


def end_all() -> None:
    """End what was dropped on this thread of this process."""
    for entry in list(_dropped):
        device, end = entry
        if device.here and entry in _dropped:  # an end may collect garbage, too
            _dropped.remove(entry)
            end()
