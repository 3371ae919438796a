"""Values on the device for others, without a copy by the host: as images for another program on the device,
e.g. a viewer, and as memory for other devices and for CUDA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....ad.graph import Variable
from ....ad.graph.types import VType
from ...plan.core.limits import DeviceLimits
from .commands import Commands
from .device import Device
from .external import SharedBuffer
from .memory import DeviceImage
from .transfer import Block, Exchange, blocks_in, room


@dataclass(frozen=True)
class ExportedPlane:
    """One image, as whole numbers: a VkImage, a VkImageView of all of it, and their VkFormat."""

    image: int
    view: int
    format: int


@dataclass(frozen=True)
class ExportedImage:
    """The images that hold a Variable, from ``DressiAD.export``, and what a program has to do to read them.
    They can be used on the engine's VkDevice alone; others take a copy in memory, ``DressiAD.share``.

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


class SharedValue:
    """Memory with the texels of a Variable, from ``DressiAD.share``, that another device or CUDA reads and
    writes.

    **What is where.** ``blocks``: the offset in bytes, shape (height, width, components) and type of each
    plane, row by row without gaps; all else is as in ``ExportedImage``, with the tiles at ``offsets``.
    ``bytes``: of the buffer, with which the memory begins; ``allocated``: of the memory.

    **Whose turn it is.** ``give`` copies the present value into the memory, behind all work so far, and
    ``take`` sets a leaf from it. Both queue the copy and return. Others read after ``wait``, and have written
    before ``take``.

    **How long.** Until the engine is closed; whoever has imported the memory keeps it alive.
    """

    def __init__(
        self,
        variable: Variable,
        images: Sequence[DeviceImage],
        commands: Commands,
        limits: DeviceLimits,
        refresh: Callable[[], None],
        changed: Callable[[], None],
        handle: int | None,
    ):
        tiling, device = limits.tiling(variable), commands.device
        self.blocks: tuple[Block, ...] = tuple(blocks_in(images))
        self.offsets = tuple(tiling.offset(tile) for tile in range(variable.tiles))
        self._refresh, self._changed = refresh, changed
        with device.undo_on_error():
            self._memory = SharedBuffer(device, room(images), f"shared {variable}", handle)
            self._out, self._in = (
                Exchange(commands, images, upload=upload, staging=self._memory) for upload in (False, True)
            )
        self._last = self._out
        self.bytes, self.allocated = self._memory.size, self._memory.allocated

    def handle(self) -> int:
        """A new handle of the memory: a file descriptor, or a HANDLE on Windows. Who imports a descriptor
        owns it; a HANDLE has to be closed."""
        return self._memory.export()

    def give(self) -> None:
        """Copy the present value into the memory. Raises GraphError for a leaf without one."""
        self._refresh()
        self._last = self._out
        self._last.submit()

    def take(self) -> None:
        """Set the leaf from the memory. Raises GraphError for what is computed."""
        self._changed()
        self._last = self._in
        self._last.submit()

    def wait(self) -> None:
        """Wait until the copy that was queued last is done."""
        self._last.wait()

    def destroy(self) -> None:
        """Release the memory and the commands, for its engine. The copies must be done."""
        self._in.destroy()
        self._out.destroy()
