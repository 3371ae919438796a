"""Plane sweep on the device: how well a picture agrees with its neighbours, warped through planes at many depths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ad import functional as F
from .....ad.graph import Variable
from .....ad.types import FLOAT, MAT3, VEC3
from ....engine import Engine
from .views import Views

NEIGHBOURS = 4
"""Views that a picture is compared with; the best half of them counts, as others may see something in front."""
CHUNK = 16
"""Planes that are swept at once: what lies between fits into caches."""
NOISE = 1e-3
"""Standard deviation of a window of grey, below which it counts as without texture."""


class Sweep:
    """The scores of depths as an image pipeline, for pictures of one size.

    Inverse depths are those of an image plus a number for each plane: planes that face the view where the image is constant,
    else surfaces beside a surface.  crop: (W, H) of the part of a picture that is swept.  size: (W, H) of its neighbours.
    radii: of the windows, in pixels, whose scores are averaged.  planes: swept at once.
    """

    def __init__(
        self, crop: tuple[int, int], size: tuple[int, int], radii: Sequence[int], planes: int = CHUNK
    ):
        self.planes = planes
        self.picture, self.weight, self.base = (
            Variable(FLOAT, crop, name=name) for name in ("picture", "weight", "base")
        )
        self.offsets = Variable(FLOAT, batch=planes, name="offsets")
        self.others = [Variable(FLOAT, size, name=f"other{i}") for i in range(NEIGHBOURS)]
        self.turns = [Variable(MAT3, name=f"turn{i}") for i in range(NEIGHBOURS)]
        self.moves = [Variable(VEC3, name=f"move{i}") for i in range(NEIGHBOURS)]
        here = F.vec3(F.to_float(F.pixel_coordinates(crop)) + 0.5, 1.0)
        inverse = self.base + self.offsets
        seen = []
        for other, turn, move in zip(self.others, self.turns, self.moves, strict=True):
            place = F.matmul(turn, here) + move * inverse
            uv = place.xy / place.z * (1 / size[0], 1 / size[1])
            seen.append(F.sample(other, uv, "bilinear", "clamp", tolerance=0))
        warped = F.vec4(*seen)
        scores = [correlations(self.picture, warped, self.weight, radius) for radius in radii]
        self.score = best_half(sum(scores[1:], start=scores[0]) * (1.0 / len(scores)))

    def start(self, engine: Engine) -> None:
        engine.set_output("score", self.score)

    def scores(
        self,
        engine: Engine,
        views: Views,
        k: int,
        beside: Sequence[int],
        offsets: np.ndarray,
        base: np.ndarray | None = None,
    ) -> np.ndarray:
        """(H, W, D) float32 in [-1, 1], of the inverse depths base (H, W), 0 unless given, + offsets (D,) in front of view k; D
        is a multiple of ``planes``."""
        engine.send(self.picture, views.cropped(views.grey, k))
        engine.send(self.weight, views.cropped(views.masks, k))
        engine.send(self.base, np.zeros(self.base.size[::-1]) if base is None else base)
        for i, index in enumerate(beside):
            turn, move = views.epipolar(k, index)
            engine.send(self.others[i], views.grey[index])
            engine.send(self.turns[i], turn)
            engine.send(self.moves[i], move)
        found = []
        for first in range(0, len(offsets), self.planes):
            engine.send(self.offsets, offsets[first : first + self.planes, None, None])
            found.append(engine.recv("score").reshape(self.planes, *self.picture.size[::-1]))
        return np.ascontiguousarray(np.moveaxis(np.concatenate(found), 0, 2))


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
