"""Windows of rendercanvas, and what Vulkan makes a surface of in them."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from rendercanvas.contexts import BaseContext

from ...vk.run.present.surface import MetalWindow, NativeWindow, WaylandWindow, Win32Window, X11Window
from ..canvas import Event, Handler


class RenderWindow:
    """A Window (``dressi.viewer.canvas``) around a canvas of rendercanvas, without its scheduler."""

    def __init__(self, widget: Any):
        self.widget = widget

    @property
    def pixel_ratio(self) -> float:
        return self.widget.get_pixel_ratio()

    @property
    def closed(self) -> bool:
        return self.widget.get_closed()

    def listen(self, kind: str, handler: Handler) -> None:
        self.widget.add_event_handler(handler, cast(Any, kind))

    def submit(self, event: Event) -> None:
        self.widget.submit_event(event)

    def poll(self) -> None:
        self.widget._process_events()  # what the scheduler would call

    def close(self) -> None:
        if not self.closed:
            self.widget.close()


class SurfaceContext(BaseContext):
    """The context of a canvas into which Vulkan draws: keeps the handles of the window, and ends the drawing
    before the window goes."""

    present_methods = ["screen"]

    def __init__(self, present_info: dict[str, Any]):
        super().__init__(present_info)
        self._info = present_info
        self.end: Callable[[], None] = lambda: None

    def window(self, **changes: Any) -> NativeWindow:
        """The window by its id and, if given, platform and display. changes: new handles."""
        info = {**self._info, **changes}
        return PLATFORMS[info.get("platform") or SYSTEMS[sys.platform]](info)

    def _rc_close(self) -> None:
        self.end()


def metal_layer(view: int) -> int:
    """Give an NSView, or the content view of an NSWindow, a CAMetalLayer in pixels; returns its address."""
    objc = ctypes.CDLL(ctypes.util.find_library("objc"))
    objc.objc_getClass.restype = objc.sel_registerName.restype = ctypes.c_void_p

    def selector(name: str) -> int:
        return objc.sel_registerName(name.encode())

    def send(target: Any, message: str, *arguments: Any, result: Any = ctypes.c_void_p) -> Any:
        kinds = {bool: ctypes.c_bool, float: ctypes.c_double}
        types = [kinds.get(type(argument), ctypes.c_void_p) for argument in arguments]
        call = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_void_p, *types)(("objc_msgSend", objc))
        return call(target, selector(message), *arguments)

    if send(view, "respondsToSelector:", selector("contentView"), result=ctypes.c_bool):
        view = send(view, "contentView")
    layer = send(objc.objc_getClass(b"CAMetalLayer"), "layer")
    scale = send(send(view, "window"), "backingScaleFactor", result=ctypes.c_double)
    send(layer, "setContentsScale:", scale, result=None)
    send(view, "setWantsLayer:", True, result=None)
    send(view, "setLayer:", layer, result=None)
    return layer


PLATFORMS: dict[str, Callable[[Mapping[str, Any]], NativeWindow]] = {
    "x11": lambda info: X11Window(info["window"], info["display"]),
    "wayland": lambda info: WaylandWindow(info["window"], info["display"]),
    "windows": lambda info: Win32Window(info["window"]),
    "cocoa": lambda info: MetalWindow(metal_layer(info["window"])),
}
SYSTEMS = {"win32": "windows", "darwin": "cocoa"}
