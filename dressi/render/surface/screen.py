"""From projected vertices to pixels: visible faces, the hard raster, barycentric coordinates.

Lengths on the screen are in units of the image height: x in [0, W / H], y in [0, 1], y down; the centre of
pixel (x, y) is ((x + 0.5) / H, (y + 0.5) / H). Lists (vertices, faces) are images that wrap, counted row by
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Function, PixelFunction, Variable
from ...ad.graph.types import IVEC3, VEC3, VEC4, Size
from ...ad.ops.image.draws import Fragment
from ...ad.transform.fused import fused
from ...errors import InputError
from ..core.lists import as_list
from .projection import Projected, clip_list, finite, project

AREA_MINIMUM = 1e-10
"""Faces with twice the projected area at most this, in square image heights, are dropped."""
OUTSIDE = 0.1
"""Barycentric weights are at least minus this. Drivers round corners to a grid of up to 1/16 pixel, so that a
sliver may cover a centre that lies many times its width beside it: what is extrapolated to there is noise,
and other noise on other drivers."""
CULLING = {"none": 0, "back": 1}


def with_margin(position: Variable, size: Size, margin: int) -> tuple[Variable, Size]:
    """Clip positions and size for images with ``margin`` more pixels on every side.

    ``F.crop(image, margin, margin, size)`` is the picture without the margin. The unit of lengths on the
    screen is the height of the larger image. Differentiable in position (VEC4).

    >>> with_margin(Variable.of(np.ones((8, 4))), (32, 32), 4)[1]
    (40, 40)
    """
    if margin < 0:
        raise InputError(f"a margin is a number of pixels, not {margin}")
    width, height = size[0] + 2 * margin, size[1] + 2 * margin
    return F.hadamard(position, (size[0] / width, size[1] / height, 1.0, 1.0)), (width, height)


def pixel_centres(size: Size) -> Variable:
    """VEC2 of ``size``: the centres of the pixels, in units of the image height."""
    return (F.to_float(F.pixel_coordinates(size)) + 0.5) * (1.0 / size[1])


def common_batch(f: Function) -> int:
    """The common batch of the inputs of a Function; inputs of batch 1 broadcast. Raises GraphError."""
    batches = {x.batch for x in f.inputs} - {1}
    if len(batches) > 1:
        raise f.fail("batches must be equal or 1")
    return max(batches, default=1)


def present(v: Variable) -> Variable:
    """FLOAT mask: which projected vertices exist (``Projected``)."""
    return F.logical_or(F.less(v.z, 0.0), F.greater(v.w, 0.0))


def spanned(u: Variable, v: Variable) -> Variable:
    """FLOAT: u.y v.x - u.x v.y: twice the area spanned, positive when counter-clockwise for the viewer (y
    down)."""
    return u.y * v.x - u.x * v.y


class Faces(PixelFunction):
    """Base of Functions that read whole faces: inputs (..., faces IVEC3 list, vertex VEC4 list) by FETCH."""

    includes = ("face.glsl",)

    def check_lists(self, faces: Variable, vertex: Variable) -> None:
        if faces.vtype is not IVEC3:
            raise self.fail("faces are IVEC3, three numbers of vertices each")
        if vertex.vtype is not VEC4:
            raise self.fail("vertices are VEC4 (x, y, depth, w); use project()")

    @staticmethod
    def fetch_corners(f: str, faces: int, vertex: int) -> str:
        """GLSL arguments: the three corners of the face ``f`` (ivec3)."""
        read = f"${vertex}(face_texel({f}.%s, $size{vertex}), tile)"
        return ", ".join(read % c for c in "xyz")


def face_cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """u.y v.x - u.x v.y: twice the area spanned, positive when counter-clockwise for the viewer (y down)."""
    return u[..., 1] * v[..., 0] - u[..., 0] * v[..., 1]


def is_present(v: np.ndarray) -> np.ndarray:
    """(...) bool: which projected vertices exist (``Projected``)."""
    return (v[..., 2] < 0) | (v[..., 3] > 0)


def shown_faces(faces: Variable, vertex: Variable, cull: int) -> Variable:
    """FLOAT list like ``faces`` (IVEC3): 0 for those that are not drawn: a missing corner, all corners too
    near or too far, no area, or turned away with ``cull`` 1.  vertex: ``Projected.vertex``."""
    return shown(*(F.lookup(vertex, F.component(faces, i)) for i in range(3)), cull=cull)


@fused
def shown(a: Variable, b: Variable, c: Variable, *, cull: int) -> Variable:
    """``shown_faces`` by the corners of the faces, VEC4."""
    low, high = F.minimum(F.minimum(a.z, b.z), c.z), F.maximum(F.maximum(a.z, b.z), c.z)
    there = F.logical_and(F.logical_and(present(a), present(b)), present(c))
    # Homogeneous: the sign is that of the part beyond the near plane, wherever the other corners are.
    rows = [F.vec3(v.xy * F.select(F.less(v.z, 0.0), 1.0, v.w), v.w) for v in (a, b, c)]
    crossing, cut = -F.dot(rows[0], F.cross(rows[1], rows[2])), F.less(low, 0.0)
    area = F.select(cut, crossing, spanned(b.xy - a.xy, c.xy - a.xy))
    large = F.greater(area if cull else F.abs(area), F.select(cut, 0.0, AREA_MINIMUM))
    between = F.logical_and(F.greater_equal(high, 0.0), F.less_equal(low, 1.0))
    return F.logical_and(F.logical_and(there, between), large)


def culling(cull: str) -> int:
    """The number of a way of culling. Raises InputError."""
    if cull not in CULLING:
        raise InputError(f"cull is one of {', '.join(CULLING)}, not {cull!r}")
    return CULLING[cull]


def rasterize_hard(
    position: Variable, faces: Variable, *, size: Size, face_count: int, cull: str = "none"
) -> Variable:
    """The nearest face at every pixel, -1 for none; INT of ``size``, batch of the positions, no derivative.

    position: VEC4 clip-space list.  faces: IVEC3 list, of which the first ``face_count`` are drawn.  cull:
    "none" or "back" (faces turned away, clockwise for the viewer). Faces are clipped at the near plane; those
    without area, or with a missing corner (``project``), are dropped.

    >>> cube, camera = primitives.cube(), Camera.perspective(45, (32, 32), (0, 0, 4), (0, 0, 0))
    >>> rasterize_hard(to_clip(cube.positions, camera.world_to_clip), cube.faces, size=(32, 32), face_count=12).shape
    (1, 32, 32)
    """
    return DrawnMesh(clip_list(position), as_list("faces", IVEC3, faces), size, face_count, cull).face


@dataclass(frozen=True, eq=False)
class DrawnMesh:
    """A mesh and how it is drawn: what every form of HardSoftRas starts from."""

    clip: Variable
    """VEC4 list of positions in clip space, batch N (views)."""
    faces: Variable
    """IVEC3 list."""
    size: Size
    """Of the images."""
    face_count: int
    """How many faces of the list are drawn."""
    cull: str = "none"
    """"none" or "back"."""
    keep: Callable[[Variable], Variable] | None = None
    """For cut-outs: the FLOAT mask that is 0 where a face (INT) is cut out at the pixel. None: nowhere."""
    seen: Variable | None = None
    """INT: the nearest face at every pixel, -1 for none, if it is known already. None: the mesh is drawn."""
    live: Variable | None = None
    """FLOAT list like ``faces``: 0 for faces that are not drawn. None: all are."""

    @cached_property
    def points(self) -> Projected:
        return project(self.clip, self.size)

    @cached_property
    def position(self) -> Variable:
        """The positions, ``finite``."""
        return finite(self.clip)

    @cached_property
    def face(self) -> Variable:
        """INT: the nearest face at every pixel by the hard raster, -1 for none. No derivative."""
        if self.seen is not None:
            return self.seen
        return self.drawn(None if self.keep is None else self.fragment)

    def surface(self, face: Variable) -> Surface:
        """The points of faces (INT) at the pixel centres."""
        return Surface(self.faces, face, barycentric(self.position, corners(face, self.faces), self.size))

    def drawn(self, fragment: Fragment | None) -> Variable:
        """INT: the face whose fragment wins, -1 for none (``F.rasterize``). Without one the nearest wins."""
        how = {"size": self.size, "triangles": self.face_count, "live": self._shown}
        return F.rasterize(self.clip, self.faces, fragment=fragment, **how)

    def summed(self, value: Callable[[Variable, Variable], Any], limit: Variable | None = None) -> Variable:
        """The sum of ``value(face, depth)`` over all fragments nearer than ``limit`` (``F.accumulate``)."""
        how = {"size": self.size, "triangles": self.face_count, "live": self._shown}
        return F.accumulate(self.clip, self.faces, value=value, limit=limit, **how)

    @cached_property
    def _shown(self) -> Variable:
        """FLOAT list: 0 for faces that are not drawn."""
        shown = shown_faces(self.faces, self.points.vertex, culling(self.cull))
        return shown if self.live is None else F.logical_and(shown, self.live)

    def fragment(self, face: Variable) -> tuple[Variable, Variable | None]:
        """The depth of a face (INT) at the pixel centre, FLOAT z / w, and ``keep`` of it."""
        at = corners(face, self.faces)
        weights = barycentric(self.clip, at, self.size)
        depth = interpolate(F.swizzle(self.clip, "zw"), at, weights)
        return depth.x / depth.y, None if self.keep is None else self.keep(face)


class Corners(NamedTuple):
    """The numbers of the three corners of a face, INT; -1 where there is no face, so that lookups give 0."""

    first: Variable
    second: Variable
    third: Variable


def corners(face: Variable, faces: Variable) -> Corners:
    """Corners of the face number at each pixel (INT, -1 for none) in a list of faces (IVEC3).

    >>> len(corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]])))
    3
    """
    numbers = F.lookup(as_list("faces", IVEC3, faces), face)
    numbers = F.select(F.less(face, 0), -1, numbers)
    return Corners(numbers.x, numbers.y, numbers.z)


def pixel_rays(
    position: Variable, at: Corners, size: Size, place: Variable | None = None
) -> tuple[Variable, Variable, Variable, Variable]:
    """At each pixel x, y and w (VEC3 each, clip space) of the three corners, and x and y of its ray where w
    is 1, VEC2.

    place: VEC2, places on the screen instead of the pixel centres."""
    table = F.swizzle(position, "xyw")
    rows = F.transpose(F.mat3(*(F.lookup(table, i) for i in at)))
    if place is None:
        # One product: of two, the simplifier makes one in images but not in the fragments of draws. Depths
        # that are compared between the two (``layers.stacks``) would differ in their last bit.
        ray = (F.to_float(F.pixel_coordinates(size)) + 0.5) * (2.0 / size[0], 2.0 / size[1]) - 1.0
    else:
        ray = place * (2.0 * size[1] / size[0], 2.0) - 1.0
    return F.column(rows, 0), F.column(rows, 1), F.column(rows, 2), ray


def barycentric(
    position: Variable, at: Corners, size: Size, *, place: Variable | None = None, clamp: bool = False
) -> Variable:
    """VEC3: perspective-correct weights of the three corners at each pixel; they add up to 1.

    position: VEC4 clip-space list (vertices behind the viewer are allowed).  place: VEC2, places on the
    screen instead of the pixel centres. Outside of the face weights are negative and extrapolate, down to
    -OUTSIDE; with ``clamp`` they are cut at 0. Those that are cut are normalised. (0, 0, 0) where there is no
    face. Differentiable in position and place.

    >>> face, clip = Variable(INT, (32, 32), name="face"), Variable.of(np.ones((3, 4)))
    >>> barycentric(clip, corners(face, np.array([[0, 1, 2]])), (32, 32)).vtype
    VEC3
    """
    # In coordinates relative to the pixel's ray, weight i is the area spanned by the other two corners (2D
    # homogeneous rasterization, Olano and Greer 1997); no division by w, no cancellation far from the origin.
    x, y, w, ray = pixel_rays(position, at, size, place)
    areas = F.cross(x - w * ray.x, y - w * ray.y)
    whole = F.stop_gradient(F.sum_components(areas))
    least = 0.0 if clamp else F.abs(whole) * -OUTSIDE
    areas = F.maximum(areas * F.sign(whole), least)
    total = F.sum_components(areas)
    return areas / F.select(F.not_equal(total, 0.0), total, 1.0)


def interpolate(table: Variable, at: Corners, weights: Variable) -> Variable:
    """The attribute in ``table`` (list, FLOAT or vectors) of the three corners, weighted; 0 without a face.

    ``at`` may come from another list of faces than the weights: texture coordinates with indices of their
    own. Differentiable in the table and the weights.

    >>> face, clip = Variable(INT, (32, 32), name="face"), Variable.of(np.ones((3, 4)))
    >>> at = corners(face, np.array([[0, 1, 2]]))
    >>> interpolate(Variable.of(np.ones((3, 2))), at, barycentric(clip, at, (32, 32))).vtype
    VEC2
    """
    parts = [F.lookup(table, index) * F.component(weights, i) for i, index in enumerate(at)]
    return parts[0] + parts[1] + parts[2]


@dataclass(frozen=True, eq=False)
class Surface:
    """The point of a mesh at every pixel that is shaded."""

    faces: Variable
    """IVEC3 list."""
    face: Variable
    """INT: the face it lies on, -1 where there is none. No derivative."""
    weights: Variable
    """VEC3: barycentric weights of the corners, 0 where there is none; differentiable in the positions."""

    def interpolate(self, table: Variable, faces: Variable | None = None) -> Variable:
        """The attribute in ``table`` (list, FLOAT or vectors) at the point, 0 where there is none.

        faces: IVEC3 list of the corners' entries in the table, such as those of texture coordinates; by
        default the mesh's own. Differentiable in the table and the positions.
        """
        return interpolate(table, corners(self.face, self.faces if faces is None else faces), self.weights)


def covered(face: Variable) -> Variable:
    """FLOAT mask: 1 where there is a face.

    >>> covered(Variable(INT, (32, 32), name="face")).vtype
    FLOAT
    """
    return F.greater_equal(face, 0)


# Normals of faces and of vertices.


def flat_normal(position: Variable, at: Corners) -> Variable:
    """VEC3: unit normal of the face at each pixel, outward for counter-clockwise corners; 0 without one.

    position: VEC3 list. Differentiable in position.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> flat_normal(Variable.of(np.eye(3), VEC3), at).shape
    (1, 32, 32, 3)
    """
    a, b, c = (F.lookup(position, index) for index in at)
    return F.normalize(F.cross(b - a, c - a))


def vertex_normals(position: Variable, faces: Variable) -> Variable:
    """VEC3 list like ``position``: unit normals, the faces around a vertex weighted by their areas.

    position: VEC3 list.  faces: IVEC3 list. Vertices without faces get 0. Differentiable in position.

    >>> cube = primitives.cube()
    >>> vertex_normals(cube.positions, cube.faces).shape
    (1, 1, 8, 3)
    """
    position, faces = as_list("positions", VEC3, position), as_list("faces", IVEC3, faces)
    numbers = [F.component(faces, i) for i in range(3)]
    a, b, c = (F.lookup(position, index) for index in numbers)
    # Entries that fill up the list are (0, 0, 0): their cross product is 0.
    normal = F.cross(b - a, c - a)
    parts = [F.scatter_add(normal, index, position.size, position.batch) for index in numbers]
    return F.normalize(parts[0] + parts[1] + parts[2])
