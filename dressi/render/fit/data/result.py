"""The progress and the result of a fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....figures import Figures
from ...cameras import Cameras
from ...mesh import Mesh
from ...shading.lights import LightSource


@dataclass(frozen=True)
class Progress:
    """done, total: steps of all phases.  doing: what happens now, for people.  iou, psnr: of the training views at the last look (``Quality``), None before."""

    phase: str
    done: int
    total: int
    loss: float
    iou: float | None = None
    psnr: float | None = None
    doing: str = ""


@dataclass(frozen=True)
class Quality:
    """A look at the training views after ``step`` steps, at the size of the round.  psnr: in dB; None without colours."""

    step: int
    phase: str
    iou: float
    psnr: float | None


@dataclass
class Timing:
    first_build_ms: float | None = None
    steps: int = 0
    seconds: float = 0.0

    @property
    def step_ms(self) -> float | None:
        return 1e3 * self.seconds / self.steps if self.steps else None


@dataclass
class FitResult(Figures):
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
    quality: list[Quality] = field(default_factory=list)
    """IoU and PSNR of the training views from time to time, those of runs that this one resumed included; empty where
    nobody watched."""
    light: LightSource | None = None
    """What the result is lit by, where its material was recovered; None: colours are as they are, unlit."""
    exposures: np.ndarray | None = None
    """(N,) factors of the linear light of the training views, where exposures were recovered with the material."""
    gains: np.ndarray | None = None
    """(N, 3) factors of the sRGB codes of the training views that the texture was found with; None without exposures."""
    steered: list[tuple[int, str, float]] = field(default_factory=list)
    """Steps of the fit so far, name and value of every factor that a person changed meanwhile (``Controls``). Such a fit is
    not found again from its options alone."""
    unsaved: str | None = None
    """Why the last checkpoint could not be written; None if it was written, or none was asked for."""
