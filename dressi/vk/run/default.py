"""The Devices that engines use where they are given none: one for a thread, opened by its first engine."""

from __future__ import annotations

import os
import threading
from typing import Any

from ...config import config
from .device.device import Device
from .device.instance import PhysicalDevice, choose, list_devices

_Key = tuple[int, int, str | int | None, bool]  # process, thread, device, validation
_devices: dict[_Key, Device] = {}
_lock = threading.Lock()


def shared_device(wanted: str | int | PhysicalDevice | None = None, *, validation: bool = False) -> Device:
    """The Device of this name or index, None for that of DRESSI_DEVICE or the best one, which all engines and
    ``evaluate`` of a thread share. Raises as ``Device``.

    It stays open until the process ends, and is closed before that when its thread has ended and another one
    opens a Device here. One that was closed, lost or given up is replaced by a new one: what was made on it
    stays lost, what is made next works.
    """
    thread = threading.current_thread()  # which notes it, where Python did not start it
    key = (os.getpid(), thread.ident or 0, _named(wanted), validation)
    device = _devices.get(key)
    if device is not None and device.usable:
        return device
    with _lock:
        running = {t.ident for t in threading.enumerate()}
        ended = [k for k in _devices if k == key or (k[0] == key[0] and k[1] not in running)]
        useless = [_devices.pop(k) for k in ended]
    for each in useless:
        each.close()
    device = Device.open(wanted, validation=validation)
    with _lock:
        _devices[key] = device
    return device


def _named(wanted: Any) -> str | int | None:
    """One value for each way to name a device. Raises InputError."""
    if wanted is None or isinstance(wanted, str):
        return (config.device if wanted is None else wanted) or None
    return choose(list_devices(), wanted).index


def shared_devices() -> list[Device]:
    """Those of this thread."""
    here = (os.getpid(), threading.get_ident())
    with _lock:
        return [device for key, device in _devices.items() if key[:2] == here]
