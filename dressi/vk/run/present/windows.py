"""Windows of the operating systems, and how Vulkan makes a surface of each."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....errors import InputError
from ..device.results import Binding


class Creation(NamedTuple):
    """A way to make a surface: a function of Vulkan, the structure that it takes, and the function whose type it
    has."""

    function: str
    info: Any
    kind: str | None = None


class NativeWindow(ABC):
    """A window by the handles that its system gives: whole numbers, which stay the window's own."""

    @abstractmethod
    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        """Ways to make its surface, the best first. One whose extension is not enabled is passed over."""


def _handle(kind: str, value: Any) -> int:
    number = getattr(value, "value", value)  # of ctypes
    if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 < number.__index__() < 1 << 64:
        raise InputError(f"{kind} is a whole number above 0, not {value!r}; show the window first")
    return number.__index__()


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
        _handle("the id of an X11 window", self.window)
        _handle("the address of an X11 display", self.display)

    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        def xcb() -> Creation:
            connection = vk.ffi.cast("struct xcb_connection_t*", self._connection or 0)
            info = vk.VkXcbSurfaceCreateInfoKHR(connection=connection, window=self.window)
            return Creation("vkCreateXcbSurfaceKHR", info)

        def xlib() -> Creation:
            display = vk.ffi.cast("struct Display*", self.display)
            return Creation(
                "vkCreateXlibSurfaceKHR", vk.VkXlibSurfaceCreateInfoKHR(dpy=display, window=self.window)
            )

        # XCB first: SwiftShader has nothing else, and a loader may hand it a surface of Xlib regardless.
        return [xcb, xlib] if self._connection else [xlib]

    @property
    def _connection(self) -> int | None:
        return _xcb(self.display)


@dataclass(frozen=True)
class WaylandWindow(NativeWindow):
    """window: the wl_surface*. display: the wl_display*."""

    window: int
    display: int

    def __post_init__(self) -> None:
        _handle("the address of a wl_surface", self.window)
        _handle("the address of a wl_display", self.display)

    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        def wayland() -> Creation:
            info = vk.VkWaylandSurfaceCreateInfoKHR(
                display=vk.ffi.cast("struct wl_display*", self.display),
                surface=vk.ffi.cast("struct wl_surface*", self.window),
            )
            return Creation("vkCreateWaylandSurfaceKHR", info)

        return [wayland]


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
        _handle("an HWND", self.window)

    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        def win32() -> Creation:
            module = self.module or _this_program()
            info = vk.VkWin32SurfaceCreateInfoKHR(
                hinstance=vk.ffi.cast("void*", module), hwnd=vk.ffi.cast("void*", self.window)
            )
            return Creation("vkCreateWin32SurfaceKHR", info)

        return [win32]


@dataclass(frozen=True)
class MetalWindow(NativeWindow):
    """layer: the CAMetalLayer* of a view."""

    layer: int

    def __post_init__(self) -> None:
        _handle("the address of a CAMetalLayer", self.layer)

    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        def metal() -> Creation:
            # The binding lacks this structure; that of the extension before it has the same members.
            info = vk.VkMacOSSurfaceCreateInfoMVK(
                sType=vk.VK_STRUCTURE_TYPE_METAL_SURFACE_CREATE_INFO_EXT,
                pView=vk.ffi.cast("void*", self.layer),
            )
            return Creation("vkCreateMetalSurfaceEXT", info, "vkCreateMacOSSurfaceMVK")

        return [metal]


@dataclass(frozen=True)
class NoWindow(NativeWindow):
    """A surface without a window (VK_EXT_headless_surface): presents to nobody, for measurements and tests."""

    def creations(self, vk: Binding) -> list[Callable[[], Creation]]:
        return [lambda: Creation("vkCreateHeadlessSurfaceEXT", vk.VkHeadlessSurfaceCreateInfoEXT())]
