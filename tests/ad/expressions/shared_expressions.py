"""Densely shared computations for the tests of expressions."""

import numpy as np

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT


def random_outputs(seed: int) -> tuple[list[Variable], dict[Variable, np.ndarray]]:
    """Sums, products and Functions of what came before, densely shared."""
    random = np.random.default_rng(seed)
    leaves = [Variable(FLOAT, (4, 2), name=f"x{k}") for k in range(3)]
    values = list(leaves)
    for _ in range(40):
        x, y = (values[-1 - int(k)] for k in random.integers(0, min(8, len(values)), 2))
        values.append(
            (
                lambda x, y: x + y, lambda x, y: x - 0.5 * y, lambda x, y: 0.7 * x * y, lambda x, y: F.sin(x),
                lambda x, y: x / (1.5 + F.square(y)), lambda x, y: F.maximum(x, y), lambda x, y: -F.cos(y) * x,
            )[int(random.integers(7))](x, y)
        )  # fmt: skip
    return values[-4:], {v: random.uniform(-1.0, 1.0, v.shape) for v in leaves}
