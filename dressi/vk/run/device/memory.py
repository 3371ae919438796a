"""Images and buffers on a device, and the conversion of their texels from and to NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ...plan.core.limits import Tiling
from ...plan.execution.images import ImageSlot
from .device import Device


@dataclass
class DeviceImage:
    """A VkImage with its view, always in the same layout.

    Depth attachments are in the layout for them: some drivers compress depths in no other. All other images
    stay in GENERAL, because one image is often a storage image or a colour attachment in one Stage and a
    texture in the next, and an input attachment of the subpass that overwrites it. GENERAL costs nothing on
    current GPUs (VK_KHR_unified_image_layouts promises that); what costs is a usage as storage image, which
    older ones cannot compress. Images therefore have the usages that their plan needs and no others.
    """

    slot: ImageSlot
    format: int
    handle: Any
    view: Any
    layout: int

    def destroy(self, device: Device) -> None:
        for handle in (self.view, self.handle):
            device.destroy(handle)


def make_image(device: Device, slot: ImageSlot, name: str) -> DeviceImage:
    """An image for what its slot says, in an undefined layout. ``name``: for debuggers and messages."""
    vk = device.vk
    fmt, usage = getattr(vk, f"VK_FORMAT_{slot.format}"), slot.usage.value
    aspect, layout = vk.VK_IMAGE_ASPECT_COLOR_BIT, vk.VK_IMAGE_LAYOUT_GENERAL
    if slot.depth:
        aspect = vk.VK_IMAGE_ASPECT_DEPTH_BIT
        layout = vk.VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL
    wishes = [vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0]
    if slot.passing:
        usage |= vk.VK_IMAGE_USAGE_TRANSIENT_ATTACHMENT_BIT
        wishes.insert(0, vk.VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT)
    # What is 0 is left out: optimal tiling, exclusive sharing, an undefined layout.
    info = vk.VkImageCreateInfo(
        imageType=vk.VK_IMAGE_TYPE_2D,
        format=fmt,
        extent=vk.VkExtent3D(slot.width, slot.height, 1),
        mipLevels=1,
        arrayLayers=1,
        samples=vk.VK_SAMPLE_COUNT_1_BIT,
        usage=usage,
    )
    handle = device.create("Image", info, name)
    device.memory.bind_image(handle, name, *wishes)
    whole = vk.VkImageSubresourceRange(aspect, 0, 1, 0, 1)
    info = vk.VkImageViewCreateInfo(
        image=handle, viewType=vk.VK_IMAGE_VIEW_TYPE_2D, format=fmt, subresourceRange=whole
    )
    view = device.create("ImageView", info, name)
    return DeviceImage(slot, fmt, handle, view, layout)


class DeviceBuffer:
    """A buffer for storage, copies and indirect arguments. ``mapped``: its bytes, if the host sees them
    (``host``)."""

    def __init__(
        self, device: Device, size: int, name: str, *, host: bool, made: Any = None, allocated: Any = None
    ):
        """made, allocated: structures that extend how the buffer is created and its memory is allocated,
        which then is all its own."""
        vk = device.vk
        self.device, self.size = device, size
        usage = vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
        usage |= vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | vk.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT
        info = vk.VkBufferCreateInfo(
            pNext=made, size=size, usage=usage, sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE
        )
        self.handle = device.create("Buffer", info, name)
        visible = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        wishes = [vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0]
        if host:
            wishes = [visible | vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, visible]
        self.memory = device.memory.bind_buffer(self.handle, name, *wishes, extension=allocated)
        self.mapped = self.memory.mapped(size) if host else np.empty(0, np.uint8)

    def destroy(self) -> None:
        self.mapped = np.empty(0, np.uint8)
        self.device.destroy(self.handle)


class DeviceRange:
    """A range of a storage buffer that holds values of a plan."""

    def __init__(self, slot: ImageSlot, buffer: DeviceBuffer):
        self.slot, self.buffer = slot, buffer

    def destroy(self, device: Device) -> None:
        self.buffer.destroy()


Stored = DeviceImage | DeviceRange


def make_stored(device: Device, slot: ImageSlot, name: str) -> Stored:
    """What a slot says: an image in an undefined layout, or a range of a storage buffer."""
    if slot.in_buffer:
        return DeviceRange(slot, DeviceBuffer(device, slot.bytes, name, host=False))
    return make_image(device, slot, name)


# Values are arrays of NumPy or of any library with the same indexing, ``swapaxes`` and ``reshape``, such as
# PyTorch: what lies on a GPU is placed by that library, there.


def zeros(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of this shape and the type of another one, where that lies."""
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """The same with any values."""
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def to_planes(
    variable: Variable, values: Any, tiling: Tiling, planes: Iterable[Any], *, clear: bool = True
) -> None:
    """Set the texels of each plane, (height, width, components of the slot), from an array of the Variable's
    shape. clear: also set what holds no value to 0."""
    n = variable.vtype.planes[0]
    if variable.vtype.is_matrix:
        values = values.swapaxes(-1, -2)  # GLSL stores columns
    values = values.reshape(variable.tiles, *variable.size[::-1], -1)
    for k, texels in enumerate(planes):
        if clear and variable.tiles < tiling.rows * tiling.columns:
            texels[:] = 0
        elif clear and n < texels.shape[-1]:
            texels[..., n:] = 0
        for tiles, place in _columns(variable, tiling):
            column = values[tiles, ..., k * n : (k + 1) * n]
            texels[place][..., :n] = column.reshape(-1, *column.shape[2:])


def from_planes(variable: Variable, planes: Sequence[Any], tiling: Tiling) -> Any:
    """The inverse of ``to_planes``: a new array of the Variable's shape."""
    n, (w, h) = variable.vtype.planes[0], variable.size
    texels = empty(planes[0], (variable.tiles, h, w, n * len(planes)))
    for k, plane in enumerate(planes):
        for tiles, place in _columns(variable, tiling):
            texels[tiles, ..., k * n : (k + 1) * n] = plane[place][..., :n].reshape(-1, h, w, n)
    if variable.vtype.is_matrix:
        rows, columns = variable.vtype.shape
        turned = texels.reshape(*texels.shape[:3], columns, rows).swapaxes(-1, -2)
        texels = empty(texels, variable.shape)
        texels[:] = turned.reshape(variable.shape)
    return texels.reshape(variable.shape)


def _columns(variable: Variable, tiling: Tiling) -> Iterator[tuple[slice, tuple[slice, slice]]]:
    """The tiles of each column of the image, and its texels: tiles stand below each other."""
    (w, h), count = variable.size, variable.tiles
    for first in range(0, count, tiling.rows):
        (x, _), tiles = tiling.offset(first), min(tiling.rows, count - first)
        yield slice(first, first + tiles), (slice(0, tiles * h), slice(x, x + w))
