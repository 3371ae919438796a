"""How far a device's sampler is off the meaning of ``F.sample``."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from ....ad import functional as F
from ....ad.evaluate import NumpyExecutor
from ....ad.graph import Variable
from ....ad.program import Program
from ....ad.types import VEC2, VEC4, Size
from ...plan.model.device import DeviceModel
from ..device.device import Device
from ..executor import VulkanExecutor

TEXTURE: Size = (12, 9)
POINTS: Size = (64, 64)


def willing(model: DeviceModel) -> DeviceModel:
    """The model of a device whose sampler costs nothing, so that plans use it wherever they may."""
    return replace(model, filter_rate=inf)


def sampler_errors(device: Device, model: DeviceModel) -> dict[str, float]:
    """The largest error of each filter, ``bilinear`` and ``nearest``, relative to the range of the texture's
    values: noise, read inside and outside, many points close to borders of texels."""
    rng = np.random.default_rng(7)
    texels = rng.uniform(0, 1, (1, TEXTURE[1], TEXTURE[0], 4))
    texels[0, 0, 0], texels[0, 0, 1] = 0, 1  # the whole range, between neighbours
    border = rng.integers(-12, 24, (1, POINTS[1], POINTS[0], 2)) / TEXTURE
    near = border + rng.choice((-1, 1), border.shape) * 10 ** rng.uniform(-4.5, -2, border.shape)
    anywhere = rng.uniform(-1.2, 2.2, border.shape)
    places = np.where(rng.random(border.shape) < 0.5, near, anywhere).astype(np.float32)
    texture, uv = Variable(VEC4, TEXTURE, data=texels), Variable(VEC2, POINTS, data=places)
    filters = ("bilinear", "nearest")
    program = Program(
        {
            f"{filter} {wrap}": F.sample(texture, uv, filter, wrap, tolerance=1.0)
            for filter in filters
            for wrap in ("repeat", "clamp")
        },
        (),
    )
    exact = NumpyExecutor(program)
    exact.run(1)
    found: dict[str, float] = dict.fromkeys(filters, 0.0)
    with VulkanExecutor(program, device, cost=willing(model)) as run:
        run.run(1)
        for name, v in program.outputs.items():
            filter = name.split()[0]
            found[filter] = max(found[filter], float(np.abs(run.recv(v) - exact.recv(v)).max()))
    return found
