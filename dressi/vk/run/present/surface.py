"""The VkSurfaceKHR of a window: made here, or given by the program that owns the window."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....errors import DeviceError, InputError
from ..device.device import SWAPCHAIN, Device
from ..device.results import Binding, handle_number

Size = tuple[int, int]
COPY = "let pictures go through the host instead (a canvas that copies: Qt, Jupyter, offscreen)"
"""The cure where a window and a device do not fit."""


class Offer(NamedTuple):
    """What a surface allows now. size: of the images; (0, 0) while the window is minimised."""

    size: Size
    least_images: int
    most_images: int
    transform: int
    alpha: int
    usage: int


class Surface:
    """A surface and what a device can do with it.

    window: a NativeWindow, whose surface is made and destroyed here, or the program's own VkSurfaceKHR as a
    whole number or as an object of a binding, which is neither. size: of the window in pixels, for systems on
    which a surface has no size of its own.

    Raises InputError for anything else, and DeviceError where the driver has no such surfaces or swapchains,
    or the device cannot present to the window.
    """

    def __init__(self, device: Device, window: NativeWindow | Any, size: Callable[[], Size]):
        self.device, self.window, self._size = device, window, size
        self.call = Procedures(device)
        if self.call.find("vkCreateSwapchainKHR") is None:
            why = f"{SWAPCHAIN} is not enabled in the adopted device; name it in vkCreateDevice or vkCreateInstance"
            if device.logical.owned:
                why = f"its driver lacks {SWAPCHAIN}"
            raise DeviceError(f"{device.name} cannot show pictures in windows: {why}; {COPY}")
        self.handle: Any = None
        self.make()

    def make(self) -> None:
        """Make the surface (again), and check that the device presents to it."""
        device, vk = self.device, self.device.vk
        if isinstance(self.window, NativeWindow):
            self.handle = device.own("SurfaceKHR", self._create(self.window), end=self._end)
        else:
            number = handle_number(self.window, vk)
            if number is None:
                raise InputError(
                    "a window is a NativeWindow or a VkSurfaceKHR (a whole number, not 0), not "
                    f"{self.window!r}"
                )
            self.handle = vk.ffi.cast("VkSurfaceKHR", number)
        supported, physical = vk.ffi.new("VkBool32*"), device.physical.handle
        failed, ask = "cannot be asked about a window", "vkGetPhysicalDeviceSurface"
        self.call.must(failed, f"{ask}SupportKHR", physical, device.family, self.handle, supported)
        if not supported[0]:
            self.destroy()
            raise DeviceError(
                f"{device.name} cannot show pictures in this window: its queue does not present to it; "
                f"choose the device that drives the screen (`dressi devices` lists them), or {COPY}"
            )
        formats = self.call.several(failed, f"{ask}FormatsKHR", "VkSurfaceFormatKHR", physical, self.handle)
        self.formats = [(found.format, found.colorSpace) for found in formats]
        modes = f"{ask}PresentModesKHR", "VkPresentModeKHR"
        self.modes = self.call.several(failed, *modes, physical, self.handle)
        self._check()

    def _create(self, window: NativeWindow) -> Any:
        device, vk = self.device, self.device.vk
        created = vk.ffi.new("VkSurfaceKHR*")
        for function, info, kind in window.creations(vk):
            if self.call.find(function, kind) is not None:
                failed = f"could not make a surface of the {type(window).__name__}"
                address = vk.ffi.cast(f"{vk.ffi.typeof(info).cname}*", vk.ffi.addressof(info))
                self.call.must(failed, function, device.instance.handle, address, vk.ffi.NULL, created)
                return created[0]
        raise DeviceError(
            f"{device.name} cannot show pictures in a {type(window).__name__}: the Vulkan loader has no "
            f"surfaces of this system; update the loader and the driver, or {COPY}"
        )

    def _check(self) -> None:
        """Raises DeviceError where images of the surface cannot be the target of blits of float images."""
        device, vk = self.device, self.device.vk
        chosen = choose_format(self.formats)
        if chosen is None:
            self.destroy()
            raise DeviceError(
                f"{device.name} cannot show pictures in this window: it offers no UNORM format of sRGB "
                f"values; {COPY}"
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
        ask = "vkGetPhysicalDeviceSurfaceCapabilitiesKHR"
        code = self.call(ask, self.device.physical.handle, self.handle, found)
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


# Windows of the operating systems, and how Vulkan makes a surface of each.


class Creation(NamedTuple):
    """A way to make a surface: a function of Vulkan, the structure that it takes, and the function whose type
    it has."""

    function: str
    info: Any
    kind: str | None = None


class NativeWindow(ABC):
    """A window by the handles that its system gives: whole numbers, which stay the window's own."""

    @abstractmethod
    def creations(self, vk: Binding) -> Iterator[Creation]:
        """Ways to make its surface, the best first. One whose extension is not enabled is passed over."""


def _check_handle(kind: str, value: Any) -> None:
    if handle_number(value) is None:
        raise InputError(f"{kind} is a whole number above 0, not {value!r}; show the window first")


def _xcb(display: int) -> int | None:
    """The XCB connection of a display of Xlib."""
    try:
        found = ctypes.CDLL("libX11-xcb.so.1").XGetXCBConnection
    except (OSError, AttributeError):
        return None
    found.restype, found.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return found(display)


@dataclass(frozen=True)
class X11Window(NativeWindow):
    """window: the XID. display: a Display* of Xlib, which stays open as long as the surface lives."""

    window: int
    display: int

    def __post_init__(self) -> None:
        _check_handle("the id of an X11 window", self.window)
        _check_handle("the address of an X11 display", self.display)

    def creations(self, vk: Binding) -> Iterator[Creation]:
        # XCB first: SwiftShader has nothing else, and a loader may hand it a surface of Xlib regardless.
        if found := _xcb(self.display):
            connection = vk.ffi.cast("struct xcb_connection_t*", found)
            info = vk.VkXcbSurfaceCreateInfoKHR(connection=connection, window=self.window)
            yield Creation("vkCreateXcbSurfaceKHR", info)
        display = vk.ffi.cast("struct Display*", self.display)
        yield Creation(
            "vkCreateXlibSurfaceKHR", vk.VkXlibSurfaceCreateInfoKHR(dpy=display, window=self.window)
        )


@dataclass(frozen=True)
class WaylandWindow(NativeWindow):
    """window: the wl_surface*. display: the wl_display*."""

    window: int
    display: int

    def __post_init__(self) -> None:
        _check_handle("the address of a wl_surface", self.window)
        _check_handle("the address of a wl_display", self.display)

    def creations(self, vk: Binding) -> Iterator[Creation]:
        info = vk.VkWaylandSurfaceCreateInfoKHR(
            display=vk.ffi.cast("struct wl_display*", self.display),
            surface=vk.ffi.cast("struct wl_surface*", self.window),
        )
        yield Creation("vkCreateWaylandSurfaceKHR", info)


def _this_program() -> int:
    kernel: Any = ctypes.CDLL("kernel32")
    kernel.GetModuleHandleW.restype = ctypes.c_void_p
    return kernel.GetModuleHandleW(None) or 0


@dataclass(frozen=True)
class Win32Window(NativeWindow):
    """window: the HWND. module: the HINSTANCE of its program; 0 for this one."""

    window: int
    module: int = 0

    def __post_init__(self) -> None:
        _check_handle("an HWND", self.window)

    def creations(self, vk: Binding) -> Iterator[Creation]:
        module = vk.ffi.cast("void*", self.module or _this_program())
        info = vk.VkWin32SurfaceCreateInfoKHR(hinstance=module, hwnd=vk.ffi.cast("void*", self.window))
        yield Creation("vkCreateWin32SurfaceKHR", info)


@dataclass(frozen=True)
class MetalWindow(NativeWindow):
    """layer: the CAMetalLayer* of a view."""

    layer: int

    def __post_init__(self) -> None:
        _check_handle("the address of a CAMetalLayer", self.layer)

    def creations(self, vk: Binding) -> Iterator[Creation]:
        # The binding lacks this structure; that of the extension before it has the same members.
        info = vk.VkMacOSSurfaceCreateInfoMVK(
            sType=vk.VK_STRUCTURE_TYPE_METAL_SURFACE_CREATE_INFO_EXT, pView=vk.ffi.cast("void*", self.layer)
        )
        yield Creation("vkCreateMetalSurfaceEXT", info, "vkCreateMacOSSurfaceMVK")


@dataclass(frozen=True)
class NoWindow(NativeWindow):
    """A surface without a window (VK_EXT_headless_surface), for measurements and tests."""

    def creations(self, vk: Binding) -> Iterator[Creation]:
        yield Creation("vkCreateHeadlessSurfaceEXT", vk.VkHeadlessSurfaceCreateInfoEXT())


# What a swapchain is made with, chosen from what a surface offers: plain functions of numbers.

Rectangle = tuple[int, int, int, int]
"""x, y, width, height in pixels."""

IMMEDIATE, MAILBOX, FIFO = 0, 1, 2
"""VkPresentModeKHR."""
SRGB_NONLINEAR = 0
"""The VkColorSpaceKHR of values that are sRGB codes."""
FORMATS = (44, 37, 64, 58)
"""VkFormats that keep codes as they are: B8G8R8A8, R8G8B8A8, A2B10G10R10 and A2R10G10B10, all UNORM."""
SHOWN_BY_SIZE = 0xFFFFFFFF
"""A surface whose size is that of its swapchain (Wayland) says this."""


def choose_format(offered: Sequence[tuple[int, int]]) -> int | None:
    """The VkFormat for sRGB codes among pairs of a format and a colour space; None where each would encode
    the values once more or shows others."""
    formats = {format for format, space in offered if space == SRGB_NONLINEAR}
    if formats == {0}:  # VK_FORMAT_UNDEFINED: all are welcome
        return FORMATS[0]
    return next((format for format in FORMATS if format in formats), None)


def choose_mode(offered: Sequence[int], *, wait: bool) -> int:
    """The present mode; FIFO is always there. wait: show whole frames only, without tearing."""
    wanted = (MAILBOX,) if wait else (IMMEDIATE, MAILBOX)
    return next((mode for mode in wanted if mode in offered), FIFO)


def choose_count(least: int, most: int) -> int:
    """Number of images: one more than the surface holds itself, and at least three, so that no frame waits
    for the screen. most: 0 for no limit."""
    count = max(least + 1, 3)
    return min(count, most) if most else count


def choose_size(
    current: tuple[int, int], window: tuple[int, int], least: tuple[int, int], most: tuple[int, int]
) -> tuple[int, int]:
    """Size of the images: the surface's, or the window's where the surface has none. (0, 0): minimised."""
    if current[0] != SHOWN_BY_SIZE:
        return current if min(current) > 0 else (0, 0)
    if min(window) <= 0:
        return 0, 0
    width, height = (min(max(size, low), high) for size, low, high in zip(window, least, most, strict=True))
    return width, height


def clip(
    source: tuple[int, int], place: Rectangle, size: tuple[int, int]
) -> tuple[Rectangle, Rectangle] | None:
    """The part of a picture of size ``source`` that is seen, and where, when it is scaled to ``place`` in a
    window of this size; None where nothing of it is."""
    x, y, width, height = place
    left, top = max(x, 0), max(y, 0)
    right, bottom = min(x + width, size[0]), min(y + height, size[1])
    if right <= left or bottom <= top:
        return None

    def span(first: int, end: int, start: int, length: int, texels: int) -> tuple[int, int]:
        low = min(max(round((first - start) * texels / length), 0), texels - 1)
        return low, min(max(round((end - start) * texels / length), low + 1), texels) - low

    (u, columns), (v, rows) = span(left, right, x, width, source[0]), span(top, bottom, y, height, source[1])
    return (u, v, columns, rows), (left, top, right - left, bottom - top)


def covered(places: Sequence[Rectangle], size: tuple[int, int]) -> bool:
    """Whether one of these rectangles covers a window of this size."""
    return any(x <= 0 and y <= 0 and x + w >= size[0] and y + h >= size[1] for x, y, w, h in places)


def overlap(a: Rectangle, b: Rectangle) -> bool:
    """Whether two rectangles have pixels in common."""
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


# Functions of Vulkan's extensions for surfaces and swapchains, called directly: each returns its VkResult.
#
# The binding's own wrappers raise an exception for every result but VK_SUCCESS, which loses the number of an
# acquired image when the swapchain is suboptimal.

SUBOPTIMAL, TIMEOUT, NOT_READY = 1000001003, 2, 1
OUT_OF_DATE, SURFACE_LOST = -1000001004, -1000000000


class Procedures:
    """Functions of extensions on one device, by name. Structures are passed by address, as in C; a function
    that the device or the instance does not have is None."""

    def __init__(self, device: Device):
        self._device = device
        self._found: dict[str, Callable[..., int] | None] = {}

    def find(self, name: str, kind: str | None = None) -> Callable[..., int] | None:
        """A function, of the type of the function ``kind`` where the binding does not know its own."""
        if name not in self._found:
            vk, device = self._device.vk, self._device
            text = vk.ffi.new("char[]", name.encode())
            address = vk.lib.vkGetInstanceProcAddr(device.instance.handle, text)
            if any(word in name for word in ("Swapchain", "AcquireNext", "QueuePresent")):
                address = vk.lib.vkGetDeviceProcAddr(device.handle, text)
            known = address != vk.ffi.NULL
            self._found[name] = vk.ffi.cast(f"PFN_{kind or name}", address) if known else None
        return self._found[name]

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a function that is there."""
        function = self.find(name)
        assert function is not None
        return function(*arguments)

    def must(self, failed: str, name: str, *arguments: Any) -> None:
        """Call a function. Raises the DressiError of results below 0. failed: what did not work."""
        code = self(name, *arguments)
        if code is not None and code < 0:
            self._device.vk.fail(code, failed)

    def several(self, failed: str, name: str, element: str, *arguments: Any) -> list[Any]:
        """A list that Vulkan gives in two calls, first its length."""
        ffi = self._device.vk.ffi
        count = ffi.new("uint32_t*")
        self.must(failed, name, *arguments, count, ffi.NULL)
        array = ffi.new(f"{element}[]", count[0])
        self.must(failed, name, *arguments, count, array)
        return [array[k] for k in range(count[0])]
