"""The panel beside the picture: curves, sliders and buttons, drawn on the host and shown by the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .session import Session, Slider

# The panel of a session: laid out anew whenever it is painted, and hit where it was painted last.

WIDTH, MARGIN = 236, 12
"""Of the panel, in units of the window."""


class Panel:
    """Curves, modes, sliders and buttons of a session.

    modes: names of what can be shown.  choose: shows one.  toggle, step: pause or go on; a single step.
    """

    def __init__(
        self,
        session: Session,
        modes: Sequence[str],
        choose: Callable[[str], None],
        toggle: Callable[[], None],
        step: Callable[[], None],
    ):
        self.session, self.modes, self.choose, self.toggle, self.step = session, modes, choose, toggle, step
        self._widgets: list[Widget] = []
        self._held: Widget | None = None

    # ---- what it looks like
    def paint(
        self, height: int, scale: float, *, mode: str, paused: bool, sliders: Sequence[Slider] = (),
        transforms: Mapping[str, Callable[[], None]] | None = None, transform: str = "",
    ) -> np.ndarray:  # fmt: skip
        """(height, width, 3) sRGB codes in [0, 1], of a panel as high as the window. sliders: beside those of the
        session.  transforms: what the axes of handles can do, of which ``transform`` is chosen."""
        image = Image.new("RGB", (max(round(WIDTH * scale), 1), height), PAPER)
        pen, status = Pen(ImageDraw.Draw(image), scale), self.session.status
        left, right, y = float(MARGIN), float(WIDTH - MARGIN), 20.0
        pen.text((left, y), _short(status.title), INK, 14.0)
        y += 20
        pen.text((left, y), self._progress(paused), FAINT, 11.0)
        y += 14
        if status.total:
            done = max((right - left) * min(status.done / status.total, 1.0), 4)
            pen.box((left, y, right, y + 4), LINE, 2)
            pen.box((left, y, left + done, y + 4), INK, 2)
            y += 14
        widgets: list[Widget] = []
        for name, curve in status.curves.items():
            paint_curve(pen, (left, y, right, y + 64), name, curve, status.total)
            y += 70
        y = self._buttons(widgets, {m: (lambda m=m: self.choose(m)) for m in self.modes}, y + 4, 2, lit=mode)
        y = self._buttons(widgets, transforms or {}, y + (4 if transforms else 0), 3, lit=transform)
        for slider in (*sliders, *self.session.sliders):
            box = (left, y + 4, right, y + 38)
            widgets.append(Slide(box, slider, slider.get()))
            y += 40
        actions: dict[str, Callable[[], None]] = {}
        if not status.finished:
            actions |= {"run" if paused else "pause": self.toggle, "step": self.step}
        y = self._buttons(widgets, actions | dict(self.session.actions), y + 10, 2, lit="run")
        for line in _wrapped(status.note, 34):
            pen.text((left, y + 8), line, FAINT, 11.0)
            y += 15
        for widget in widgets:
            if isinstance(widget, Slide) and isinstance(self._held, Slide) and self._held.name == widget.name:
                self._held = widget  # the slider that is held is the one that was painted last
            widget.paint(pen)
        self._widgets = widgets
        return np.asarray(image, np.float32) / 255.0

    def _progress(self, paused: bool) -> str:
        status = self.session.status
        parts = [status.phase] if status.phase else []
        if status.done:
            parts.append(f"{status.done:,}" + (f" of {status.total:,}" if status.total else " steps"))
        if status.finished and status.done:
            parts.append("finished")
        elif paused:
            parts.append("paused")
        elif status.step_ms is not None:
            parts.append(f"{status.step_ms:.1f} ms a step")
        return " · ".join(parts)

    @staticmethod
    def _buttons(
        widgets: list[Widget], actions: Mapping[str, Callable[[], None]], y: float, columns: int, lit: str
    ) -> float:
        """Buttons in rows from y on; the y below them."""
        width = (WIDTH - 2 * MARGIN + 6) / columns
        for k, (text, press) in enumerate(actions.items()):
            x, top = MARGIN + (k % columns) * width, y + 30 * (k // columns)
            widgets.append(Button((x, top, x + width - 6, top + 24), text, press, on=text == lit))
        return y + 30 * -(-len(actions) // columns)

    # ---- what it does
    def down(self, x: float, y: float) -> bool:
        """The pointer was pressed at a place of the panel; whether something is there."""
        for widget in self._widgets:
            left, top, right, bottom = widget.box
            if left <= x <= right and top <= y <= bottom:
                self._held = widget
                widget.down(x, y)
                return True
        return False

    def drag(self, x: float, y: float) -> bool:
        """The pointer moved; whether it holds something."""
        if self._held is None:
            return False
        self._held.drag(x, y)
        return True

    def up(self) -> None:
        self._held = None

    @property
    def places(self) -> dict[str, tuple[float, float]]:
        """Middle of everything that can be pressed, by its text, in units of the panel."""
        return {
            widget.name: ((widget.box[0] + widget.box[2]) / 2, (widget.box[1] + widget.box[3]) / 2)
            for widget in self._widgets
        }


def _short(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(_short(word, width))
    return lines[:3]


# Curves of an optimisation, drawn small.

POINTS = 240
"""Points of a curve that are drawn at most."""


def paint_curve(pen: Pen, box: Box, name: str, curve: Sequence[tuple[int, float]], last: int) -> None:
    """A curve of (step, value) from step 0 to ``last``, with its last value. Losses are on a logarithmic
    scale: curves that span more than a factor of ten, all positive."""
    left, top, right, bottom = box
    pen.box(box, RAISED)
    shown = [(step, value) for step, value in curve if math.isfinite(value)]
    pen.text((left + 7, top + 10), name, FAINT, 11.0)
    if not shown:
        return
    pen.text((right - 7, top + 10), label(shown[-1][1]), INK, 11.0, anchor="rm")
    stride = max(len(shown) // POINTS, 1)
    values = [value for _, value in shown]
    bent = min(values) > 0 and max(values) > 10 * min(values)
    height = math.log if bent else float
    low, high = height(min(values)), height(max(values))
    span, steps = (high - low) or 1.0, max(last, shown[-1][0], 1)
    across, up = (right - left - 14) / steps, (bottom - top - 30) / span
    points = [
        (left + 7 + across * step, bottom - 7 - up * (height(value) - low))
        for step, value in [*shown[::stride], shown[-1]]
    ]
    pen.line(points, ACCENT, 1.5)


def label(value: float) -> str:
    """A value in four digits."""
    return f"{value:.2e}" if value and not 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"


# Buttons, choices and sliders: where they are, how they look, what they do.

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in units of the panel."""

PAPER, RAISED, LINE = (30, 32, 37), (46, 49, 56), (66, 70, 80)
INK, FAINT, ACCENT = (232, 232, 228), (152, 156, 166), (245, 140, 40)


@cache
def font(size: float) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


@dataclass(frozen=True)
class Pen:
    """Draws in units of the panel, ``scale`` pixels each."""

    draw: ImageDraw.ImageDraw
    scale: float

    def box(self, box: Box, fill: tuple[int, int, int], radius: float = 4.0) -> None:
        self.draw.rounded_rectangle([self.scale * v for v in box], self.scale * radius, fill=fill)

    def line(self, points: list[tuple[float, float]], fill: tuple[int, int, int], width: float = 1.0) -> None:
        scaled = [(self.scale * x, self.scale * y) for x, y in points]
        self.draw.line(scaled, fill=fill, width=max(round(self.scale * width), 1), joint="curve")

    def text(
        self,
        place: tuple[float, float],
        text: str,
        fill: tuple[int, int, int] = INK,
        size: float = 12.0,
        anchor: str = "lm",
    ) -> None:
        """anchor: as Pillow's, "lm": the place is the left end of the middle line."""
        x, y = place
        self.draw.text((self.scale * x, self.scale * y), text, fill, font(self.scale * size), anchor)


@dataclass
class Button:
    """A word that does something when it is pressed. on: whether it is lit."""

    box: Box
    name: str
    press: Callable[[], None]
    on: bool = False

    def paint(self, pen: Pen) -> None:
        pen.box(self.box, ACCENT if self.on else RAISED)
        left, top, right, bottom = self.box
        pen.text(((left + right) / 2, (top + bottom) / 2), self.name, PAPER if self.on else INK, anchor="mm")

    def down(self, x: float, y: float) -> None:
        self.press()

    def drag(self, x: float, y: float) -> None:
        pass


@dataclass
class Slide:
    """A slider with its name and value above it."""

    box: Box
    slider: Slider
    value: float

    @property
    def name(self) -> str:
        return self.slider.name

    def paint(self, pen: Pen) -> None:
        left, top, right, bottom = self.box
        names = self.slider.names
        pen.text((left, top + 7), self.name, FAINT)
        shown = _short(names[round(self.value)], 22) if names else f"{self.value:.3g}"
        pen.text((right, top + 7), shown, INK, anchor="rm")
        y = bottom - 8
        x = left + self._share * (right - left)
        pen.box((left, y - 2, right, y + 2), LINE, 2)
        pen.box((left, y - 2, x, y + 2), ACCENT, 2)
        pen.box((x - 6, y - 6, x + 6, y + 6), INK, 6)

    @property
    def _share(self) -> float:
        least, most = self.slider.least, self.slider.most
        if self.slider.linear:
            return (self.value - least) / ((most - least) or 1.0)
        return math.log(self.value / least) / math.log(most / least)

    def down(self, x: float, y: float) -> None:
        self.drag(x, y)

    def drag(self, x: float, y: float) -> None:
        left, _, right, _ = self.box
        least, most = self.slider.least, self.slider.most
        share = min(max((x - left) / (right - left), 0.0), 1.0)
        if self.slider.linear:
            self.value = least + (most - least) * share
        else:
            value = least * (most / least) ** share
            # The middle of a range about 1 is easy to hit.
            self.value = 1.0 if abs(math.log(value)) < 0.02 * math.log(most / least) else value
        self.slider.set(min(max(self.value, least), most))


Widget = Button | Slide
