"""The diagonal of J^T J, from squared partial derivatives.

A residual of a stencil or of a graph reads each unknown through *accesses*: shifts, crops, lookups, or the texel itself.
Behind its accesses it is computed texel by texel. Each access u = A x selects texels, so A is a matrix of zeros and ones,
and the residual's share of the diagonal is exact:

    r = f(u_1, u_2, ...),  u_a = A_a x:    diag(J^T J) = sum_a A_a^T (df / du_a)^2

If one residual reads one texel by two accesses, as at a clamped border, the squares are added, not the sum squared.

Residuals of another shape, such as rendered images, have no such form; ``probes`` serves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .. import functional as F
from ..graph import Function, PixelFunction, Variable
from ..ops.image.image import Shift, Window
from ..ops.image.lookup import Lookup
from ..ops.image.reduce import Expand
from ..ops.image.take import Take
from ..ops.pixel.constant import constant
from ..transform.gradient import gradient, jvp
from ..traversal import topological_order
from ..types import FLOAT, Access, VType
from .energy import inner, squared_norm, total

SELECTIONS: tuple[type[Function], ...] = (Window, Shift, Lookup, Take, Expand)
"""Functions whose output texels are texels of their first input, or zero."""


class Accesses(NamedTuple):
    """How a residual reads one unknown. through: the values it reads, selections of the unknown's texels."""

    through: tuple[Variable, ...]


def accesses(residual: Variable, unknown: Variable) -> Accesses | None:
    """The accesses of a residual to an unknown. None: behind them the residual is not computed texel by texel."""
    selected, computed = {unknown}, set()
    found: dict[Variable, None] = {unknown: None} if residual is unknown else {}
    for function in topological_order([residual]):
        if function.output.vtype.is_int or function.zero_derivative:
            continue
        read = [i for i, x in enumerate(function.inputs) if x in selected or x in computed]
        if not read:
            continue
        if isinstance(function, SELECTIONS) and read == [0] and function.inputs[0] in selected:
            selected.add(function.output)
            continue
        if not isinstance(function, PixelFunction) or any(
            function.access[i] is not Access.SAME_PIXEL for i in read
        ):
            return None
        found.update((x, None) for i in read if (x := function.inputs[i]) in selected)
        computed.add(function.output)
    if residual in selected:
        found[residual] = None
    return Accesses(tuple(found))


def local_diagonal(residual: Variable, unknown: Variable, found: Accesses) -> Variable | None:
    """The share of one residual in the diagonal for one unknown, like the unknown; None if it does not read it."""
    shares = []
    for read in found.through:
        others = [v for v in found.through if v is not read]
        still = [F.zeros_like(v) for v in others]
        squares = [
            squared_norm(jvp([residual], [read, *others], [tangent, *still])[0])
            for tangent in units(read.vtype)
        ]
        seed = F.stop_gradient(joined(squares, read.vtype))
        # The gradient of a linear function of the unknown is the transpose of the selection.
        shares += gradient(F.sum(inner(read, seed)), [unknown])
    return total(shares) if shares else None


def units(vtype: VType) -> list[Variable]:
    """The unit values of a type, one for each component."""
    if vtype is FLOAT:
        return [constant(1.0)]
    return [constant(e.reshape(vtype.shape), vtype) for e in np.eye(vtype.components)]


def joined(parts: Sequence[Variable], vtype: VType) -> Variable:
    """A value of a type from FLOATs, one for each component."""
    if vtype is FLOAT:
        return parts[0]
    return total([part * unit for part, unit in zip(parts, units(vtype), strict=True)])


class Diagonal(NamedTuple):
    """values: diag(J^T J) of the residuals that are local, one Variable like each unknown. rest: the other residuals."""

    values: list[Variable]
    rest: list[Variable]


def diagonal(residuals: Sequence[Variable], unknowns: Sequence[Variable]) -> Diagonal:
    """diag(J^T J) of all residuals that read every unknown by accesses, and the residuals that do not."""
    rest = [r for r in residuals if any(accesses(r, x) is None for x in unknowns)]
    sums = []
    for x in unknowns:
        shares = []
        for r in residuals:
            found = accesses(r, x)
            if r not in rest and found is not None:
                share = local_diagonal(r, x, found)
                if share is not None:
                    shares.append(share)
        sums.append(total(shares) if shares else F.zeros_like(x))
    return Diagonal(sums, rest)
