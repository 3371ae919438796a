"""The VkSurfaceKHR of a window: made here, or given by the program that owns the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....errors import DeviceError, InputError
from ..device.device import Device
from ..device.logical import SWAPCHAIN
from .choices import choose_format, choose_size
from .procedures import Procedures
from .windows import NativeWindow

Size = tuple[int, int]
COPY = "let pictures go through the host instead (a canvas that copies: Qt, Jupyter, offscreen)"
"""The cure where a window and a device do not fit."""


class Offer(NamedTuple):
    """What a surface allows at the moment. size: of the images to make; (0, 0) while the window is minimised."""

    size: Size
    least_images: int
    most_images: int
    transform: int
    alpha: int
    usage: int


class Surface:
    """A surface and what a device can do with it.

    window: a NativeWindow, whose surface is made and destroyed here, or the program's own VkSurfaceKHR as a whole
    number or as an object of a binding, which is neither. size: of the window in pixels, for systems on which a
    surface has no size of its own.

    Raises InputError for anything else, and DeviceError where the driver has no such surfaces or swapchains, or the
    device cannot present to the window.
    """

    def __init__(self, device: Device, window: NativeWindow | Any, size: Callable[[], Size]):
        self.device, self.window, self._size = device, window, size
        self.call = Procedures(device)
        if not self.call.has("vkCreateSwapchainKHR"):
            raise DeviceError(
                f"{device.name} cannot show pictures in windows: {self._absent(SWAPCHAIN)}; {COPY}"
            )
        self.handle: Any = None
        self.make()

    def _absent(self, extension: str) -> str:
        """Why an extension is not enabled."""
        if self.device.logical.owned:
            return f"its driver lacks {extension}"
        return (
            f"{extension} is not enabled in the adopted device; name it in vkCreateDevice or vkCreateInstance"
        )

    def make(self) -> None:
        """Make the surface (again), and check that the device presents to it."""
        device, vk = self.device, self.device.vk
        if isinstance(self.window, NativeWindow):
            self.handle = device.own("SurfaceKHR", self._create(self.window), end=self._end)
        else:
            self.handle = self._given(self.window)
        supported = vk.ffi.new("VkBool32*")
        physical = device.physical.handle
        failed = "cannot be asked about a window"
        self.call.must(
            failed, "vkGetPhysicalDeviceSurfaceSupportKHR", physical, device.family, self.handle, supported
        )
        if not supported[0]:
            self.destroy()
            raise DeviceError(
                f"{device.name} cannot show pictures in this window: its queue does not present to it; choose the "
                f"device that drives the screen (`dressi devices` lists them), or {COPY}"
            )
        self.formats = [
            (found.format, found.colorSpace)
            for found in self.call.several(
                failed, "vkGetPhysicalDeviceSurfaceFormatsKHR", "VkSurfaceFormatKHR", physical, self.handle
            )
        ]
        self.modes = self.call.several(
            failed,
            "vkGetPhysicalDeviceSurfacePresentModesKHR",
            "VkPresentModeKHR",
            physical,
            self.handle,
        )
        self._check()

    def _create(self, window: NativeWindow) -> Any:
        device, vk = self.device, self.device.vk
        created = vk.ffi.new("VkSurfaceKHR*")
        for creation in window.creations(vk):
            function, info, kind = creation()
            if self.call.find(function, kind) is not None:
                failed = f"could not make a surface of the {type(window).__name__}"
                self.call.must(
                    failed,
                    function,
                    device.instance.handle,
                    vk.ffi.cast(f"{vk.ffi.typeof(info).cname}*", vk.ffi.addressof(info)),
                    vk.ffi.NULL,
                    created,
                )
                return created[0]
        raise DeviceError(
            f"{device.name} cannot show pictures in a {type(window).__name__}: the Vulkan loader has no surfaces of "
            f"this system; update the loader and the driver, or {COPY}"
        )

    def _given(self, surface: Any) -> Any:
        vk = self.device.vk
        number = getattr(surface, "value", surface)
        if isinstance(number, vk.ffi.CData):
            number = int(vk.ffi.cast("uintptr_t", number))
        if (
            isinstance(number, bool)
            or not hasattr(number, "__index__")
            or not 0 < number.__index__() < 1 << 64
        ):
            raise InputError(
                f"a window is a NativeWindow or a VkSurfaceKHR (a whole number, not 0), not {surface!r}"
            )
        return vk.ffi.cast("VkSurfaceKHR", number.__index__())

    def _check(self) -> None:
        """Raises DeviceError where images of the surface cannot be the target of blits of float images."""
        device, vk = self.device, self.device.vk
        chosen = choose_format(self.formats)
        if chosen is None:
            self.destroy()
            raise DeviceError(
                f"{device.name} cannot show pictures in this window: it offers no UNORM format of sRGB values; {COPY}"
            )
        self.format = chosen

        def features(format: int) -> int:
            properties = vk.vkGetPhysicalDeviceFormatProperties(device.physical.handle, format)
            return properties.optimalTilingFeatures

        source = features(vk.VK_FORMAT_R32G32B32A32_SFLOAT)
        if not (
            source & vk.VK_FORMAT_FEATURE_BLIT_SRC_BIT
            and features(chosen) & vk.VK_FORMAT_FEATURE_BLIT_DST_BIT
        ):
            self.destroy()
            raise DeviceError(f"{device.name} does not blit float images into windows; {COPY}")
        self.filters = bool(source & vk.VK_FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT)

    def offer(self) -> Offer | int:
        """What the surface allows now; a VkResult where it is lost."""
        vk = self.device.vk
        found = vk.ffi.new("VkSurfaceCapabilitiesKHR*")
        code = self.call(
            "vkGetPhysicalDeviceSurfaceCapabilitiesKHR", self.device.physical.handle, self.handle, found
        )
        if code < 0:
            return code
        current, least, most = (
            (extent.width, extent.height)
            for extent in (found.currentExtent, found.minImageExtent, found.maxImageExtent)
        )
        alphas = found.supportedCompositeAlpha
        opaque = vk.VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
        identity = vk.VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR
        return Offer(
            size=choose_size(current, self._size(), least, most),
            least_images=found.minImageCount,
            most_images=found.maxImageCount,
            transform=identity if found.supportedTransforms & identity else found.currentTransform,
            alpha=opaque if alphas & opaque else alphas & -alphas,
            usage=found.supportedUsageFlags,
        )

    @property
    def own(self) -> bool:
        """Whether it was made here, so that it can be made again."""
        return isinstance(self.window, NativeWindow)

    def _end(self, handle: Any) -> None:
        vk = self.device.vk
        self.call("vkDestroySurfaceKHR", self.device.instance.handle, handle, vk.ffi.NULL)

    def destroy(self) -> None:
        """Destroy it where it was made here. Its swapchain must be gone."""
        if self.own:
            self.device.destroy(self.handle)
        self.handle = None
