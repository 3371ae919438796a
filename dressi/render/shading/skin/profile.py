"""How far light spreads under a surface: diffusion profiles as sums of Gaussians, which are separable.

A profile R(r) is the radiant exitance at the distance r from a point that light enters, a density over the area (Jensen et al.
2001). The normalised profile of Burley 2015, "Extending the Disney BRDF to a BSDF with Integrated Subsurface Scattering":

    R(r) = (exp(-r / d) + exp(-r / 3d)) / (8 pi d r),    within r: 1 - exp(-r / d) / 4 - 3 exp(-r / 3d) / 4

Sums of Gaussians (d'Eon and Luebke 2007, "Advanced Techniques for Realistic Real-Time Skin Rendering") have its energy within
every radius to 1 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ....errors import InputError

RATIO = 2.2
"""Of the deviation of a Gaussian to that of the one before it."""
LEAST, MOST = 0.08, 5.0
"""Deviations of the first and the last Gaussian, at least: of the smallest and of the largest distance of Burley's profile."""
EVEN = 50.0
"""Weight of the sum of all weights in their fit."""


@dataclass(frozen=True, eq=False)
class Profile:
    """A sum of Gaussians over the plane, and light that does not move.

    deviations: (K,) growing, in units of the world.  weights: (K + 1, 3), those of light that does not move first; red, green
    and blue sum to 1 each where all light leaves again.  scale: a number or FLOAT of one texel that multiplies the deviations.
    Weights and the scale may be Variables (VEC3, K + 1 rows as a list; FLOAT); differentiable in both. Raises InputError.

    >>> Profile([1.0], [[0.5, 0.8, 1.0], [0.5, 0.2, 0.0]]).within(1e9).tolist()
    [1.0, 1.0, 1.0]
    """

    deviations: Any
    weights: Any
    scale: Any = 1.0

    def __post_init__(self) -> None:
        deviations = np.asarray(self.deviations, np.float64)
        grows = deviations.ndim == 1 and len(deviations) and (np.diff(deviations, prepend=0.0) > 0).all()
        if not grows or not np.isfinite(deviations).all():
            raise InputError("deviations of a profile are positive numbers that grow, (K,)")
        object.__setattr__(self, "deviations", deviations)
        if not isinstance(self.weights, Variable):
            weights = np.asarray(self.weights, np.float64)
            if weights.shape != (len(deviations) + 1, 3) or not (weights >= 0).all():
                raise InputError(
                    f"weights of a profile of {len(deviations)} Gaussians are at least 0, ({len(deviations) + 1}, 3)"
                )
            object.__setattr__(self, "weights", weights)

    def within(self, radius: float) -> np.ndarray:
        """(3,): the share of light that leaves within a radius, of a profile of numbers."""
        spread = 1 - np.exp(-0.5 * (radius / (self.deviations * self.scale)) ** 2)
        return self.weights[0] + spread @ self.weights[1:]


def burley(distances: Sequence[float]) -> Profile:
    """The normalised profile of Burley.

    distances: d of red, green and blue, in units of the world; skin has about (1.2, 0.5, 0.3) mm. Raises InputError.

    >>> profile = burley((1.0, 0.5, 0.25))
    >>> from dressi.render.shading.skin.profile import burley_within
    >>> bool(abs(profile.within(2.0) - burley_within(2.0, np.array([1.0, 0.5, 0.25]))).max() < 0.01)
    True
    """
    d = np.asarray(distances, np.float64)
    if d.shape != (3,) or not ((d > 0) & np.isfinite(d)).all():
        raise InputError(f"distances of a profile are three positive numbers, not {distances!r}")
    count = int(np.ceil(np.log(MOST * d.max() / (LEAST * d.min())) / np.log(RATIO))) + 1
    deviations = LEAST * d.min() * RATIO ** np.arange(count)
    radii = np.geomspace(0.1 * LEAST * d.min(), 24 * d.max(), 1000)
    basis = np.column_stack([np.ones_like(radii), 1 - np.exp(-0.5 * (radii[:, None] / deviations) ** 2)])
    sum_row = np.full((1, count + 1), EVEN * len(radii) ** 0.5)
    weights = []
    for one in d:
        wanted = np.append(burley_within(radii, one), EVEN * len(radii) ** 0.5)
        found = _least_squares(np.vstack([basis, sum_row]), wanted)
        weights.append(found / found.sum())
    return Profile(deviations, np.stack(weights, axis=1))


def burley_within(radius: Any, d: Any) -> Any:
    """The share of light that leaves within a radius by the profile of Burley: arrays.

    >>> burley_within(0.0, 1.0)
    0.0
    """
    return 1 - 0.25 * np.exp(-radius / d) - 0.75 * np.exp(-radius / (3 * d))


def _least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x >= 0 that minimises |a x - b| (Lawson and Hanson 1974)."""
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], bool)
    for _ in range(10 * a.shape[1]):
        slope = a.T @ (b - a @ x)
        if free.all() or slope[~free].max() < 1e-9 * np.abs(b).max():
            break
        free[np.argmax(np.where(free, -np.inf, slope))] = True
        while True:
            s = np.zeros_like(x)
            s[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            if (s[free] > 0).all():
                break
            low = free & (s <= 0)
            x = x + np.min(x[low] / (x[low] - s[low])) * (s - x)
            free &= x > 1e-12
        x = s
    return x
