"""Convolutions, poolings, windows and matrix products of images: contractions by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import GraphError
from ..contract.contraction import ContractFunction, ContractIndex, reduced
from ..contract.terms import shape_of
from ..graph import Variable
from ..graph.index_map import BORDERS, Affine
from ..graph.operators import operator
from ..graph.types import FLOAT, whole
from ..ops.image.coordinates import check_one_row
from ..ops.pixel.constant import Like, floats, operands
from ..ops.pixel.matrix import component, product
from ..ops.pixel.vector import Construct
from ..transform.gradient import gradient
from .contract import contract

__all__ = [
    "average_pool", "convolve", "correlate", "correlate_transposed", "matmul", "max_pool", "max_pool_index",
    "min_pool", "window_max", "window_min",
]  # fmt: skip

Pair = int | Sequence[int]


def pair(value: Pair, what: str) -> tuple[int, int]:
    """(along y, along x) of one whole number for both or of (along x, along y), as sizes are given."""
    if isinstance(value, Sequence):
        if len(value) != 2:
            raise GraphError(f"{what} is a whole number, or two of them for x and y, not {value!r}")
        return whole(value[1], what, 1), whole(value[0], what, 1)
    return whole(value, what, 1), whole(value, what, 1)


def correlate(
    image: Variable,
    weight: Variable,
    *,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int = 1,
    border: str | None = "zero",
) -> Variable:
    """The image correlated with a kernel: out[y, x] = sum of image[y + dy - r, x + dx - r] * weight[dy, dx].

    image: FLOAT with any number of channels, or VECn. weight: FLOAT, of the size of the kernel. One kernel
    alone serves all channels and components; a batch of O kernels with I channels makes O channels from I *
    groups (torch's (O, I, H, W)). stride, dilation: one number, or (x, y): texels from one texel of the
    output to the next, and from one weight to the next. groups: the channels are that many independent parts.
    border: one of those of ``contract``, with the kernel centred, its texel (size - 1) // 2 over the texel of
    the output, and an output of the size of the image divided by the stride; None keeps the texels for which
    the whole kernel is inside. Differentiable in both. Raises GraphError.

    >>> image = Variable.of(np.arange(20.0).reshape(4, 5))
    >>> evaluate(F.correlate(image, Variable.of(np.ones((3, 3)), FLOAT), border=None))[0].tolist()
    [[54.0, 63.0, 72.0], [99.0, 108.0, 117.0]]
    """
    return _correlated(image, weight, stride, dilation, groups, border, flipped=False)


def convolve(
    image: Variable,
    weight: Variable,
    *,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int = 1,
    border: str | None = "zero",
) -> Variable:
    """The image convolved with a kernel: ``correlate`` with the kernel turned by 180 degrees.

    image, weight, stride, dilation, groups, border, and the result: as for ``correlate``, with FLOAT or VECn
    images. Differentiable in image and weight. Raises GraphError.

    >>> row = Variable.of([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    >>> evaluate(F.convolve(row, Variable.of([[1.0, 2.0, 3.0]], FLOAT))).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]
    """
    return _correlated(image, weight, stride, dilation, groups, border, flipped=True)


def _correlated(
    image: Variable,
    weight: Variable,
    stride: Pair,
    dilation: Pair,
    groups: int,
    border: str | None,
    flipped: bool,
) -> Variable:
    image, weight = floats(image, weight)
    if border is not None and border not in BORDERS:
        raise GraphError(
            f"the border of a convolution is None or one of {', '.join(BORDERS)}, not {border!r}"
        )
    (sy, sx), (dy, dx) = pair(stride, "a stride"), pair(dilation, "a dilation")
    groups = whole(groups, "the number of groups", 1)
    outputs, inputs, height, width = shape_of(weight)
    if border is None and ((height - 1) * dy >= image.size[1] or (width - 1) * dx >= image.size[0]):
        raise GraphError(f"{image} is smaller than the kernel {weight}; give it a border, such as 'zero'")
    if weight.vtype is not FLOAT:
        raise GraphError(f"the kernel {weight} is FLOAT")
    # The first weight lies oy, ox before the texel of the output, or behind it if the kernel is turned.
    before, left = (0 if border is None else (extent - 1) // 2 for extent in (height, width))
    if flipped:
        before, left = height - 1 - before, width - 1 - left
    numbers: dict[str, Any] = {"sy": sy, "sx": sx, "dy": dy, "dx": dx, "oy": before * dy, "ox": left * dx}
    sign = ("+", "-") if not flipped else ("-", "+")
    place = f"sy * y {sign[0]} dy * j {sign[1]} oy, sx * x {sign[0]} dx * i {sign[1]} ox"
    if outputs * inputs == 1 and groups == 1:
        return contract(
            f"out[y, x] = image[{place}] * weight[j, i]", border=border, image=image, weight=weight, **numbers
        )
    channels = shape_of(image)[1]
    if image.vtype is not FLOAT:
        raise GraphError(f"{image} has components, and {weight} channels; use F.to_channels(image)")
    if channels != inputs * groups or outputs % groups:
        raise GraphError(
            f"{weight} makes {outputs} channels from {inputs} in each of {groups} groups; {image} has"
            f" {channels}"
        )
    if groups == 1:
        text = f"out[n, o, y, x] = image[n, c, {place}] * weight[o, c, j, i]"
        return contract(text, border=border, image=image, weight=weight, **numbers)
    text = f"out[n, per * g + o, y, x] = image[n, each * g + c, {place}] * weight[per * g + o, c, j, i]"
    numbers |= {"per": outputs // groups, "each": inputs}
    extents = {"g": groups, "o": outputs // groups}
    return contract(text, border=border, extents=extents, image=image, weight=weight, **numbers)


def correlate_transposed(
    image: Variable,
    weight: Variable,
    like: Variable,
    *,
    stride: Pair = 1,
    dilation: Pair = 1,
    groups: int = 1,
    border: str | None = "zero",
) -> Variable:
    """The transpose of ``correlate``: spreads every texel with the kernel, and enlarges by the stride.

    image: FLOAT or VECn, of the domain that ``correlate(like, weight, ...)`` has. like: an image of the type
    and domain of the result, of which only these are used. weight, stride, dilation, groups, border: as for
    ``correlate``. Differentiable in image and weight. Raises GraphError.

    >>> small, kernel = Variable.of([[1.0, 2.0]], FLOAT), Variable.of([[1.0, 10.0]], FLOAT)
    >>> evaluate(F.correlate_transposed(small, kernel, Variable(FLOAT, (4, 1)), stride=2)).ravel().tolist()
    [1.0, 10.0, 2.0, 20.0]
    """
    made = correlate(like, weight, stride=stride, dilation=dilation, groups=groups, border=border)
    if image.domain != made.domain or image.vtype is not made.vtype:
        raise GraphError(f"{image} is not of the domain of the correlation of {like}, which is {made}")
    return gradient(made, [like], seed=image)[0]


def _pool(x: Variable, window: Pair, stride: Pair | None, combine: str) -> Variable:
    (x,) = operands(x)
    height, width = pair(window, "a window")
    sy, sx = pair(window if stride is None else stride, "a stride")
    if height > x.size[1] or width > x.size[0]:
        raise GraphError(f"{x} is smaller than a window of {width}x{height}; use F.pad, or a smaller window")
    text, extents = "out[y, x] = image[sy * y + j, sx * x + i]", {"j": height, "i": width}
    return contract(text, combine=combine, extents=extents, image=x, sy=sy, sx=sx)


def max_pool(x: Variable, window: Pair, stride: Pair | None = None) -> Variable:
    """The largest value in each window.

    x: FLOAT, any channels. window, stride: one number, or (x, y); windows are inside the image, and by
    default side by side. Differentiable: the gradient goes to the first of equal values. Raises GraphError.

    >>> evaluate(F.max_pool(Variable.of([[1.0, 5.0, 2.0, 3.0, 4.0, 0.0]]), (2, 1))).ravel().tolist()
    [5.0, 3.0, 4.0]
    """
    return _pool(x, window, stride, "max")


def min_pool(x: Variable, window: Pair, stride: Pair | None = None) -> Variable:
    """The smallest value in each window.

    x: FLOAT, any channels. window, stride: as for ``max_pool``. Differentiable. Raises GraphError.

    >>> evaluate(F.min_pool(Variable.of([[1.0, 5.0, 2.0, 3.0, 4.0, 0.0]]), (2, 1))).ravel().tolist()
    [1.0, 2.0, 0.0]
    """
    return _pool(x, window, stride, "min")


def max_pool_index(x: Variable, window: Pair, stride: Pair | None = None) -> Variable:
    """INT: the number of the first largest value in each window, row by row from its first texel.

    Arguments as for ``max_pool``. No derivative. Raises GraphError.

    >>> evaluate(F.max_pool_index(Variable.of([[1.0, 5.0, 2.0, 3.0, 4.0, 0.0]]), (2, 1))).ravel().tolist()
    [1, 1, 0]
    """
    pooled = _pool(x, window, stride, "max").creator
    assert isinstance(pooled, ContractFunction)
    return ContractIndex(*pooled.inputs, **pooled.form).output


def average_pool(x: Variable, window: Pair, stride: Pair | None = None) -> Variable:
    """The mean of each window.

    x: FLOAT, VECn or MATn. window, stride: as for ``max_pool``. Differentiable. Raises GraphError.

    >>> evaluate(F.average_pool(Variable.of([[1.0, 5.0, 2.0, 3.0, 4.0, 0.0]]), (2, 1))).ravel().tolist()
    [3.0, 2.5, 2.0]
    """
    height, width = pair(window, "a window")
    return _pool(x, window, stride, "add") * (1.0 / (height * width))


def window_max(x: Variable, radius: int, axis: str) -> Variable:
    """The largest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and
    domain of x. Differentiable; among equal texels the first gets the gradient. Raises GraphError.

    >>> evaluate(F.window_max(Variable.of([1.0, 5.0, 2.0, 0.0, 3.0]), 1, "x")).ravel().tolist()
    [5.0, 5.0, 5.0, 3.0, 3.0]
    """
    return _window(x, radius, axis, "max")


def window_min(x: Variable, radius: int, axis: str) -> Variable:
    """The smallest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and
    domain of x. Differentiable; among equal texels the first gets the gradient. Raises GraphError.

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


@operator
def matmul(a: Like, b: Like) -> Variable:
    """The product of matrices and vectors in texels, or of images as matrices; the operator ``@``.

    a, b: MATn @ MATn is a MATn, MATn @ VECn is a VECn, and VECn @ MATn is a VECn (a row vector), texel by
    texel. FLOAT images are matrices of H rows and W columns, for every tile: (H, K) @ (K, W). Differentiable
    in both. Raises GraphError if the orders differ.

    >>> m = Variable.of([[1.0, 2.0], [3.0, 4.0]], MAT2)
    >>> evaluate(F.matmul(m, (1.0, 10.0))).ravel().tolist()
    [21.0, 43.0]
    >>> a, b = Variable.of(np.arange(6.0).reshape(2, 3), FLOAT), Variable.of(np.ones((3, 4)), FLOAT)
    >>> evaluate(F.matmul(a, b))[0].tolist()
    [[3.0, 3.0, 3.0, 3.0], [12.0, 12.0, 12.0, 12.0]]
    """
    a, b = floats(a, b, matrices=True)
    if not (a.vtype.is_scalar and b.vtype.is_scalar):
        return product(a, b)
    if a.size[0] != b.size[1]:
        raise GraphError(
            f"a matrix product of {a} and {b}: the first has {a.size[0]} columns, the second {b.size[1]} rows"
        )
    return contract("out[y, x] = a[y, k] * b[k, x]", a=a, b=b)
