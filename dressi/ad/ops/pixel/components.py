"""Components of vectors and matrices by number, and the largest of them."""

from __future__ import annotations

from ....errors import GraphError
from ...graph import Variable
from ...graph.operators import operator
from .arithmetic import maximum
from .matrix import column
from .vector import XYZW, swizzle

__all__ = ["component", "max_component"]


@operator
def component(x: Variable, key: int | slice | tuple[int, int]) -> Variable:
    """A part of a vector or matrix by number; the operator ``x[key]``.

    x: a vector: key is a number (a scalar results) or a slice (a shorter vector). x: a matrix: key is the number of a column
    (VECn), or (row, column) of an element. Negative numbers count from the end. Differentiable. Raises GraphError.

    >>> x = Variable.of([1.0, 2.0, 3.0], VEC3)
    >>> evaluate([F.component(x, -1), x[0]])[0].item(), evaluate(x[:2]).ravel().tolist()
    (3.0, [1.0, 2.0])
    """
    if x.vtype.is_matrix:
        if isinstance(key, tuple):
            row, j = key
            return component(column(x, j), row)
        if isinstance(key, int):
            return column(x, key)
    elif isinstance(key, slice):
        keys = tuple(range(x.vtype.components))[key]
        return swizzle(x, "".join(XYZW[k] for k in keys))
    elif isinstance(key, int) and -x.vtype.components <= key < x.vtype.components:
        return swizzle(x, XYZW[range(x.vtype.components)[key]])
    raise GraphError(f"{x} has no component {key!r}")


def max_component(x: Variable) -> Variable:
    """The largest component of a vector or matrix.

    x: any type. The result is FLOAT (INT), of the domain of x. The gradient goes to the largest, the first of equal ones.

    >>> evaluate(F.max_component(Variable.of([1.0, 3.0, 2.0], VEC3))).item()
    3.0
    """
    if x.vtype.is_matrix:
        columns = [column(x, j) for j in range(x.vtype.shape[1])]
        best = columns[0]
        for c in columns[1:]:
            best = maximum(best, c)
        return max_component(best)
    best = component(x, 0) if not x.vtype.is_scalar else x
    for k in range(1, x.vtype.components):
        best = maximum(best, component(x, k))
    return best
