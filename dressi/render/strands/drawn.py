"""What is composed: strands or points on the screen, with their shader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.draws.fragment import Fragment
from ..surface.projection import depth_of_zw, eye_of
from .discs import Discs
from .point import StrandPoint, StrandShader
from .ribbons import Ribbons


@dataclass(frozen=True, eq=False)
class DrawnStrands:
    """Strands or points on the screen, and how their points are shaded."""

    shapes: Ribbons | Discs
    leaves: dict[str, Variable]
    matrices: Variable
    """MAT4: from the world to clip space, one a view."""
    shader: StrandShader
    points: int
    """How many points the geometry has."""

    @cached_property
    def eye(self) -> Variable:
        """VEC3: the places of the cameras."""
        return eye_of(self.matrices)

    @cached_property
    def middle(self) -> Variable:
        """FLOAT, one a view: the distance of the mean point along the axis of the camera. No derivative. The mean of points does
        not follow from the camera, so that another view sums no list."""
        mean = F.sum(self.leaves["points"], "xy") * (1 / self.points)
        clip = F.matmul(self.matrices, F.vec4(mean, 1.0))
        return F.stop_gradient(depth_of_zw(F.swizzle(clip, "zw"), self.matrices))

    @property
    def _triangles(self) -> dict[str, Any]:
        shapes = self.shapes
        return {
            "size": shapes.size,
            "triangles": 2 * shapes.count,
            "triangles_per_face": 2,
            "live": shapes.live,
        }

    def summed(self, value: Callable[[Variable, Variable], Any]) -> Variable:
        """The sum over all fragments of ``value(number, depth)`` (``F.accumulate``)."""
        return F.accumulate(self.shapes.quads, value=value, **self._triangles)

    def nearest(self, fragment: Fragment) -> Variable:
        """INT: the number whose fragment wins, -1 for none (``F.rasterize``)."""
        return F.rasterize(self.shapes.quads, fragment=fragment, disjoint=True, **self._triangles)

    def point(self, number: Variable) -> StrandPoint:
        """The point of the segment, or the point, of that number (INT) at each pixel."""
        return StrandPoint(self.shapes.at(number), self.leaves, self.eye, self.shapes.clip, self.matrices)
