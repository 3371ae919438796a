"""The protocol of what a viewer shows: it advances, and tells what is drawn of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ..ad.graph import Variable
from ..render.fit.graphs.round import Subject
from ..vk.run.engine import DressiAD
from .handles import Handle


@dataclass(frozen=True, eq=False)
class Views:
    """N photographs that an optimisation learns from.

    codes: (N, H, W, 3) sRGB codes on black.  masks: (N, H, W) in [0, 1].  matrices: (N, 4, 4) from units of
    the subject to clip space.  directions: (N, 3) unit vectors from the subject to the cameras.
    """

    codes: np.ndarray
    masks: np.ndarray
    matrices: np.ndarray
    directions: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.masks.shape[2], self.masks.shape[1]


@dataclass(frozen=True)
class Slider:
    """A number that a person may change between two others: positive ones on a logarithmic scale, or
    ``linear``. names: instead of numbers, of 0, 1, ..., one of which is chosen."""

    name: str
    least: float
    most: float
    get: Callable[[], float]
    set: Callable[[float], None]
    linear: bool = False
    names: Sequence[str] = ()


@dataclass
class Status:
    """What the panel says. phase: of the optimisation.  done, total: its steps, total 0 if nobody knows.
    step_ms: of the last steps.  note: the last thing that was done on request.  running: seconds in a viewer,
    without pauses.  plays: whether it advances with these seconds, and does no work between pictures."""

    title: str
    phase: str = ""
    done: int = 0
    total: int = 0
    step_ms: float | None = None
    finished: bool = False
    note: str = ""
    running: float = 0.0
    plays: bool = False
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Name of a curve -> (step, value)."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What is drawn now: a mesh of Variables, or an image (VEC3 sRGB codes, one tile) of an engine. against: what
    the mesh is compared with.  handles: by which a person moves parts of it."""

    engine: DressiAD
    subject: Subject | None = None
    against: Subject | None = None
    image: Variable | None = None
    handles: Sequence[Handle] = ()


class Session(Protocol):
    """An optimisation that a viewer drives.

    scene: None while there is nothing to draw; another object when what is drawn has changed.  up: (3,) the
    direction that is upright.  actions: what can be asked for beside pausing: "rewind" and "save", where they are
    possible.
    """

    status: Status

    @property
    def scene(self) -> Scene | None: ...
    @property
    def views(self) -> Views | None: ...
    @property
    def up(self) -> np.ndarray: ...
    @property
    def sliders(self) -> Sequence[Slider]: ...
    @property
    def actions(self) -> Mapping[str, Callable[[], None]]: ...
    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        """Take steps for about so long, or so many; ``status`` tells when it is finished. Raises what the
        optimisation raises."""
        ...

    def stop(self) -> None:
        """The window is closed: end after the next steps, keeping what was reached."""
        ...


def stamped(folder: Path, done: int, suffix: str) -> Path:
    """A path in a folder for what is saved after so many steps."""
    return folder / f"view-{done:06d}{suffix}"
