"""The rules of simplification, as data; the driver in rewrite.py applies them.

Rules keep the type and the domain of what they replace, and its value for all finite inputs. They run on finished
programs, after the derivatives were built.
"""

from __future__ import annotations

import numpy as np

from ..evaluate import coordinates
from ..graph import Function, PixelFunction, ReduceFunction, ScatterFunction, Variable
from ..ops.image.lookup import Lookup
from ..ops.image.reduce import Expand
from ..ops.pixel.arithmetic import Add, Div, Mul, Sub, add, hadamard, sub
from ..ops.pixel.compare import LogicalNot, Select, select
from ..ops.pixel.constant import SINGLE, Constant, constant, constant_value, is_constant
from ..ops.pixel.geometry import Dot
from ..ops.pixel.math import Abs, Neg, Square, StopGradient, neg
from ..ops.pixel.matrix import Transpose
from ..ops.pixel.shortcut import Alias
from ..ops.pixel.vector import Construct, Spread, SumComponents, Swizzle
from ..types import Access, vector_type
from .rewrite import Rule, on

COMMUTATIVE = frozenset({Add, Mul})


def _alike(x: Variable, function: Function) -> bool:
    """Whether x has the type and domain of the function's output, so that it can stand for it."""
    return x.vtype is function.output.vtype and x.domain == function.output.domain


def _if_alike(x: Variable, function: Function) -> Variable | None:
    return x if _alike(x, function) else None


# ---- constants


def fold_constants(function: Function) -> Variable | None:
    """f(constants) of one texel -> constant, when the result is finite on a device."""
    inputs = function.inputs
    if not inputs or not all(isinstance(x.creator, Constant) for x in inputs):
        return None
    if not isinstance(function, PixelFunction) or function.output.domain != SINGLE:
        return None
    if any(a is not Access.SAME_PIXEL for a in function.access):
        return None
    arrays = [x.creator.eval() for x in inputs if isinstance(x.creator, Constant)]
    with np.errstate(all="ignore"):
        value = np.asarray(function.evaluate(coordinates(SINGLE), *arrays))
    vtype = function.output.vtype
    limit = 2**31 - 1 if vtype.is_int else float(np.finfo(np.float32).max)
    if not np.all(np.abs(value) <= limit):
        return None
    return constant(np.broadcast_to(value, function.output.shape).reshape(vtype.shape), vtype)


@on(Select)
def select_known(function: Function) -> Variable | None:
    """select(constant, a, b) -> a or b;  select(c, a, a) -> a."""
    condition, a, b = function.inputs
    if a is b:
        return _if_alike(a, function)
    known = constant_value(condition)
    if known is None or np.any(known != 0) != np.all(known != 0):
        return None
    return _if_alike(a if np.all(known != 0) else b, function)


# ---- algebra


@on(Add)
def add_zero(function: Function) -> Variable | None:
    """x + 0 -> x"""
    for x, zero in (function.inputs, function.inputs[::-1]):
        if is_constant(zero, 0.0):
            return _if_alike(x, function)
    return None


@on(Sub)
def sub_zero(function: Function) -> Variable | None:
    """x - 0 -> x;  0 - x -> -x"""
    a, b = function.inputs
    if is_constant(b, 0.0):
        return _if_alike(a, function)
    return neg(b) if is_constant(a, 0.0) and _alike(b, function) else None


@on(Mul)
def mul_one(function: Function) -> Variable | None:
    """x * 1 -> x;  x * -1 -> -x"""
    for x, c in (function.inputs, function.inputs[::-1]):
        if _alike(x, function):
            if is_constant(c, 1.0):
                return x
            if is_constant(c, -1.0):
                return neg(x)
    return None


@on(Div)
def div_one(function: Function) -> Variable | None:
    """x / 1 -> x"""
    a, b = function.inputs
    return _if_alike(a, function) if is_constant(b, 1.0) else None


@on(Mul)
def mul_constants(function: Function) -> Variable | None:
    """(x * c) * d -> x * (c * d), floats only"""
    match function.inputs:
        case (Variable(creator=Mul(inputs=inner)), Variable(creator=Constant()) as outer) | (
            Variable(creator=Constant()) as outer,
            Variable(creator=Mul(inputs=inner)),
        ) if not outer.vtype.is_int:
            for x, c in (inner, inner[::-1]):
                if isinstance(c.creator, Constant) and not isinstance(x.creator, Constant):
                    return hadamard(x, hadamard(c, outer))
    return None


@on(Neg)
def neg_neg(function: Function) -> Variable | None:
    """--x -> x;  -(a - b) -> b - a;  -(x * c) -> x * -c"""
    match function.inputs[0].creator:
        case Neg(inputs=(x,)):
            return x
        case Sub(inputs=(a, b)):
            return sub(b, a)
        case (
            Mul(inputs=(x, Variable(creator=Constant()) as c))
            | Mul(inputs=(Variable(creator=Constant()) as c, x))
        ):
            return hadamard(x, neg(c))
    return None


@on(Add, Sub)
def add_neg(function: Function) -> Variable | None:
    """a + -b -> a - b;  -a + b -> b - a;  a - -b -> a + b"""
    match function:
        case Add(inputs=(a, Variable(creator=Neg(inputs=(b,))))):
            return sub(a, b)
        case Add(inputs=(Variable(creator=Neg(inputs=(a,))), b)):
            return sub(b, a)
        case Sub(inputs=(a, Variable(creator=Neg(inputs=(b,))))):
            return add(a, b)
    return None


@on(Mul)
def mul_neg(function: Function) -> Variable | None:
    """-a * -b -> a * b;  -a * b -> -(a * b), so that signs meet and cancel"""
    match function.inputs:
        case (Variable(creator=Neg(inputs=(a,))), Variable(creator=Neg(inputs=(b,)))):
            return hadamard(a, b)
        case (Variable(creator=Neg(inputs=(a,))), b) | (b, Variable(creator=Neg(inputs=(a,)))):
            return neg(hadamard(a, b))
    return None


@on(Add, Sub)
def join_selects(function: Function) -> Variable | None:
    """select(c, a, 0) - select(c, 0, b) -> select(c, a, -b): the two gradients of a select, where they meet"""
    match function.inputs:
        case (Variable(creator=Select(inputs=(c, a, b))), Variable(creator=Select(inputs=(d, e, f)))):
            if c is d and all(is_constant(x, 0.0) or is_constant(y, 0.0) for x, y in ((a, e), (b, f))):
                branches = (type(function)(x, y).output for x, y in ((a, e), (b, f)))
                return _if_alike(select(c, *branches), function)
    return None


@on(Abs, Square)
def sign_is_lost(function: Function) -> Variable | None:
    """abs(-x) -> abs(x), and for the square"""
    match function.inputs[0].creator:
        case Neg(inputs=(x,)):
            return function.rebuild(x).output
    return None


@on(Select)
def select_not(function: Function) -> Variable | None:
    """select(not c, a, b) -> select(c, b, a)"""
    match function.inputs:
        case (Variable(creator=LogicalNot(inputs=(c,))), a, b):
            return select(c, b, a)
    return None


@on(StopGradient, Alias)
def stop_gradient_done(function: Function) -> Variable | None:
    """stop_gradient(x) -> x, and the value where only the derivative is special: derivatives were built before"""
    x = function.inputs[0]
    return x if _alike(x, function) else Expand(x, function.output.domain).output


# ---- vectors and matrices


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
            return _if_alike(parts[keys[0]], function)
    return None


@on(Add)
def join_spreads(function: Function) -> Variable | None:
    """vec3(a, 0, 0) + vec3(0, b, 0) -> vec3(a, b, 0): what the gradients of single components add up to"""
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
    """A Spread that fills every component once -> a swizzle"""
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
    """The components of a * b, added -> dot(a, b)"""
    match function.inputs[0].creator:
        case Mul(inputs=(a, b)) if a.vtype is b.vtype and not a.vtype.is_matrix and not a.vtype.is_int:
            return Dot(a, b).output
    return None


@on(Transpose)
def transpose_twice(function: Function) -> Variable | None:
    """The transpose of a transpose -> the matrix"""
    match function.inputs[0].creator:
        case Transpose(inputs=(x,)):
            return x
    return None


# ---- broadcasting


@on(Expand)
def expand_expand(function: Function) -> Variable | None:
    """expand(x) to its own domain -> x;  expand(expand(x)) -> expand(x)"""
    x = function.inputs[0]
    if x.domain == function.output.domain:
        return x
    match x.creator:
        case Expand(inputs=(y,)):
            return Expand(y, function.output.domain).output
    return None


def _expanded(function: Function) -> list[int]:
    """The inputs read at the same pixel that are Expands."""
    if isinstance(function, (ReduceFunction, Expand)) or not isinstance(
        function, (PixelFunction, ScatterFunction)
    ):
        return []
    return [
        i
        for i, (x, a) in enumerate(zip(function.inputs, function.access, strict=True))
        if isinstance(x.creator, Expand) and a is Access.SAME_PIXEL
    ]


def _without(function: Function, *expands: int) -> Function:
    """The Function over what the given Expands expand."""
    inputs = list(function.inputs)
    for i in expands:
        creator = inputs[i].creator
        assert creator is not None
        inputs[i] = creator.inputs[0]
    return function.rebuild(*inputs)


def _same_source(scatter: ScatterFunction, expand: int) -> bool:
    """Whether the other values and indices bring the source domain with them."""
    inputs = list(scatter.inputs)
    creator = inputs[expand].creator
    assert creator is not None
    inputs[expand] = creator.inputs[0]
    return scatter.broadcast(*inputs[1:]) == scatter.source


def expand_is_broadcast(function: Function) -> Variable | None:
    """f(expand(x), y) -> f(x, y), wherever y brings the domain with it"""
    for i in _expanded(function):
        if isinstance(function, ScatterFunction) and not _same_source(function, i):
            continue
        small = _without(function, i)
        if small.output.domain == function.output.domain:
            return small.output
    return None


def expand_later(function: Function) -> Variable | None:
    """f(expand(x), c) -> expand(f(x, c)) for one texel x, unless f depends on where it is computed

    Larger images stay expanded: what is computed before an expansion needs a pass of its own.
    """
    expands = _expanded(function)
    if not expands or isinstance(function, ScatterFunction):
        return None
    if function.places or any(a is not Access.SAME_PIXEL for a in function.access):
        return None
    small = _without(function, *expands).output
    one_texel = small.domain == ((1, 1), 1) and small.domain != function.output.domain
    return Expand(small, function.output.domain).output if one_texel else None


@on(Lookup)
def lookup_expanded(function: Function) -> Variable | None:
    """lookup(expand(table), i) -> lookup(table, i), where the index brings the batch: one tile serves all"""
    table, index = function.inputs
    match table.creator:
        case Expand(inputs=(x,)) if x.size == table.size:
            small = Lookup(x, index).output
            return _if_alike(small, function)
    return None


RULES: tuple[Rule, ...] = (
    fold_constants,
    select_known,
    add_zero,
    sub_zero,
    mul_one,
    div_one,
    mul_constants,
    neg_neg,
    add_neg,
    mul_neg,
    join_selects,
    sign_is_lost,
    select_not,
    stop_gradient_done,
    swizzle_parts,
    join_spreads,
    spread_all,
    flat_construct,
    sum_of_products,
    transpose_twice,
    expand_expand,
    expand_is_broadcast,
    expand_later,
    lookup_expanded,
)
