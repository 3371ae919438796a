"""What plans are made for: a named record, an open device, or a desktop GPU where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from dressi import Device
from dressi.cli.core.terminal import say
from dressi.config import config
from dressi.errors import NoDriverError
from dressi.vk.plan.core.limits import DeviceLimits, profile
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
    """A device model and a profile of limits by their names. One that is None follows from the other; without
    both it is the desktop record. Raises InputError."""
    named = None if model is None else device_model(model)
    limits = limits or profile_of(named or DESKTOP)
    return PlanFor(limits, profile(limits), named or model_of_profile(limits))


def device_or_record(wanted: str | None) -> PlanFor:
    """The device of that name, or the best one; the desktop record, with a note on stderr, where there is no
    driver and no device was asked for. Raises DressiErrors."""
    try:
        with Device.open(wanted) as device:
            return PlanFor(device.name, device.limits, model_of(device))
    except NoDriverError:
        if wanted is not None or config.device is not None:
            raise
        desktop = record(None, None)
        say(
            f"dressi: there is no Vulkan driver; the plan is for the limits and the model of {desktop.name!r}"
        )
        return desktop
