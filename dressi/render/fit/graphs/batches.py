"""Random batches of views: which views each step learns from, as data on the device."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import INT
from ....errors import InputError
from ...lists import list_leaf

ROUNDS = 64
"""Number of permutations before the sequence repeats."""


class ViewBatches:
    """Picks ``size`` of ``count`` views in each step, by the step counter alone.

    Seeded permutations of all views follow each other, and each step takes the next ``size`` entries, so that all views
    are used equally often. If ``size`` does not divide ``count``, a step across two permutations may use a view twice.
    Raises InputError.
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
        """The tiles of x for the views of the step; x itself if all views share it (batch 1).

        Differentiable.
        """
        return F.take(x, self.index) if x.batch > 1 else x
