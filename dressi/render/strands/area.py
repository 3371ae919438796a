"""How much of a pixel a ribbon covers: exact areas, whose derivatives are exact too.

A pixel is the unit square around its centre, and the picture is the area that a shape has in it (a box filter). Places
are relative to that centre, in pixels. The area of a polygon in the square is a sum over its edges (Green), so that the
areas of quads that share an edge add up to that of their union; it is continuously differentiable but for shapes whose
edge lies on that of a pixel.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.transform.local import Fused, local_gradient
from ...ad.types import FLOAT, VEC4

FLAT = 1e-5
"""Pixels. Below this extent the mean of a clamped line is taken at its middle."""


class RibbonArea(PixelFunction):
    """Inputs (start VEC4, end VEC4), each a place and the vector from it to the left border: FLOAT, the area in the pixel of the
    quad between them. Negative for a quad that is turned over. Differentiable."""

    operations = 150.0
    includes = ("ribbon.glsl",)
    glsl = "ribbon_area($0, $1)"

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC4, VEC4]:
            raise self.fail("needs two places of a ribbon with the vectors to its left border, VEC4")
        return FLOAT, self.broadcast()

    def eval(self, a, b):
        p, q, r, s = _corners(*np.broadcast_arrays(a, b))
        return _below(p, q) + _below(q, r) + _below(r, s) + _below(s, p)

    def vjp(self, gy, i):
        return gy * RibbonSlope(*self.inputs, end=bool(i)).output

    def jvp(self, tangents):
        parts = [
            F.dot(RibbonSlope(*self.inputs, end=bool(i)).output, t)
            for i, t in enumerate(tangents)
            if t is not None
        ]
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


class RibbonSlope(Fused, PixelFunction):
    """Inputs as of ``RibbonArea``: VEC4, the gradient of the area by the start, or by the end. Differentiable."""

    operations = 40.0
    fields = ("end",)
    includes = ("ribbon.glsl",)
    end: bool

    def infer(self):
        return VEC4, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"ribbon_slope($0, $1, {str(self.end).lower()})"

    def eval(self, a, b):
        p, q, r, s = _corners(*np.broadcast_arrays(a, b))
        over, under = _edge(p, q), _edge(r, s)
        if self.end:
            across = _edge(q, r)
            high, low = over[1] + across[0], under[0] + across[1]
        else:
            across = _edge(s, p)
            high, low = over[0] + across[1], under[1] + across[0]
        return np.concatenate([high + low, high - low], axis=-1)

    def ordinary(self, *x):
        return local_gradient(ordinary_area, x, int(self.end), F.constant(1.0))


def _corners(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Left start, left end, right end, right start."""
    return (
        a[..., :2] + a[..., 2:],
        b[..., :2] + b[..., 2:],
        b[..., :2] - b[..., 2:],
        a[..., :2] - a[..., 2:],
    )


def _span(a: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a + t u, t in [0, 1], lies within [-1/2, 1/2]; the end is not after the start if nowhere."""
    with np.errstate(all="ignore"):
        p, q = (-0.5 - a) / u, (0.5 - a) / u
    still = u == 0
    within = still & (np.abs(a) < 0.5)
    start = np.where(still, np.where(within, 0.0, 1.0), np.maximum(np.fmin(p, q), 0.0))
    end = np.where(still, np.where(within, 1.0, 0.0), np.minimum(np.fmax(p, q), 1.0))
    return start, end


def _mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The mean of clamp(v, 0, 1) for v from a to b."""
    extent = b - a
    flat = np.abs(extent) < FLAT
    p, q = np.clip(a, 0, 1), np.clip(b, 0, 1)
    extent = np.where(flat, 1.0, extent)
    mean = 0.5 * (q + p) * ((q - p) / extent) + (np.maximum(b, 1) - np.maximum(a, 1)) / extent
    return np.where(flat, np.clip(0.5 * (a + b), 0, 1), mean)


def _below(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The signed area of the pixel below the edge from a to b."""
    u = b - a
    start, end = _span(a[..., 0], u[..., 0])
    mean = _mean(a[..., 1] + start * u[..., 1] + 0.5, a[..., 1] + end * u[..., 1] + 0.5)
    return u[..., 0] * np.maximum(end - start, 0.0) * mean


def _edge(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How the area grows with a and with b: the length of the edge inside the pixel, weighted, times the normal."""
    u = b - a
    first, last = _span(a[..., 0], u[..., 0])
    start, end = _span(a[..., 1], u[..., 1])
    first, last = np.maximum(first, start), np.minimum(last, end)
    part, mean = np.maximum(last - first, 0.0), 0.5 * (first + last)
    left = np.stack([-u[..., 1], u[..., 0]], axis=-1)
    return left * (part * (1 - mean))[..., None], left * (part * mean)[..., None]


def ordinary_area(a: Variable, b: Variable) -> Variable:
    """``RibbonArea`` by ordinary Functions, from which second derivatives are taken."""
    p, q, r, s = a.xy + a.zw, b.xy + b.zw, b.xy - b.zw, a.xy - a.zw
    return _ordinary_below(p, q) + _ordinary_below(q, r) + _ordinary_below(r, s) + _ordinary_below(s, p)


def _ordinary_below(a: Variable, b: Variable) -> Variable:
    u = b - a
    there = F.not_equal(u.x, 0.0)
    over = 1.0 / F.select(there, u.x, 1.0)
    p, q = (-0.5 - a.x) * over, (0.5 - a.x) * over
    start, end = F.maximum(F.minimum(p, q), 0.0), F.minimum(F.maximum(p, q), 1.0)
    low, high = a.y + start * u.y + 0.5, a.y + end * u.y + 0.5
    extent = high - low
    flat = F.less(F.abs(extent), FLAT)
    first, last = F.clamp(low), F.clamp(high)
    over = 1.0 / F.select(flat, 1.0, extent)
    beyond = F.maximum(high, 1.0) - F.maximum(low, 1.0)
    mean = 0.5 * (first + last) * ((last - first) * over) + beyond * over
    mean = F.select(flat, F.clamp(0.5 * (low + high)), mean)
    return F.select(there, u.x * F.maximum(end - start, 0.0) * mean, 0.0)


def half_plane(place: Variable, along: Variable) -> Variable:
    """FLOAT in [0, 1]: the area of the pixel on the left of the line through ``place`` in the direction ``along`` (VEC2; y
    down), by the distribution of a square across the line, a trapezoid. Differentiable in both.

    >>> half = half_plane(Variable.of([[0.0, 0.0], [0.25, 0.0], [9.0, 0.0]]), Variable.of([[0.0, 1.0]] * 3))
    >>> evaluate(half).tolist()
    [0.5, 0.25, 0.0]
    """
    normal = F.abs(along)
    length = F.length(along)
    over = 1.0 / F.maximum(length, 1e-12)
    distance = (place.x * along.y - place.y * along.x) * over
    low = F.maximum(F.minimum(normal.x, normal.y) * over, 1e-4)
    high = F.maximum(F.maximum(normal.x, normal.y) * over, low)
    away = F.abs(distance)
    wedge = F.minimum(F.maximum(0.5 * (high + low) - away, 0.0), low)
    # What lies farther than ``away``, on one side.
    beyond = wedge * wedge / (2.0 * low * high) + F.maximum(0.5 * (high - low) - away, 0.0) / high
    return F.select(F.greater(distance, 0.0), beyond, 1.0 - beyond)
