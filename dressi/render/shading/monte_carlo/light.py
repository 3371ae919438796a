"""An environment as a light that is integrated by Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.ops.pixel.constant import Like
from ....ad.types import INT, MAT3, VEC3
from ..environment import Environment, as_map, as_rotation
from ..lights import Fragment, LightSource
from ..split_sum import equirectangular
from .distribution import MapDistribution
from .samples import Samples, environment_samples, grid_of


@dataclass(frozen=True, eq=False)
class MonteCarloEnvironment(LightSource):
    """``Environment`` without approximation: the mean over random directions, unbiased. Its noise falls with their root.

    map, rotation, intensity: as of ``Environment``.  samples: a pixel, 1 to 1024; an image of W x H takes textures of
    ``samples`` times as many texels.  seed, step: INT; every step draws other directions, the same on all devices, so
    that pictures of many steps average to a better one.

    Any surface is lit as its BSDF says; roughness of glTF materials below 0.045 is taken as that. Occlusion darkens them.
    Differentiable in map, rotation, intensity and material at fixed directions. Raises InputError.

    >>> sky = MonteCarloEnvironment(np.ones((8, 16, 3)), samples=64)
    >>> sky.samples
    64
    """

    parameters = {"map": VEC3, "rotation": MAT3, "intensity": VEC3, "seed": INT, "step": INT}
    images = frozenset(("map",))
    learned = ("map",)
    positive = frozenset(("map", "intensity"))

    map: Variable | np.ndarray
    rotation: Like | np.ndarray | None = 0.0
    intensity: Like = 1.0
    samples: int = 64
    seed: Variable | int = 0
    step: Variable | int = 0

    def prepared(self) -> MonteCarloEnvironment:
        """The same with a map of at most 512 texels across, and a rotation that is a matrix, or None for none."""
        grid_of(self.samples)
        checked = Environment(self.map, self.rotation).prepared()
        return replace(self, map=checked.map, rotation=checked.rotation)

    def reflected(self, at: Fragment) -> Variable:
        image, to_world = as_map(self.map), None if self.rotation is None else as_rotation(self.rotation)
        samples = environment_samples(
            MapDistribution.of(image),
            None if to_world is None else F.stop_gradient(to_world),
            at.surface,
            at.frame,
            self.samples,
            self.seed,
            self.step,
        )
        return self.integrated(samples, at)

    def integrated(self, samples: Samples, at: Fragment) -> Variable:
        """VEC3: the mean of the light from given directions that the surface reflects. Differentiable in all but these."""
        direction = samples.direction
        if self.rotation is not None:
            direction = F.transpose(as_rotation(self.rotation)) @ direction
        light = F.sample(as_map(self.map), equirectangular(direction), "bilinear", "sphere")
        spread = samples.grid.spread
        value = at.surface.each(spread).reflected(at.frame.each(spread), samples.direction)
        total = samples.grid.mean(value * light * samples.weight) * as_variable(self.intensity)
        return at.surface.occluded(total)
