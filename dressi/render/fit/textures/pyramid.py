"""A texture that is optimised as a pyramid: texels that no pixel touches follow their neighbours."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import VEC3

COARSEST = 8
"""Texels along the shorter side of the coarsest level."""


class Pyramid:
    """A texture of ``size`` (W, H) as a sum: each level has twice the texels of the one before along each side, and every
    level is enlarged bilinearly to the next.

    A level carries what is common to many texels, so that a gradient at some of them moves the others too. start: (3,),
    the value of all texels at first.
    """

    def __init__(self, size: tuple[int, int], start: np.ndarray):
        sizes = [size]
        while min(sizes[0]) > COARSEST:
            sizes.insert(0, (-(-sizes[0][0] // 2), -(-sizes[0][1] // 2)))
        self.levels: list[Variable] = []
        """VEC3 leaves, from coarse to fine: the parameters."""
        total = None
        for number, (width, height) in enumerate(sizes):
            data = np.zeros((1, height, width, 3)) + (0 if number else np.asarray(start))
            leaf = Variable(VEC3, (width, height), name=f"texture {number}", data=data)
            self.levels.append(leaf)
            total = leaf if total is None else F.resize(total, (width, height)) + leaf
        assert total is not None
        self.texture: Variable = total
        """VEC3 of ``size``: the sum. Differentiable in the levels."""
