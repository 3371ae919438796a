"""Which device of a machine each of its workers uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def usable(wanted: Sequence[str]) -> list[str]:
    """Indices, as text, of the devices of this machine that workers share.

    wanted: names or indices; without any the best device, and the others of its kind where that is a GPU: two drivers for the
    same processor only get in each other's way. Raises DressiErrors.
    """
    from dressi.config import config
    from dressi.vk.run.device.choose import choose, list_devices

    found = list_devices()
    if wanted:
        return [str(choose(found, name).index) for name in wanted]
    best = choose(found)
    alone = config.device is not None or best.type == "cpu"
    same = [device for device in found if device.type == best.type and not alone]
    return [str(device.index) for device in same or [best]]


def least_used(devices: Sequence[str], used: Iterable[str]) -> str:
    """The device with the fewest workers, the first of equals.

    >>> least_used(["0", "1"], ["0", "0", "1"])
    '1'
    """
    counts = Counter(used)
    return min(devices, key=lambda device: counts[device])
