"""From clip space to the screen.

Lengths on the screen are in units of the image height: x in [0, W / H], y in [0, 1], y down.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Function, PixelFunction, Variable
from ...ad.transform.local import Fused, local_gradient
from ...ad.types import MAT4, VEC3, VEC4, Size
from ...errors import GraphError
from ..lists import as_list

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
    """VEC4 (x, y, depth, w): the place on the screen and the depth, 1 at the far plane. For a vertex nearer than the near
    plane (x w, y w, z, w) with z < 0. Zeros for dropped vertices. Differentiable."""
    vertex: Variable
    """The same without derivative."""


def finite(position: Variable) -> Variable:
    """The clip positions (VEC4), zeros for those that are NaN or too large: a face that uses one is not drawn.

    Differentiable; the gradient of a position that became zero is zero.
    """
    return F.select(F.less(F.sum_components(F.abs(position)), LARGEST), position, 0.0)


def to_clip(position: Variable | np.ndarray, matrices: Variable | np.ndarray) -> Variable:
    """Clip positions (VEC4 list, N tiles) of positions (VEC3 list or array (V, 3)) shared by N views.

    matrices: MAT4 1x1, N tiles, or an array (4, 4) or (N, 4, 4): world to clip. Differentiable in both. Raises GraphError.

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
            f"positions in clip space are a VEC4 list, not {position} (made at {position.where}); use to_clip(position,"
            " matrices), with matrices from the world to clip space"
        )
    return as_list("positions in clip space", VEC4, position)


def project(position: Variable, size: Size) -> Projected:
    """Screen positions of clip positions (VEC4 list, batch N) for an image of ``size``.

    A vertex nearer than the near plane (z < 0) has no place on the screen; its faces and edges are clipped. Dropped, with
    their faces, are vertices with z >= 0 behind the viewer (w <= 0, which no camera produces), with NaN, or farther than
    FARTHEST. Raises GraphError if position is not VEC4.
    """
    vertex = Project(position, size[0] / size[1]).output
    return Projected(vertex, F.stop_gradient(vertex))


class Project(PixelFunction):
    """Input: clip positions, VEC4. VEC4: ``Projected``, for images of a width over height of ``aspect``."""

    operations = 31.0
    fields = ("aspect",)
    includes = ("projection.glsl",)

    def __init__(self, position: Variable, aspect: float):
        self.aspect = aspect
        super().__init__(position)

    def infer(self):
        if self.inputs[0].vtype is not VEC4:
            raise self.fail("clip positions are VEC4")
        return VEC4, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"projected($0, {self.aspect!r})"

    def eval(self, p):
        with np.errstate(all="ignore"):
            scale, xy, z, w, there, seen = _parts(p, self.aspect)
            back = np.concatenate([xy / w * scale + scale, z / w, w], axis=-1)
            front = np.concatenate([(xy + w) * scale, z, w], axis=-1)
        return np.where(there & (z < 0), front, np.where(seen, back, 0.0))

    def vjp(self, gy, i):
        return ProjectSlope(self.inputs[0], gy, self.aspect).output

    def jvp(self, tangents):
        return jvp_by_rows(self, tangents)


class ProjectSlope(Fused, PixelFunction):
    """Inputs (position VEC4, slope VEC4): VEC4, the gradient by clip positions, from the gradient ``slope`` by
    their ``Project``. Differentiable in both."""

    operations = 31.0
    fields = ("aspect",)
    includes = ("projection.glsl",)

    def __init__(self, position: Variable, slope: Variable, aspect: float):
        self.aspect = aspect
        super().__init__(position, slope)

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC4, VEC4]:
            raise self.fail("needs clip positions and a gradient, VEC4")
        return VEC4, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"projected_slope($0, $1, {self.aspect!r})"

    def eval(self, p, slope):
        p, slope = np.broadcast_arrays(p, slope)
        with np.errstate(all="ignore"):
            scale, _, z, w, there, seen = _parts(p, self.aspect)
            by_place, by_z, by_w = slope[..., :2] * scale, slope[..., 2:3], slope[..., 3:]
            front = np.concatenate([by_place, by_z, by_w + by_place.sum(-1, keepdims=True)], axis=-1)
            by = np.concatenate([by_place, by_z], axis=-1) / w
            back = np.concatenate([by, by_w - (by * p[..., :3]).sum(-1, keepdims=True) / w], axis=-1)
        return np.where(there & (z < 0), front, np.where(seen, back, 0.0))

    def ordinary(self, *x):
        position, slope = x
        return local_gradient(lambda p: _projected(p, self.aspect), [position], 0, slope)


def _projected(p: Variable, aspect: float) -> Variable:
    """``Project`` as ordinary Functions; dropped vertices divide by 1, so that no derivative is NaN."""
    there, scale = F.less(F.sum_components(F.abs(p)), LARGEST), F.constant((0.5 * aspect, 0.5))
    p = F.select(there, p, 0.0)
    w, front = p.w, F.less(p.z, 0.0)
    seen = F.logical_and(F.logical_not(front), F.greater(w, W_MINIMUM))
    over = 1.0 / F.select(seen, w, 1.0)
    place = p.xy * over * scale + scale
    seen = F.logical_and(seen, F.less(F.max_component(F.abs(place)), FARTHEST))
    back = F.select(F.logical_and(there, seen), F.vec4(place, p.z * over, w), 0.0)
    return F.select(F.logical_and(there, front), F.vec4((p.xy + w) * scale, p.z, w), back)


def _parts(p: np.ndarray, aspect: float) -> tuple[np.ndarray, ...]:
    """The scale of x and y; (x, y), z, w; which positions exist, and which of them lie beyond the near plane."""
    scale, xy, z, w = np.array((0.5 * aspect, 0.5)), p[..., :2], p[..., 2:3], p[..., 3:]
    there = np.abs(p).sum(-1, keepdims=True) < LARGEST
    near = np.abs(xy / w * scale + scale).max(-1, keepdims=True) < FARTHEST
    return scale, xy, z, w, there, there & (z >= 0) & (w > W_MINIMUM) & near


def jvp_by_rows(f: Function, tangents: Sequence[Variable | None]) -> Variable | None:
    """The derivative of a VEC4 Function along the tangents of its inputs, by the rows of its Jacobian, which its vjp
    gives."""
    given = [(i, F.fit(t, f.inputs[i])) for i, t in enumerate(tangents) if t is not None]
    if not given:
        return None
    rows = []
    for k in range(4):
        unit = F.constant(tuple(float(k == i) for i in range(4)))
        slope = F.expand(unit, f.output.batch, f.output.size)
        parts = [F.dot(found, t) for i, t in given if (found := f.vjp(slope, i)) is not None]
        rows.append(parts[0] if len(parts) == 1 else parts[0] + parts[1])
    return F.vec4(*rows)


def eye_of(matrices: Variable) -> Variable:
    """VEC3: the places of the cameras of projections, one a view: what the rows of x, y and w of a matrix take to 0. A parallel
    projection has none, and sees all from so far that directions are alike."""
    rows = F.transpose(matrices)
    x, y, w = (F.column(rows, k) for k in (0, 1, 3))
    across = F.cross(x.xyz, y.xyz)
    volume = F.dot(across, w.xyz)
    far = F.less(F.abs(volume), 1e-6 * F.length(x.xyz) * F.length(y.xyz) * F.length(w.xyz) + 1e-30)
    solved = F.cross(y.xyz, w.xyz) * x.w + F.cross(w.xyz, x.xyz) * y.w + across * w.w
    away = F.normalize(across) * (-FAR_AWAY / F.maximum(F.length(y.xyz), 1e-30))
    return F.select(far, away, -solved / F.select(far, 1.0, volume))
