"""Edges between projected vertices, clipped at the near and the far plane, with a derivative through the clipping."""

from __future__ import annotations

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.transform.fused import fused


def segment(vertex: Variable, first: Variable, second: Variable, far: bool = True) -> Variable:
    """VEC4: the ends (a, b) on the screen of the edge from vertex ``first`` to ``second`` (INT) of a list (``Projected``).

    An end nearer than the near plane is replaced by the point where the edge meets that plane, at z = 0: in clip space
    a + z_a / (z_a - z_b) (b - a). One beyond the far plane, at depth 1, is replaced likewise: depths are linear on the screen.
    Zeros for missing ends, and if both ends are nearer or both beyond. far: False leaves ends beyond the far plane where they
    are. Differentiable.
    """
    return segment_ends(F.lookup(vertex, first), F.lookup(vertex, second), far=far)


@fused
def segment_ends(a: Variable, b: Variable, *, far: bool = True) -> Variable:
    """``segment`` of two projected vertices, VEC4."""
    first, second = _near_end(a, b), _near_end(b, a)
    if not far:
        return F.vec4(first, second)
    depths = F.maximum(a.z, 0.0), F.maximum(b.z, 0.0)
    return F.vec4(_far_end(first, second, *depths), _far_end(second, first, *depths[::-1]))


def _far_end(a: Variable, b: Variable, depth: Variable, other: Variable) -> Variable:
    """VEC2: the end a, or the point at depth 1 on the way to b."""
    beyond = F.greater(depth, 1.0)
    cut = F.logical_and(beyond, F.less_equal(other, 1.0))
    moved = (depth - 1.0) / F.select(cut, depth - other, 1.0)
    return F.select(cut, F.mix(a, b, moved), F.select(beyond, 0.0, a))


def _near_end(a: Variable, b: Variable) -> Variable:
    """VEC2: the end at vertex a, or the point on the near plane. Ends that are not clipped divide by 1."""
    front = F.less(a.z, 0.0)
    cut = F.logical_and(front, F.logical_and(F.greater_equal(b.z, 0.0), F.greater(b.w, 0.0)))
    moved = a.z / F.select(cut, a.z - b.z * b.w, 1.0)
    start, end = F.vec3(a.xy, a.w), F.vec3(b.xy * b.w, b.w)
    place = start + (end - start) * moved
    return F.select(cut, place.xy / F.select(cut, place.z, 1.0), F.select(front, 0.0, a.xy))
