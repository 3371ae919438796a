"""Random batches of views: which views each step learns from, as data on the device."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import INT
from ....errors import InputError
from ...lists import list_leaf

ROUNDS = 64
"""Permutations of the views that follow each other before they repeat."""


class ViewBatches:
    """Picks ``size`` of ``count`` views in each step, by the step counter alone.

    One seeded permutation of all views follows the other, and each step takes the next ``size`` of them: all views are
    seen equally often. Where ``size`` does not divide ``count`` a step that takes from two permutations may see a view
    twice. Raises InputError.
    """

    def __init__(self, count: int, size: int, counter: Variable, seed: int = 0):
        if not 1 <= size <= count:
            raise InputError(f"a batch holds 1 to {count} of {count} views, not {size}")
        random = np.random.default_rng(seed)
        self.order = np.concatenate([random.permutation(count) for _ in range(ROUNDS)])
        table = list_leaf("order of views", INT, self.order)
        place = counter * size + F.tile_index((1, 1), size)
        self.size, self.index = size, F.lookup(table, place % len(self.order))
        """INT 1x1, ``size`` tiles: the views of this step."""

    def __call__(self, x: Variable) -> Variable:
        """The tiles of x that belong to the views of the step; what all views share (batch 1) as it is.

        Differentiable.
        """
        return F.take(x, self.index) if x.batch > 1 else x
