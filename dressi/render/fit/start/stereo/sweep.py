"""Plane sweep on the device: how well a picture agrees with its neighbours, warped through planes at many depths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ad import functional as F
from .....ad.graph import Variable
from .....ad.types import FLOAT, MAT3
from ....engine import Engine
from .views import Views

NEIGHBOURS = 4
"""Views that a picture is compared with; the best half of them counts, as others may see something in front."""
CHUNK = 16
"""Planes that are swept at once: what lies between fits into caches."""
NOISE = 1e-3
"""Standard deviation of a window of grey, below which it counts as without texture."""


class Sweep:
    """The scores of planes as an image pipeline, for pictures of one size.

    crop: (W, H) of the part of a picture that is swept.  size: (W, H) of its neighbours.  radii: of the windows, in pixels,
    whose scores are averaged.
    """

    def __init__(
        self, crop: tuple[int, int], size: tuple[int, int], radii: Sequence[int], planes: int = CHUNK
    ):
        self.planes = planes
        self.picture, self.weight = (Variable(FLOAT, crop, name=name) for name in ("picture", "weight"))
        self.others = [Variable(FLOAT, size, name=f"other{i}") for i in range(NEIGHBOURS)]
        self.matrices = [Variable(MAT3, batch=planes, name=f"matrix{i}") for i in range(NEIGHBOURS)]
        warped = [
            F.warp_homography(other, matrix, crop)
            for other, matrix in zip(self.others, self.matrices, strict=True)
        ]
        seen = F.vec4(*warped)
        scores = [correlations(self.picture, seen, self.weight, radius) for radius in radii]
        self.score = best_half(sum(scores[1:], start=scores[0]) * (1.0 / len(scores)))

    def start(self, engine: Engine) -> None:
        engine.set_output("score", self.score)

    def scores(
        self, engine: Engine, views: Views, k: int, beside: Sequence[int], depths: np.ndarray
    ) -> np.ndarray:
        """(D, H, W) float32 in [-1, 1] of planes at depths (D,), a multiple of ``planes``, in front of view k."""
        engine.send(self.picture, views.cropped(views.grey, k))
        engine.send(self.weight, views.cropped(views.masks, k))
        for other, index in zip(self.others, beside, strict=True):
            engine.send(other, views.grey[index])
        found = []
        for first in range(0, len(depths), self.planes):
            some = depths[first : first + self.planes]
            for matrix, index in zip(self.matrices, beside, strict=True):
                engine.send(matrix, views.homographies(k, index, some)[:, None, None])
            found.append(engine.recv("score").reshape(len(some), *self.picture.size[::-1]))
        return np.concatenate(found)


def correlations(picture: Variable, others: Variable, weight: Variable, radius: int) -> Variable:
    """Zero-mean normalised cross-correlations of windows, whose pixels count by the weight.

    picture, weight: FLOAT.  others: VEC4, four pictures, with a batch.  radius: of the windows.  The result has the type and
    domain of ``others``, in [-1, 1], and is 0 where a window has no texture.
    """
    total = 1.0 / F.maximum(F.box_blur(weight, radius), 1e-6)
    mean = F.box_blur(weight * picture, radius) * total
    variance = F.box_blur(weight * picture * picture, radius) * total - mean * mean
    seen = weight * others
    means = F.box_blur(seen, radius) * total
    variances = F.box_blur(seen * others, radius) * total - means * means
    covariance = F.box_blur(seen * picture, radius) * total - mean * means
    floor = NOISE**2
    return covariance * F.inversesqrt(F.maximum(variance, floor) * F.maximum(variances, floor))


def best_half(scores: Variable) -> Variable:
    """FLOAT mean of the two largest components of a VEC4."""
    a, b, c, d = scores.x, scores.y, scores.z, scores.w
    return 0.5 * F.maximum(F.maximum(a, b) + F.maximum(c, d), F.maximum(a + b, c + d))
