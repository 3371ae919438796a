"""Windows of Qt and a widget for Qt programs, with PySide6 or PyQt6, whichever the program has imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np

from ...errors import InputError
from ..canvas import Canvas
from ..presenter import CopyPresenter, EitherPresenter, SwapchainPresenter
from ..session import Session
from ..viewer import INTERVALS, Viewer
from .native import SurfaceContext

BINDINGS = ("PySide6", "PyQt6")
"""Bindings of Qt."""
NATIVE = ("xcb", "windows", "cocoa")
"""Platforms of Qt whose windows are windows of the system for Vulkan, too."""


def _support() -> Any:
    """rendercanvas's module for the binding that the program has imported, else for the first there is."""
    if not any(name in sys.modules for name in BINDINGS):
        try:
            import_module(f"{BINDINGS[0]}.QtWidgets")
        except ImportError:
            import_module(f"{BINDINGS[1]}.QtWidgets")
    return import_module("rendercanvas.qt")


_qt = _support()
QtCore, QtGui, QtWidgets = _qt.QtCore, _qt.QtGui, _qt.QtWidgets
_Base: Any = _qt.QRenderWidget
_ON_SCREEN = QtCore.Qt.WidgetAttribute.WA_PaintOnScreen
_RGBA = QtGui.QImage.Format.Format_RGBA8888


class QtCanvas(_Base):
    """A QWidget into which pictures come by a swapchain, or as copies where Qt's window is none for Vulkan.

    parent: a QWidget or None. It is a Window, see ``dressi.viewer.canvas``: ``presenter`` shows pictures,
    ``poll`` calls the handlers of events. A QApplication exists before.
    """

    _rc_canvas_group = _qt.QtCanvasGroup(None)
    _renew: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, parent: Any = None, size: tuple[int, int] = (640, 480), title: str = ""):
        self._wanted = size
        super().__init__(parent, size=size, title=title)
        self._image: Any = None
        self.widget = self
        self._direct = QtGui.QGuiApplication.platformName() in NATIVE
        copying = CopyPresenter(self._show, self._seen)
        either = EitherPresenter(SwapchainPresenter(self._native, self._seen), copying, self._on_copies)
        self.presenter = either if self._direct else copying
        self._renew = either.renew
        QtWidgets.QApplication.instance().aboutToQuit.connect(self.presenter.close)

    # ---- pictures
    def _seen(self) -> tuple[int, int]:
        seen = not self.closed and self.isVisible() and not self.window().isMinimized()
        return self.get_physical_size() if seen else (0, 0)

    def _native(self) -> Any:
        """The window as it is now: a widget that moves to another parent gets another one."""
        return self.get_context(SurfaceContext).window(window=int(self.winId()))

    def _on_copies(self) -> None:
        self._direct = False
        self.setAttribute(_ON_SCREEN, False)

    def _show(self, frame: np.ndarray) -> None:
        height, width = frame.shape[:2]
        self._image = frame, QtGui.QImage(frame.data, width, height, 4 * width, _RGBA)
        QtWidgets.QWidget.update(self)

    # ---- what Qt calls
    def sizeHint(self) -> Any:
        return QtCore.QSize(*self._wanted)

    def paintEngine(self) -> Any:
        return None if self._direct else QtWidgets.QWidget.paintEngine(self)

    def paintEvent(self, event: Any) -> None:
        if self._direct:
            self.submit_event({"event_type": "before_draw"})
        elif self._image is not None:
            painter = QtGui.QPainter(self)
            painter.drawImage(self.rect(), self._image[1])
            painter.end()

    def event(self, event: Any) -> bool:
        if event.type() == QtCore.QEvent.Type.WinIdChange:
            self._renew()
        return QtWidgets.QWidget.event(self, event)

    def closeEvent(self, event: Any) -> None:
        self.presenter.close()
        super().closeEvent(event)
        super().close()  # tells the handlers

    # ---- a Window
    def _rc_gui_poll(self) -> None:
        """Qt's own loop takes the events, or ``poll`` does."""

    @property
    def pixel_ratio(self) -> float:
        return self.get_pixel_ratio()

    @property
    def closed(self) -> bool:
        return self.get_closed()

    def listen(self, kind: str, handler: Callable[[dict[str, Any]], None]) -> None:
        self.add_event_handler(handler, cast(Any, kind))

    def submit(self, event: dict[str, Any]) -> None:
        self.submit_event(event)

    def poll(self) -> None:
        if QtCore.QThread.currentThread().loopLevel() == 0:  # the program has no loop of Qt's running
            QtWidgets.QApplication.processEvents()
        if not self.closed:
            self._process_events()


class ViewerPane(QtCanvas):
    """The viewer as a widget, driven by a timer of Qt's; see ``dressi.viewer.qt_pane``."""

    def __init__(self, session: Session, parent: Any, size: tuple[int, int], *, panel: bool):
        super().__init__(parent, size)
        self.viewer = Viewer(session, Canvas(self), panel=panel)
        self._timer = QtCore.QTimer(self)
        self._timer.timeout.connect(self._tick)
        self._timer.start(0)

    def _tick(self) -> None:
        going = False
        try:
            going = self.viewer.tick(rest=False)
        finally:  # an error is shown once, not at every tick
            if not going:
                self._timer.stop()
        wait = round(1000 * INTERVALS[0]) if self.viewer.waiting else 0
        if self._timer.interval() != wait:
            self._timer.setInterval(wait)


def open_window(size: tuple[int, int], title: str) -> QtCanvas:
    """Raises InputError without a display: Qt would end the process."""
    if QtWidgets.QApplication.instance() is None:
        shown = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
        if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in shown):
            raise InputError(
                "no window can be opened, because there is no display (DISPLAY and WAYLAND_DISPLAY are not "
                "set); run on a desktop, over `ssh -X` or under `xvfb-run`, or without a window"
            )
        QtCanvas.application = QtWidgets.QApplication([title])
    canvas = QtCanvas(None, size, title)
    canvas.setWindowTitle(title)
    canvas.show()
    return canvas
