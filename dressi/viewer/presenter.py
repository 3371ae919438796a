"""Ways of a picture into a window: a swapchain on the device, a copy through the host, or an array."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isroutine
from typing import Any, Protocol

import numpy as np
from PIL import Image

from ..ad.graph import Variable
from ..errors import DeviceError, DeviceLostError, GraphError, InputError
from ..vk.run.device.device import Device
from ..vk.run.engine import DressiAD
from ..vk.run.present.surface import NativeWindow, clip
from ..vk.run.present.swapchain import Swapchain


@dataclass(frozen=True)
class Layer:
    """A picture and where it is shown.

    image: VEC3 or VEC4 of one tile, sRGB codes in [0, 1], row 0 at the top; a Variable, or the name of an
    output of the engine. Alpha is ignored. place: x, y, width, height in pixels of the window; the image is
    scaled to it, and what lies outside of the window is cut off.
    """

    image: Variable | str
    place: tuple[int, int, int, int]


class Presenter(Protocol):
    """Shows pictures of an engine in a window.

    size: width and height of the window in pixels; (0, 0) while it is minimised.  copies: whether pictures go
    through the host.  close: release what was made for the window; idempotent.
    """

    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def copies(self) -> bool: ...
    def present(self, engine: DressiAD, layers: Sequence[Layer]) -> bool:
        """Show layers, later ones over earlier ones, over black, as the leaves of the engine are now.

        Returns False when nothing could be shown, as in a minimised window. Raises GraphError for images that
        are no pictures, and DeviceError in a sentence when the window or the device is lost.
        """
        ...

    def close(self) -> None: ...


Size = Callable[[], tuple[int, int]]


class SwapchainPresenter:
    """Copies pictures on the device into the images of a window; nothing goes through the host.

    window: see ``Swapchain``; or a function that gives it. size: gives the window's size in pixels, (0, 0)
    while it is minimised. The swapchain is made with the first picture, on the device of its engine, and made
    anew for an engine on another device and after ``renew``.
    """

    copies = False

    def __init__(self, window: NativeWindow | Any, size: Size, *, wait: bool = True, smooth: bool = True):
        self._window, self._size, self._wait, self._smooth = window, size, wait, smooth
        self._swapchain: Swapchain | None = None
        self._closed = False

    @property
    def size(self) -> tuple[int, int]:
        return (0, 0) if self._closed else self._size()

    def prepare(self, device: Device) -> None:
        """Make the swapchain now. Raises DeviceError where the device cannot show pictures in the window."""
        if self._closed:
            raise InputError("the window is closed; open another one")
        if self._swapchain is None or self._swapchain.device is not device:
            self.renew()
            window = self._window() if isroutine(self._window) else self._window
            self._swapchain = Swapchain(device, window, size=self._size, wait=self._wait, smooth=self._smooth)

    def present(self, engine: DressiAD, layers: Sequence[Layer]) -> bool:
        if min(self.size) <= 0:
            return False
        self.prepare(engine.device)
        assert self._swapchain is not None
        return self._swapchain.present([(engine.export(layer.image), layer.place) for layer in layers])

    def close(self) -> None:
        self._closed = True
        self.renew()

    def renew(self) -> None:
        """Forget the window's surface: its handles have changed, or will."""
        if self._swapchain is not None:
            self._swapchain.close()
            self._swapchain = None


class CopyPresenter:
    """Reads pictures back and gives each frame to ``show``, as uint8 (height, width, 4) with alpha 255.

    size: gives the window's size in pixels, (0, 0) while nobody sees it.
    """

    copies = True

    def __init__(self, show: Callable[[np.ndarray], None], size: Size):
        self._show, self._size = show, size
        self._closed = False

    @property
    def size(self) -> tuple[int, int]:
        return (0, 0) if self._closed else self._size()

    def present(self, engine: DressiAD, layers: Sequence[Layer]) -> bool:
        size = self.size
        if min(size) <= 0:
            return False
        # All copies are queued before the first is waited for.
        reads = [(engine.recv_async(layer.image), layer.place) for layer in layers]
        frame = np.zeros((size[1], size[0], 4), np.uint8)
        frame[..., 3] = 255
        for read, place in reads:
            _paste(frame, read.result(), place)
        self._show(frame)
        return True

    def close(self) -> None:
        self._closed = True


def _paste(frame: np.ndarray, values: np.ndarray, place: tuple[int, int, int, int]) -> None:
    """Draw a picture, (1, height, width, 3 or 4), scaled to a rectangle of a frame."""
    if values.ndim != 4 or values.shape[0] != 1 or values.shape[3] not in (3, 4):
        raise GraphError(
            f"a picture in a window is a VEC3 or VEC4 of one tile, not values of the shape {values.shape}"
        )
    parts = clip((values.shape[2], values.shape[1]), place, (frame.shape[1], frame.shape[0]))
    if parts is None:
        return
    (u, v, columns, rows), (x, y, width, height) = parts
    codes = np.clip(255 * values[0, v : v + rows, u : u + columns, :3] + 0.5, 0, 255).astype(np.uint8)
    if (columns, rows) != (width, height):
        codes = np.asarray(Image.fromarray(codes).resize((width, height), Image.Resampling.BILINEAR))
    frame[y : y + height, x : x + width, :3] = codes


class OffscreenPresenter(CopyPresenter):
    """A window that nobody sees: ``frame`` is the last picture, uint8 (height, width, 4), or None.

    >>> from dressi.viewer.presenter import Layer, OffscreenPresenter
    >>> picture, window = Variable.of(np.full((4, 6, 3), 0.5)), OffscreenPresenter((12, 8))
    >>> with DressiAD() as ad:
    ...     ad.set_output("picture", picture)
    ...     window.present(ad, [Layer("picture", (0, 0, 6, 4))]), window.frame[0, 0], window.frame[7, 11]
    (True, array([128, 128, 128, 255], dtype=uint8), array([  0,   0,   0, 255], dtype=uint8))
    """

    def __init__(self, size: tuple[int, int]):
        super().__init__(self._keep, lambda: self._wanted)
        self.frame: np.ndarray | None = None
        self.resize(size)

    def resize(self, size: tuple[int, int]) -> None:
        """Another size in pixels; (0, 0) as if minimised."""
        if len(size) != 2 or min(size) < 0:
            raise InputError(f"a window has a width and a height of at least 0 pixels, not {size!r}")
        self._wanted = int(size[0]), int(size[1])

    def _keep(self, frame: np.ndarray) -> None:
        self.frame = frame


class EitherPresenter:
    """A swapchain where the device can show pictures in the window; else copies.

    on_copies: called once when it is copies. A warning then says why.
    """

    def __init__(self, swapchain: SwapchainPresenter, copying: CopyPresenter, on_copies: Callable[[], None]):
        self._swapchain, self._copying, self._on_copies = swapchain, copying, on_copies
        self._tried = False
        self.copies = False

    @property
    def size(self) -> tuple[int, int]:
        return self._copying.size

    def present(self, engine: DressiAD, layers: Sequence[Layer]) -> bool:
        if min(self.size) <= 0:
            return False
        if not self._tried:
            try:
                self._swapchain.prepare(engine.device)
            except DeviceLostError:
                raise
            except DeviceError as error:
                self.copies = True
                self._on_copies()
                warnings.warn(f"pictures are copied through the host: {error}", RuntimeWarning, stacklevel=2)
            self._tried = True
        chosen = self._copying if self.copies else self._swapchain
        return chosen.present(engine, layers)

    def renew(self) -> None:
        """The window's handles have changed, or will."""
        self._swapchain.renew()

    def close(self) -> None:
        self._swapchain.close()
        self._copying.close()
