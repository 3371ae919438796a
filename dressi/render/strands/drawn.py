"""What is composed: strands or points on the screen, with their shader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.draws.fragment import Fragment
from .discs import Discs
from .point import StrandPoint, StrandShader
from .ribbons import Ribbons


@dataclass(frozen=True, eq=False)
class DrawnStrands:
    """Strands or points on the screen, and how their points are shaded."""

    shapes: Ribbons | Discs
    leaves: dict[str, Variable]
    eye: Variable
    shader: StrandShader

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
        return StrandPoint(self.shapes.at(number), self.leaves, self.eye, self.shapes.clip)
