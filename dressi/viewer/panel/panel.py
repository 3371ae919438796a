"""The panel of a session: laid out anew whenever it is painted, and hit where it was painted last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from ..sessions.session import Session
from .plot import paint_curve
from .widgets import FAINT, INK, LINE, PAPER, Button, Pen, Slide, Widget

WIDTH, MARGIN = 236, 12
"""Of the panel, in units of the window."""


class Panel:
    """Curves, modes, sliders and buttons of a session.

    modes: names of what can be shown.  choose: shows one of them.  toggle, step: pause or go on; a single step.
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
    def paint(self, height: int, scale: float, *, mode: str, paused: bool) -> np.ndarray:
        """(height, width, 3) sRGB codes in [0, 1], of a panel as high as the window."""
        image = Image.new("RGB", (max(round(WIDTH * scale), 1), height), PAPER)
        pen, status = Pen(ImageDraw.Draw(image), scale), self.session.status
        left, right, y = float(MARGIN), float(WIDTH - MARGIN), 20.0
        pen.text((left, y), _short(status.title), INK, 14.0)
        y += 20
        pen.text((left, y), self._progress(paused), FAINT, 11.0)
        y += 14
        if status.total:
            pen.box((left, y, right, y + 4), LINE, 2)
            pen.box(
                (left, y, left + max((right - left) * min(status.done / status.total, 1.0), 4), y + 4), INK, 2
            )
            y += 14
        widgets: list[Widget] = []
        for name, curve in status.curves.items():
            paint_curve(pen, (left, y, right, y + 64), name, curve, status.total)
            y += 70
        y = self._buttons(widgets, {m: (lambda m=m: self.choose(m)) for m in self.modes}, y + 4, 2, lit=mode)
        for slider in self.session.sliders:
            box = (left, y + 4, right, y + 38)
            widgets.append(Slide(box, slider.name, slider.least, slider.most, slider.get(), slider.set))
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
            w.text if isinstance(w, Button) else w.name: (
                (w.box[0] + w.box[2]) / 2,
                (w.box[1] + w.box[3]) / 2,
            )
            for w in self._widgets
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
