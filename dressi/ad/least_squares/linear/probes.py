"""The diagonal of J^T J for residuals that are not computed texel by texel, such as rendered images.

A Program is run again and again, each time with the next probe. For a few unknowns the probes are the unit vectors:
|J e_k|^2 is entry k of the diagonal, exactly. For many they are seeds z of random signs: the mean of (J^T z)^2 is the
diagonal, and is never negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...ops.pixel.constant import integers
from ...ops.pixel.random import Random
from ...optim.optimizer import State
from ...transform.gradient import total
from ...types import INT
from .jacobian import Jacobian
from .vectors import EACH, WHOLE, Updates, joined, numbers_of, squared_norm, unit_vector

PROBE = "probe"
FEW = 64
"""Numbers among the unknowns up to which every unit vector is tried."""
SEEDS = 16
"""Random seeds for more unknowns. The relative deviation of an entry is about sqrt(2 / SEEDS)."""


def counter() -> Variable:
    """The state leaf that numbers the probes of a step."""
    return Variable(INT, name=PROBE, data=np.zeros((1, 1, 1), np.int64))


@dataclass
class Probes:
    """The Program of one probe. diagonal: state leaves that collect the entries. independent: a problem for each image."""

    jacobian: Jacobian
    diagonal: Sequence[Variable]
    state: State
    independent: bool

    @property
    def count(self) -> int:
        """How many probes there are."""
        return self._numbers if self._numbers <= FEW else SEEDS

    @property
    def _numbers(self) -> int:
        return sum(numbers_of(x, self.independent) for x in self.jacobian.unknowns)

    def updates(self) -> Updates:
        """What one probe adds to the diagonal, and the counter."""
        shares = self._columns() if self._numbers <= FEW else self._seeds()
        added = [(d, d + share) for d, share in zip(self.diagonal, shares, strict=True)]
        return [*added, (self.state[PROBE], self.state[PROBE] + 1)]

    def _columns(self) -> list[Variable]:
        """e_k |J e_k|^2 for the probe k: nothing in all entries but one."""
        places, first = [], 0
        for x in self.jacobian.unknowns:
            places.append(unit_vector(x, first, self.state[PROBE], self.independent))
            first += numbers_of(x, self.independent)
        products = self.jacobian.forward(places)
        axes = EACH if self.independent else WHOLE
        square = total([F.sum(squared_norm(p), axes) for p in products])
        return [place * square for place in places]

    def _seeds(self) -> list[Variable]:
        """(J^T z)^2 over the number of seeds."""
        seeds = []
        for k, r in enumerate(self.jacobian.residuals):
            drawn = [
                Random(*integers(977 * k + c, self.state[PROBE]), r.domain).output
                for c in range(r.vtype.components)
            ]
            seeds.append(joined([F.select(F.less(x, 0.5), -1.0, 1.0) for x in drawn], r.vtype))
        products = self.jacobian.reverse(seeds)
        return [F.hadamard(p, p) * (1.0 / SEEDS) for p in products]
