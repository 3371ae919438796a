"""From vertices in clip space to (u, v, z/w, triangle + 1) at every pixel, and how u and v change from pixel to pixel.

Clip space is that of OpenGL, with y up and z from -w to w. The first row of the images is the bottom one, so that rows run
along y as they do in Vulkan, and only z has to be moved.
"""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.image.draws import Fragment
from ...ad.types import Size
from ...render.surface.footprint import barycentric_slopes
from ...render.surface.projection import finite
from ...render.surface.screen import DrawnMesh, barycentric, corners, covered, interpolate, shown_faces


def to_vulkan(position: Variable) -> Variable:
    """Clip positions (VEC4 list) of OpenGL as those of Vulkan: z from 0 to w."""
    return F.vec4(position.xy, (position.z + position.w) * 0.5, position.w)


def drawn(
    position: Variable,
    faces: Variable,
    size: Size,
    ranges: Variable | None = None,
    before: Variable | None = None,
) -> Variable:
    """INT: the nearest triangle at every pixel, -1 for none. No derivative.

    ranges: IVEC2 of one texel, a batch of (first, count): each image draws only these triangles.  before: INT, the triangle
    of the layer before at every pixel: the next one behind it is found, and none where that is -1.
    """
    clip, count = to_vulkan(position), faces.count or faces.size[0] * faces.size[1]
    mesh = DrawnMesh(clip, faces, size, count)
    live = shown_faces(faces, mesh.points.vertex, 0)
    if ranges is not None:
        index = F.linear_index(faces.size)
        inside = F.logical_and(F.greater_equal(index, ranges.x), F.less(index, ranges.x + ranges.y))
        live = F.select(inside, live, 0.0)
    behind = None if before is None else _behind(before, clip, faces, size)
    return F.rasterize(clip, faces, size=size, triangles=count, live=live, fragment=behind)


def _behind(before: Variable, clip: Variable, faces: Variable, size: Size) -> Fragment:
    """Keeps the fragments behind the triangle ``before``; of equal depths, those of triangles with larger numbers."""
    last = _depth(clip, before, faces, size)

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        depth = _depth(clip, face, faces, size)
        tied = F.logical_and(F.equal(depth, last), F.greater(face, before))
        behind = F.logical_or(F.greater(depth, last), tied)
        return depth, F.logical_and(behind, F.logical_and(covered(before), F.not_equal(face, before)))

    return fragment


def _depth(clip: Variable, face: Variable, faces: Variable, size: Size) -> Variable:
    at = corners(face, faces)
    depth = interpolate(F.swizzle(clip, "zw"), at, barycentric(clip, at, size))
    return depth.x / F.select(F.equal(depth.y, 0.0), 1.0, depth.y)


def described(position: Variable, faces: Variable, face: Variable, size: Size) -> tuple[Variable, Variable]:
    """VEC4 (u, v, z/w, triangle + 1) and VEC4 (du/dX, du/dY, dv/dX, dv/dY) by pixels, at every pixel; 0 without a triangle.

    u and v are the perspective-correct weights of the first two corners. At a centre that the driver covers although it lies
    just outside of the triangle, they are those of the nearest point inside. Differentiable in position.
    """
    position = finite(position)
    at = corners(face, faces)
    weights = barycentric(position, at, size, clamp=True)
    place = interpolate(F.swizzle(position, "zw"), at, weights)
    depth = place.x / F.select(F.equal(place.y, 0.0), 1.0, place.y)
    across, down = barycentric_slopes(position, at, size)
    main = F.vec4(weights.xy, depth, F.to_float(face + 1))
    return main, F.vec4(across.x, down.x, across.y, down.y)
