"""Where silhouettes pass between the centres of neighbouring pixels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.transform.fused import fused
from ....ad.types import FLOAT, INT, VEC2, VEC4, Access
from ...surface.screen import DrawnMesh, common_batch, corners, pixel_centres
from .edge_list import BEYOND, HIDDEN

GRID = 1 / 16
"""Pixels. Vulkan lets a driver round corners to a grid of this width, so that coverage of a centre may start this early."""


class Crossing(PixelFunction):
    """Inputs (first VEC2, second VEC2, ends VEC4, depths VEC2, side INT): FLOAT, where an edge passes between the centre of the pixel
    and that of the next one along ``axis`` ("x": to the right, "y": below): pixels from the centre of the farther of the
    two, in [-GRID, 1 + GRID], or BEYOND when it does not count.

    first, second: (number of the face, its depth), (-1, BEYOND) for none; of the pixel in the first image, of the next one in the
    second.  ends: (a, b) of the edge on the screen, with ``depths``.  side: of ``edge_sides``.  It counts when the faces of the two pixels differ, the pixel on the side of
    the mesh is the nearer one, the edge lies in front of the other, and is at least as steep as 45 degrees: of an edge
    of exactly 45 degrees "x" takes both, "y" none. (Laine et al. 2020, section 3.6.)
    """

    operations, fetches = 38.0, 2.0
    no_derivative = "chooses an edge; compute what depends on the vertices from the ends of the edge chosen"
    fields = ("axis",)
    axis: str
    includes = ("face.glsl", "edge.glsl", "crossing.glsl")

    @cached_property
    def access(self):
        return (Access.FETCH,) * 2 + (Access.SAME_PIXEL,) * 3

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC2, VEC2, VEC4, VEC2, INT]:
            raise self.fail(
                "needs two VEC2 (face, depth), VEC4 ends and VEC2 depths of an edge, and its INT side"
            )
        if self.axis not in ("x", "y"):
            raise self.fail(f"the axis is x or y, not {self.axis!r}")
        return FLOAT, Domain(self.inputs[0].size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        step, axis = ("ivec2(1, 0)", 0) if self.axis == "x" else ("ivec2(0, 1)", 1)
        # Beyond the border the neighbour is the pixel itself: no edge passes between them.
        return (
            f"vec2 next = $1(min(pixel + {step}, $size - 1), tile);\n"
            "$y = crossing_place(vec2(pixel) + 0.5, $2, $3, $4, $0(pixel, tile), next, "
            f"{axis}, float($size.y), {GRID!r});"
        )

    def evaluate(self, at, first, second, ends, depths, side):
        x, y, tile = (c for c in np.broadcast_arrays(at.x, at.y, at.tile))
        one, two = (tile if len(image) > 1 else np.zeros_like(tile) for image in (first, second))
        width, height = self.output.size
        right, down = (1, 0) if self.axis == "x" else (0, 1)
        here = first[one, y, x]
        then = second[two, np.minimum(y + down, height - 1), np.minimum(x + right, width - 1)]
        p = np.stack([x, y], axis=-1) + 0.5
        a, b = ends[..., :2] * height - p, ends[..., 2:] * height - p
        if self.axis == "y":
            a, b = a[..., ::-1], b[..., ::-1]
        u = b - a
        steep = np.abs(u[..., 1]) >= np.abs(u[..., 0])
        if self.axis == "y":
            steep = np.abs(u[..., 1]) > np.abs(u[..., 0])
        passes = (a[..., 1] * b[..., 1] <= 0) & (u[..., 1] != 0) & steep
        along = -a[..., 1] / np.where(passes, u[..., 1], 1.0)
        place = a[..., 0] + along * u[..., 0]
        between = (place >= -GRID) & (place <= 1 + GRID)
        down = side * (u[..., 1] if self.axis == "y" else -u[..., 1]) > 0
        before = np.where(side == 0, here[..., 1] < then[..., 1], down)
        near, far = (
            np.where(before, p, q) for p, q in ((here[..., 1], then[..., 1]), (then[..., 1], here[..., 1]))
        )
        depth = (1 - along) * depths[..., 0] + along * depths[..., 1]
        counts = (
            (side != HIDDEN)
            & (here[..., 0] != then[..., 0])
            & passes
            & between
            & (near < far)
            & (depth <= far)
        )
        return np.where(counts, np.where(before, 1 - place, place), BEYOND)


def front(mesh: DrawnMesh) -> Variable:
    """VEC2: the number of the nearest face and its depth at the pixel centre, (-1, BEYOND) where there is none. No derivative.
    The depth of a face seen edge-on is clamped to its corners: its area is rounding error."""
    places = [F.lookup(mesh.points.vertex, number) for number in corners(mesh.face, mesh.faces)]
    return _front(mesh.face, pixel_centres(mesh.size), *places)


@fused
def _front(face: Variable, p: Variable, *v: Variable) -> Variable:
    """VEC2: ``front`` at the place p (VEC2), by the corners of the face, VEC4."""
    # Homogeneous, because corners nearer than the near plane have no place on the screen.
    w, z = F.vec3(*(F.select(F.less(c.z, 0.0), c.w, 1.0) for c in v)), F.vec3(*(c.z for c in v))
    x, y = (F.vec3(*(F.component(c, i) for c in v)) - w * F.component(p, i) for i in range(2))
    areas = F.cross(y, x)
    area = F.dot(areas, w)
    depth = F.dot(areas, z) / F.select(F.equal(area, 0.0), 1.0, area)
    depth = F.minimum(F.maximum(depth, F.maximum(-F.max_component(-z), 0.0)), F.max_component(z))
    return F.select(F.less(face, 0), (-1.0, BEYOND), F.vec2(F.to_float(face), depth))
