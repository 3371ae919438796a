"""A canvas for notebooks: pictures are copied into the browser."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from jupyter_rfb import RemoteFrameBuffer
from rendercanvas.jupyter import JupyterCanvasGroup, JupyterRenderCanvas

from ..presenter import CopyPresenter
from .native import RenderWindow


class _Widget(JupyterRenderCanvas):
    """Sends the last picture when the browser is ready for one."""

    _rc_canvas_group = JupyterCanvasGroup(cast(Any, None))
    picture: np.ndarray | None = None

    def get_frame(self) -> np.ndarray | None:
        return self.picture

    def _rc_request_paint(self) -> None:
        pass


class JupyterWindow(RenderWindow):
    """A widget of a notebook: the last expression of a cell shows it. Events arrive between cells."""

    widget: _Widget

    def __init__(self, size: tuple[int, int], title: str):
        super().__init__(_Widget(size=size, title=title))
        self._first = size
        self.presenter = CopyPresenter(self._show, self._size)

    def _show(self, frame: np.ndarray) -> None:
        self.widget.picture = frame
        RemoteFrameBuffer.request_draw(
            self.widget
        )  # that of rendercanvas asks its scheduler, which is not used

    def _size(self) -> tuple[int, int]:
        """The browser's size, once it has told it."""
        width, height = self.widget.get_physical_size()
        return (0, 0) if self.closed else (width, height) if min(width, height) > 1 else self._first


def open_window(size: tuple[int, int], title: str) -> JupyterWindow:
    return JupyterWindow(size, title)
