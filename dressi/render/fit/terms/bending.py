"""The Laplacian of the shape: it smooths, or keeps the details of a given shape."""

from __future__ import annotations

from ....ad.types import VEC3
from ...lists import list_leaf
from ..graphs.term import Canvas, Term


class Bending(Term):
    """The squared Laplacian of the positions, or of their difference from a given shape."""

    def __init__(self, canvas: Canvas):
        position, rest = canvas.position, canvas.rest
        moved = position if rest is None else position - list_leaf("rest", VEC3, rest)
        weight = canvas.plan.smoothness * canvas.factors.smoothness
        super().__init__(canvas.lists.bending(moved, weight), factors=("smoothness",))
