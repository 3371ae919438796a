"""Direct light of environment maps by Monte-Carlo integration: the reference for filtered lookups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import INT
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from .bsdf import Bsdf, Frame
from .bsdf.microfacet import Grid, seen_from_above
from .environment import MapLight, as_map, as_rotation, equirectangular
from .lights import Fragment
from .sphere_filter import solid_angles

# Directions drawn from an environment map by its luminance, as a graph: tables are computed on the device.

LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of linear red, green and blue (Rec. 709)."""


class MapDistribution(NamedTuple):
    """A probability density of directions, constant in each texel of an equirectangular map. No derivatives.

    >>> even = MapDistribution.of(Variable.of(np.ones((8, 16, 3)), VEC3))
    >>> bool(abs(evaluate(even.pdf(F.constant((0.0, 1.0, 0.0)))).item() * 4 * np.pi - 1) < 1e-6)
    True
    """

    density: Variable
    """FLOAT (W, H): one over steradians."""
    columns: Variable
    """FLOAT (W, H): sums of the light of each row up to and with this column."""
    rows: Variable
    """FLOAT (1, H): sums of the light of all rows up to and with this one."""

    @classmethod
    def of(cls, image: Variable) -> MapDistribution:
        """image: VEC3 (W, H), linear radiance, at least 0. The density is that of its luminance."""
        width, height = image.size
        # Lookups are bilinear, so the mean over a texel has an eighth of each neighbour.
        light = F.dot(F.stop_gradient(image), LUMINANCE)
        light = 0.75 * light + 0.125 * (F.shift(light, 1, 0, "repeat") + F.shift(light, -1, 0, "repeat"))
        light = 0.75 * light + 0.125 * (F.shift(light, 0, 1) + F.shift(light, 0, -1))
        columns = cumulative(light * solid_angles(image.size), 0)
        rows = cumulative(F.crop(columns, width - 1, 0, (1, height)), 1)
        # A black map: there is no light, and the density is 0.
        return cls(light / F.maximum(F.crop(rows, 0, height - 1, (1, 1)), 1e-30), columns, rows)

    def pdf(self, direction: Variable) -> Variable:
        """FLOAT: the density at a direction, VEC3 in the map, over solid angle."""
        return F.sample(self.density, equirectangular(direction), "nearest", "sphere")

    def direction(self, u: tuple[Variable, Variable, Variable, Variable]) -> Variable:
        """VEC3, unit, in the map: drawn by four numbers in [0, 1), for row, column and place in the texel."""
        width, height = self.density.size
        row = _first_above(self.rows, u[0], None)
        column = _first_above(self.columns, u[1], row)
        # Even over the solid angle of the texel: even in the cosine.
        top, bottom = (F.cos((F.to_float(row) + k) * (math.pi / height)) for k in (0.0, 1.0))
        y = F.clamp(F.mix(top, bottom, u[3]), -1.0, 1.0)
        across = F.sqrt((1.0 - y) * (1.0 + y))
        azimuth = (F.to_float(column) + u[2]) * (2 * math.pi / width) - math.pi
        return F.vec3(across * F.sin(azimuth), y, -across * F.cos(azimuth))


def cumulative(x: Variable, axis: int) -> Variable:
    """Sums of all texels up to each along an axis, in as many steps as its extent has bits.

    >>> evaluate(cumulative(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), 0)).ravel().tolist()
    [1.0, 3.0, 6.0, 10.0, 15.0]
    """
    step = 1
    while step < x.size[axis]:
        x = x + (F.shift(x, step, 0, "zero") if axis == 0 else F.shift(x, 0, step, "zero"))
        step *= 2
    return x


def _first_above(sums: Variable, u: Variable, row: Variable | None) -> Variable:
    """INT: the first entry of a row (or the only column) of ``sums`` above u times the last one."""

    def entry(k: Variable) -> Variable:
        return F.lookup(sums, F.ivec2(0, k) if row is None else F.ivec2(k, row))

    count = sums.size[0 if row is not None else 1]
    place = F.to_int(F.zeros_like(u))
    target = u * entry(place + (count - 1))
    step = 1 << (count - 1).bit_length()
    while step := step // 2:
        further = place + step
        below = F.less(further, count) * F.less_equal(entry(further - 1), target)
        place = F.select(below, further, place)
    return place


# An environment as a light that is integrated by Monte Carlo.


@dataclass(frozen=True, eq=False)
class MonteCarloEnvironment(MapLight):
    """``Environment`` without approximation: the mean over random directions, unbiased.

    map, rotation, intensity: as of ``Environment``.  samples: a pixel, 1 to 1024; an image of W x H takes
    textures of ``samples`` times as many texels.  seed, step: INT; every step draws other directions, the
    same on all devices, so that pictures of many steps average to a better one.

    Roughness of glTF materials below 0.045 is taken as that. Occlusion darkens them. Differentiable in map,
    rotation, intensity and material at fixed directions. Raises InputError.

    >>> sky = MonteCarloEnvironment(np.ones((8, 16, 3)), samples=64)
    >>> sky.samples
    64
    """

    parameters = {**MapLight.parameters, "seed": INT, "step": INT}

    samples: int = 64
    seed: Variable | int = 0
    step: Variable | int = 0

    def prepared(self) -> Self:
        grid_of(self.samples)
        return super().prepared()

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
        """VEC3: the mean light reflected from given directions. Differentiable in all but these."""
        direction = samples.direction
        if self.rotation is not None:
            direction = F.transpose(as_rotation(self.rotation)) @ direction
        light = F.sample(as_map(self.map), equirectangular(direction), "bilinear", "sphere")
        spread = samples.grid.spread
        value = at.surface.each(spread).reflected(at.frame.each(spread), samples.direction)
        total = samples.grid.mean(value * light * samples.weight) * as_variable(self.intensity)
        return at.surface.occluded(total)


# Directions drawn by the map, by the cosine and by the microfacets, with one density.
#
# Veach and Guibas, "Optimally Combining Sampling Techniques for Monte Carlo Rendering" (1995): with the
# balance heuristic a sample counts by one over the mean of all densities at it.

BY_MAP = 0.5
"""The share of samples that are drawn from the map."""
COUNTERS = 8
"""Numbers of F.random that a step may use."""


class Samples(NamedTuple):
    """Directions and their weights: images of ``grid`` texels for each pixel (``environment_samples``)."""

    direction: Variable
    """VEC3: unit, in the world, away from the surface."""
    weight: Variable
    """FLOAT: one over the density over solid angle; 0 below the surface. Their mean is the integral."""
    grid: Grid


def grid_of(samples: int) -> Grid:
    """Samples along x and y, as near to a square as the number allows. Raises InputError.

    >>> [tuple(grid_of(samples)) for samples in (64, 32, 7)]
    [(8, 8), (4, 8), (1, 7)]
    """
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= 1024:
        raise InputError(
            f"samples of a pixel are a whole number from 1 to 1024, not {samples!r}; send more steps for more"
        )
    across = next(k for k in range(math.isqrt(samples), 0, -1) if samples % k == 0)
    return Grid(across, samples // across)


def environment_samples(
    distribution: MapDistribution,
    to_world: Variable | None,
    surface: Bsdf,
    frame: Frame,
    samples: int,
    seed: Like = 0,
    step: Like = 0,
) -> Samples:
    """``samples`` directions for every pixel: half by the map, the others by the surface.

    to_world: MAT3 from the map to the world, None for the identity.  seed, step: INT, one texel; each step
    has other numbers. The result has no derivatives: samples are detached, so that the mean of weight times
    integrand is unbiased, and so are its derivatives at fixed samples. Raises InputError.
    """
    grid = grid_of(samples)
    given = [frame.normal, frame.to_eye, *surface.variables()]
    width, height = (max(x.size[k] for x in given) for k in (0, 1))
    batch, large = max(x.batch for x in given), (width * grid.across, height * grid.down)

    def spread(x: Variable) -> Variable:
        return F.stop_gradient(grid.spread(x))

    surface, frame = surface.each(spread), frame.each(spread)
    frame = frame._replace(to_eye=seen_from_above(frame.normal, frame.to_eye))

    first = step * COUNTERS
    number = grid.numbers(large)
    turns = [grid.spread(F.random(seed, first + k, (width, height), batch)) for k in range(3)]
    in_texel = [F.random(seed, first + k, large, batch) for k in (3, 4)]
    # The samples of a pixel lie evenly, from a random place on: which way each is drawn, and what it draws.
    chosen = (F.to_float(number) + turns[0]) / samples
    even = F.sobol2(number)
    u, v = (F.fract(x + turn) for x, turn in zip((even.x, even.y), turns[1:], strict=True))
    light = distribution.direction((u, v, in_texel[0], in_texel[1]))
    light = light if to_world is None else to_world @ light
    own = surface.sample(frame, F.clamp((chosen - BY_MAP) / (1.0 - BY_MAP), 0.0, 1.0), u, v)
    direction = F.stop_gradient(F.normalize(F.select(F.less(chosen, BY_MAP), light, own)))

    in_map = direction if to_world is None else F.transpose(to_world) @ direction
    pdf = BY_MAP * distribution.pdf(in_map) + (1.0 - BY_MAP) * surface.pdf(frame, direction)
    above = F.greater(F.dot(frame.normal, direction), 0.0)
    weight = F.select(above, 1.0 / F.maximum(pdf, 1e-20), 0.0)
    return Samples(direction, F.stop_gradient(weight), grid)
