"""What the optimisations of the benchmarks are to reach: pictures drawn on a device, or none where only plans are made."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from dressi import Device, DressiAD
from dressi.cli.bench.meshes import Model
from dressi.errors import InputError
from dressi.render.cameras import Cameras
from dressi.render.drawing.draw import draw
from dressi.render.mesh import Mesh


class Pictures(NamedTuple):
    """masks: (N, H, W) of 0 and 1.  colors: (N, H, W, 3), unlit and linear, on black."""

    masks: np.ndarray
    colors: np.ndarray


class Targets(Protocol):
    """Gives the pictures of a mesh, made of ``model``; None where targets need no values."""

    def __call__(self, model: Model, mesh: Mesh, ring: Cameras) -> Pictures | None: ...


def without_values(model: Model, mesh: Mesh, ring: Cameras) -> None:
    """Targets of plans, which depend on sizes and types alone: no picture is drawn, and no device is needed."""


def drawn_on(device: Device) -> Targets:
    """Targets drawn on a device. Raises InputError where a view shows nothing."""

    def pictures(model: Model, mesh: Mesh, ring: Cameras) -> Pictures:
        found = Pictures(*draw(mesh, ring, lambda: DressiAD(device)))
        if not all(mask.any() for mask in found.masks):
            raise InputError(f"mesh {model.name!r} covers no pixel of a view; use a larger --size")
        return found

    return pictures
