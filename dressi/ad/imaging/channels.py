"""Channels of images: taken apart and put together, and components of texels as channels."""

from __future__ import annotations

from ...errors import GraphError
from ..contract.contraction import ContractFunction
from ..contract.terms import shape_of
from ..graph import Variable
from ..graph.index_map import Affine, IndexMap
from ..graph.types import vector_type, whole
from ..ops.pixel.arithmetic import total
from ..ops.pixel.constant import operands
from ..ops.pixel.matrix import component
from ..ops.pixel.vector import Construct

__all__ = ["channel", "channels", "concatenate_channels", "from_channels", "to_channels"]


def channels(x: Variable, first: int, count: int) -> Variable:
    """Channels first to first + count - 1 of an image, as an image of ``count`` channels.

    x: any type. The result has its type, size and batch. Differentiable. Raises GraphError past the last.

    >>> F.channels(Variable(FLOAT, (8, 8), batch=2, channels=5), 1, 3)
    FLOAT ContractFunction#... (8x8 x 2, 3 channels)
    """
    first, count = whole(first, "the first channel", 0), whole(count, "a number of channels", 1)
    if first + count > x.channels:
        raise GraphError(f"{x} has no channels {first} to {first + count - 1}; the first is 0")
    return _placed(x, first, count)


def channel(x: Variable, k: int) -> Variable:
    """Channel k of an image.

    x: any type. k: from 0 on; negative numbers count from the last one. The result has the type, size and
    batch of x. Differentiable. Raises GraphError where x has no such channel.

    >>> F.channel(Variable(FLOAT, (8, 8), channels=5), -1)
    FLOAT ContractFunction#... (8x8)
    """
    k = whole(k, "a channel")
    return channels(x, k + x.channels if k < 0 else k, 1)


def concatenate_channels(*images: Variable) -> Variable:
    """Images behind each other as channels of one.

    images: any type, but one type, size and batch for all. Differentiable. Raises GraphError.

    >>> a, b = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), Variable.of([6.0, 7.0, 8.0, 9.0, 10.0])
    >>> evaluate(F.concatenate_channels(a, b)).shape
    (1, 2, 1, 5)
    """
    given = operands(*images)
    if not given:
        raise GraphError("there are no images whose channels are to be put together")
    first, count = given[0], sum(x.channels for x in given)
    for x in given:
        if (x.vtype, x.size, x.batch) != (first.vtype, first.size, first.batch):
            raise GraphError(
                f"channels of {first} and {x} cannot be put together: type, size and batch are equal"
            )
    parts, before = [], 0
    for x in given:
        parts.append(_placed(x, -before, count))
        before += x.channels
    return total(parts)


def _placed(x: Variable, first: int, count: int) -> Variable:
    """``count`` channels of x from ``first`` on, 0 where x has none."""
    n, _, height, width = shape_of(x)
    parallel = ((n,), (count,), (height,), (width,))
    return ContractFunction(x, parallel, (), (IndexMap.of(c=Affine.axis(1, constant=first)),)).output


def to_channels(x: Variable) -> Variable:
    """The components of texels as channels.

    x: VECn or IVECn without channels. The result is FLOAT (INT). Differentiable. Raises GraphError.

    >>> photograph = Variable(VEC3, (64, 48))
    >>> F.to_channels(photograph).shape
    (1, 3, 48, 64)
    """
    (x,) = operands(x)
    if x.vtype.is_matrix or x.vtype.is_scalar or x.channels > 1:
        raise GraphError(f"{x} is not of vectors without channels: its components cannot become channels")
    return concatenate_channels(*(component(x, k) for k in range(x.vtype.components)))


def from_channels(x: Variable) -> Variable:
    """Channels as the components of texels.

    x: FLOAT or INT with 2 to 4 channels. The result is VECn (IVECn). Differentiable. Raises GraphError.

    >>> F.from_channels(Variable(FLOAT, (64, 48), channels=3))
    VEC3 Construct#... (64x48)
    """
    if not x.vtype.is_scalar or not 2 <= x.channels <= 4:
        raise GraphError(f"{x} is not of 2 to 4 channels of scalars: these become components")
    vtype = vector_type(x.channels, integer=x.vtype.is_int)
    return Construct(vtype, *(channel(x, k) for k in range(x.channels))).output
