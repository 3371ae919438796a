"""Silhouettes of a field along rays: a pixel is covered where the field is positive somewhere on its ray.

A silhouette of a mesh has a gradient at its outline alone, so a hole that the mesh covers completely cannot
open. The largest value of the field along a ray has one everywhere: where the picture shows no surface it has
to fall below zero, and where it does, the mesh of the field has a hole (Yariv et al. 2020, section 3.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
from scipy.ndimage import map_coordinates

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.graph.types import FLOAT, INT, VEC3, Access, Size
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..mesh.remesh.volume import Grid


def sample_field(values: Variable, grid: Grid, points: Variable) -> Variable:
    """The field between the points of its grid, linear along each axis, like ``points`` (VEC3); those outside
    take the value at the nearest side.

    values: FLOAT or vector list, one for each point of the grid in row-major order. Differentiable in values
    and points.
    """
    most = tuple(float(n - 1) for n in grid.shape)
    at = F.clamp((points - F.constant(tuple(grid.origin.tolist()))) * (1 / grid.step), (0.0, 0.0, 0.0), most)
    cell = F.minimum(F.floor(at), tuple(n - 1.0 for n in most))
    share, low = at - cell, F.to_int(cell)
    strides = (grid.shape[1] * grid.shape[2], grid.shape[2], 1)
    start = low.x * strides[0] + low.y * strides[1] + low.z
    corners = [
        F.lookup(values, start + (c & 1) * strides[0] + (c >> 1 & 1) * strides[1] + (c >> 2))
        for c in range(8)
    ]
    for axis in range(3):
        part = F.component(share, axis)
        corners = [F.mix(a, b, part) for a, b in zip(corners[::2], corners[1::2], strict=True)]
    return corners[0]


class Deepest(PixelFunction):
    """Inputs (origin VEC3, direction VEC3, shift FLOAT, values FLOAT list): FLOAT, the distance along the
    ray, in lengths of the direction, of the sample with the largest value of the field; 0 where the ray
    misses the grid. No derivative: the largest of several values changes as that one does, wherever it lies.

    grid: (origin, step, shape).  samples: along the longest way through the grid.
    """

    operations, zero_derivative = 90.0, True
    fields = ("grid", "samples")
    grid: tuple[tuple[float, ...], float, tuple[int, ...]]
    samples: int

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) * 3 + (Access.FETCH,)

    @property
    def iterations(self) -> int:
        return self.samples

    @property
    def fetches(self) -> float:
        return 8.0 * self.samples

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC3, VEC3, FLOAT, FLOAT]:
            raise self.fail("takes origins VEC3, directions VEC3, shifts FLOAT and values FLOAT")
        return FLOAT, self.broadcast()

    @property
    def reach(self) -> float:
        """The longest way through the grid."""
        _, step, shape = self.grid
        return step * math.sqrt(sum((n - 1) ** 2 for n in shape))

    @cached_property
    def glsl(self) -> str:
        origin, step, (x, y, z) = self.grid
        low = f"vec3({', '.join(map(repr, origin))})"

        def value(more: int | str) -> str:
            return f"$3(ivec2((k + {more}) % $size3.x, (k + {more}) / $size3.x), tile)"

        return (
            f"vec3 at = ($0 - {low}) / {step!r}, along = $1 / {step!r};\n"
            f"vec3 high = vec3({x - 1}.0, {y - 1}.0, {z - 1}.0);\n"
            "vec3 safe = mix(along, vec3(1e-12), lessThan(abs(along), vec3(1e-12)));\n"
            "vec3 p = -at / safe, q = (high - at) / safe, a = min(p, q), b = max(p, q);\n"
            "float near = max(max(a.x, a.y), max(a.z, 0.0)), far = min(min(b.x, b.y), b.z);\n"
            f"float width = {self.reach / self.samples!r} / max(length($1), 1e-12), best = -3e38; $y = 0.0;\n"
            f"if (near < far) for (int i = 0; i < {self.samples}; ++i) {{\n"
            "  float t = near + (float(i) + $2) * width;\n  if (t > far) break;\n"
            "  vec3 place = clamp(at + t * along, vec3(0.0), high);\n"
            "  ivec3 c = ivec3(min(floor(place), high - 1.0));\n  vec3 w = place - vec3(c);\n"
            f"  int k = (c.x * {y} + c.y) * {z} + c.z;\n"
            f"  vec4 u = mix(vec4({value('0')}, {value(z)}, {value('1')}, {value(f'{z} + 1')}),\n"
            f"    vec4({value(y * z)}, {value(f'{y * z + z}')}, {value(f'{y * z + 1}')},"
            f" {value(f'{y * z + z} + 1')}), w.x);\n"
            "  vec2 h = mix(u.xz, u.yw, w.y);\n  float v = mix(h.x, h.y, w.z);\n"
            "  if (v > best) { best = v; $y = t; }\n}"
        )

    def evaluate(self, at, origin, direction, shift, values):
        low, step, shape = self.grid
        shape = np.array(shape)
        field = values.reshape(-1)[: shape.prod()].reshape(shape)
        start, along = (origin - np.array(low)) / step, direction / step
        safe = np.where(np.abs(along) < 1e-12, 1e-12, along)
        p, q = -start / safe, (shape - 1 - start) / safe
        near = np.maximum(np.minimum(p, q).max(-1), 0)
        far = np.maximum(p, q).min(-1)
        width = self.reach / self.samples / np.maximum(np.linalg.norm(direction, axis=-1), 1e-12)
        best, found = np.full(np.broadcast_shapes(near.shape, np.shape(shift)), -np.inf), 0.0
        for i in range(self.samples):
            t = near + (i + shift) * width
            place = np.clip(start + t[..., None] * along, 0, shape - 1)
            value = map_coordinates(field, np.moveaxis(place, -1, 0), order=1)
            value = np.where((near < far) & (t <= far), value, -np.inf)
            found = np.where(value > best, t, found)
            best = np.maximum(best, value)
        return np.broadcast_to(found, best.shape)


@dataclass(frozen=True, eq=False)
class Rays:
    """Rays of N pictures of one size, as leaves: origins and directions VEC3, batch N."""

    origins: Variable
    directions: Variable

    @classmethod
    def of(cls, rays: Sequence[tuple[np.ndarray, np.ndarray]]) -> Rays:
        """Of origins (3,) and directions (H, W, 3), such as those of ``Camera.rays``."""
        origins = np.stack([np.asarray(origin) for origin, _ in rays])[:, None, None]
        return cls._leaves(origins, np.stack([np.asarray(along) for _, along in rays]))

    @classmethod
    def through(cls, matrices: np.ndarray, size: Size) -> Rays:
        """Through the centres of pixels, from the near to the far plane of cameras (N, 4, 4), world to clip
        space."""
        x, y = np.meshgrid(*((np.arange(n) + 0.5) * 2 / n - 1 for n in size))
        ends = []
        for z in (0.0, 1.0):
            clip = np.stack([x, y, np.full_like(x, z), np.ones_like(x)], axis=-1)
            point = np.einsum("nij,hwj->nhwi", np.linalg.inv(matrices), clip)
            ends.append(point[..., :3] / point[..., 3:])
        along = ends[1] - ends[0]
        return cls._leaves(ends[0], along / np.linalg.norm(along, axis=-1, keepdims=True))

    @classmethod
    def _leaves(cls, *arrays: np.ndarray) -> Rays:
        origins, directions = (
            Variable(VEC3, (rows.shape[2], rows.shape[1]), len(rows), name=name, data=rows)
            for name, rows in zip(("ray origins", "ray directions"), arrays, strict=True)
        )
        return cls(origins, directions)

    def deepest(self, values: Variable, grid: Grid, *, shift: Like = 0.5, samples: int = 0) -> Variable:
        """FLOAT: the largest value of a field (FLOAT list) along each ray; the value of the nearest side for
        one that misses the grid.

        shift: FLOAT in [0, 1], of the samples: random numbers of a step.  samples: by default one for each
        step of the grid. Differentiable in values.
        """
        count = samples or math.ceil(math.sqrt(sum((n - 1) ** 2 for n in grid.shape)))
        place = (tuple(map(float, grid.origin)), float(grid.step), tuple(grid.shape))
        at = F.apply(Deepest, self.origins, self.directions, shift, values, grid=place, samples=count)
        return sample_field(values, grid, self.origins + self.directions * at)


def ray_loss(deepest: Variable, masks: Variable, *, width: Like, weight: Variable | None = None) -> Variable:
    """FLOAT 1x1: the cross-entropy of silhouettes sigmoid(deepest / width) and masks, in the mean.

    deepest: FLOAT, the largest value along each ray.  masks: FLOAT of its size, coverage in [0, 1].  width:
    of the field, such as half a step of the grid.  weight: FLOAT, 0 where a mask says nothing. Differentiable
    in deepest and width. Raises InputError.
    """
    if deepest.size != masks.size:
        raise InputError(
            f"masks of {masks.size} are compared with rays of {deepest.size}; give both one size"
        )
    value = deepest / width
    # -m log(sigmoid(v)) - (1 - m) log(1 - sigmoid(v))
    loss = F.softplus(value) - masks * value
    if weight is None:
        return F.mean(loss)
    return F.sum(loss * weight) / F.maximum(F.sum(weight), 1.0)


# What fields are like where no picture tells: distances that grow evenly, and no bumps.


def _inner(grid: Grid, low: int) -> tuple[Variable, tuple[int, int, int]]:
    """INT list: the points of a grid without the last ones along each axis, and without ``low`` first ones;
    and the steps to the next point along each axis."""
    if min(grid.shape) < 2 + low:
        raise InputError(f"a grid of {grid.shape} points has none with neighbours; give at least (3, 3, 3)")
    number = np.arange(np.prod(grid.shape)).reshape(grid.shape)[(slice(low, -1),) * 3]
    return Variable.of(number.reshape(-1), INT), (grid.shape[1] * grid.shape[2], grid.shape[2], 1)


def eikonal_loss(values: Variable, grid: Grid) -> Variable:
    """FLOAT 1x1: squares of (slope - 1), in the mean over the cells: 0 for a signed distance (Gropp et al.
    2020).

    values: FLOAT list, one for each point of the grid. Differentiable in values. Raises InputError.
    """
    at, steps = _inner(grid, 0)
    here = F.lookup(values, at)
    slopes = (F.square((F.lookup(values, at + step) - here) * (1 / grid.step)) for step in steps)
    return F.mean(F.square(F.sqrt(reduce(add, slopes) + 1e-12) - 1.0))


def roughness_loss(values: Variable, grid: Grid) -> Variable:
    """FLOAT 1x1: squares of the Laplacian times the step, in the mean over the inner points: small for even
    surfaces.

    values: FLOAT list, one for each point of the grid. Differentiable in values. Raises InputError.
    """
    at, steps = _inner(grid, 1)
    around = reduce(add, (F.lookup(values, at + k) for step in steps for k in (-step, step)))
    return F.mean(F.square((around - 6.0 * F.lookup(values, at)) * (1 / grid.step)))
