"""What a round of the shape phase does, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitRound:
    """One part of the shape phase: one topology and one image size. Pairs are the values at the first and last step."""

    subdivisions: int
    """How often the start mesh is subdivided."""
    pixels: int
    """Approximate number of image rows; at most the height of the fit."""
    steps: int
    radius: tuple[float, float]
    """Radius of HardSoftRas in image heights; at least ``Form.least_radius`` pixels are used."""
    rate: tuple[float, float]
    """Learning rate of Adam, in units of the scene's radius."""
    smoothness: float
    """Weight of the Laplacian."""
    spread: float = 0.0
    """The lambda of large steps; 0: gradients averaged with those of neighbours, and Adam."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of further terms of the loss, by the names of their options (``FitOptions``), relative to silhouettes."""
    turn: tuple[float, float] = (0.0, 0.0)
    """Learning rate of the rotations of poses, in radians; 0: fixed."""
    shift: tuple[float, float] = (0.0, 0.0)
    """Learning rate of the translations of poses, in radii of the scene."""
    faces: int = 0
    """Most faces of the round, which the mesh is remeshed to at its start; 0: the start mesh, subdivided."""
    remesh: int = 0
    """Number of steps between two remeshings within the round, a multiple of ten; 0: none."""
    opens: bool = False
    """Whether holes that pictures see through are opened in the mesh after the round."""
    adjusts: bool = False
    """Whether shape and poses are adjusted together after the round, by colours and outlines (``bundle``)."""

    @property
    def moves(self) -> bool:
        """Whether poses are learned."""
        return self.turn[0] > 0 or self.shift[0] > 0
