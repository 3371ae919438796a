"""How much of a pixel a ribbon covers: exact areas, whose derivatives are exact too.

A pixel is the unit square around its centre, and the picture is the area that a shape has in it (a box filter). Places
are relative to that centre, in pixels. The area of a polygon in the square is a sum over its edges (Green), so that the
areas of quads that share an edge add up to that of their union; it is continuously differentiable but for shapes whose
edge lies on that of a pixel.
"""

from __future__ import annotations

from functools import partial

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.transform.fused import fused

FLAT = 1e-5
"""Pixels. Below this extent the mean of a clamped line is taken at its middle."""


def _slope(start: Variable, end: Variable, *, by: int) -> Variable:
    """VEC4: the gradient of ``ribbon_area`` by the start, or by the end."""
    p, q, r, s = _corners(start, end)
    over, under, across = _edge(p, q), _edge(r, s), _edge(q, r) if by else _edge(s, p)
    high, low = over[by] + across[1 - by], under[1 - by] + across[by]
    return F.vec4(high + low, high - low)


@partial(fused, slope=_slope)
def ribbon_area(start: Variable, end: Variable) -> Variable:
    """FLOAT: the area in the pixel of the quad between two places of a ribbon, VEC4: each a place and the vector from it to the
    left border. Negative for a quad that is turned over. Differentiable."""
    p, q, r, s = _corners(start, end)
    return _below(p, q) + _below(q, r) + _below(r, s) + _below(s, p)


def _corners(a: Variable, b: Variable) -> tuple[Variable, ...]:
    """Left start, left end, right end, right start."""
    return a.xy + a.zw, b.xy + b.zw, b.xy - b.zw, a.xy - a.zw


def _span(a: Variable, u: Variable) -> tuple[Variable, Variable]:
    """Where a + t u, t in [0, 1], lies within [-1/2, 1/2]; the end is not after the start if nowhere."""
    moves, within = F.not_equal(u, 0.0), F.less(F.abs(a), 0.5)
    over = F.select(moves, u, 1.0)
    p, q = (-0.5 - a) / over, (0.5 - a) / over
    start, end = F.maximum(F.minimum(p, q), 0.0), F.minimum(F.maximum(p, q), 1.0)
    return F.select(moves, start, 1.0 - within), F.select(moves, end, within)


def _mean(a: Variable, b: Variable) -> Variable:
    """The mean of clamp(v, 0, 1) for v from a to b."""
    flat = F.less(F.abs(b - a), FLAT)
    extent, p, q = F.select(flat, 1.0, b - a), F.clamp(a), F.clamp(b)
    # Both quotients are exactly 0 or 1 for an edge on one side of each border, however flat it is.
    mean = 0.5 * (q + p) * ((q - p) / extent) + (F.maximum(b, 1.0) - F.maximum(a, 1.0)) / extent
    return F.select(flat, F.clamp(0.5 * (a + b)), mean)


def _below(a: Variable, b: Variable) -> Variable:
    """The signed area of the pixel below the edge from a to b."""
    u = b - a
    start, end = _span(a.x, u.x)
    return u.x * F.maximum(end - start, 0.0) * _mean(a.y + start * u.y + 0.5, a.y + end * u.y + 0.5)


def _edge(a: Variable, b: Variable) -> tuple[Variable, Variable]:
    """How the area grows with a and with b: the length of the edge inside the pixel, weighted, times the normal."""
    u = b - a
    (left, right), (top, bottom) = _span(a.x, u.x), _span(a.y, u.y)
    first, last = F.maximum(left, top), F.minimum(right, bottom)
    mean = 0.5 * (first + last)
    part = F.vec2(-u.y, u.x) * F.maximum(last - first, 0.0)
    return part * (1.0 - mean), part * mean


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
