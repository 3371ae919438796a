"""The progress and the result of a fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..cameras import Cameras
from ..mesh import Mesh


@dataclass(frozen=True)
class Progress:
    """done, total: steps of all phases."""

    phase: str
    done: int
    total: int
    loss: float


@dataclass
class Timing:
    first_build_ms: float | None = None
    steps: int = 0
    seconds: float = 0.0

    @property
    def step_ms(self) -> float | None:
        return 1e3 * self.seconds / self.steps if self.steps else None


@dataclass
class FitResult:
    """mesh: in the world, with a texture once the second phase has begun."""

    mesh: Mesh
    losses: list[tuple[str, float]]
    plans: dict[str, dict[str, int]]
    timing: Timing
    finished: bool
    texts: dict[str, str] = field(default_factory=dict)
    cameras: Cameras | None = None
    """The refined training cameras in the world, aligned to the given ones by the best similarity; None without
    ``refine_poses``."""
    earlier_s: float = 0.0
    """Seconds spent in the runs that this one resumed."""
    unsaved: str | None = None
    """Why the last checkpoint could not be written; None if it was written, or none was asked for."""
