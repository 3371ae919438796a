"""The linear system of a few unknowns as a matrix, for residuals that are dear to compute, such as rendered images.

All columns J e_k are computed at once, so that they share what the residuals are made of: one rendering serves J^T J and
J^T r, where conjugate gradients would need one in each iteration. The matrix is factorised in one texel:

    (J^T J + D) d = -J^T r,    S (J^T J + D) S = L P L^T,  S = diag(J^T J + D)^(-1/2),  L unit lower triangular, P diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import functional as F
from ...graph import Variable
from ...transform.gradient import total
from ...types import FLOAT, Domain
from .jacobian import Jacobian
from .vectors import EACH, inner, reciprocal, texel_number, texels_of, units

MOST = 8
"""Numbers among the unknowns of a problem up to which the matrix is made."""
SINGULAR = 1e-6
"""Pivots up to this, relative to the diagonal, count as zero: what they belong to stays where it is."""


@dataclass(frozen=True)
class Solution:
    """diagonal, change: that of J^T J, and d, one Variable like each unknown. decrease: half of -d^T J^T r."""

    diagonal: list[Variable]
    change: list[Variable]
    decrease: Variable


def solved(
    jacobian: Jacobian, axes: str, damping: Callable[[list[Variable]], list[Variable] | None]
) -> Solution:
    """The solution of the damped system at the residuals of the Jacobian. axes: that products sum over, of all or of each
    image. damping: D for the diagonal of J^T J, FLOATs."""
    places = [_places(x, axes == EACH) for x in jacobian.unknowns]
    units_of = [(i, place) for i, own in enumerate(places) for place in own]
    still = [F.zeros_like(x) for x in jacobian.unknowns]
    columns = [
        jacobian.forward([place if k == i else zero for k, zero in enumerate(still)]) for i, place in units_of
    ]
    matrix, right = _normal(columns, jacobian.residuals, axes)
    squares = [matrix[k, k] for k in range(len(columns))]
    added = damping(squares)
    for k, d in enumerate(added or ()):
        matrix[k, k] = squares[k] + d
    found = _factorised(matrix, [-g for g in right])

    def assembled(values: list[Variable]) -> list[Variable]:
        rest = iter(values)
        return [total([place * next(rest) for place in own]) for own in places]

    decrease = total([-0.5 * (g * d) for g, d in zip(right, found, strict=True)])
    return Solution(assembled(squares), assembled(found), decrease)


def _places(x: Variable, independent: bool) -> list[Variable]:
    """e_k for each number of an unknown, like it; of independent problems for all at once."""
    index = texel_number(x, independent)
    masks = [F.select(F.equal(index, k), 1.0, 0.0) for k in range(texels_of(x, independent))]
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
    found: dict[int, Variable] = {}
    for group in groups.values():
        for first in range(0, len(group), 4):
            four = group[first : first + 4]
            if len(four) < 4:
                found |= {k: F.sum(images[k], axes) for k in four}
                continue
            sums = F.sum(F.vec4(*(images[k] for k in four)), axes)
            found |= {k: F.component(sums, c) for c, k in enumerate(four)}
    return [found[k] for k in range(len(images))]


def _factorised(matrix: dict[tuple[int, int], Variable], right: Sequence[Variable]) -> list[Variable]:
    """The solution of a symmetric system, entries (i, j) with j <= i, by L P L^T of the matrix scaled to a unit diagonal."""
    count = len(right)
    scale = [F.sqrt(reciprocal(matrix[k, k])) for k in range(count)]
    lower: dict[tuple[int, int], Variable] = {}
    scaled: dict[tuple[int, int], Variable] = {}  # L times P
    inverse: list[Variable] = []
    for i in range(count):
        for j in range(i + 1):
            parts = [matrix[i, j] * scale[i] * scale[j]]
            parts += [-(scaled[i, k] * lower[j, k]) for k in range(j)]
            entry = total(parts)
            if j < i:
                scaled[i, j], lower[i, j] = entry, entry * inverse[j]
            else:
                inverse.append(reciprocal(F.select(F.greater(entry, SINGULAR), entry, 0.0)))
    found = [b * s for b, s in zip(right, scale, strict=True)]
    for i in range(count):
        found[i] = total([found[i], *(-(lower[i, k] * found[k]) for k in range(i))])
    found = [y * p for y, p in zip(found, inverse, strict=True)]
    for i in reversed(range(count)):
        found[i] = total([found[i], *(-(lower[k, i] * found[k]) for k in range(i + 1, count))])
    return [x * s for x, s in zip(found, scale, strict=True)]
