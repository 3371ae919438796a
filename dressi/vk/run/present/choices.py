"""What a swapchain is made with, chosen from what a surface offers: plain functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence

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
    """The VkFormat for sRGB codes among pairs of a format and a colour space; None where each would encode the values
    once more or shows others."""
    formats = {format for format, space in offered if space == SRGB_NONLINEAR}
    if formats == {0}:  # VK_FORMAT_UNDEFINED: all are welcome
        return FORMATS[0]
    return next((format for format in FORMATS if format in formats), None)


def choose_mode(offered: Sequence[int], *, wait: bool) -> int:
    """The present mode. FIFO is always there. wait: show whole frames only; otherwise newer ones tear the picture."""
    wanted = (MAILBOX,) if wait else (IMMEDIATE, MAILBOX)
    return next((mode for mode in wanted if mode in offered), FIFO)


def choose_count(least: int, most: int) -> int:
    """Number of images: one more than the surface holds itself, and at least three, so that no frame waits for the
    screen. most: 0 for no limit."""
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
    """The part of a picture of size ``source`` that is seen, and where, when it is scaled to ``place`` in a window of
    this size; None where nothing of it is."""
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
