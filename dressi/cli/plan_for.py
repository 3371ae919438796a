"""What plans are made for on the command line: a named record, an open device, or a desktop GPU where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from dressi import Device
from dressi.cli.terminal import say
from dressi.config import config
from dressi.errors import NoDriverError
from dressi.vk.plan.limits import DeviceLimits, profile
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.model.records import DESKTOP, device_model, model_of_profile, profile_of
from dressi.vk.run.measure.calibration import model_of


@dataclass(frozen=True)
class PlanFor:
    """name: of the profile of limits, or of the device whose limits they are."""

    name: str
    limits: DeviceLimits
    model: DeviceModel


def record(model: str | None, limits: str | None) -> PlanFor:
    """By the names of a device model and of a profile of limits: each decides about the other where that is None.

    Without both it is the desktop record. Raises InputError."""
    if model is None:
        limits = limits or profile_of(DESKTOP)
        return PlanFor(limits, profile(limits), model_of_profile(limits))
    found = device_model(model)
    limits = limits or profile_of(found)
    return PlanFor(limits, profile(limits), found)


def device_or_record(wanted: str | None) -> PlanFor:
    """The device of that name, or the best one; the desktop record, with a note on stderr, where there is no driver
    and no device was asked for. Raises DressiErrors."""
    try:
        with Device.open(wanted) as device:
            return PlanFor(device.name, device.limits, model_of(device))
    except NoDriverError:
        if wanted is not None or config.device is not None:
            raise
        found = record(None, None)
        say(f"dressi: there is no Vulkan driver; the plan is for the limits and the model of {found.name!r}")
        return found
