"""A swapchain on the surface of a window. Images of a device are copied into it, not through the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from ....ad.graph.types import VEC3, VEC4
from ....errors import DeviceError, GraphError, InputError
from ..device.device import Device
from ..device.export import ExportedImage
from ..device.results import Binding
from .surface import (
    COPY,
    NOT_READY,
    OUT_OF_DATE,
    SUBOPTIMAL,
    SURFACE_LOST,
    TIMEOUT,
    NativeWindow,
    Offer,
    Rectangle,
    Surface,
    choose_count,
    choose_mode,
    clip,
    covered,
    overlap,
)  # fmt: skip

FRAMES = 2
"""Frames that may be under way at a time."""
PATIENCE = 20_000_000
"""Nanoseconds to wait for an image of the screen. A window that nobody sees (covered, locked) gives none:
after the first wait in vain the next frames do not wait."""
ATTEMPTS = 3
"""Times that a frame is tried while the window changes its size."""


class _Image(NamedTuple):
    """An image of the swapchain. drawn: signalled when the frame is in it."""

    handle: Any
    drawn: Any


class _Frame:
    """What one frame under way needs. acquired: signalled when the screen no longer reads the image."""

    def __init__(self, device: Device, buffer: Any):
        vk = device.vk
        self.buffer = buffer
        self.acquired = device.create("Semaphore", vk.VkSemaphoreCreateInfo())
        self.fence = device.create("Fence", vk.VkFenceCreateInfo())
        self.under_way = False


class _Changed(Exception):
    """The swapchain no longer fits the window."""


class Swapchain:
    """Shows images of one device in one window.

    window: a NativeWindow (an X11 or Wayland window, an HWND, a CAMetalLayer), or the VkSurfaceKHR of the
    program that owns the window. size: gives the window's size in pixels, needed on Wayland alone. wait: show
    whole frames only (the newest one where the driver can, else each in turn); otherwise at once, with torn
    frames. smooth: scale by linear interpolation instead of repeated pixels.

    Everything belongs to the Device, which destroys it when it closes; ``close`` (idempotent) does so before.
    Use it on the Device's thread. Raises DeviceError where the device cannot show pictures there.
    """

    def __init__(
        self,
        device: Device,
        window: NativeWindow | Any,
        *,
        size: Callable[[], tuple[int, int]] = lambda: (0, 0),
        wait: bool = True,
        smooth: bool = True,
    ):
        device.check_thread()
        self.device, self._wait = device, wait
        vk = device.vk
        self._chain: Any = None
        self._images: list[_Image] = []
        self._given_up: list[Any] = []  # semaphores that are signalled, and for which nothing will wait
        self._extent = (0, 0)
        self._stale = self._hidden = self._closed = False
        with device.undo_on_error():
            self.surface = Surface(device, window, size)
            self._call = self.surface.call
            flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
            info = vk.VkCommandPoolCreateInfo(flags=flags, queueFamilyIndex=device.family)
            self._pool = device.create("CommandPool", info)
            info = vk.VkCommandBufferAllocateInfo(commandPool=self._pool, commandBufferCount=FRAMES)
            buffers = vk.vkAllocateCommandBuffers(device.handle, info)
            self._frames = [_Frame(device, buffers[k]) for k in range(FRAMES)]
        self._smooth = smooth and self.surface.filters
        self._copies = Copies(vk)
        self._index = vk.ffi.new("uint32_t*")
        self._count = 0

    # ---- showing
    def present(self, layers: Sequence[tuple[ExportedImage, Rectangle]]) -> bool:
        """Show images, each scaled to a rectangle (x, y, width, height) of the window; later ones cover
        earlier ones, and what none covers is black.

        The images are VEC3 or VEC4 of one tile, with sRGB codes in [0, 1]; alpha is ignored. Returns whether
        a frame was shown: not while the window is minimised or hidden. Raises GraphError for other images,
        DeviceError when the surface is lost and cannot be made again, and DeviceLostError.
        """
        if self._closed:
            raise InputError("this swapchain is closed; make another one")
        self.device.check_thread()
        for image, _ in layers:
            _check_picture(image, self.device)
        for _ in range(ATTEMPTS):
            offer = self._offer()
            if min(offer.size) == 0:
                return False
            try:
                if self._stale or self._chain is None or offer.size != self._extent:
                    self._make(offer)
                return self._show(layers)
            except _Changed:
                self._stale = True
        return False

    def _offer(self) -> Offer:
        offer = self.surface.offer()
        if isinstance(offer, Offer):
            return offer
        if offer == SURFACE_LOST and self.surface.own:
            self._remake_surface()
            offer = self.surface.offer()
        return offer if isinstance(offer, Offer) else self._fail(offer)

    def _fail(self, code: int) -> NoReturn:
        if code == SURFACE_LOST:
            raise DeviceError(
                f"the surface of the window is lost on {self.device.name}; open the window again"
                + ("" if self.surface.own else " and make a Swapchain with its new VkSurfaceKHR")
            )
        self.device.vk.fail(code, "could not show a picture")

    def _show(self, layers: Sequence[tuple[ExportedImage, Rectangle]]) -> bool:
        """One frame. Raises _Changed where it has to be tried again with another swapchain."""
        device, frame = self.device, self._frames[self._count % FRAMES]
        if frame.under_way:
            device.work.wait([frame.fence])
            frame.under_way = False
        patience, null = 0 if self._hidden else PATIENCE, device.vk.ffi.NULL
        arguments = device.handle, self._chain, patience, frame.acquired, null, self._index
        code = self._call("vkAcquireNextImageKHR", *arguments)
        self._hidden = code in (TIMEOUT, NOT_READY)
        if self._hidden:
            return False
        self._check(code)
        try:
            image = self._images[self._index[0]]
            self._copies.record(frame.buffer, image.handle, self._extent, layers, smooth=self._smooth)
            self._submit(frame, image)
        except BaseException:
            if not frame.under_way:
                self._stale = True
                self._given_up.append(frame.acquired)
                frame.acquired = device.create("Semaphore", device.vk.VkSemaphoreCreateInfo())
            raise
        self._count += 1
        shown = self._present(image)
        self._stale = code == SUBOPTIMAL or shown == SUBOPTIMAL
        self._check(shown)
        return True

    def _check(self, code: int) -> None:
        """Raises _Changed where another swapchain is needed, DressiErrors where the frame failed."""
        if code == SURFACE_LOST:
            self._remake_surface()
        if code in (SURFACE_LOST, OUT_OF_DATE):
            raise _Changed
        if code < 0:
            self._fail(code)

    def _submit(self, frame: _Frame, image: _Image) -> None:
        vk = self.device.vk
        info = vk.VkSubmitInfo(
            waitSemaphoreCount=1,
            pWaitSemaphores=[frame.acquired],
            pWaitDstStageMask=[vk.VK_PIPELINE_STAGE_TRANSFER_BIT],
            commandBufferCount=1,
            pCommandBuffers=[frame.buffer],
            signalSemaphoreCount=1,
            pSignalSemaphores=[image.drawn],
        )
        self.device.work.submit(info, frame.fence)
        frame.under_way = True

    def _present(self, image: _Image) -> int:
        vk = self.device.vk
        info = vk.VkPresentInfoKHR(
            waitSemaphoreCount=1,
            pWaitSemaphores=[image.drawn],
            swapchainCount=1,
            pSwapchains=[self._chain],
            pImageIndices=[self._index[0]],
        )
        with self.device.lock:
            return self._call("vkQueuePresentKHR", self.device.queue, vk.ffi.addressof(info))

    # ---- making
    def _make(self, offer: Offer) -> None:
        """A swapchain for the window as it is now, in place of the present one."""
        device, vk = self.device, self.device.vk
        if not offer.usage & vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT:
            raise DeviceError(f"{device.name} does not copy into images of this window; {COPY}")
        info = vk.VkSwapchainCreateInfoKHR(
            surface=self.surface.handle,
            minImageCount=choose_count(offer.least_images, offer.most_images),
            imageFormat=self.surface.format,
            imageColorSpace=0,
            imageExtent=vk.VkExtent2D(*offer.size),
            imageArrayLayers=1,
            imageUsage=vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT,
            imageSharingMode=vk.VK_SHARING_MODE_EXCLUSIVE,
            preTransform=offer.transform,
            compositeAlpha=offer.alpha,
            presentMode=choose_mode(self.surface.modes, wait=self._wait),
            clipped=True,
            oldSwapchain=self._chain,
        )
        made = vk.ffi.new("VkSwapchainKHR*")
        code = self._call("vkCreateSwapchainKHR", device.handle, vk.ffi.addressof(info), vk.ffi.NULL, made)
        # Even where it failed the old one is retired.
        self._drop()
        self._check(code)
        self._chain = device.own("SwapchainKHR", made[0], end=self._end)
        failed, ask = "could not list a window's images", "vkGetSwapchainImagesKHR"
        handles = self._call.several(failed, ask, "VkImage", device.handle, self._chain)
        semaphore = vk.VkSemaphoreCreateInfo()
        self._images = [_Image(handle, device.create("Semaphore", semaphore)) for handle in handles]
        self._extent, self._stale = offer.size, False

    def _end(self, handle: Any) -> None:
        self._call("vkDestroySwapchainKHR", self.device.handle, handle, self.device.vk.ffi.NULL)

    def _drop(self) -> bool:
        """Destroy the swapchain and what belongs to its images. Returns False where work does not end."""
        if not self.device.settle():
            return False
        for semaphore in [*self._given_up, *(image.drawn for image in self._images)]:
            self.device.destroy(semaphore)
        self._given_up.clear()
        self.device.destroy(self._chain)
        self._chain, self._images, self._extent = None, [], (0, 0)
        return True

    def _remake_surface(self) -> None:
        """The surface is lost: make it again. Raises DeviceError where it is not this Swapchain's."""
        if not self.surface.own:
            self._fail(SURFACE_LOST)
        if self._drop():
            self.surface.destroy()
            self.surface.make()

    def close(self) -> None:
        """Destroy everything that was made here. Idempotent; does nothing once the Device is closed."""
        if self._closed:
            return
        self._closed = True
        if self._drop():
            for frame in self._frames:
                self.device.destroy(frame.acquired)
                self.device.destroy(frame.fence)
            self.device.destroy(self._pool)
            self.surface.destroy()

    def __enter__(self) -> Swapchain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_picture(image: ExportedImage, device: Device) -> None:
    if image.vtype not in (VEC3, VEC4) or image.batch != 1:
        raise GraphError(
            f"a picture in a window is a VEC3 or VEC4 of one tile, not {image.batch} of {image.vtype}; take "
            "one of them, or make colours of it first"
        )
    if image.queue != int(device.vk.ffi.cast("uintptr_t", device.queue)):
        raise InputError(f"this picture lies on another device than the window's ({device.name})")


# The commands of a frame: clear an image of a swapchain, and blit pictures into it.


class Copies:
    """Records frames. The structures are made once."""

    def __init__(self, vk: Binding):
        self._vk = vk
        self._whole = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
        self._part = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        self._black = vk.VkClearColorValue(float32=[0.0, 0.0, 0.0, 1.0])

    def record(
        self,
        buffer: Any,
        target: Any,
        size: tuple[int, int],
        layers: Sequence[tuple[ExportedImage, Rectangle]],
        *,
        smooth: bool,
    ) -> None:
        """A frame: the layers in order, scaled to their rectangles of an image, over black."""
        vk = self._vk
        flags = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo(flags=flags))
        written, read = 0, 0
        for image, _ in layers:
            written, read = written | image.stage, read | image.access
        if layers:
            seen = vk.VkMemoryBarrier(srcAccessMask=read, dstAccessMask=vk.VK_ACCESS_TRANSFER_READ_BIT)
            transfer = vk.VK_PIPELINE_STAGE_TRANSFER_BIT
            vk.vkCmdPipelineBarrier(buffer, written, transfer, 0, 1, [seen], 0, None, 0, None)
        write = vk.VK_ACCESS_TRANSFER_WRITE_BIT
        general = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        # The acquisition is waited for at this stage, so the change of the layout comes after it.
        self._change(buffer, target, 0, write, vk.VK_IMAGE_LAYOUT_UNDEFINED, general)
        drawn: list[Rectangle] = []
        if not covered([place for _, place in layers[:1]], size):
            vk.vkCmdClearColorImage(buffer, target, general, self._black, 1, [self._whole])
            drawn.append((0, 0, *size))
        for image, place in layers:
            parts = clip(image.size, place, size)
            if parts is None:
                continue
            if any(overlap(parts[1], other) for other in drawn):
                self._change(buffer, target, write, write, general, general)
                drawn.clear()
            self._blit(buffer, target, image, *parts, smooth=smooth)
            drawn.append(parts[1])
        self._change(buffer, target, write, 0, general, vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR)
        vk.vkEndCommandBuffer(buffer)

    def _blit(
        self,
        buffer: Any,
        target: Any,
        image: ExportedImage,
        part: Rectangle,
        place: Rectangle,
        *,
        smooth: bool,
    ) -> None:
        vk = self._vk
        (left, top), plane = image.offsets[0], image.planes[0]

        def corners(x: int, y: int, width: int, height: int) -> list[Any]:
            return [vk.VkOffset3D(x, y, 0), vk.VkOffset3D(x + width, y + height, 1)]

        region = vk.VkImageBlit(
            srcSubresource=self._part,
            srcOffsets=corners(part[0] + left, part[1] + top, part[2], part[3]),
            dstSubresource=self._part,
            dstOffsets=corners(*place),
        )
        source, layout = vk.ffi.cast("VkImage", plane.image), vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        filter = vk.VK_FILTER_LINEAR if smooth else vk.VK_FILTER_NEAREST
        vk.vkCmdBlitImage(buffer, source, image.layout, target, layout, 1, [region], filter)

    def _change(self, buffer: Any, image: Any, before: int, after: int, old: int, new: int) -> None:
        """A barrier of an image between transfers, to the layout ``new``."""
        vk = self._vk
        barrier = vk.VkImageMemoryBarrier(
            srcAccessMask=before,
            dstAccessMask=after,
            oldLayout=old,
            newLayout=new,
            srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            image=image,
            subresourceRange=self._whole,
        )
        transfer = end = vk.VK_PIPELINE_STAGE_TRANSFER_BIT
        if new == vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR:
            end = vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT
        vk.vkCmdPipelineBarrier(buffer, transfer, end, 0, 0, None, 0, None, 1, [barrier])
