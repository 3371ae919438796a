"""A canvas for notebooks: pictures are copied into the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from rendercanvas.jupyter import JupyterCanvasGroup, JupyterRenderCanvas

from ..presenter import CopyPresenter


class _Widget(JupyterRenderCanvas):
    """Sends the last picture when the browser is ready for one."""

    _rc_canvas_group = JupyterCanvasGroup(cast(Any, None))
    picture: np.ndarray | None = None

    def get_frame(self) -> np.ndarray | None:
        return self.picture

    def _rc_request_paint(self) -> None:
        pass


class JupyterWindow:
    """A widget of a notebook: the last expression of a cell shows it. Events arrive between cells."""

    def __init__(self, size: tuple[int, int], title: str):
        self.widget = _Widget(size=size, title=title)
        self._first = size
        self.presenter = CopyPresenter(self._show, self._size)

    def _show(self, frame: np.ndarray) -> None:
        self.widget.picture = frame
        super(JupyterRenderCanvas, self.widget).request_draw()

    def _size(self) -> tuple[int, int]:
        """The browser's size, once it has told it."""
        width, height = self.widget.get_physical_size()
        return (0, 0) if self.closed else (width, height) if min(width, height) > 1 else self._first

    @property
    def pixel_ratio(self) -> float:
        return self.widget.get_pixel_ratio()

    @property
    def closed(self) -> bool:
        return self.widget.get_closed()

    def listen(self, kind: str, handler: Callable[[dict[str, Any]], None]) -> None:
        self.widget.add_event_handler(handler, cast(Any, kind))

    def submit(self, event: dict[str, Any]) -> None:
        self.widget.submit_event(event)

    def poll(self) -> None:
        self.widget._process_events()

    def close(self) -> None:
        if not self.closed:
            self.widget.close()


def open_window(size: tuple[int, int], title: str) -> JupyterWindow:
    return JupyterWindow(size, title)
