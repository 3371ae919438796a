"""A texture that is optimised as a pyramid: texels that no pixel touches follow their neighbours."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import vector_type

COARSEST = 8
"""Texels along the shorter side of the coarsest level."""


class Pyramid:
    """A texture of ``size`` (W, H) as a sum: each level has twice the texels of the one before along each side, and every
    level is enlarged bilinearly to the next.

    A level carries what is common to many texels, so that a gradient at some of them moves the others too. start: (C,),
    the value of all texels at first, or (H, W, C), an image of that size; C is 1 to 4.
    """

    def __init__(self, size: tuple[int, int], start: np.ndarray, name: str = "texture"):
        sizes = [size]
        while min(sizes[0]) > COARSEST:
            sizes.insert(0, (-(-sizes[0][0] // 2), -(-sizes[0][1] // 2)))
        start = np.asarray(start, np.float64)
        mean = start.reshape(-1, start.shape[-1]).mean(0)
        vtype = vector_type(len(mean))
        self.levels: list[Variable] = []
        """Float leaves, from coarse to fine: the parameters."""
        total = None
        for number, (width, height) in enumerate(sizes):
            data = np.zeros((1, height, width, len(mean))) + (0 if number else mean)
            if start.ndim == 3 and number == len(sizes) - 1:
                data += start - mean
            data = data.reshape(1, height, width, *vtype.shape)
            leaf = Variable(vtype, (width, height), name=f"{name} {number}", data=data)
            self.levels.append(leaf)
            total = leaf if total is None else F.resize(total, (width, height)) + leaf
        assert total is not None
        self.texture: Variable = total
        """Float image of ``size``: the sum. Differentiable in the levels."""
