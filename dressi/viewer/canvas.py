"""Windows for the viewer: GLFW, Qt, Jupyter, or none at all, with one way of events and of pictures.

Windows and their events come from rendercanvas. Its event loops are not used: whoever optimises calls
``process_events`` between steps, or the host program's loop does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from ..errors import InputError
from ..vk.run.present.surface import NativeWindow
from .presenter import OffscreenPresenter, Presenter, SwapchainPresenter
from .session import Session

Event = dict[str, Any]
Handler = Callable[[Event], None]

EVENTS = (
    "pointer_down", "pointer_move", "pointer_up", "double_click", "wheel", "key_down", "key_up", "char", "resize",
    "close", "before_draw",
)  # fmt: skip
"""Types of events. ``before_draw``: the window has to be drawn again, because it was uncovered or resized."""

BACKENDS = {
    "glfw": "dressi.viewer.windows.glfw",
    "qt": "dressi.viewer.windows.qt",
    "jupyter": "dressi.viewer.windows.jupyter",
    "offscreen": "dressi.viewer.canvas",
}
"""Modules whose ``open_window(size, title)`` gives a Window."""


class Window(Protocol):
    """A window of some toolkit.

    presenter: how pictures come into it.  widget: the toolkit's own object: a QWidget, a Jupyter widget, a
    rendercanvas of GLFW, None.  pixel_ratio: pixels of the window for one unit of the x and y of events.  closed:
    whether it is gone.  listen: call the handler with every event of a type.  submit: queue an event, as if it came
    from the user.  poll: take what the system has to tell, and call the handlers.  close: idempotent.
    """

    @property
    def presenter(self) -> Presenter: ...
    @property
    def widget(self) -> Any: ...
    @property
    def pixel_ratio(self) -> float: ...
    @property
    def closed(self) -> bool: ...
    def listen(self, kind: str, handler: Handler) -> None: ...
    def submit(self, event: Event) -> None: ...
    def poll(self) -> None: ...
    def close(self) -> None: ...


class Canvas:
    """A window of any toolkit, see ``open_canvas``.

    presenter: shows pictures in it. widget: the toolkit's own object, to put into a layout or a notebook.
    """

    def __init__(self, window: Window):
        self._window = window
        self._failed: Exception | None = None

    @property
    def presenter(self) -> Presenter:
        return self._window.presenter

    @property
    def widget(self) -> Any:
        return self._window.widget

    @property
    def pixel_ratio(self) -> float:
        """Pixels of the window for one unit of the ``x`` and ``y`` of events: 2 on many laptops."""
        return self._window.pixel_ratio

    @property
    def closed(self) -> bool:
        """Whether the user or ``close`` closed the window."""
        return self._window.closed

    def on(self, event_type: str, handler: Handler) -> None:
        """Call ``handler`` with every event of a type of ``EVENTS``, a dictionary of rendercanvas.

        An exception of the handler is raised by the next ``process_events``. Raises InputError.
        """
        if event_type not in EVENTS:
            raise InputError(f"a window has no events {event_type!r}; it has {', '.join(EVENTS)}")

        def guarded(event: Event) -> None:
            try:
                handler(event)
            except Exception as error:  # the toolkits would print it and go on
                self._failed = self._failed or error

        self._window.listen(event_type, guarded)

    def submit(self, event: Event) -> None:
        """Queue an event of the user: ``{"event_type": "key_down", "key": "p", "modifiers": ()}``."""
        if event.get("event_type") not in EVENTS:
            raise InputError(f"an event has an event_type of {', '.join(EVENTS)}, not {event!r}")
        self._window.submit(event)

    def process_events(self) -> None:
        """Call the handlers of what has happened since the last call. Does not wait."""
        if not self.closed:
            self._window.poll()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Release what presents pictures, then close the window. Idempotent."""
        self.presenter.close()
        self._window.close()

    def __enter__(self) -> Canvas:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_canvas(backend: str = "glfw", size: tuple[int, int] = (1024, 768), title: str = "dressi") -> Canvas:
    """A window of ``size`` (width, height; in pixels where the screen has a pixel ratio of 1).

    backend: "glfw", "qt" (PySide6 or PyQt6, whichever the program has imported), "jupyter", or "offscreen",
    which nobody sees. Raises InputError for others, without the library, and without a display.

    >>> from dressi.viewer.canvas import open_canvas
    >>> pressed = []
    >>> with open_canvas("offscreen", (64, 48)) as canvas:
    ...     canvas.on("key_down", lambda event: pressed.append(event["key"]))
    ...     canvas.submit({"event_type": "key_down", "key": "p", "modifiers": ()})
    ...     canvas.process_events()
    ...     canvas.presenter.size, pressed, canvas.closed
    ((64, 48), ['p'], False)
    """
    if backend not in BACKENDS:
        raise InputError(f"there are no windows of {backend!r}; there are {', '.join(BACKENDS)}")
    width, height = size
    if not (0 < width <= 16384 and 0 < height <= 16384):
        raise InputError(f"a window has 1 to 16384 pixels in width and height, not {size!r}")
    try:
        module = import_module(BACKENDS[backend])
    except ImportError as error:
        raise missing(backend, error) from error
    return Canvas(module.open_window((int(width), int(height)), title))


EXTRAS = {"glfw": "viewer", "qt": "qt", "jupyter": "jupyter"}
"""The extra of pyproject.toml that brings the libraries of a backend."""


def missing(backend: str, error: ImportError) -> InputError:
    """The error for a library that is not installed."""
    return InputError(
        f"windows of {backend} need a library that is missing ({error}): pip install "
        f"'dressi[{EXTRAS[backend]}]'"
    )


class HostWindow:
    """A window of the host program: pictures go to a presenter, events come from ``submit``."""

    widget = None

    def __init__(self, presenter: Presenter, pixel_ratio: float = 1.0):
        self.presenter, self.pixel_ratio = presenter, pixel_ratio
        self.closed = False
        self._handlers: dict[str, list[Handler]] = {}
        self._events: list[Event] = []

    def listen(self, kind: str, handler: Handler) -> None:
        self._handlers.setdefault(kind, []).append(handler)

    def submit(self, event: Event) -> None:
        self._events.append(event)

    def poll(self) -> None:
        events, self._events = self._events, []
        for event in events:
            for handler in self._handlers.get(event["event_type"], ()):
                handler(event)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.submit({"event_type": "close"})
            self.poll()


class OffscreenWindow(HostWindow):
    """No window: pictures go into ``presenter.frame``."""

    presenter: OffscreenPresenter

    def __init__(self, size: tuple[int, int]):
        super().__init__(OffscreenPresenter(size))

    def resize(self, size: tuple[int, int]) -> None:
        """What dragging a corner would do."""
        self.presenter.resize(size)
        self.submit({"event_type": "resize", "width": size[0], "height": size[1], "pixel_ratio": 1.0})


def open_window(size: tuple[int, int], title: str) -> OffscreenWindow:
    return OffscreenWindow(size)


# The viewer as a part of other programs: a widget of Qt, and canvases in windows that they own.


def qt_pane(
    session: Session, parent: Any = None, *, size: tuple[int, int] = (640, 480), panel: bool = True
) -> Any:
    """The viewer as a QWidget, for programs of PySide6 and PyQt6 (whichever is imported).

    session: what it shows and advances, see ``Viewer``. parent: a QWidget. size: in pixels, wished for.
    panel: whether the curves and sliders are shown. Its ``viewer`` is the Viewer, and can be paused, asked
    and closed; the optimisation advances while Qt is idle. Close the pane before its engine. Raises
    InputError where Qt or rendercanvas is missing.
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

    window: the VkSurfaceKHR of the window, as a whole number or an object of a Vulkan binding, if the program
    has Vulkan of its own and dressi works on its device (``Device.from_handles``); else a NativeWindow of
    ``dressi.vk.run.present.surface``. size: gives the window's size in pixels, (0, 0) while it is minimised.
    The program passes on what its user does by ``submit``, and closes the canvas before the window and the
    surface. Pictures that cannot be shown raise DeviceErrors when they are presented.
    """
    return Canvas(HostWindow(SwapchainPresenter(window, size), pixel_ratio))
