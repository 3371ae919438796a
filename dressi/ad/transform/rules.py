"""Rules of simplification. Every rule preserves type, domain and, for finite inputs, value; they run on
finished programs, after the derivatives were built."""

from __future__ import annotations

import numpy as np

from ..contract.contraction import ContractFunction
from ..graph import Domain, Function, PixelFunction, ReduceFunction, ScatterFunction, Variable
from ..graph.evaluation import coordinates
from ..graph.types import Access, vector_type
from ..ops.image.lookup import Lookup
from ..ops.image.reduce import Expand, zeros
from ..ops.pixel.arithmetic import Add, Div, Max, Min, Mul, Sub, add, div, hadamard, sub
from ..ops.pixel.compare import LogicalAnd, LogicalNot, LogicalOr, Select, select
from ..ops.pixel.constant import SINGLE, Constant, constant, constant_value, is_constant
from ..ops.pixel.elementary import Exp, Exp2, InverseSqrt, Log, Log2, Pow, Sigmoid, Sqrt
from ..ops.pixel.geometry import Dot, Length
from ..ops.pixel.kinds import Alias
from ..ops.pixel.math import Abs, Neg, Square, StopGradient, neg
from ..ops.pixel.matrix import Transpose
from ..ops.pixel.vector import Construct, Spread, SumComponents, Swizzle
from .logic import Logic
from .rewrite import Rule, alike, if_alike, on

COMMUTATIVE = frozenset({Add, Mul})


# ---- constants, arithmetic and selects
def fold_constants(function: Function) -> Variable | None:
    """f(constants) of one texel -> constant, if the result is finite on a device."""
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
        return if_alike(a, function)
    known = constant_value(condition)
    if known is None or np.any(known) != np.all(known):
        return None
    return if_alike(a if np.all(known) else b, function)


@on(Add)
def add_zero(function: Function) -> Variable | None:
    """x + 0 -> x"""
    for x, zero in (function.inputs, function.inputs[::-1]):
        if is_constant(zero, 0.0):
            return if_alike(x, function)
    return None


@on(Sub)
def sub_zero(function: Function) -> Variable | None:
    """x - 0 -> x;  0 - x -> -x"""
    a, b = function.inputs
    if is_constant(b, 0.0):
        return if_alike(a, function)
    return neg(b) if is_constant(a, 0.0) and alike(b, function) else None


@on(Mul)
def mul_one(function: Function) -> Variable | None:
    """x * 1 -> x;  x * -1 -> -x"""
    for x, c in (function.inputs, function.inputs[::-1]):
        if alike(x, function):
            if is_constant(c, 1.0):
                return x
            if is_constant(c, -1.0):
                return neg(x)
    return None


@on(Div)
def div_one(function: Function) -> Variable | None:
    """x / 1 -> x"""
    a, b = function.inputs
    return if_alike(a, function) if is_constant(b, 1.0) else None


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
    """-a * -b -> a * b;  -a * b -> -(a * b), so that signs can cancel further on"""
    match function.inputs:
        case (Variable(creator=Neg(inputs=(a,))), Variable(creator=Neg(inputs=(b,)))):
            return hadamard(a, b)
        case (Variable(creator=Neg(inputs=(a,))), b) | (b, Variable(creator=Neg(inputs=(a,)))):
            return neg(hadamard(a, b))
    return None


@on(Add, Sub)
def join_selects(function: Function) -> Variable | None:
    """select(c, a, 0) - select(c, 0, b) -> select(c, a, -b): the sum of the gradients of both branches"""
    match function.inputs:
        case (Variable(creator=Select(inputs=(c, a, b))), Variable(creator=Select(inputs=(d, e, f)))):
            if c is d and all(is_constant(x, 0.0) or is_constant(y, 0.0) for x, y in ((a, e), (b, f))):
                branches = (type(function)(x, y).output for x, y in ((a, e), (b, f)))
                return if_alike(select(c, *branches), function)
    return None


@on(Abs, Square)
def drop_sign(function: Function) -> Variable | None:
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


LOGIC = Logic(
    view=lambda x: (type(x.creator) if x.creator else None, x.creator.inputs if x.creator else ()),
    same=lambda x, y: x is y,
    truth=lambda x: bool(x.creator.value[0]) if _is_uniform(x) else None,
)


def _is_uniform(x: Variable) -> bool:
    return isinstance(x.creator, Constant) and len({*x.creator.value}) == 1


@on(Select)
def select_again(function: Function) -> Variable | None:
    """select(c, select(c, a, b), d) -> select(c, a, d), for the other branch, and for conditions that follow"""
    condition, *branches = function.inputs
    taken = [LOGIC.taken(condition, value, x) for value, x in zip((True, False), branches, strict=True)]
    return if_alike(Select(condition, *taken).output, function) if taken != branches else None


@on(Max, Min, LogicalAnd, LogicalOr, LogicalNot)
def same_operand(function: Function) -> Variable | None:
    """max(a, min(a, b)) -> a, and what else ``Logic.simpler`` says"""
    found = LOGIC.simpler(type(function), function.inputs)
    return None if found is None else if_alike(found, function)


@on(Max, Min)
def extreme_constants(function: Function) -> Variable | None:
    """max(max(x, 1), 2) -> max(x, 2), and for the minimum"""
    kind = type(function)
    for one, other in (function.inputs, function.inputs[::-1]):
        inner = other.creator
        if isinstance(one.creator, Constant) and type(inner) is kind:
            for x, c in (inner.inputs, inner.inputs[::-1]):
                if isinstance(c.creator, Constant) and not isinstance(x.creator, Constant):
                    return if_alike(kind(x, kind(c, one).output).output, function)
    return None


@on(Add, Sub)
def like_terms(function: Function) -> Variable | None:
    """2 x + x 3 -> x 5;  x - x -> x 0, which is not a number where x is none or infinite; floats only"""
    (x, c), (y, d) = (_term(v) for v in function.inputs)
    if x is not y or not alike(x, function) or x.vtype.is_int or isinstance(x.creator, Constant):
        return None
    total = c + d if isinstance(function, Add) else c - d
    if (c, d, total) == (1.0, 1.0, 2.0) or not abs(total) <= float(np.finfo(np.float32).max):
        return None
    if total == 1.0:
        return x
    return neg(x) if total == -1.0 else hadamard(x, constant(total))


def _term(x: Variable) -> tuple[Variable, float]:
    """A value and the number it is multiplied by."""
    match x.creator:
        case Neg(inputs=(inner,)):
            value, c = _term(inner)
            return value, -c
        case Mul(inputs=(a, b)):
            for value, c in ((a, b), (b, a)):
                if _is_uniform(c) and value.vtype is x.vtype:
                    return value, float(c.creator.value[0])  # type: ignore[union-attr]
    return x, 1.0


@on(Sqrt, InverseSqrt, Pow, Square, Abs)
def powers(function: Function) -> Variable | None:
    """sqrt(a^2) -> |a|;  x^1 -> x;  m^2 -> m of a mask;  |a| -> a where a is never negative"""
    x = function.inputs[0]
    match function:
        case Sqrt() | InverseSqrt() if isinstance(x.creator, Square):
            root = Abs(*x.creator.inputs).output
            return root if isinstance(function, Sqrt) else if_alike(div(1.0, root), function)
        case Pow(inputs=(_, n)) if is_constant(n, 1.0) and not_negative(x):
            return if_alike(x, function)
        case Square() if LOGIC.is_mask(x):
            return x
        case Abs() if LOGIC.is_mask(x) or not_negative(x):
            return x
    return None


@on(Log, Log2)
def log_of_exp(function: Function) -> Variable | None:
    """log(exp(a)) -> a, also where exp(a) would overflow"""
    inner = function.inputs[0].creator
    return inner.inputs[0] if isinstance(inner, Exp if isinstance(function, Log) else Exp2) else None


@on(Exp, Exp2)
def exp_of_log(function: Function) -> Variable | None:
    """exp(log(a)) -> a where a is never negative: the logarithm of a negative number is NaN, which stays"""
    inner = function.inputs[0].creator
    if isinstance(inner, Log if isinstance(function, Exp) else Log2) and not_negative(inner.inputs[0]):
        return inner.inputs[0]
    return None


@on(Square, Mul)
def square_of_root(function: Function) -> Variable | None:
    """sqrt(a)^2 -> a and (1 / sqrt(a))^2 -> 1 / a, where a is never negative"""
    x = function.inputs[0]
    if function.inputs[-1] is not x:
        return None
    match x.creator:
        case Sqrt(inputs=(a,)) if not_negative(a):
            return if_alike(a, function)
        case InverseSqrt(inputs=(a,)) if not_negative(a):
            return if_alike(div(1.0, a), function)
        case Div(inputs=(one, Variable(creator=Sqrt(inputs=(a,))))) if is_constant(one, 1.0) and not_negative(
            a
        ):
            return if_alike(div(1.0, a), function)
    return None


def not_negative(x: Variable, depth: int = 4) -> bool:
    """Whether a value is at least 0 for all inputs, looking at Functions down to ``depth``."""
    match x.creator if depth else None:
        case Constant() as c:
            return all(v >= 0 for v in c.value)
        case Mul(inputs=(a, b)) | Dot(inputs=(a, b)) if a is b:
            return True
        case Add(inputs=(a, b)) | Mul(inputs=(a, b)):
            return not_negative(a, depth - 1) and not_negative(b, depth - 1)
        case Max(inputs=(a, b)):
            return not_negative(a, depth - 1) or not_negative(b, depth - 1)
        case Expand(inputs=(a,)):
            return not_negative(a, depth - 1)
    return isinstance(x.creator, (Abs, Square, Exp, Exp2, Sqrt, Length, Sigmoid))


@on(StopGradient, Alias)
def drop_derivative_marks(function: Function) -> Variable | None:
    """stop_gradient(x) -> x, alias(x, ...) -> x: they only affect derivatives, which are built already"""
    x = function.inputs[0]
    return x if alike(x, function) else Expand(x, function.output.domain).output


# ---- components of vectors and matrices
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


# ---- values that are broadcast to many texels, and reads of none
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
    """The indices of the inputs that are Expands and are read at the same pixel."""
    kinds = isinstance(function, PixelFunction | ScatterFunction)
    if not kinds or isinstance(function, ReduceFunction | Expand):
        return []
    reads = enumerate(zip(function.inputs, function.access, strict=True))
    return [i for i, (x, a) in reads if isinstance(x.creator, Expand) and a is Access.SAME_PIXEL]


def _without(function: Function, *expands: int) -> list[Variable]:
    return [x.creator.inputs[0] if i in expands and x.creator else x for i, x in enumerate(function.inputs)]


def expand_is_broadcast(function: Function) -> Variable | None:
    """f(expand(x), y) -> f(x, y), if y has the whole domain"""
    for i in _expanded(function):
        inputs = _without(function, i)
        if isinstance(function, ScatterFunction) and function.broadcast(*inputs[1:]) != function.source:
            continue
        small = function.rebuild(*inputs).output
        if small.domain == function.output.domain:
            return small
    return None


def expand_later(function: Function) -> Variable | None:
    """f(expand(x), c) -> expand(f(x, c)) if x is one texel, unless f depends on the texel

    Larger images are expanded first: computing before the expansion would take another pass.
    """
    expands = _expanded(function)
    if not expands or isinstance(function, ScatterFunction):
        return None
    if function.places or any(a is not Access.SAME_PIXEL for a in function.access):
        return None
    small = function.rebuild(*_without(function, *expands)).output
    one_texel = small.domain == Domain((1, 1), 1) and small.domain != function.output.domain
    return Expand(small, function.output.domain).output if one_texel else None


@on(Lookup)
def lookup_expanded(function: Function) -> Variable | None:
    """lookup(expand(table), i) -> lookup(table, i), if the index has the whole batch"""
    table, index = function.inputs
    match table.creator:
        case Expand(inputs=(x,)) if x.size == table.size:
            small = Lookup(x, index).output
            return if_alike(small, function)
    return None


@on(ContractFunction)
def contract_expanded(function: Function) -> Variable | None:
    """contract(expand(x)) -> expand(contract(x)), if x is expanded to tiles that are made one by one"""
    assert isinstance(function, ContractFunction)
    if not function.own_tile:
        return None
    x = function.inputs[0]
    match x.creator:
        case Expand(inputs=(y,)) if y.size == x.size:
            return Expand(function.over_tiles(y).output, function.output.domain).output
    return None


@on(ContractFunction)
def contract_nothing(function: Function) -> Variable | None:
    """contract(x) -> 0, if it reads no texel of x or has no term, as a shift by more than an image

    lavapipe of Mesa 22 does not end when it compiles some functions of what it finds to be zero itself.
    """
    assert isinstance(function, ContractFunction)
    return zeros(function.output.vtype, function.output.domain) if function.empty else None


RULES: tuple[Rule, ...] = (
    fold_constants, select_known, add_zero, sub_zero, mul_one, div_one, mul_constants, neg_neg, add_neg,
    mul_neg, like_terms, join_selects, drop_sign, select_not, select_again, same_operand, extreme_constants,
    log_of_exp, exp_of_log, square_of_root, powers, drop_derivative_marks,
    swizzle_parts, join_spreads, spread_all, flat_construct, sum_of_products, transpose_twice,
    contract_nothing, expand_expand, expand_is_broadcast, expand_later, lookup_expanded, contract_expanded,
)  # fmt: skip
