"""What is composed: strands or points on the screen, with their shader."""

from __future__ import annotations

from dataclasses import dataclass

from ...ad.graph import Variable
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

    def point(self, number: Variable) -> StrandPoint:
        """The point of the segment, or the point, of that number (INT) at each pixel."""
        return StrandPoint(self.shapes.at(number), self.leaves, self.eye, self.shapes.clip)
