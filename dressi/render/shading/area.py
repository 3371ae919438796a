"""Light of rectangles, in closed form: linearly transformed cosines.

Heitz, Dupuy, Hill and Neubelt, "Real-Time Polygonal-Light Shading with Linearly Transformed Cosines" (2016).
A lobe of GGX is near a cosine under a linear map of directions, and the integral of a cosine over a polygon
is a sum over its edges (Lambert 1760). ``cosines.npy`` has the maps (apps/materials/area_table.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, VEC2, VEC3, VEC4
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from .bsdf.albedo import looked_up
from .bsdf.microfacet import DIELECTRIC, alpha_of, axes, ggx, passed, schlick, seen_from_above, smith
from .lights import Fragment, LightSource, Occluders, PlacedMap, Shadow

LEAST_COSINE = 0.01
"""The smallest cosine to the eye in the table."""
NODES, PARTS = np.polynomial.legendre.leggauss(4)
POINTS = [
    (float(s), float(t), float(p * q))
    for s, p in zip(NODES, PARTS, strict=True)
    for t, q in zip(NODES, PARTS, strict=True)
]
"""Places along both sides and weights, whose sum is the area over the cross product of the sides: Gauss-Legendre."""
Edges = Sequence[tuple[Variable, Variable]]
"""Edges of a convex polygon from corner to corner, VEC3 from the surface point. Some may have no length."""


@dataclass(frozen=True, eq=False)
class RectangleLight(LightSource):
    """A rectangle that shines evenly from its front, on any surface.

    Diffuse light is exact for Lambert's law; that of a glTF dielectric takes off what is mirrored in the
    mean direction. Lobes of GGX are linearly transformed cosines, and from roughness 0.2 on the rest is a sum
    over 16 points: metals differ from the integral by less than 1 % of the largest value of a picture (2 % at
    roughness 0.1), and by up to 3 % near the rectangle. Surfaces of one's own sum over 64 directions.
    Differentiable in all fields and in what is lit. The rectangle itself is not drawn. Raises InputError for
    a rectangle without area.

    ``shadow`` softens by samples: the visible share of what a matt surface gets, by a map at each of
    ``samples`` places, times the light without shadows. So highlights in a penumbra are approximate. What
    lies more than 80 degrees from the axis has no shadow. Derivatives are those of ``Shadow``.

    >>> RectangleLight((0, 2, 0), (1, 0, 0), (0, 0, 1), radiance=5.0).two_sided
    False
    """

    parameters = {"position": VEC3, "across": VEC3, "up": VEC3, "radiance": VEC3}
    learned = ("position", "across", "up", "radiance")
    positive = frozenset(("radiance",))

    position: Like
    """(3,), (N, 3) or VEC3: the centre, in the world."""
    across: Like
    """(3,), (N, 3) or VEC3: from the centre to the middle of one side."""
    up: Like
    """(3,), (N, 3) or VEC3: from the centre to the middle of the next side. It shines along cross(across, up).
    Not orthogonal to ``across``, it makes a parallelogram."""
    radiance: Like = 1.0
    """A number, (3,), FLOAT or VEC3: linear. A white matt surface all around which it stands has this colour."""
    two_sided: bool = False
    """Whether it shines from its back, too."""
    shadow: Shadow | None = None
    """How the mesh hides the light from itself; None: not at all. Not with ``two_sided``."""
    samples: int = 16
    """How many places of the rectangle have a shadow map, 1 to 64."""

    def prepared(self) -> RectangleLight:
        if not isinstance(self.samples, int) or not 1 <= self.samples <= 64:
            raise InputError(
                f"samples of a RectangleLight are a whole number from 1 to 64, not {self.samples!r}"
            )
        if self.two_sided and self.shadow is not None:
            raise InputError("a RectangleLight with two sides has no shadows; give two of one side each")
        sides = [x.data if isinstance(x, Variable) else x for x in (self.across, self.up)]
        if all(x is not None for x in sides):
            a, b = (np.asarray(x, np.float64) for x in sides)
            if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
                raise InputError(
                    f"across and up of a RectangleLight are 3 numbers, not {a.shape} and {b.shape}"
                )
            area = np.linalg.norm(np.cross(a, b), axis=-1)
            if not (area > 1e-9 * np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)).all():
                raise InputError(
                    "a RectangleLight has no area: across and up are zero or parallel; give two sides at an angle"
                )
        return self

    def reflected(self, at: Fragment) -> Variable:
        panel = Panel.of(self, at)
        light = at.surface.environment(at.frame, panel).total
        if self.shadow is not None and at.occluders is not None:
            light = light * self._visible(self.shadow, at.occluders, at)
        return light if self.two_sided else light * panel.front

    def _visible(self, shadow: Shadow, occluders: Occluders, at: Fragment) -> Variable:
        """FLOAT in [0, 1]: the share of what a matt surface gets that arrives (Heitz, Hill and McGuire 2018,
        "Combining Analytic Direct Illumination and Stochastic Shadows")."""
        number = np.arange(self.samples)
        # All differ along both sides, so that an edge along one passes them one by one.
        places = np.stack([number, np.argsort(number * 0.6180339887 % 1.0)], 1) * (2.0 / self.samples)
        centre, across, up = (as_variable(x) for x in (self.position, self.across, self.up))
        axis = F.normalize(F.cross(across, up))
        # One draw of all maps, as tiles, unless the picture has tiles of its own.
        together = max(x.batch for x in (centre, across, up, at.point, occluders.position)) == 1
        total = weights = F.constant(0.0)
        for some in np.split(places + (1.0 / self.samples - 1.0), 1 if together else self.samples):
            s, t = (Variable.of(some[:, None, None, k], FLOAT, batched=True) for k in (0, 1))
            place = centre + across * s + up * t
            away = place - at.point
            squared = F.maximum(F.dot(away, away), 1e-12)
            facing = F.maximum(F.dot(at.normal, away), 0.0) * F.maximum(-F.dot(axis, away), 0.0)
            weight = facing / F.square(squared)
            lit = weight * PlacedMap.of(shadow, occluders, place, axis).lit(at.point, at.normal)
            total = total + (F.sum(lit, "n") if together else lit)
            weights = weights + (F.sum(weight, "n") if together else weight)
        return total / F.maximum(weights, 1e-12)


@dataclass(frozen=True, eq=False)
class Panel:
    """A rectangle as a surface point sees it, a ``Sky`` that is dark but there."""

    edges: Edges
    radiance: Variable
    front: Variable
    """FLOAT: 1 where the point is in front of it, else 0. No derivative: light there comes from nothing."""
    turn: Variable
    """FLOAT: the sign of sums over edges."""
    offset: Variable
    """VEC3: from the point to the centre."""
    across: Variable
    up: Variable

    @classmethod
    def of(cls, light: RectangleLight, at: Fragment) -> Panel:
        offset = as_variable(light.position) - at.point
        across, up = as_variable(light.across), as_variable(light.up)
        corner = [offset - across - up, offset + across - up, offset + across + up, offset - across + up]
        front = F.less(F.dot(offset, F.cross(across, up)), 0.0)
        turn = F.select(front, -1.0, F.constant(1.0))
        edges = [(corner[k], corner[(k + 1) % 4]) for k in range(4)]
        return cls(edges, as_variable(light.radiance), front, turn, offset, across, up)

    def diffuse(self, normal: Variable, to_eye: Variable | None = None) -> Variable:
        """VEC3: what a white matt surface reflects; to_eye: takes off what it mirrors in the mean direction."""
        light = self.radiance * F.maximum(gathered(clipped(self.edges, normal), normal) * self.turn, 0.0)
        if to_eye is None:
            return light
        half = F.normalize(F.normalize(self.offset) + to_eye)
        return light * passed(DIELECTRIC, F.dot(to_eye, half))

    def specular(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> Variable:
        """VEC3: what microfacets of GGX reflect."""
        return self.microfacets(normal, to_eye, f0, roughness, f90)[0]

    def microfacets(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> tuple[Variable, Variable, Variable]:
        """VEC3: what microfacets of GGX reflect once; FLOATs: the weights by f0 and f90."""
        eye = seen_from_above(normal, to_eye)
        n_v = F.clamp(F.dot(normal, eye), LEAST_COSINE, 1.0)
        place = F.vec2(F.sqrt(F.maximum(1.0 - n_v, 1e-6)), F.clamp(roughness, 0.0, 1.0))
        entry = looked_up(cosine_table()[..., :4], VEC4, "transformed cosines", place)
        weight = looked_up(cosine_table()[..., 4:], VEC2, "weights of transformed cosines", place)
        # x lies in the plane of incidence, away from the eye; straight from above it may lie anywhere.
        x = F.normalize(normal * F.dot(normal, eye) - eye + F.column(axes(normal), 0) * 1e-5)
        y = F.cross(normal, x)
        sine = entry.x * F.sqrt((1.0 - n_v) * (1.0 + n_v))
        cosine = F.sqrt(F.maximum(1.0 - sine * sine, 1e-6))
        rows = x * cosine - normal * sine, y, x * sine + normal * cosine
        alpha = alpha_of(roughness)
        a, b, c = alpha * entry.y, alpha * entry.z, entry.w

        def back(v: Variable) -> Variable:
            u, w, z = (F.dot(row, v) for row in rows)
            return F.vec3((u - c * z) / a, w / b, z)

        edges = [(back(p), back(q)) for p, q in clipped(self.edges, normal)]
        top = F.constant((0.0, 0.0, 1.0))
        share = F.maximum(gathered(clipped(edges, top), top) * self.turn, 0.0)
        # The rest, the lobe less the cosine, is a sum over few points, where it is smooth: of lobes that are not
        # narrow, and not close to the rectangle.
        face, scale = F.cross(self.across, self.up), 1.0 / (a * b * math.pi)
        places = [(self.offset + self.across * s + self.up * t, part) for s, t, part in POINTS]
        nearest = reduce(F.minimum, (F.dot(away, away) for away, _ in places))
        known = F.clamp(roughness * 5.0 - 1.0, 0.0, 1.0)
        known = known * F.clamp(nearest * 2.0 / F.length(face) - 1.0, 0.0, 1.0)
        by_f0 = by_f90 = F.constant(0.0)
        for away, part in places:
            squared = F.maximum(F.dot(away, away), 1e-12)
            to_light = away / F.sqrt(squared)
            n_l, half = F.dot(normal, to_light), F.normalize(to_light + eye)
            seen = F.abs(F.dot(to_light, face)) / squared * (part * F.greater(n_l, 0.0)) * known
            w = back(to_light)
            cosine = F.maximum(w.z, 0.0) * scale / F.square(F.dot(w, w))
            n_h, v_h = F.clamp(F.dot(normal, half), 0.0, 1.0), F.dot(eye, half)
            n_l = F.maximum(n_l, LEAST_COSINE)
            lobe = ggx(n_h, alpha) * smith(n_l, n_v, alpha) * n_l * seen
            grazing, cosine = schlick(F.constant(0.0), v_h), cosine * seen
            by_f0 = by_f0 + lobe * (1.0 - grazing) - weight.x * cosine
            by_f90 = by_f90 + lobe * grazing - weight.y * cosine
        by_f0, by_f90 = weight.x * share + by_f0, weight.y * share + by_f90
        return self.radiance * F.maximum(f0 * by_f0 + f90 * by_f90, 0.0), weight.x, weight.y

    def blurred(self, direction: Variable, solid_angle: Variable) -> Variable:
        """VEC3: the mean radiance around a direction: of the square of that solid angle around where its ray
        meets the plane, the share on the rectangle."""
        normal = F.cross(self.across, self.up)
        squared, facing = F.dot(normal, normal), F.dot(direction, normal) * -self.turn
        facing = F.select(F.less(F.abs(facing), 1e-6), 1e-6, facing)
        away = F.dot(self.offset, normal) * -self.turn / facing
        met = direction * away - self.offset
        place = (
            F.dot(F.cross(met, self.up), normal) / squared,
            F.dot(F.cross(self.across, met), normal) / squared,
        )
        # The square is seen at an angle, and stretched by its root along both sides.
        half = 0.5 * F.sqrt(solid_angle * F.sqrt(squared) / F.maximum(F.abs(facing), 1e-6)) * F.abs(away)
        share = F.select(F.greater(away, 0.0), 1.0, 0.0)
        for p, side in zip(place, (self.across, self.up), strict=True):
            wide = half / F.length(side)
            inside = F.clamp(p + wide, -1.0, 1.0) - F.clamp(p - wide, -1.0, 1.0)
            share = share * inside / F.maximum(2.0 * wide, 1e-9)
        return self.radiance * share


@cache
def cosine_table() -> np.ndarray:
    """(32, 32, 6) float32: the sine of the turn over that of the angle to the eye, the widths a and b over
    alpha, the shear c, and the albedos by f0 and f90 over the share of the lobe above the horizon.

    Rows: roughness from 0 to 1.  Columns: square root of 1 - cosine to the eye, from 0 to 1.
    """
    return np.load(Path(__file__).parent / "cosines.npy")


def clipped(edges: Edges, normal: Variable) -> Edges:
    """The part of a convex polygon with ``dot(normal, x)`` above 0: its edges, and one more where it is cut.

    Exact, without cases: edges that are cut end at the plane, those below have no length, and the new edge
    goes from where the outline leaves to where it comes back.
    """
    found, leaves, enters = [], None, None
    for p, q in edges:
        a, b = F.dot(normal, p), F.dot(normal, q)
        up, down = F.greater(a, 0.0), F.greater(b, 0.0)
        crosses = F.not_equal(up, down)
        cut = p + (q - p) * (a / F.select(crosses, a - b, 1.0))
        seen = F.maximum(up, down)
        found.append((F.select(up, p, F.select(seen, cut, p)), F.select(down, q, F.select(seen, cut, p))))
        out, back = cut * (up * (1.0 - down)), cut * (down * (1.0 - up))
        leaves, enters = (out, back) if leaves is None else (leaves + out, enters + back)
    assert leaves is not None and enters is not None
    return [*found, (leaves, enters)]


def gathered(edges: Edges, normal: Variable) -> Variable:
    """FLOAT: the integral of the cosine over pi over a polygon above the horizon; its sign is that of the
    turn of its corners around ``normal``."""
    total = F.constant(0.0)
    for edge in edges:
        # An edge without length has a weight that is finite, and so has its derivative.
        p, q = (x / F.sqrt(F.maximum(F.dot(x, x), 1e-20)) for x in edge)
        across, along = F.cross(p, q), F.dot(p, q)
        sine = F.sqrt(F.maximum(F.dot(across, across), 1e-12))
        total = total + F.atan2(sine, along) / sine * F.dot(across, normal)
    return total * (0.5 / math.pi)
