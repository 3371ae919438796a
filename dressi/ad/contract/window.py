"""Largest and smallest values in a window around each texel."""

from __future__ import annotations

from ...errors import GraphError
from ..graph import Variable
from ..graph.index_map import Affine
from ..ops.image.texels import check_one_row
from ..ops.pixel.components import component
from ..ops.pixel.vector import Construct
from ..types import whole
from .contraction import reduced
from .terms import shape_of

__all__ = ["window_max", "window_min"]


def window_max(x: Variable, radius: int, axis: str) -> Variable:
    """The largest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and domain of x.
    Differentiable; among equal texels the first gets the gradient. Raises GraphError.

    >>> evaluate(F.window_max(Variable.of([1.0, 5.0, 2.0, 0.0, 3.0]), 1, "x")).ravel().tolist()
    [5.0, 5.0, 5.0, 3.0, 3.0]
    """
    return _window(x, radius, axis, "max")


def window_min(x: Variable, radius: int, axis: str) -> Variable:
    """The smallest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and domain of x.
    Differentiable; among equal texels the first gets the gradient. Raises GraphError.

    >>> evaluate(F.window_min(Variable.of([1.0, 5.0, 2.0, 0.0, 3.0]), 1, "x")).ravel().tolist()
    [1.0, 1.0, 0.0, 0.0, 0.0]
    """
    return _window(x, radius, axis, "min")


def _window(x: Variable, radius: int, axis: str, combine: str) -> Variable:
    check_one_row(x, "a window")
    if axis not in ("x", "y"):
        raise GraphError(f"the axis of a window is 'x' or 'y', not {axis!r}")
    if x.vtype.is_matrix:
        raise GraphError(f"a window takes scalars and vectors, not {x}")
    if not x.vtype.is_scalar:
        parts = [_window(component(x, k), radius, axis, combine) for k in range(x.vtype.components)]
        return Construct(x.vtype, *parts).output
    along, shape = "ncyx".index(axis), shape_of(x)
    radius = min(whole(radius, "the radius", 0), shape[along] - 1)
    places = [Affine.axis(a) for a in range(4)]
    places[along] = Affine.of({along: 1, 4: 1}, -radius)
    guards = ((places[along], shape[along]),)
    return reduced(x, shape, 2 * radius + 1, places, combine, guards).output
