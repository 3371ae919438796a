"""Linear systems for residuals that are dear to compute, such as rendered images: as a matrix, made at once
or by column, and the diagonal by probes.

A system of a few unknowns (``solved``): all columns J e_k are computed at once, so that they share what the
residuals are made of: one rendering serves J^T J and J^T r, where conjugate gradients would need one in each
iteration. The matrix is factorised in one texel:

    (J^T J + D) d = -J^T r,    S (J^T J + D) S = L P L^T,    S = diag(J^T J + D)^(-1/2),
    L unit lower triangular, P diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ... import functional as F
from ...graph import Variable
from ...graph.types import FLOAT, INT, Domain
from ...ops.pixel.constant import integers
from ...ops.pixel.random import Random
from ...transform.gradient import total
from . import vectors
from .vectors import EACH, WHOLE, Jacobian, Updates, inner, joined, numbers_of, reciprocal, units

MOST = 8  # numbers of a problem up to which the matrix is made at once
SINGULAR = 1e-6
"""Pivots up to this, relative to the diagonal, count as zero: what they belong to stays where it is."""


class Solution(NamedTuple):
    """diagonal: of J^T J. gradient: J^T r. change: d. All like the unknowns. decrease: half of -d^T J^T r."""

    diagonal: list[Variable]
    gradient: list[Variable]
    change: list[Variable]
    decrease: Variable


def solved(
    jacobian: Jacobian, axes: str, damping: Callable[[list[Variable]], list[Variable] | None]
) -> Solution:
    """The solution of the damped system at the residuals of the Jacobian. axes: those that products sum over.
    damping: D for the diagonal of J^T J, FLOATs."""
    places = [_places(x, axes == EACH) for x in jacobian.unknowns]
    units_of = [(i, place) for i, own in enumerate(places) for place in own]
    still = [F.zeros_like(x) for x in jacobian.unknowns]
    columns = [
        jacobian.forward([place if k == i else zero for k, zero in enumerate(still)]) for i, place in units_of
    ]
    matrix, right = _normal(columns, jacobian.residuals, axes)
    squares = [matrix[k, k] for k in range(len(columns))]
    for k, d in enumerate(damping(squares) or ()):
        matrix[k, k] = squares[k] + d
    change = _solution(matrix, [-g for g in right])

    def assembled(values: list[Variable]) -> list[Variable]:
        rest = iter(values)
        return [total([place * next(rest) for place in own]) for own in places]

    decrease = total([-0.5 * (g * d) for g, d in zip(right, change, strict=True)])
    return Solution(assembled(squares), assembled(right), assembled(change), decrease)


def _places(x: Variable, independent: bool) -> list[Variable]:
    """e_k for each number of an unknown, like it; of independent problems for all at once."""
    index = vectors.texel_number(x, independent)
    masks = [F.select(F.equal(index, k), 1.0, 0.0) for k in range(vectors.texels_of(x, independent))]
    return masks if x.vtype is FLOAT else [mask * unit for mask in masks for unit in units(x.vtype)]


def _normal(
    columns: Sequence[Sequence[Variable]], residuals: Sequence[Variable], axes: str
) -> tuple[dict[tuple[int, int], Variable], list[Variable]]:
    """J^T J, its entries (i, j) with j <= i, and J^T r."""
    count = len(columns)
    keys = [(i, j) for i in range(count) for j in range(i + 1)]
    shares = []
    for k, r in enumerate(residuals):
        own = [column[k] for column in columns]
        products = [inner(own[i], own[j]) for i, j in keys] + [inner(column, r) for column in own]
        shares.append(_sums(products, axes))
    sums = [total(share) for share in zip(*shares, strict=True)]
    return dict(zip(keys, sums[: len(keys)], strict=True)), sums[len(keys) :]


def _sums(images: Sequence[Variable], axes: str) -> list[Variable]:
    """The sums of FLOAT images, four by four where their domains are the same."""
    groups: dict[Domain, list[int]] = {}
    for k, image in enumerate(images):
        groups.setdefault(image.domain, []).append(k)
    sums: dict[int, Variable] = {}
    for group in groups.values():
        for first in range(0, len(group), 4):
            four = group[first : first + 4]
            if len(four) < 4:
                sums |= {k: F.sum(images[k], axes) for k in four}
                continue
            together = F.sum(F.vec4(*(images[k] for k in four)), axes)
            sums |= {k: F.component(together, c) for c, k in enumerate(four)}
    return [sums[k] for k in range(len(images))]


def _solution(matrix: vectors.Lower, right: Sequence[Variable]) -> list[Variable]:
    """The solution of a symmetric system, by L P L^T of the matrix scaled to a unit diagonal."""
    scale = [F.sqrt(reciprocal(matrix[k, k])) for k in range(len(right))]
    scaled = {(i, j): entry * scale[i] * scale[j] for (i, j), entry in matrix.items()}
    lower, pivots = vectors.factorised(
        scaled, len(right), lambda entry, i: reciprocal(F.select(F.greater(entry, SINGULAR), entry, 0.0))
    )
    values = vectors.substituted(lower, pivots, [b * s for b, s in zip(right, scale, strict=True)])
    return [x * s for x, s in zip(values, scale, strict=True)]


# J^T J of some dozens of unknowns as a matrix, for residuals that are dear to compute, such as rendered
# images.
#
# A Program that is run once for each number k of the unknowns stores column k, J^T J e_k. The iterations of
# conjugate gradients then multiply by the matrix and render nothing: they may be as many as it takes.
#
# The unknowns have one texel. Rows are kept like the unknown that they belong to, one column a texel along x:
#
#     (A p)_x = sum_k A_x[k] p[k],    p[k] the number k of all unknowns.


@dataclass
class Columns:
    """The matrix. probe: INT leaf, the number of the next column. independent: each image is a problem."""

    jacobian: Jacobian
    probe: Variable
    independent: bool

    def __post_init__(self) -> None:
        unknowns = self.jacobian.unknowns
        self.count = sum(numbers_of(x, self.independent) for x in unknowns)
        self._rows = [
            Variable(
                x.vtype, (self.count, 1), x.batch, channels=x.channels, name=f"rows {k}",
                data=np.zeros((*x.shape[:-2 - len(x.vtype.shape)], 1, self.count, *x.vtype.shape)),
            )
            for k, x in enumerate(unknowns)
        ]  # fmt: skip

    def updates(self, diagonal: Sequence[Variable]) -> Updates:
        """What one run stores. diagonal: state leaves that collect that of the matrix, 0 at first."""
        places = vectors.unit_vector(self.jacobian.unknowns, self.probe, self.independent)
        column = self.jacobian.reverse(self.jacobian.forward(places))
        here = F.equal(F.linear_index((self.count, 1)), self.probe)
        return [
            *((rows, F.select(here, q, rows)) for rows, q in zip(self._rows, column, strict=True)),
            *((d, d + F.hadamard(place, q)) for d, place, q in zip(diagonal, places, column, strict=True)),
            (self.probe, self.probe + 1),
        ]

    def __call__(self, p: Sequence[Variable]) -> list[Variable]:
        """J^T J p, by the stored columns."""
        places = vectors.unit_vector(p, F.linear_index((self.count, 1)), self.independent)
        axes = "c" if self.independent else "cn"
        values = [F.sum(inner(place, x), axes) for x, place in zip(p, places, strict=True)]
        return [F.sum(rows * total(values), "x") for rows in self._rows]


# The diagonal of J^T J for residuals that are not computed texel by texel, such as rendered images.
#
# A Program is run again and again, each time with the next probe. For a few unknowns the probes are the unit
# vectors: |J e_k|^2 is entry k of the diagonal, exactly. For many they are seeds z of random signs: the mean
# of (J^T z)^2 is the diagonal, and is never negative.

PROBE = "probe"
FEW = 64
"""Numbers among the unknowns up to which every unit vector is tried."""
SEEDS = 16
"""Random seeds for more unknowns. The relative deviation of an entry is about sqrt(2 / SEEDS)."""


def counter() -> Variable:
    """The state leaf that numbers the probes of a step."""
    return Variable(INT, name=PROBE, data=np.zeros((1, 1, 1), np.int64))


def probes(
    jacobian: Jacobian, diagonal: Sequence[Variable], probe: Variable, independent: bool
) -> tuple[Updates, int]:
    """What one probe adds to the diagonal and its counter, and the number of probes."""
    count = sum(numbers_of(x, independent) for x in jacobian.unknowns)
    if count <= FEW:  # e_k |J e_k|^2 for the probe k: nothing in all entries but one
        places = vectors.unit_vector(jacobian.unknowns, probe, independent)
        axes = EACH if independent else WHOLE
        square = total([F.sum(vectors.squared_norm(p), axes) for p in jacobian.forward(places)])
        shares = [place * square for place in places]
    else:  # (J^T z)^2 over the number of seeds
        count, seeds = SEEDS, []
        for k, r in enumerate(jacobian.residuals):
            drawn = [
                Random(*integers(977 * k + c, probe), r.domain).output for c in range(r.vtype.components)
            ]
            seeds.append(joined([F.select(F.less(x, 0.5), -1.0, 1.0) for x in drawn], r.vtype))
        shares = [F.hadamard(p, p) * (1.0 / SEEDS) for p in jacobian.reverse(seeds)]
    added = [(d, d + share) for d, share in zip(diagonal, shares, strict=True)]
    return [*added, (probe, probe + 1)], count
