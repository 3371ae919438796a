"""Images and buffers on a device, and the conversion of their texels from and to NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable
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

    def __init__(self, device: Device, size: int, name: str, *, host: bool):
        vk = device.vk
        self.device, self.size = device, size
        usage = vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
        usage |= vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | vk.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT
        info = vk.VkBufferCreateInfo(size=size, usage=usage, sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE)
        self.handle = device.create("Buffer", info, name)
        visible = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        wishes = [vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0]
        if host:
            wishes = [visible | vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, visible]
        memory = device.memory.bind_buffer(self.handle, name, *wishes)
        self.mapped = memory.mapped(size) if host else np.empty(0, np.uint8)

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


def to_planes(variable: Variable, values: np.ndarray, tiling: Tiling, planes: Iterable[np.ndarray]) -> None:
    """Set the texels of each plane, (height, width, components of the slot), from an array of the Variable's
    shape."""
    n = variable.vtype.planes[0]
    if variable.vtype.is_matrix:
        values = np.moveaxis(values, -1, -2)  # GLSL stores columns
    values = values.reshape(variable.tiles, *variable.size[::-1], -1)
    w, h = variable.size
    for k, texels in enumerate(planes):
        if variable.tiles < tiling.rows * tiling.columns:
            texels[:] = 0
        elif n < texels.shape[-1]:
            texels[..., n:] = 0
        for tile in range(variable.tiles):
            x, y = tiling.offset(tile)
            texels[y : y + h, x : x + w, :n] = values[tile, ..., k * n : (k + 1) * n]


def from_planes(variable: Variable, planes: list[np.ndarray], tiling: Tiling) -> np.ndarray:
    """The inverse of ``to_planes``: an array of the Variable's shape."""
    n = variable.vtype.planes[0]
    (w, h), tiles = variable.size, []
    if len(planes) == 1 and tiling.columns == 1 and not variable.vtype.is_matrix:
        texels = planes[0][: variable.tiles * h, :w, :n]  # tiles stand below each other
        return texels.copy().reshape(variable.shape)
    for tile in range(variable.tiles):
        x, y = tiling.offset(tile)
        tiles.append(np.concatenate([p[y : y + h, x : x + w, :n] for p in planes], axis=-1))
    texels = np.stack(tiles)
    if variable.vtype.is_matrix:
        rows, columns = variable.vtype.shape
        texels = np.moveaxis(texels.reshape(*texels.shape[:3], columns, rows), -1, -2)
    return np.ascontiguousarray(texels.reshape(variable.shape))
