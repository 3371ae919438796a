"""What fields are like where no picture tells: distances that grow evenly, and no bumps."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT
from ...errors import InputError
from ..mesh.remesh.volume import Grid


def _inner(grid: Grid, low: int) -> tuple[Variable, tuple[int, int, int]]:
    """INT list: the points of a grid without the last ones along each axis, and without ``low`` first ones;
    and the steps to the next point along each axis."""
    if min(grid.shape) < 2 + low:
        raise InputError(f"a grid of {grid.shape} points has none with neighbours; give at least (3, 3, 3)")
    number = np.arange(np.prod(grid.shape)).reshape(grid.shape)[(slice(low, -1),) * 3]
    return Variable.of(number.reshape(-1), INT), (grid.shape[1] * grid.shape[2], grid.shape[2], 1)


def eikonal_loss(values: Variable, grid: Grid) -> Variable:
    """FLOAT 1x1: squares of (slope - 1), in the mean over the cells: 0 for a signed distance (Gropp et al.
    2020).

    values: FLOAT list, one for each point of the grid. Differentiable in values. Raises InputError.
    """
    at, steps = _inner(grid, 0)
    here = F.lookup(values, at)
    slopes = (F.square((F.lookup(values, at + step) - here) * (1 / grid.step)) for step in steps)
    return F.mean(F.square(F.sqrt(reduce(add, slopes) + 1e-12) - 1.0))


def roughness_loss(values: Variable, grid: Grid) -> Variable:
    """FLOAT 1x1: squares of the Laplacian times the step, in the mean over the inner points: small for even
    surfaces.

    values: FLOAT list, one for each point of the grid. Differentiable in values. Raises InputError.
    """
    at, steps = _inner(grid, 1)
    around = reduce(add, (F.lookup(values, at + k) for step in steps for k in (-step, step)))
    return F.mean(F.square((around - 6.0 * F.lookup(values, at)) * (1 / grid.step)))
