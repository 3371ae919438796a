"""Rules of simplification: constants, arithmetic and selects."""

from __future__ import annotations

import numpy as np

from ..evaluate import coordinates
from ..graph import Function, PixelFunction, Variable
from ..ops.image.reduce import Expand
from ..ops.pixel.arithmetic import Add, Div, Max, Min, Mul, Sub, add, div, hadamard, sub
from ..ops.pixel.compare import LogicalNot, Select, select
from ..ops.pixel.constant import SINGLE, Constant, constant, constant_value, is_constant
from ..ops.pixel.elementary import Exp, Exp2, InverseSqrt, Log, Log2, Sigmoid, Sqrt
from ..ops.pixel.geometry import Dot, Length
from ..ops.pixel.kinds import Alias
from ..ops.pixel.math import Abs, Neg, Square, StopGradient, neg
from ..types import Access
from .rewrite import Rule, alike, if_alike, on

COMMUTATIVE = frozenset({Add, Mul})


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
    if known is None or np.any(known != 0) != np.all(known != 0):
        return None
    return if_alike(a if np.all(known != 0) else b, function)


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
    """select(c, a, 0) - select(c, 0, b) -> select(c, a, -b): the sum of the gradients of both branches of a select"""
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


@on(Select)
def select_again(function: Function) -> Variable | None:
    """select(c, select(c, a, b), d) -> select(c, a, d), and for the other branch"""
    condition, *branches = function.inputs
    taken = [
        x.creator.inputs[k] if isinstance(x.creator, Select) and x.creator.inputs[0] is condition else x
        for k, x in enumerate(branches, 1)
    ]
    return if_alike(Select(condition, *taken).output, function) if taken != branches else None


@on(Max, Min)
def same_extreme(function: Function) -> Variable | None:
    """max(a, a) -> a;  max(a, max(a, b)) -> max(a, b), and for the minimum"""
    for one, other in (function.inputs, function.inputs[::-1]):
        inner = other.creator
        if one is other or (type(inner) is type(function) and any(one is x for x in inner.inputs)):
            return if_alike(other, function)
    return None


@on(Log, Log2)
def log_of_exp(function: Function) -> Variable | None:
    """log(exp(a)) -> a, also where exp(a) would overflow"""
    inner = function.inputs[0].creator
    return inner.inputs[0] if isinstance(inner, Exp if isinstance(function, Log) else Exp2) else None


@on(Exp, Exp2)
def exp_of_log(function: Function) -> Variable | None:
    """exp(log(a)) -> a where a is not negative, whatever it is: of a negative one the logarithm is NaN, which stays"""
    inner = function.inputs[0].creator
    if isinstance(inner, Log if isinstance(function, Exp) else Log2) and not_negative(inner.inputs[0]):
        return inner.inputs[0]
    return None


@on(Square, Mul)
def square_of_root(function: Function) -> Variable | None:
    """sqrt(a)^2 -> a and (1 / sqrt(a))^2 -> 1 / a, where a is not negative, whatever it is"""
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
    """Whether a value is at least 0 for all inputs, as squares, exponentials, lengths and maxima with such a constant are. depth:
    of the Functions that are looked at."""
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
    """stop_gradient(x) -> x, alias(x, ...) -> x: Functions that only affect derivatives, which are already built"""
    x = function.inputs[0]
    return x if alike(x, function) else Expand(x, function.output.domain).output


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
    drop_sign,
    select_not,
    select_again,
    same_extreme,
    log_of_exp,
    exp_of_log,
    square_of_root,
    drop_derivative_marks,
)
