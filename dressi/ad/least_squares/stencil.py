"""Stencils (Opt, section 3): neighbours in images and volumes, what lies inside, and what a solver leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import GraphError
from .. import functional as F
from ..graph import Domain, Variable
from ..graph.index_map import BORDERS, Affine, IndexMap
from ..graph.types import whole
from ..ops.image.coordinates import ChannelIndex, check_one_row
from ..transform.rewrite import substitute
from .energy import Residual, Robust
from .linear.diagonal import Texels

__all__ = ["exclude", "in_bounds", "neighbour"]


def neighbour(x: Variable, dx: int, dy: int, dz: int = 0, border: str = "zero") -> Variable:
    """X(dx, dy, dz) of Opt: at texel (i, j, k) the value of x at texel (i + dx, j + dy, k + dz).

    x: any type. The channels of a volume are its third axis, z. border: what is read beyond the ends of each
    axis, as for ``F.shift``; by default 0. The result has the type and domain of x. Differentiable. Raises
    GraphError.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0])
    >>> evaluate(least_squares.neighbour(x, 1, 0) - x).ravel().tolist()
    [1.0, 2.0, 3.0, 4.0, -11.0]
    """
    dx, dy, dz = _offset(x, dx, dy, dz)
    if border not in BORDERS:
        raise GraphError(f"the border of {x} is one of {', '.join(map(repr, BORDERS))}, not {border!r}")
    if dz == 0:
        return F.shift(x, -dx, -dy, border)
    c, y, x_ = (Affine.axis(axis, 1, step) for axis, step in ((1, dz), (2, dy), (3, dx)))
    return Texels(IndexMap.of(c=c, y=y, x=x_, border=border), x.domain).of(x)


def in_bounds(x: Variable, dx: int, dy: int, dz: int = 0) -> Variable:
    """``InBounds`` of Opt: FLOAT, 1 where ``neighbour(x, dx, dy, dz)`` lies inside of x, else 0.

    For ``F.select(least_squares.in_bounds(x, 1, 0), r, 0.0)``. Its domain is one image of the size of x, with
    the channels of x if dz is not 0. No derivative. Raises GraphError.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0])
    >>> evaluate(least_squares.in_bounds(x, 1, 0)).ravel().tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    dx, dy, dz = _offset(x, dx, dy, dz)
    at, channels = F.pixel_coordinates(x.size), x.channels if dz else 1
    places = [(at.x, dx, x.size[0]), (at.y, dy, x.size[1])]
    if dz:
        places.append((ChannelIndex(Domain(x.size, channels, channels)).output, dz, channels))
    inside = F.fit(F.constant(1.0), places[-1][0])
    for place, step, extent in places:
        if step:
            inside = inside * F.to_float(place < extent - step if step > 0 else place >= -step)
    return inside


def exclude(
    residuals: Sequence[Residual], unknowns: Variable | Sequence[Variable], where: Variable
) -> list[Residual]:
    """``Exclude`` of Opt: the residuals without those at excluded texels, and with unknowns that stay there.

    where: FLOAT or INT; texels where it is not 0 are excluded. Residuals of its size are 0 there, and unknowns
    of its size are constant there, also in what neighbours read of them. Residuals and unknowns of other sizes
    are as they were, so that an energy may mix images and lists. Costs a select at each read of an unknown,
    where ``fixed=`` costs a solver between bounds. Raises GraphError if no unknown has the size of ``where``.

    >>> x = Variable.of([0.0, 0.0, 9.0, 0.0, 0.0], name="x")
    >>> step = F.select(least_squares.in_bounds(x, 1, 0), least_squares.neighbour(x, 1, 0) - x - 1.0, 0.0)
    >>> held = Variable.of([1.0, 0.0, 0.0, 0.0, 0.0], name="held")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(least_squares.exclude([step], x, held))
    ...     ad.set_optimizer(GaussNewton(tolerance=0.0), [x])
    ...     ad.step()
    ...     ad.recv(x).round(2).ravel().tolist()  # the first stays, and its step to the second counts no more
    [0.0, 4.5, 5.5, 6.5, 7.5]
    """
    unknowns = [unknowns] if isinstance(unknowns, Variable) else list(unknowns)
    if not isinstance(where, Variable) or where.vtype.components != 1:
        raise GraphError(f"exclude takes a FLOAT or INT of each texel, 1 where it is left out, not {where!r}")
    held = [x for x in unknowns if _fits(where, x)]
    if not held:
        sizes = ", ".join(map(str, unknowns))
        raise GraphError(f"no unknown has the texels of {where}, which exclude leaves out: {sizes}")
    # A Variable cannot stand for what it is computed from, so that placeholders come first.
    places = {x: Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count) for x in held}
    by = {place: F.select(where, F.stop_gradient(x), x) for x, place in places.items()}
    kept: list[Residual] = []
    for given in residuals:
        r = given.residual if isinstance(given, Robust) else given
        free = substitute(substitute([r], places), by)[0]
        free = F.select(where, 0.0, free) if _fits(where, r) else free
        kept.append(Robust(free, given.kernel) if isinstance(given, Robust) else free)
    return kept


def _fits(where: Variable, x: Variable) -> bool:
    """Whether x has the texels of a mask: its size, and its channels and batch or one of them."""
    return where.size == x.size and where.channels in (1, x.channels) and where.batch in (1, x.batch)


def _offset(x: Variable, *steps: int) -> list[int]:
    check_one_row(x, "a neighbour")
    return [whole(step, "the offset of a neighbour") for step in steps]
