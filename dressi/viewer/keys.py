"""What the keys of the viewer do. Names of keys are those of the DOM, as rendercanvas gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .canvas import Canvas
from .orbit import Orbit
from .pictures import Mode


class Steered(Protocol):
    """What keys steer: a Viewer."""

    orbit: Orbit
    canvas: Canvas
    modes: Sequence[Mode]

    def toggle(self) -> None: ...
    def step(self) -> None: ...
    def hide(self) -> None: ...
    def act(self, name: str) -> None: ...
    def choose(self, mode: str) -> None: ...


TURN, ZOOM = 8.0, 1.15
"""Degrees and factor of one press."""


def _mode(number: int) -> Callable[[Steered], None]:
    return lambda viewer: viewer.choose(viewer.modes[number].name) if number < len(viewer.modes) else None


KEYS: dict[str, Callable[[Steered], None]] = {
    " ": lambda viewer: viewer.toggle(),
    "n": lambda viewer: viewer.step(),
    "r": lambda viewer: viewer.act("rewind"),
    "s": lambda viewer: viewer.act("save"),
    "h": lambda viewer: viewer.hide(),
    "q": lambda viewer: viewer.canvas.close(),
    "ArrowLeft": lambda viewer: viewer.orbit.turn(-TURN, 0),
    "ArrowRight": lambda viewer: viewer.orbit.turn(TURN, 0),
    "ArrowUp": lambda viewer: viewer.orbit.turn(0, -TURN),
    "ArrowDown": lambda viewer: viewer.orbit.turn(0, TURN),
    "+": lambda viewer: viewer.orbit.zoom(ZOOM),
    "=": lambda viewer: viewer.orbit.zoom(ZOOM),
    "-": lambda viewer: viewer.orbit.zoom(1 / ZOOM),
    "Home": lambda viewer: viewer.orbit.home(),
    **{str(number + 1): _mode(number) for number in range(6)},
}
