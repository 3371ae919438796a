"""How many texels a second a device hands from pass to pass: by attachments, storage images and storage buffers; and how
many values it adds into buffers with atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.program import Program
from ....ad.types import FLOAT, VEC4, Size, VType
from ...plan.model.device import DeviceModel

WIDE: Size = (512, 512)
HANDED = 8
"""Passes that hand a value on."""
FETCHES = 16
LEAST = 1e-15
"""Seconds of a texel that no device is faster than."""

Seconds = Callable[[Program, DeviceModel], float]
"""Times a step of a program that is planned for a model."""


def storage_rates(seconds: Seconds, guess: DeviceModel) -> dict[str, float]:
    """``store_rate``, ``image_load_rate``, ``image_store_rate``, ``buffer_store_rate``, ``buffer_fetch_rate`` and ``atomic_rate``, texels or
    values a second. Models that make one kind of storage look slow force the plans to another one."""
    texels = WIDE[0] * WIDE[1]
    draws = replace(guess, prefers_dispatches=False, buffer_store_rate=1.0, image_load_rate=1.0)
    images = replace(draws, prefers_dispatches=True)
    loads = replace(images, image_load_rate=math.inf)
    buffers = replace(images, image_store_rate=1.0, buffer_store_rate=guess.buffer_store_rate)

    def fetched(model: DeviceModel) -> float:
        one, many = (seconds(_reading(n), model) for n in (1, FETCHES))
        return max((many - one) / (FETCHES - 1) / texels, LEAST)

    def stored(model: DeviceModel, fetch: float) -> float:
        one, many = (seconds(_handing(n), model) for n in (1, HANDED + 1))
        return max((many - one) / HANDED / texels - fetch, fetch / 8, LEAST)

    texture, buffer = fetched(images), fetched(buffers)
    one, four = (seconds(_adding(vtype), images) for vtype in (FLOAT, VEC4))
    return {
        "store_rate": 1 / stored(draws, texture),
        "image_load_rate": 1 / fetched(loads),
        "image_store_rate": 1 / stored(images, texture),
        "buffer_store_rate": 1 / stored(buffers, buffer),
        "buffer_fetch_rate": 1 / buffer,
        "atomic_rate": 1 / max((four - one) / 3 / texels, LEAST),
    }


def _moved(make: Callable[[Variable], Variable], vtype: VType = VEC4) -> Program:
    """A step that makes a value of an image and moves the image by it, so that every step computes all of it."""
    width, height = WIDE
    data = np.ones((1, height, width, *vtype.shape))
    image = Variable(vtype, WIDE, name="image", data=data)
    return Program({}, ((image, image * 0.5 + make(image) * 1e-6),))


def _handing(count: int) -> Program:
    """So many passes, each of which reads another texel of what the one before made."""

    def make(y: Variable) -> Variable:
        for _ in range(count):
            y = F.shift(y * 0.5 + 1.0, 1, 0)
        return y

    return _moved(make)


def _reading(count: int) -> Program:
    """A value that is stored, and read at so many texels."""

    def make(image: Variable) -> Variable:
        stored = image * 0.5 + 1.0
        total = F.shift(stored, 1, 0)
        for k in range(1, count):
            total = total + F.shift(stored, 1 + k % 4, k // 4)
        return total

    return _moved(make)


def _adding(vtype: VType) -> Program:
    """Every texel added into one of its own."""
    return _moved(
        lambda image: F.scatter_add(image, F.linear_index(WIDE), WIDE, bound=F.constant(2.0)), vtype
    )
