"""Hair from afar: a fibre that is thinner than a pixel shows the mean over its width.

What a way of light does around the fibre is tabled once a step, by the cosine of the eye to the plane across the fibre and
by the angle around it. The tables are images of the graph, differentiable in the parameters of the hair. From them, too, come
the means over half circles that many fibres scatter forward and backward (dual scattering; Zinke et al. 2008, "Dual
Scattering Approximation for Fast Multiple Scattering in Hair").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....errors import InputError
from .hair import HairBsdf, Ways, cosine_of

ANGLES, COSINES, OFFSETS = 128, 32, 32
"""Entries of tables, and rays across the width of a fibre."""
DENSITY = 0.7
"""How much of the hair behind a fibre sends light back (Zinke et al. 2008)."""


class Directions(NamedTuple):
    """Two directions at a fibre: FLOATs."""

    sine_light: Variable
    """Of the angle to the plane across the fibre."""
    sine_eye: Variable
    cosine_phi: Variable
    """Of the angle between both around the fibre."""

    @classmethod
    def of(cls, tangent: Variable, to_light: Variable, to_eye: Variable) -> Directions:
        """tangent, to_light, to_eye: unit VEC3. Differentiable."""
        light, eye = F.dot(tangent, to_light), F.dot(tangent, to_eye)
        across = cosine_of(light) * cosine_of(eye)
        return cls(light, eye, F.clamp((F.dot(to_light, to_eye) - light * eye) / across, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class FarHair:
    """A fibre of hair, the mean over its width.

    hair: numbers and Variables of one texel: all fibres are alike.  angles, cosines: entries of the tables.  offsets: rays
    across the width. Raises InputError for images.

    >>> at = Directions(F.constant(0.0), F.constant(0.0), F.constant(1.0))
    >>> FarHair(HairBsdf.of(melanin=0.2)).scattered(at).vtype
    VEC3
    """

    hair: HairBsdf
    angles: int = ANGLES
    cosines: int = COSINES
    offsets: int = OFFSETS

    def __post_init__(self) -> None:
        for x in self.hair.variables():
            if x.size != (1, 1):
                raise InputError(
                    f"{x} is an image, and hair from afar has one value for all fibres; give a Variable of one texel"
                )

    @cached_property
    def _tables(self) -> tuple[Variable, Variable, Variable]:
        """VEC4 and VEC3, angles x cosines: TT with R as the fourth component, and TRT. The angle is that of the light from the
        eye, from 0 to pi. VEC3, 1 x cosines: the rest, which is even around the fibre."""
        place = F.pixel_coordinates((self.angles * self.offsets, self.cosines))
        number = F.mod(place.x, self.offsets)
        angle = F.to_float((place.x - number) / self.offsets) + 0.5
        sine = F.sqrt(1.0 - F.square((F.to_float(place.y) + 0.5) / self.cosines))
        # Evenly in the angle of incidence, of which the offset is the sine: most happens near the rims.
        turn = (F.to_float(number) + 0.5) * (math.pi / self.offsets) - math.pi / 2
        weight = F.cos(turn) * (self.offsets * math.sin(math.pi / (2 * self.offsets)))
        found = self.hair.around(sine, angle * (math.pi / self.angles), F.sin(turn))
        found = Ways(*(x * weight for x in found))
        size = (self.angles, self.cosines)
        return (
            F.store(F.resize(F.vec4(found.tt, found.r), size, "area")),
            F.store(F.resize(found.trt, size, "area")),
            F.store(F.resize(found.rest, (1, self.cosines), "area")),
        )

    @cached_property
    def _halves(self) -> tuple[Variable, Variable, Variable, Variable]:
        """1 x cosines. VEC3s: what is sent backward and forward of the light, and how unevenly: the first Fourier coefficient
        around the fibre. VEC2: the variances along the fibre of what is sent backward and forward."""
        tt, trt, rest = self._tables
        r = F.vec3(tt.w)
        total = tt.xyz + trt + r + rest
        angle = (F.to_float(F.pixel_coordinates((self.angles, 1)).x) + 0.5) * (math.pi / self.angles)
        uneven = F.resize(total * F.cos(angle), (1, self.cosines), "area") * 2.0
        v = self.hair.variances
        wide = F.sum_components(tt.xyz * v.tt + (trt + rest) * v.trt + r * v.r)
        parts = F.resize(F.vec4(total, wide), (2, self.cosines), "area")
        back, on = (F.crop(parts, k, 0, (1, self.cosines)) for k in (0, 1))
        variances = F.vec2(*(x.w / F.maximum(F.sum_components(x.xyz), 1e-9) for x in (back, on)))
        return F.store(back.xyz * math.pi), F.store(on.xyz * math.pi), F.store(uneven), F.store(variances)

    def scattered(self, at: Directions) -> Variable:
        """VEC3: as ``HairBsdf.scattered``, the mean over the width. Differentiable."""
        m = self.hair.along(at.sine_light, at.sine_eye)
        place = F.vec2(F.acos(at.cosine_phi) / math.pi, cosine_of(at.sine_eye))
        first, trt, rest = (F.sample(x, place, "bilinear", "clamp") for x in self._tables)
        return first.xyz * m.tt + trt * m.trt + rest * m.rest + F.vec3(first.w * m.r)

    def albedo(self, sine_eye: Variable) -> Variable:
        """VEC3: what is seen of light of 1 from everywhere."""
        backward, forward, *_ = self._means(sine_eye)
        return backward + forward

    def passing(self, sine_light: Variable, crossed: Variable) -> tuple[Variable, Variable]:
        """FLOAT and VEC3: how much of a light meets no fibre before this one, and how much is sent on by all it meets, which are
        ``crossed`` on average (Poisson)."""
        direct = F.exp(-crossed)
        return direct, F.exp((self._means(sine_light)[1] - 1.0) * crossed) - direct

    def among_others(self, at: Directions, crossed: Variable) -> Variable:
        """VEC3: the light of one direction that comes to the eye from a fibre behind ``crossed`` (FLOAT) others: directly, sent
        on by those before it, and sent back by those behind it. Differentiable."""
        backward, forward, uneven, variances = self._means(at.sine_light)
        direct, sent = self.passing(at.sine_light, crossed)
        back_width, on_width = variances.x, variances.y
        # Light that was sent on comes from half of the circle, and has spread by the lobes of each fibre that it met.
        mean = F.maximum(crossed * F.sum_components(forward) * (1 / 3), 1e-3)
        met = mean / (1.0 - F.exp(-mean))
        even = (backward + forward) * (0.5 / math.pi) + uneven * (at.cosine_phi * (2 / math.pi))
        spread = F.maximum(even, 0.0) * gaussian(at, F.mix(back_width, on_width, 0.5) + on_width * met)
        half = (1.0 + at.cosine_phi) * (0.5 / math.pi) * DENSITY
        returned = self._returned(backward, forward) * (half * gaussian(at, back_width + on_width * 2.0))
        return (self.scattered(at) + returned) * direct + (spread + returned) * sent

    def _returned(self, backward: Variable, forward: Variable) -> Variable:
        """VEC3: the share that many fibres behind one send back, after one and three reflections."""
        squared = F.square(F.minimum(forward, 0.99))
        through = 1.0 / (1.0 - squared)
        return backward * squared * through * (1.0 + F.square(backward * through))

    def _means(self, sine: Variable) -> tuple[Variable, Variable, Variable, Variable]:
        place = F.vec2(0.5, cosine_of(sine))
        one, two, three, four = (F.sample(x, place, "bilinear", "clamp") for x in self._halves)
        return one, two, three, four


def gaussian(at: Directions, variance: Variable) -> Variable:
    """FLOAT: a lobe along the fibre around the mirrored direction, over the sines of the light; its integral is 1 for small
    variances."""
    away = F.square(at.sine_light + at.sine_eye)
    return F.exp(away * -0.5 / variance) / F.sqrt(variance * (2 * math.pi))
