"""What the figures of a device can be, by its class."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import NamedTuple

from ...plan.model.device import DeviceModel
from ..device.device import Device

SPREAD = 16.0
"""A figure of a device is this factor from that of its class at most."""
FIGURES = tuple(
    f.name
    for f in fields(DeviceModel)
    if f.type in ("int", "float") and f.name not in ("longest_walk", "bilinear_error", "nearest_error")
)
"""What is measured in units of time."""
PARALLEL = {"bandwidth", "lanes", *(name for name in FIGURES if name.endswith("_rate"))}
"""What grows with the cores of a CPU."""
RECORDED_CORES = 2
"""Of the machine that the record of CPU drivers is of."""


class Bounds(NamedTuple):
    """Of the figures of a device of a class. cores: how many times those of the class's record it may use at once."""

    guess: DeviceModel
    cores: float = 1.0

    @classmethod
    def of(cls, guess: DeviceModel, device: Device) -> Bounds:
        """CPU drivers run on all cores of the machine, or on few."""
        cpu = device.physical.type == "cpu"
        return cls(guess, max((os.cpu_count() or 1) / RECORDED_CORES, 1.0) if cpu else 1.0)

    def hold(self, name: str, value: float) -> bool:
        """Whether a figure can be that of such a device. False for NaN."""
        of_class = getattr(self.guess, name)
        most = self.cores if name in PARALLEL else 1.0
        return of_class / SPREAD <= value <= of_class * SPREAD * most
