"""Edges between projected vertices, clipped at the near plane, with a derivative through the clipping."""

from __future__ import annotations

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.transform.fused import fused


def segment(vertex: Variable, first: Variable, second: Variable) -> Variable:
    """VEC4: the ends (a, b) on the screen of the edge from vertex ``first`` to ``second`` (INT) of a list (``Projected``).

    An end nearer than the near plane is replaced by the point where the edge meets that plane, at z = 0: in clip space
    a + z_a / (z_a - z_b) (b - a). Zeros for missing ends, and if both ends are nearer. Differentiable.
    """
    return segment_ends(F.lookup(vertex, first), F.lookup(vertex, second))


@fused
def segment_ends(a: Variable, b: Variable) -> Variable:
    """``segment`` of two projected vertices, VEC4."""
    return F.vec4(_end(a, b), _end(b, a))


def _end(a: Variable, b: Variable) -> Variable:
    """VEC2: the end at vertex a. Ends that are not clipped divide by 1."""
    front = F.less(a.z, 0.0)
    cut = F.logical_and(front, F.logical_and(F.greater_equal(b.z, 0.0), F.greater(b.w, 0.0)))
    moved = a.z / F.select(cut, a.z - b.z * b.w, 1.0)
    start, end = F.vec3(a.xy, a.w), F.vec3(b.xy * b.w, b.w)
    place = start + (end - start) * moved
    return F.select(cut, place.xy / F.select(cut, place.z, 1.0), F.select(front, 0.0, a.xy))
