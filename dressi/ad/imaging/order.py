"""Values in order: sorted axes, and medians of windows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from ...errors import GraphError
from ..contract.terms import shape_of
from ..graph import Variable
from ..graph.types import FLOAT, whole
from ..ops.image.image import shift
from ..ops.pixel.arithmetic import maximum, minimum, total
from ..ops.pixel.compare import equal
from ..ops.pixel.hints import store
from ..ops.pixel.kinds import AliasBeside
from ..ops.pixel.math import to_float
from ..transform.gradient import gradient, jvp
from .contract import contract

__all__ = ["median", "sort", "sort_index"]

AXES = {"n": "{}, c, y, x", "c": "n, {}, y, x", "y": "{}, x", "x": "y, {}"}
"""How a texel is indexed along an axis."""
LARGEST = 3
"""The largest radius of a median: of 49 values, some 400 comparisons."""


def sort(x: Variable, axis: str = "x") -> Variable:
    """The values along an axis in ascending order.

    Every value counts those before it, and goes to that place: two contractions, which take N^2 comparisons
    for N values. x: FLOAT, any channels. axis: "x", "y", "c" (channels) or "n" (the batch). The result has
    the domain of x. Differentiable: the gradient of a place goes to the value that came there. NaN has no
    place. Raises GraphError.

    >>> evaluate(F.sort(Variable.of([[3.0, 1.0, 2.0, 1.0, 0.0]]))).ravel().tolist()
    [0.0, 1.0, 1.0, 2.0, 3.0]
    """
    return _placed(x, axis, "v[{}]", v=x)


def sort_index(x: Variable, axis: str = "x") -> Variable:
    """FLOAT: where along the axis the values of ``sort`` come from; of equal values the first comes first.

    x, axis: as for ``sort``. No derivative. Raises GraphError.

    >>> evaluate(F.sort_index(Variable.of([[3.0, 1.0, 2.0, 1.0, 0.0]]))).ravel().tolist()
    [4.0, 1.0, 3.0, 2.0, 0.0]
    """
    return _placed(x, axis, "k")


def _placed(x: Variable, axis: str, term: str, **operands: Any) -> Variable:
    """The term of the value k that has place r, at r."""
    if axis not in AXES:
        raise GraphError(f"the axis that is sorted along is one of {', '.join(AXES)}, not {axis!r}")
    if x.vtype is not FLOAT:
        raise GraphError(f"{x} has no order: FLOAT is sorted, such as the channels of F.to_channels(x)")
    at, place, other = (AXES[axis].format(i) for i in "irk")
    text = f"(1 if v[{other}] < v[{at}] else 0) + ((1 if k < i else 0) if v[{other}] == v[{at}] else 0)"
    rank = contract(f"out[{at}] = {text}", v=x)
    text = f"out[{place}] = {term.format(other)} if rank[{other}] == r else 0"
    return contract(text, rank=rank, extents={"r": shape_of(x)["ncyx".index(axis)]}, **operands)


def median(x: Variable, radius: int = 1, border: str = "clamp") -> Variable:
    """The median of the texels within ``radius`` along both axes, by components: noise goes, edges stay.

    The (2 radius + 1)^2 values pass a sorting network (Batcher's merge exchange), of which what the middle
    needs is computed. x: FLOAT, VECn, INT or IVECn, any channels. radius: 1 to 3. border: as for ``shift``.
    The result has the type and domain of x. Differentiable: the gradient goes to the median, in equal
    parts to equal values. Raises GraphError.

    >>> evaluate(F.median(Variable.of([[1.0, 9.0, 2.0, 3.0, 4.0]]))).ravel().tolist()
    [1.0, 2.0, 3.0, 3.0, 4.0]
    """
    radius = whole(radius, "the radius of a median", 0)
    if radius > LARGEST or x.vtype.is_matrix:
        raise GraphError(
            f"a median takes scalars or vectors and a radius up to {LARGEST}, not {x} and {radius}"
        )
    values = _window(x, radius, border)
    for a, b in _network(len(values)):
        values[a], values[b] = minimum(values[a], values[b]), maximum(values[a], values[b])
    middle = values[len(values) // 2]
    return middle if x.vtype.is_int else Median(middle, x, radius=radius, border=border).output


def _window(x: Variable, radius: int, border: str) -> list[Variable]:
    return [shift(x, dx, dy, border) for dy, dx in product(range(-radius, radius + 1), repeat=2)]


class Median(AliasBeside):
    """Inputs (value, x): the value, the medians of x. Its gradient compares, which is a fraction of the way
    back through the network."""

    fields = ("radius", "border")
    radius: int
    border: str

    def _equal(self) -> Variable:
        """The value again: the mean of what is equal to it."""
        middle = store(self.inputs[0])
        window = _window(self.inputs[1], self.radius, self.border)
        same = [to_float(equal(value, middle)) for value in window]
        return total([a * b for a, b in zip(same, window, strict=True)]) / store(total(same))

    def vjp(self, gy, i):
        return gradient(self._equal(), [self.inputs[1]], seed=gy)[0] if i == 1 else None

    def jvp(self, tangents):
        return None if tangents[1] is None else jvp([self._equal()], [self.inputs[1]], [tangents[1]])[0]


def _network(count: int) -> Iterator[tuple[int, int]]:
    """Pairs of places, the smaller value of which goes to the first: in turn they sort any values (Knuth, volume 3, 5.2.2 M).

    >>> list(_network(3))
    [(0, 2), (0, 1), (1, 2)]
    """
    step = most = 1 << max(count - 1, 0).bit_length() >> 1
    while step:
        apart, other, part = step, most, 0
        while apart:
            yield from ((i, i + apart) for i in range(count - apart) if i & step == part)
            apart, other, part = other - step, other // 2, step
        step //= 2
