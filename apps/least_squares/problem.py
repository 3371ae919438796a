"""A least-squares problem as the programs of this folder hand it around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy_solver import Term

from dressi import Variable
from dressi.ad.evaluate import evaluate


@dataclass(frozen=True, eq=False)
class Problem:
    """energy: residuals of any float type; the cost is half the sum of their squares. unknowns: leaves whose data are the
    start. terms: the same energy in NumPy, for the reference; none where there is no such form."""

    name: str
    energy: Sequence[Variable]
    unknowns: Sequence[Variable]
    terms: Sequence[Term] = ()

    def cost(self) -> float:
        """The cost at the start, in float64."""
        return sum(0.5 * float(np.square(values).sum()) for values in evaluate(self.energy))

    def start(self) -> list[np.ndarray]:
        """The unknowns at the start, (count, components) each, as ``levenberg_marquardt`` takes them."""
        return [np.reshape(x.data, (-1, x.vtype.components)) for x in self.unknowns]  # type: ignore[arg-type]
