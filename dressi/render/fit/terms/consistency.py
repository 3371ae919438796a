"""The consistency term: neighbouring faces lie in one plane, or meet at a crease."""

from __future__ import annotations

from ...objectives.regularizers import normal_consistency
from ..graphs.term import Canvas, Term


class Consistency(Term):
    """1 - cos of the angles between the normals of neighbouring faces, in the mean over the edges."""

    def __init__(self, canvas: Canvas, weight: float):
        super().__init__(normal_consistency(canvas.position, canvas.edges) * weight)
