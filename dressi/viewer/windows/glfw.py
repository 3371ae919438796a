"""Windows of GLFW."""

from __future__ import annotations

import warnings
from typing import Any, cast

import glfw
from rendercanvas.glfw import GlfwCanvasGroup, GlfwRenderCanvas

from ...errors import InputError
from ..presenter import SwapchainPresenter
from .native import RenderWindow, SurfaceContext


class _Canvas(GlfwRenderCanvas):
    """A window that is polled, without a loop of rendercanvas's."""

    _rc_canvas_group = GlfwCanvasGroup(cast(Any, None))
    visible = True

    def _set_visible(self, visible: bool) -> None:
        self.visible = visible

    def _rc_request_paint(self) -> None:
        self._time_to_paint()


class GlfwWindow(RenderWindow):
    """A window of GLFW with a swapchain."""

    widget: _Canvas

    def __init__(self, size: tuple[int, int], title: str):
        super().__init__(_Canvas(size=size, title=title))
        context = self.widget.get_context(SurfaceContext)
        assert isinstance(context, SurfaceContext)
        self.presenter = SwapchainPresenter(context.window(), self._size)
        context.end = self.presenter.close

    def _size(self) -> tuple[int, int]:
        seen = self.widget.visible and not self.closed
        return self.widget.get_physical_size() if seen else (0, 0)


def open_window(size: tuple[int, int], title: str) -> GlfwWindow:
    """Raises InputError without a display."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ready = glfw.init()
    if not ready:
        reason = str(said[-1].message) if said else "GLFW does not start"
        raise InputError(
            f"no window can be opened, because there is no display ({reason}); run on a desktop, over `ssh "
            "-X` or under `xvfb-run`, or without a window"
        )
    return GlfwWindow(size, title)
