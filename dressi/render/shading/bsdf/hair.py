"""Hair: light that a fibre reflects (R), lets through (TT), and lets out after a reflection inside (TRT).

    S(light, eye) cos = sum over p = R, TT, TRT, and all longer ways, of M_p(theta_l, theta_e) A_p(h) N_p(phi, h)

(Marschner et al. 2003), with the lobes of Chiang et al. 2016, "A Practical and Controllable Hair and Fur
Model for Production Path Tracing": theta are angles to the plane across the fibre, phi is the angle between
both directions around it, and h in [-1, 1] where the ray meets the fibre. M_p is the von Mises-Fisher lobe of
d'Eon et al. 2011, normalised over directions of light, N_p a logistic curve trimmed to the circle, A_p
Fresnel's and Beer's law. Without absorption the A_p sum to 1: all light leaves, none is added. The model is
not reciprocal: scales tilt the lobes, and A_p and N_p follow from the direction of the eye alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import PixelFunction, Variable
from ....ad.graph.types import FLOAT
from ....ad.ops.pixel.constant import Like
from ....errors import InputError
from ...core.materials import MaterialKind, Parameter
from .bsdf import Bsdf, Frame

EUMELANIN, PHEOMELANIN = (0.419, 0.697, 1.37), (0.187, 0.4, 1.05)
"""Absorption of a concentration of 1, a radius of the fibre (d'Eon et al. 2011)."""
LEAST_ROUGHNESS = 0.04
"""Smaller roughness is taken as this: single precision resolves no narrower lobe."""
LEAST_COSINE = 1e-3
"""Of angles to the plane across the fibre."""
MOST_MELANIN = 0.9999

HAIR = MaterialKind(
    "hair",
    (
        Parameter("melanin", default=0.5, text="amount of pigment: 0 is white, 1 black; the concentration is -log(1 - melanin)"),
        Parameter("redness", default=0.0, text="share of red pheomelanin in the pigment, the rest is brown eumelanin"),
        Parameter("longitudinal", default=0.3, text="roughness along the fibre"),
        Parameter("azimuthal", default=0.3, text="roughness around the fibre"),
        Parameter("ior", default=1.55, least=1.0, most=2.0, text="index of refraction"),
        Parameter("tilt", default=2.0, least=-10.0, most=10.0, text="of the scales on the surface, degrees towards the root"),
    ),
)  # fmt: skip


class Ways(NamedTuple):
    """A value for each way of light: reflected (R), through (TT), TRT, and all longer ways together."""

    r: Variable
    tt: Variable
    trt: Variable
    rest: Variable


@dataclass(frozen=True, eq=False)
class HairBsdf(Bsdf):
    """A fibre of hair; ``reflected`` is the light of any direction that it sends to the eye.

    melanin, redness, longitudinal, azimuthal, ior, tilt: numbers, images at the UVs, or Variables;
    differentiable. The fibre runs along u of the texture coordinates. The colour of the mesh has no effect.
    On strands (``draw_strands``) the shader is ``Marschner(HairBsdf(...), direction)``.

    >>> dark, light = (HairBsdf.of(melanin=x) for x in (0.9, 0.2))
    >>> along, up = F.constant((1.0, 0.0, 0.0)), F.constant((0.0, 0.0, 1.0))
    >>> seen = [evaluate(x.reflected(Frame(up, up, F.vec4(along, 1.0)), -up)).mean() for x in (dark, light)]
    >>> bool(0 < seen[0] < seen[1])
    True
    """

    kind = HAIR
    oriented = True
    all_around = True

    melanin: Like = 0.5
    redness: Like = 0.0
    longitudinal: Like = 0.3
    azimuthal: Like = 0.3
    ior: Like = 1.55
    tilt: Like = 2.0

    # ---- what the fibre is

    @property
    def absorption(self) -> Variable:
        """VEC3: of a way of one radius."""
        amount = -F.log(1.0 - F.clamp(self.melanin, 0.0, MOST_MELANIN))
        return F.mix(F.constant(EUMELANIN), F.constant(PHEOMELANIN), F.clamp(self.redness)) * amount

    @property
    def matt(self) -> Variable:
        """VEC3: what is left of light that crosses the fibre twice."""
        return F.exp(self.absorption * -4.0)

    @property
    def variances(self) -> Ways:
        """FLOATs: how far the lobes spread along the fibre."""
        b = F.clamp(self.longitudinal, LEAST_ROUGHNESS, 1.0)
        v = F.square(0.726 * b + 0.812 * b * b + 3.7 * _to_the_20th(b))
        return Ways(v, v * 0.25, v * 4.0, v * 4.0)

    @property
    def scale(self) -> Variable:
        """FLOAT, radians: of the logistic curve around the fibre."""
        b = F.clamp(self.azimuthal, LEAST_ROUGHNESS, 1.0)
        return math.sqrt(math.pi / 8) * (0.265 * b + 1.194 * b * b + 5.372 * _to_the_20th(b) * b * b)

    # ---- along the fibre

    def along(self, sine_light: Variable, sine_eye: Variable) -> Ways:
        """FLOATs: M of each way; over directions of the light, weighted by 1 / (2 pi), each integrates to 1.

        sine_light, sine_eye: FLOAT, the sines of the angles to the plane across the fibre. Differentiable.
        """
        light, eye, tilt = cosine_of(sine_light), cosine_of(sine_eye), F.mul(self.tilt, math.pi / 180)
        found = []
        for v, turn in zip(self.variances, (-2.0, 1.0, 4.0, 0.0), strict=True):
            sine, cosine = F.sin(tilt * turn), F.cos(tilt * turn)
            s = sine_eye * cosine + eye * sine
            c = F.abs(eye * cosine - sine_eye * sine)
            at = light * c / v
            # log of exp(-sines / v) I0(cosines / v) / (2 v sinh(1 / v)).
            power = log_bessel(at) + at - (sine_light * s + 1.0) / v
            found.append(F.exp(power) / (v * (1.0 - F.exp(-2.0 / v))))
        return Ways(*found)

    # ---- around the fibre

    def around(self, sine_eye: Variable, phi: Variable, offset: Variable) -> Ways:
        """VEC3s, that of R FLOAT: A_p N_p of each way; the rest is even around the fibre.

        sine_eye: FLOAT.  phi: FLOAT, radians, the angle around the fibre from the eye to the light.  offset:
        FLOAT, h. Differentiable.
        """
        ways, refracted = self.attenuation(sine_eye, offset)
        entered = F.asin(F.clamp(offset, -1.0, 1.0))
        inside = F.asin(F.clamp(refracted, -1.0, 1.0))
        scale = self.scale
        n = [
            trimmed_logistic(phi - (inside * (2.0 * p) - entered * 2.0 + math.pi * p), scale)
            for p in range(3)
        ]
        return Ways(ways.r * n[0], ways.tt * n[1], ways.trt * n[2], ways.rest * (0.5 / math.pi))

    def attenuation(self, sine_eye: Variable, offset: Variable) -> tuple[Ways, Variable]:
        """A_p of each way, VEC3s (R: FLOAT), which sum to 1 without absorption; FLOAT: the refracted offset."""
        cosine, ior = cosine_of(sine_eye), F.maximum(self.ior, 1.0 + 1e-4)
        cosine_inside = F.sqrt(1.0 - F.square(sine_eye / ior))
        # A ray through the fibre is one in the plane across it with another index of refraction.
        refracted = offset * cosine / F.sqrt(F.maximum(F.square(ior) - F.square(sine_eye), 1e-6))
        length = 2.0 * F.sqrt(F.maximum(1.0 - F.square(refracted), 1e-12)) / cosine_inside
        through = F.exp(self.absorption * -length)
        mirrored = fresnel(cosine * F.sqrt(F.maximum(1.0 - F.square(offset), 1e-12)), ior)
        tt = through * F.square(1.0 - mirrored)
        trt = tt * through * mirrored
        again = through * mirrored
        return Ways(mirrored, tt, trt, trt * again / (1.0 - again)), refracted

    # ---- light from one direction

    def scattered(
        self, sine_light: Variable, sine_eye: Variable, phi: Variable, offset: Variable
    ) -> Variable:
        """VEC3: S times the cosine of the light to the plane across the fibre, a density over solid angle.
        Arguments as of ``along`` and ``around``. Differentiable in all."""
        m, n = self.along(sine_light, sine_eye), self.around(sine_eye, phi, offset)
        return n.tt * m.tt + n.trt * m.trt + n.rest * m.rest + F.vec3(n.r * m.r)

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        assert frame.tangent is not None
        t = F.normalize(frame.tangent.xyz)
        normal = F.normalize(frame.normal - t * F.dot(frame.normal, t))
        side = F.cross(t, normal)
        x, y = (F.vec3(F.dot(w, side), F.dot(w, t), F.dot(w, normal)) for w in (frame.to_eye, to_light))
        across = F.inversesqrt(F.maximum(x.x * x.x + x.z * x.z, 1e-12))
        phi = F.atan2(y.z * x.x - y.x * x.z, y.x * x.x + y.z * x.z)
        return self.scattered(y.y, x.y, phi, -x.x * across)

    def sample(self, frame: Frame, chosen: Variable, u: Variable, v: Variable) -> Variable:
        """Evenly over the sphere."""
        z, turn = 1.0 - 2.0 * u, v * (2 * math.pi)
        radius = F.sqrt(F.maximum(1.0 - z * z, 0.0))
        return F.vec3(radius * F.cos(turn), radius * F.sin(turn), z)

    def pdf(self, frame: Frame, to_light: Variable) -> Variable:
        return F.dot(frame.normal, to_light) * 0.0 + 0.25 / math.pi


def trimmed_logistic(x: Variable, scale: Variable) -> Variable:
    """FLOAT: the logistic curve of the angle x, periodic, trimmed to [-pi, pi], with an integral of 1.

    x: FLOAT, radians.  scale: FLOAT, radians. Differentiable in both.

    >>> round(evaluate(trimmed_logistic(as_variable(6.4), as_variable(0.5))).item(), 3)
    0.497
    """
    x = x - F.floor(F.stop_gradient(x) * (0.5 / math.pi) + 0.5) * (2 * math.pi)
    tail = F.sigmoid(-F.abs(x) / scale)
    return tail * (1.0 - tail) / (scale * (2.0 * F.sigmoid(math.pi / scale) - 1.0))


def fresnel(cosine: Variable, ior: Variable) -> Variable:
    """FLOAT: what a dielectric reflects of unpolarised light. cosine: to the normal, outside, at least 0.
    ior: FLOAT, at least 1. Differentiable in both.

    >>> round(evaluate(fresnel(as_variable(1.0), as_variable(1.5))).item(), 4)
    0.04
    """
    inside = F.sqrt(F.maximum(1.0 - (1.0 - F.square(cosine)) / F.square(ior), 1e-12))
    across = (cosine - ior * inside) / (cosine + ior * inside)
    along = (ior * cosine - inside) / (ior * cosine + inside)
    return 0.5 * (F.square(across) + F.square(along))


def cosine_of(sine: Variable) -> Variable:
    """FLOAT: the cosine of an angle to the plane across the fibre."""
    return F.sqrt(F.maximum(1.0 - F.square(sine), LEAST_COSINE**2))


def _to_the_20th(x: Variable) -> Variable:
    fourth = F.square(F.square(x))
    return fourth * F.square(F.square(fourth))


# Modified Bessel functions, which normalise lobes on the sphere.

FAR = 30.0
"""From here on the asymptotic series is exact in double precision."""


class _OfFloat(PixelFunction):
    """Input: a FLOAT of at least 0."""

    operations = 60.0
    includes = ("bessel.glsl",)

    def infer(self):
        if self.inputs[0].vtype is not FLOAT:
            raise self.fail("takes a FLOAT")
        return FLOAT, self.broadcast()


class LogBessel(_OfFloat):
    """From FLOAT x, at least 0, to log(exp(-x) I0(x)), which neither overflows nor vanishes. Differentiable."""

    glsl = "bessel_log($0)"

    def eval(self, x):
        near, far = np.minimum(x, FAR), np.maximum(x, FAR)
        return np.where(
            x < FAR, np.log(_series(near, 0)) - near, np.log(_asymptotic(far, 0)) - 0.5 * np.log(far)
        )

    def partials(self, x):
        return (BesselRatio(x).output - 1.0,)


class BesselRatio(_OfFloat):
    """Input: FLOAT x, at least 0. FLOAT in [0, 1): I1(x) / I0(x). Differentiable."""

    glsl = "bessel_ratio($0)"

    def eval(self, x):
        near, far = np.minimum(x, FAR), np.maximum(x, FAR)
        near = 0.5 * near * _series(near, 1) / _series(near, 0)
        return np.where(x < FAR, near, _asymptotic(far, 1) / _asymptotic(far, 0))

    def partials(self, x):
        # r' = 1 - r / x - r^2, and r / x tends to 1/2.
        there = F.greater(x, 1e-4)
        over = F.select(there, self.output / F.select(there, x, 1.0), 0.5)
        return (1.0 - over - F.square(self.output),)


def log_bessel(x: Variable) -> Variable:
    """FLOAT: log(exp(-x) I0(x)) of the modified Bessel function I0. x: FLOAT, at least 0. Differentiable.

    >>> round(evaluate(log_bessel(as_variable(1.0))).item(), 5)
    -0.76409
    """
    return LogBessel(x).output


def _series(x: np.ndarray, order: int) -> np.ndarray:
    """The sum over k of (x^2 / 4)^k / (k! (k + order)!)."""
    quarter, term = 0.25 * np.square(x), np.ones_like(x)
    total = np.ones_like(x)
    for k in range(1, 64):
        term = term * quarter / (k * (k + order))
        total = total + term
    return total


def _asymptotic(x: np.ndarray, order: int) -> np.ndarray:
    """sqrt(x) exp(-x) times the function, by Hankel's series."""
    total, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, 20):
        term = -term * (4 * order * order - (2 * k - 1) ** 2) / (k * 8 * x)
        total = total + term
    return total / math.sqrt(2 * math.pi)


# Hair from afar: a fibre that is thinner than a pixel shows the mean over its width.
#
# What a way of light does around the fibre is tabled once a step, by the cosine of the eye to the plane
# across the fibre and by the angle around it. The tables are images of the graph, differentiable in the
# parameters of the hair. They also give the means over half circles of dual scattering (Zinke et al. 2008,
# "Dual Scattering Approximation for Fast Multiple Scattering in Hair").

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

    hair: numbers and Variables of one texel: all fibres are alike.  angles, cosines: entries of the tables.
    offsets: rays across the width. Raises InputError for images.

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
                    f"{x} is an image, and hair from afar has one value for all fibres; give a Variable of "
                    "one texel"
                )

    @cached_property
    def _tables(self) -> tuple[Variable, Variable, Variable]:
        """VEC4 and VEC3, angles x cosines: TT with R as the fourth component, and TRT. The angle is that of
        the light from the eye, from 0 to pi. VEC3, 1 x cosines: the rest, which is even around the fibre."""
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
        """1 x cosines. VEC3s: light sent backward and forward, and the first Fourier coefficient around the
        fibre. VEC2: the variances along the fibre, backward and forward."""
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
        """FLOAT and VEC3: how much of a light meets no fibre before this one, and how much is sent on by all
        it meets, which are ``crossed`` on average (Poisson)."""
        direct = F.exp(-crossed)
        return direct, F.exp((self._means(sine_light)[1] - 1.0) * crossed) - direct

    def among_others(self, at: Directions, crossed: Variable) -> Variable:
        """VEC3: the light of one direction that comes to the eye from a fibre behind ``crossed`` (FLOAT)
        others: directly, sent on by those before it, and sent back by those behind it. Differentiable."""
        backward, forward, uneven, variances = self._means(at.sine_light)
        direct, sent = self.passing(at.sine_light, crossed)
        back_width, on_width = variances.x, variances.y
        # Light sent on comes from half of the circle, spread by the lobes of each fibre that it met.
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
    """FLOAT: a lobe along the fibre around the mirrored direction, over the sines of the light; its integral
    is 1 for small variances."""
    away = F.square(at.sine_light + at.sine_eye)
    return F.exp(away * -0.5 / variance) / F.sqrt(variance * (2 * math.pi))
