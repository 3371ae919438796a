"""Rules of simplification: the components of vectors and matrices."""

from __future__ import annotations

from ..graph import Function, Variable
from ..ops.pixel.arithmetic import Add, Mul
from ..ops.pixel.geometry import Dot
from ..ops.pixel.matrix import Transpose
from ..ops.pixel.vector import Construct, Spread, SumComponents, Swizzle
from ..types import vector_type
from .rewrite import Rule, if_alike, on


@on(Swizzle)
def swizzle_parts(function: Function) -> Variable | None:
    """x.xyz -> x;  x.zyx.x -> x.z;  vec3(a, b, c).y -> b"""
    keys, x = function.keys, function.inputs[0]  # type: ignore[attr-defined]
    if keys == tuple(range(x.vtype.components)):
        return x
    match x.creator:
        case Swizzle(keys=inner, inputs=(y,)):
            return Swizzle(y, tuple(inner[k] for k in keys)).output
        case Construct(inputs=parts) if len(parts) == x.vtype.components and len(keys) == 1:
            return if_alike(parts[keys[0]], function)
    return None


@on(Add)
def join_spreads(function: Function) -> Variable | None:
    """vec3(a, 0, 0) + vec3(0, b, 0) -> vec3(a, b, 0): the sum of the gradients of single components"""
    match function.inputs:
        case (
            Variable(creator=Spread(inputs=(a,), keys=first, width=width)),
            Variable(creator=Spread(inputs=(b,), keys=second)),
        ):
            if len({*first, *second}) == len(first) + len(second):
                both = Construct(vector_type(len(first) + len(second)), a, b).output
                return Spread(both, (*first, *second), width).output
    return None


@on(Spread)
def spread_all(function: Function) -> Variable | None:
    """spread(x) -> swizzle(x), if it fills every component once"""
    keys, width = function.keys, function.width  # type: ignore[attr-defined]
    if len(keys) != width or len(set(keys)) != width:
        return None
    x = function.inputs[0]
    order = tuple(keys.index(k) for k in range(width))
    return x if order == tuple(range(width)) else Swizzle(x, order).output


@on(Construct)
def flat_construct(function: Function) -> Variable | None:
    """vec3(vec2(a, b), c) -> vec3(a, b, c)"""
    vtype, parts = function.output.vtype, function.inputs
    if len(parts) == 1 and parts[0].vtype is vtype:
        return parts[0]
    flat: list[Variable] = []
    for x in parts:
        inner = x.creator
        flat += inner.inputs if isinstance(inner, Construct) and not inner.fills else (x,)
    if len(flat) == len(parts) or (len(parts) == 1 and parts[0].vtype.is_scalar):
        return None
    return Construct(vtype, *flat).output


@on(SumComponents)
def sum_of_products(function: Function) -> Variable | None:
    """sum_components(a * b) -> dot(a, b)"""
    match function.inputs[0].creator:
        case Mul(inputs=(a, b)) if a.vtype is b.vtype and not a.vtype.is_matrix and not a.vtype.is_int:
            return Dot(a, b).output
    return None


@on(Transpose)
def transpose_twice(function: Function) -> Variable | None:
    """transpose(transpose(m)) -> m"""
    match function.inputs[0].creator:
        case Transpose(inputs=(x,)):
            return x
    return None


RULES: tuple[Rule, ...] = (
    swizzle_parts,
    join_spreads,
    spread_all,
    flat_construct,
    sum_of_products,
    transpose_twice,
)
