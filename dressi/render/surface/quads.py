"""Quads that are drawn around the entries of a list, six corners each."""

from __future__ import annotations

from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import list_size


class Quads(NamedTuple):
    """Lists of the corners of two triangles for each of ``count`` entries."""

    number: Variable
    """INT: the entry, from 0."""
    corner: Variable
    """INT: 0 to 5."""
    right: Variable
    """FLOAT mask: the corner lies on the right, ahead along a line."""
    up: Variable
    """FLOAT mask: the corner lies above, on the left of a line (y down)."""


def quads(count: int) -> Quads:
    """The corners of the quads around the first ``count`` entries of a list."""
    index = F.linear_index(list_size(6 * count))
    corner = index % 6
    upper = F.logical_or(F.equal(corner, 2), F.equal(corner, 4))
    right, up = F.logical_or(F.equal(corner, 1), upper), F.logical_or(F.equal(corner, 5), upper)
    return Quads(F.minimum(index / 6, count - 1), corner, right, up)


def direction(u: Variable) -> Variable:
    """VEC2: of unit length along u, (1, 0) where u is 0."""
    extent = F.length(u)
    there = F.greater(extent, 0.0)
    return F.select(there, u / F.select(there, extent, 1.0), (1.0, 0.0))


def across(along: Variable) -> Variable:
    """VEC2: a direction turned towards the upper corners."""
    return F.vec2(-along.y, along.x)


def box(
    at: Quads,
    start: Variable,
    end: Variable,
    along: Variable,
    *,
    behind: Like,
    ahead: Like,
    low: Like,
    high: Like,
) -> Variable:
    """VEC2: the corners of boxes along lines from ``start`` to ``end``, VEC2, and as far beyond as the rest says."""
    way = F.select(at.right, end + along * ahead, start - along * behind)
    return way + across(along) * F.select(at.up, high, F.neg(low))


def on_image(place: Variable, size: tuple[float, float], depth: Like = 0.5) -> Variable:
    """VEC4: the clip position of a place on the screen, in units in which the image is ``size``."""
    clip = place / F.constant((float(size[0]), float(size[1]))) * 2.0 - 1.0
    return F.vec4(clip, depth, 1.0)
