"""Where silhouettes pass between the centres of neighbouring pixels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.types import FLOAT, INT, VEC2, VEC4, Access
from ...surface.screen import DrawnMesh, common_batch, corners, covered, pixel_centres
from .edge_list import BEYOND, HIDDEN

GRID = 1 / 16
"""Pixels. Vulkan lets a driver round corners to a grid of this width, so that coverage of a centre may start this early."""


class Crossing(PixelFunction):
    """Inputs (front VEC2, ends VEC4, depths VEC2, side INT): FLOAT, where an edge passes between the centre of the pixel
    and that of the next one along ``axis`` ("x": to the right, "y": below): pixels from the centre of the farther of the
    two, in [-GRID, 1 + GRID], or BEYOND when it does not count.

    front: (number of the face, its depth) at each pixel, (-1, BEYOND) for none.  ends: (a, b) of the edge on the screen,
    with ``depths``.  side: of ``EdgeSides``.  It counts when the faces of the two pixels differ, the pixel on the side of
    the mesh is the nearer one, the edge lies in front of the other, and is at least as steep as 45 degrees: of an edge
    of exactly 45 degrees "x" takes both, "y" none. (Laine et al. 2020, section 3.6.)
    """

    operations, fetches = 38.0, 2.0
    no_derivative = "chooses an edge; compute what depends on the vertices from the ends of the edge chosen"
    fields = ("axis",)
    includes = ("face.glsl", "edge.glsl", "crossing.glsl")

    def __init__(self, front: Variable, ends: Variable, depths: Variable, side: Variable, axis: str):
        self.axis = axis
        super().__init__(front, ends, depths, side)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL, Access.SAME_PIXEL, Access.SAME_PIXEL)

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC2, VEC4, VEC2, INT]:
            raise self.fail(
                "needs VEC2 (face, depth), VEC4 ends and VEC2 depths of an edge, and its INT side"
            )
        if self.axis not in ("x", "y"):
            raise self.fail(f"the axis is x or y, not {self.axis!r}")
        return FLOAT, Domain(self.inputs[0].size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        step, axis = ("ivec2(1, 0)", 0) if self.axis == "x" else ("ivec2(0, 1)", 1)
        # Beyond the border the neighbour is the pixel itself: no edge passes between them.
        return (
            f"vec2 next = $0(min(pixel + {step}, $size - 1), tile);\n"
            "$y = crossing_place(vec2(pixel) + 0.5, $1, $2, $3, $0(pixel, tile), next, "
            f"{axis}, float($size.y), {GRID!r});"
        )

    def evaluate(self, at, front, ends, depths, side):
        x, y, tile = (c for c in np.broadcast_arrays(at.x, at.y, at.tile))
        tile = tile if len(front) > 1 else np.zeros_like(tile)
        width, height = self.output.size
        right, down = (1, 0) if self.axis == "x" else (0, 1)
        here = front[tile, y, x]
        then = front[tile, np.minimum(y + down, height - 1), np.minimum(x + right, width - 1)]
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
    """VEC2: (number of the nearest face, its depth at the pixel centre), (-1, BEYOND) where there is none. No derivative."""
    face, p = mesh.face, pixel_centres(mesh.size)
    a, b, c = (F.lookup(mesh.points.vertex, index) for index in corners(face, mesh.faces))
    # Homogeneous, because corners nearer than the near plane have no place on the screen.
    w = [F.select(F.less(v.z, 0.0), v.w, 1.0) for v in (a, b, c)]
    u = [v.xy - p * scale for v, scale in zip((a, b, c), w, strict=True)]
    of_a, of_b, of_c = _cross(u[1], u[2]), _cross(u[2], u[0]), _cross(u[0], u[1])
    area = of_a * w[0] + of_b * w[1] + of_c * w[2]
    depth = (of_a * a.z + of_b * b.z + of_c * c.z) / F.select(F.equal(area, 0.0), 1.0, area)
    # The depth of a face seen edge-on is clamped to its corners: its area is rounding error.
    low, high = F.minimum(F.minimum(a.z, b.z), c.z), F.maximum(F.maximum(a.z, b.z), c.z)
    depth = F.clamp(depth, F.maximum(low, 0.0), high)
    there = covered(face)
    return F.stop_gradient(F.vec2(F.to_float(face), F.select(there, depth, BEYOND)))


def _cross(u: Variable, v: Variable) -> Variable:
    return u.y * v.x - u.x * v.y
