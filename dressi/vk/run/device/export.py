"""Images on the device as handles for another program on it, e.g. a viewer, without a copy by the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ad.graph import Variable
from ....ad.graph.types import VType
from ...plan.core.limits import DeviceLimits
from .device import Device
from .memory import DeviceImage


@dataclass(frozen=True)
class ExportedPlane:
    """One image, as whole numbers: a VkImage, a VkImageView of all of it, and their VkFormat."""

    image: int
    view: int
    format: int


@dataclass(frozen=True)
class ExportedImage:
    """The images that hold a Variable, from ``DressiAD.export``, and what a program has to do to read them.

    **What is where.** ``planes``: a column of a matrix each, else one. A texel is a float32 or int32 of 1, 2
    or 4 components; VEC3 and IVEC3 have 4, of which the last is 0. ``extent``: (width, height) of every plane
    in texels. The ``batch`` tiles of ``size`` lie beside and below each other: tile k begins at texel
    ``offsets[k]``. Row 0 is the top of a picture. Colours are linear, as the graph computes them.

    **How they may be used.** In samplers, with texelFetch, and as the source of copies and blits, in the
    VkImageLayout ``layout``, in which they always are: transitions to another one must be undone. They have
    one mip level and one array layer, and are never written by anybody else than the engine.

    **When they may be read.** On the VkQueue ``queue`` of the family ``queue_family``, the engine's own, by
    commands submitted after ``export`` returned, behind a memory barrier from the stages ``stage`` and the
    accesses ``access`` (VkPipelineStageFlags and VkAccessFlags of whatever the engine writes with) to those
    that read. Nothing more is needed: what the engine submits later begins with a barrier of its own, so that
    it writes when the reads submitted before are done. Submissions of another thread hold ``Device.lock``. On
    another queue of the same family, submit an empty batch that signals a semaphore to ``queue``, wait for
    that semaphore where you read, and let an empty batch on ``queue`` wait for one that your reads signal,
    before the engine's next step.

    **How long.** The handles belong to the engine and stay the same until it is closed, whatever is sent, set
    or planned anew; do not destroy them. Steps and ``send`` change the value of a leaf in its image; a
    computed value is brought up to date by ``export`` alone, which is as cheap as ``recv`` without its copy.

    >>> picture = Variable.of(np.ones((4, 6)), name="picture")
    >>> with DressiAD() as ad:
    ...     ad.set_output("darker", 0.5 * picture)
    ...     exported = ad.export("darker")
    ...     exported.extent, exported.offsets, len(exported.planes), exported == ad.export("darker")
    ((6, 4), ((0, 0),), 1, True)
    """

    planes: tuple[ExportedPlane, ...]
    vtype: VType
    size: tuple[int, int]
    batch: int
    extent: tuple[int, int]
    offsets: tuple[tuple[int, int], ...]
    layout: int
    stage: int
    access: int
    queue: int
    queue_family: int


def exported(
    variable: Variable, images: Sequence[DeviceImage], device: Device, limits: DeviceLimits
) -> ExportedImage:
    """The record of a Variable that lies in these images."""
    vk, tiling = device.vk, limits.tiling(variable)

    def number(handle: Any) -> int:
        return int(vk.ffi.cast("uintptr_t", handle))

    return ExportedImage(
        planes=tuple(ExportedPlane(number(i.handle), number(i.view), i.format) for i in images),
        vtype=variable.vtype,
        size=variable.size,
        batch=variable.tiles,
        extent=(tiling.width, tiling.height),
        offsets=tuple(tiling.offset(tile) for tile in range(variable.tiles)),
        layout=images[0].layout,
        stage=vk.VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT
        | vk.VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT
        | vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        | vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
        access=vk.VK_ACCESS_SHADER_WRITE_BIT
        | vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT
        | vk.VK_ACCESS_TRANSFER_WRITE_BIT,
        queue=number(device.queue),
        queue_family=device.family,
    )
