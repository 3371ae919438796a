"""The viewer as a part of other programs: a widget of Qt, and canvases in windows that they own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..vk.run.present.windows import NativeWindow
from .canvas import BACKENDS, Canvas, HostWindow, missing
from .presenter import SwapchainPresenter
from .sessions import Session


def qt_pane(
    session: Session, parent: Any = None, *, size: tuple[int, int] = (640, 480), panel: bool = True
) -> Any:
    """The viewer as a QWidget, for programs of PySide6 and PyQt6 (whichever is imported).

    session: what it shows and advances, see ``Viewer``. parent: a QWidget. size: in pixels, wished for. panel: whether
    the curves and sliders are shown. Its ``viewer`` is the Viewer, and can be paused, asked and closed; the optimisation
    advances while Qt is idle. Close the pane before its engine. Raises InputError where Qt or rendercanvas is missing.
    """
    try:
        windows = import_module(BACKENDS["qt"])
    except ImportError as error:
        raise missing("qt", error) from error
    return windows.ViewerPane(session, parent, size, panel=panel)


def host_canvas(
    window: NativeWindow | Any, size: Callable[[], tuple[int, int]], *, pixel_ratio: float = 1.0
) -> Canvas:
    """A canvas in a window of the program that dressi is part of, whatever its toolkit.

    window: the VkSurfaceKHR of the window, as a whole number or an object of a Vulkan binding, if the program has Vulkan
    of its own and dressi works on its device (``Device.from_handles``); else a NativeWindow of
    ``dressi.vk.run.present.windows``. size: gives the window's size in pixels, (0, 0) while it is minimised. The program
    passes on what its user does by ``submit``, and closes the canvas before the window and the surface. Pictures that
    cannot be shown raise DeviceErrors when they are presented.
    """
    return Canvas(HostWindow(SwapchainPresenter(window, size), pixel_ratio))
