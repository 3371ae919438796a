"""From clip space to the screen.

Lengths on the screen are in units of the image height: x in [0, W / H], y in [0, 1], y down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import MAT4, VEC3, VEC4, Size, list_size
from ...ad.ops.pixel.constant import Like
from ...ad.transform.fused import fused
from ...errors import GraphError
from ..core.lists import as_list

W_MINIMUM = 1e-6
"""Vertices with w at most this are behind the viewer."""
FARTHEST = 1e6
"""Image heights. Vertices farther from the screen are dropped: single precision does not reach them."""
FAR_AWAY = 1e5
"""Half image heights from which a parallel projection looks."""
LARGEST = 1e15
"""Vertices whose clip coordinates are NaN, or have magnitudes that add up to this, are dropped."""


class Projected(NamedTuple):
    """Vertices on the screen: lists with the batch of the clip positions."""

    smooth: Variable
    """VEC4 (x, y, depth, w): the place on the screen and the depth, 1 at the far plane. For a vertex nearer
    than the near plane (x w, y w, z, w) with z < 0. Zeros for dropped vertices. Differentiable."""
    vertex: Variable
    """The same without derivative."""


def finite(position: Variable) -> Variable:
    """The clip positions (VEC4), zeros for NaN and too large ones: a face that uses one is not drawn.

    Differentiable; the gradient of a position that became zero is zero.
    """
    return F.select(F.less(F.sum_components(F.abs(position)), LARGEST), position, 0.0)


def to_clip(position: Variable | np.ndarray, matrices: Variable | np.ndarray) -> Variable:
    """Clip positions (VEC4 list, N tiles) of positions (VEC3 list or array (V, 3)) shared by N views.

    matrices: MAT4 1x1, N tiles, or an array (4, 4) or (N, 4, 4): world to clip. Differentiable in both.
    Raises GraphError.

    >>> from dressi.render import Camera
    >>> camera = Camera.perspective(45, (32, 32), (0, 0, 4), (0, 0, 0))
    >>> to_clip([[0.0, 0, 0], [1, 0, 0]], camera.world_to_clip).shape
    (1, 1, 2, 4)
    """
    position = as_list("positions", VEC3, position)
    if not isinstance(matrices, Variable):
        tiles = np.asarray(matrices, np.float64).reshape(-1, 1, 1, 4, 4)
        matrices = Variable(MAT4, (1, 1), len(tiles), name="matrices", data=tiles)
    return F.matmul(matrices, F.vec4(F.expand(position, matrices.batch), 1.0))


def clip_list(position: Variable | np.ndarray) -> Variable:
    """Positions in clip space (VEC4 list, or an array (V, 4)). Raises a GraphError that names ``to_clip``."""
    if isinstance(position, Variable) and position.vtype is VEC3:
        raise GraphError(
            f"positions in clip space are a VEC4 list, not {position} (made at {position.where}); use"
            " to_clip(position, matrices), with matrices from the world to clip space"
        )
    return as_list("positions in clip space", VEC4, position)


def project(position: Variable, size: Size) -> Projected:
    """Screen positions of clip positions (VEC4 list, batch N) for an image of ``size``.

    A vertex nearer than the near plane (z < 0) has no place on the screen; its faces and edges are clipped.
    Dropped, with their faces, are vertices with z >= 0 behind the viewer (w <= 0, which no camera produces),
    with NaN, or farther than FARTHEST. Raises GraphError if position is not VEC4.
    """
    vertex = _projected(position, aspect=size[0] / size[1])
    return Projected(vertex, F.stop_gradient(vertex))


@fused
def _projected(position: Variable, *, aspect: float) -> Variable:
    p, scale = finite(position), F.constant((0.5 * aspect, 0.5))
    w, front = p.w, F.less(p.z, 0.0)
    seen = F.logical_and(F.logical_not(front), F.greater(w, W_MINIMUM))
    over = F.select(seen, w, 1.0)  # dropped vertices divide by 1, so that no derivative is NaN
    place = p.xy / over * scale + scale
    seen = F.logical_and(seen, F.less(F.max_component(F.abs(place)), FARTHEST))
    back = F.select(seen, F.vec4(place, p.z / over, w), 0.0)
    return F.select(front, F.vec4((p.xy + w) * scale, p.z, w), back)


def eye_of(matrices: Variable) -> Variable:
    """VEC3: the places of the cameras of projections, one a view: what the rows of x, y and w of a matrix
    take to 0. A parallel projection has none, and sees all from so far that directions are alike."""
    rows = F.transpose(matrices)
    x, y, w = (F.column(rows, k) for k in (0, 1, 3))
    far, across = is_parallel(matrices), F.cross(x.xyz, y.xyz)
    volume = F.dot(across, w.xyz)
    solved = F.cross(y.xyz, w.xyz) * x.w + F.cross(w.xyz, x.xyz) * y.w + across * w.w
    away = F.normalize(across) * (-FAR_AWAY / F.maximum(F.length(y.xyz), 1e-30))
    return F.select(far, away, -solved / F.select(far, 1.0, volume))


def is_parallel(matrices: Variable) -> Variable:
    """FLOAT mask, one a view: whether matrices (MAT4) to clip space are parallel projections, whose w is the
    same everywhere. No derivative."""
    rows = F.transpose(F.stop_gradient(matrices))
    x, y, w = (F.column(rows, k).xyz for k in (0, 1, 3))
    return F.less(F.abs(F.dot(F.cross(x, y), w)), 1e-6 * F.length(x) * F.length(y) * F.length(w) + 1e-30)


def view_depth(clip: Variable, matrices: Variable) -> Variable:
    """FLOAT list: the distance from the camera along its axis, w, of clip positions (VEC4 list) by matrices
    (MAT4, one a view).

    A parallel projection has no place of a camera, and its w is the same everywhere: its depth is z / w, 0 at
    the near plane and 1 at the far one, so that (far - near) times it is the distance from the near plane.
    Differentiable in clip."""
    return depth_of_zw(F.swizzle(clip, "zw"), matrices)


def depth_of_zw(zw: Variable, matrices: Variable) -> Variable:
    """FLOAT: ``view_depth`` of z and w in clip space, VEC2."""
    parallel = is_parallel(matrices)
    return F.select(parallel, zw.x / F.select(parallel, zw.y, 1.0), zw.y)


# Quads that are drawn around the entries of a list, six corners each.


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
    """VEC2: the corners of boxes along lines from ``start`` to ``end``, VEC2, and beyond them."""
    way = F.select(at.right, end + along * ahead, start - along * behind)
    return way + across(along) * F.select(at.up, high, F.neg(low))


def on_image(place: Variable, size: tuple[float, float], depth: Like = 0.5) -> Variable:
    """VEC4: the clip position of a place on the screen, in units in which the image is ``size``."""
    clip = place / F.constant((float(size[0]), float(size[1]))) * 2.0 - 1.0
    return F.vec4(clip, depth, 1.0)
