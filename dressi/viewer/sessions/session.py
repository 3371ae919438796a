"""The protocol of what a viewer shows: it advances, and tells what is drawn of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ...ad.graph import Variable
from ...render.fit.graphs.subject import Subject
from ...vk.run.engine import DressiAD


@dataclass(frozen=True, eq=False)
class Views:
    """N photographs that an optimisation learns from.

    codes: (N, H, W, 3) sRGB codes on black.  masks: (N, H, W) in [0, 1].  matrices: (N, 4, 4) from units of the subject to
    clip space.  directions: (N, 3) unit vectors from the subject to the cameras.
    """

    codes: np.ndarray
    masks: np.ndarray
    matrices: np.ndarray
    directions: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.masks.shape[2], self.masks.shape[1]

    def nearest(self, direction: np.ndarray) -> int:
        """The view whose camera lies nearest to a direction."""
        return int(np.argmax(self.directions @ direction))


@dataclass(frozen=True)
class Slider:
    """A number that a person may change between ``least`` and ``most``, both positive, on a logarithmic scale."""

    name: str
    least: float
    most: float
    get: Callable[[], float]
    set: Callable[[float], None]


@dataclass
class Status:
    """What the panel says. phase: of the optimisation.  done, total: its steps, total 0 if nobody knows.  step_ms: of the
    last steps.  note: the last thing that was done on request."""

    title: str
    phase: str = ""
    done: int = 0
    total: int = 0
    step_ms: float | None = None
    finished: bool = False
    note: str = ""
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Name of a curve -> (step, value)."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What is drawn now: of an engine, a mesh as Variables, or an image of its own (VEC3 sRGB codes, one tile)."""

    engine: DressiAD
    subject: Subject | None = None
    image: Variable | None = None


class Session(Protocol):
    """An optimisation that a viewer drives."""

    status: Status

    @property
    def scene(self) -> Scene | None:
        """None while there is nothing to draw. Another object when what is drawn has changed."""
        ...

    @property
    def views(self) -> Views | None: ...

    @property
    def up(self) -> np.ndarray:
        """(3,) the direction that is upright."""
        ...

    @property
    def sliders(self) -> Sequence[Slider]: ...

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        """What can be asked for beside pausing: "rewind" and "save", where they are possible."""
        ...

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        """Take steps for about so long, or so many; ``status`` tells when it is finished. Raises what the optimisation
        raises."""
        ...

    def stop(self) -> None:
        """The window is closed: end after the next steps, keeping what was reached."""
        ...


def stamped(folder: Path, done: int, suffix: str) -> Path:
    """A path in a folder for what is saved after so many steps."""
    return folder / f"view-{done:06d}{suffix}"
