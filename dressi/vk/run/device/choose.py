"""The list of devices, and which of them a user means."""

from __future__ import annotations

from numbers import Integral

from ....config import config
from ....errors import DeviceNotFoundError, InputError
from .instance import Instance, PhysicalDevice

_PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
_DOZEN = 23
"""VK_DRIVER_ID_MESA_DOZEN translates Vulkan to Direct3D 12 and does not conform: it comes last, behind the
CPU, whose results are right, and is used where the user names it."""


def list_devices() -> list[PhysicalDevice]:
    """All physical devices of all drivers. Raises NoDriverError when there is none.

    >>> device = list_devices()[0]
    >>> device.index, device.type in ("discrete", "integrated", "virtual", "cpu", "other")
    (0, True)
    """
    return Instance.shared().physical_devices()


def choose(devices: list[PhysicalDevice], wanted: str | int | PhysicalDevice | None = None) -> PhysicalDevice:
    """The device with this index, or with this text in its name or its driver's name (any case), or one of
    ``list_devices``.

    Without any of these DRESSI_DEVICE decides, and without that the kind that is usually fastest. Raises
    DeviceNotFoundError, and InputError for anything else than a name or an index.
    """
    origin = ""
    if wanted is None and config.device is not None:
        wanted, origin = config.device, " (DRESSI_DEVICE or config.device)"
    if isinstance(wanted, str):
        wanted = wanted.strip()
    if left_to_us(wanted):
        return min(
            devices,
            key=lambda d: (
                d.driver_id == _DOZEN,
                _PREFERENCE.index(d.type),
                "llvmpipe" not in d.name,
                d.index,
            ),
        )
    if isinstance(wanted, PhysicalDevice):
        wanted = wanted.index
    elif isinstance(wanted, str) and wanted.isdecimal():
        wanted = int(wanted)
    if isinstance(wanted, str):
        found = [d for d in devices if wanted.lower() in f"{d.name} {d.driver}".lower()]
    elif isinstance(wanted, Integral) and not isinstance(wanted, bool):
        found = [d for d in devices if d.index == wanted]
    else:
        raise InputError(
            f"a Device is opened by an index, a part of its name or nothing, not by {wanted!r}"
            f"{origin}; `dressi devices` lists what there is"
        )
    if not found:
        names = "; ".join(f"{d.index}: {d.name}" for d in devices)
        raise DeviceNotFoundError(f"there is no Vulkan device {wanted!r}{origin}; there are {names}")
    return found[0]


def left_to_us(wanted: object) -> bool:
    """Whether ``choose`` decides for this argument: nobody named a device."""
    wanted = config.device if wanted is None else wanted
    return wanted is None or (isinstance(wanted, str) and not wanted.strip())
