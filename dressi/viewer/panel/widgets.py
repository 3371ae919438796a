"""Buttons, choices and sliders: where they are, how they look, what they do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from PIL import ImageDraw, ImageFont

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
    text: str
    press: Callable[[], None]
    on: bool = False

    def paint(self, pen: Pen) -> None:
        pen.box(self.box, ACCENT if self.on else RAISED)
        left, top, right, bottom = self.box
        pen.text(((left + right) / 2, (top + bottom) / 2), self.text, PAPER if self.on else INK, anchor="mm")

    def down(self, x: float, y: float) -> None:
        self.press()

    def drag(self, x: float, y: float) -> None:
        pass


@dataclass
class Slide:
    """A slider on a logarithmic scale, with its name and value above it."""

    box: Box
    name: str
    least: float
    most: float
    value: float
    move: Callable[[float], None]

    def paint(self, pen: Pen) -> None:
        left, top, right, bottom = self.box
        pen.text((left, top + 7), self.name, FAINT)
        pen.text((right, top + 7), f"{self.value:.3g}", INK, anchor="rm")
        y = bottom - 8
        x = left + self._share * (right - left)
        pen.box((left, y - 2, right, y + 2), LINE, 2)
        pen.box((left, y - 2, x, y + 2), ACCENT, 2)
        pen.box((x - 6, y - 6, x + 6, y + 6), INK, 6)

    @property
    def _share(self) -> float:
        return math.log(self.value / self.least) / math.log(self.most / self.least)

    def down(self, x: float, y: float) -> None:
        self.drag(x, y)

    def drag(self, x: float, y: float) -> None:
        left, _, right, _ = self.box
        share = min(max((x - left) / (right - left), 0.0), 1.0)
        value = self.least * (self.most / self.least) ** share
        # The middle of a range about 1 is easy to hit.
        self.value = 1.0 if abs(math.log(value)) < 0.02 * math.log(self.most / self.least) else value
        self.move(min(max(self.value, self.least), self.most))


Widget = Button | Slide
