"""Examples of component-wise Functions and constants."""

import itertools

import numpy as np
from example_tools import BATCH, SIZE, Example, add, apart, example, of

from dressi import FLOAT, INT, IVEC2, IVEC3, IVEC4, MAT2, MAT3, VEC2, VEC3, F
from dressi.ad.ops.image import activations
from dressi.ad.ops.pixel import arithmetic, compare, elementary, hints, math
from dressi.ad.ops.pixel import constant as constants

# ---- component-wise, one input
for cls, function, low, high in (
    (hints.Store, F.store, -2, 2),
    (hints.Recompute, F.recompute, -2, 2),
    (math.Neg, F.neg, -2, 2),
    (math.Square, F.square, -2, 2),
    (elementary.Exp, F.exp, -2, 2),
    (elementary.Exp2, F.exp2, -2, 2),
    (elementary.Log, F.log, 0.5, 3),
    (elementary.Log2, F.log2, 0.5, 3),
    (elementary.Sqrt, F.sqrt, 0.5, 3),
    (elementary.InverseSqrt, F.inversesqrt, 0.5, 3),
    (elementary.Sin, F.sin, -3, 3),
    (elementary.Cos, F.cos, -3, 3),
    (elementary.Tan, F.tan, -1.2, 1.2),
    (elementary.Asin, F.asin, -0.9, 0.9),
    (elementary.Acos, F.acos, -0.9, 0.9),
    (elementary.Atan, F.atan, -3, 3),
    (elementary.Sigmoid, F.sigmoid, -6, 6),
    (activations.Tanh, F.tanh, -3, 3),
    (activations.Erf, F.erf, -3, 3),
    (activations.Softplus, F.softplus, -6, 6),
):
    add(
        cls,
        example(function, of(FLOAT, SIZE, BATCH, low, high)),
        example(function, of(VEC3, SIZE, 1, low, high)),
    )
    add(cls, example(function, of(MAT2, (2, 1), 1, low, high)))
add(activations.Erf, example(F.gelu, of(FLOAT, SIZE, BATCH, -3, 3)))
add(activations.Tanh, example(lambda x: F.gelu(x, "tanh"), of(VEC3, SIZE, 1, -3, 3)))
for cls, function in (
    (math.Abs, F.abs),
    (math.Sign, F.sign),
    (math.Floor, F.floor),
    (math.Ceil, F.ceil),
    (math.Round, F.round),
    (math.Fract, F.fract),
):
    add(cls, example(function, lambda: apart(FLOAT, SIZE, BATCH)), example(function, lambda: apart(VEC2)))
add(math.Neg, example(F.neg, of(IVEC3, SIZE, 1, -9, 9)))
add(math.Abs, example(F.abs, of(INT, SIZE, BATCH, -9, 9)))
add(math.Sign, example(F.sign, of(IVEC2, SIZE, 1, -2, 3)))
add(math.Round, example(lambda x: F.round(x * 0.5), lambda: apart(offset=0), only=0))  # halves
add(math.StopGradient, example(lambda x: x * F.stop_gradient(x), of(VEC2), only=0))
add(math.StopGradient, example(F.stop_gradient, of(IVEC2, SIZE, 1, -5, 5)))
add(math.Convert, example(lambda x: F.to_int(x * 2.0), of(VEC3, SIZE, BATCH, -9, 9), only=0))
add(
    math.Convert,
    example(F.to_float, of(INT, SIZE, BATCH, -9, 9)),
    example(F.to_float, of(IVEC4, (2, 1), 1, -9, 9)),
)
add(compare.LogicalNot, example(lambda x: F.logical_not(F.floor(x)), of(FLOAT)))
add(compare.LogicalNot, example(lambda x: F.logical_not(F.floor(x)), of(VEC3, SIZE, BATCH)))


# ---- component-wise, two or three inputs: equal domains, size and batch broadcast, scalars beside vectors, matrices
def shapes(low=-2.0, high=2.0, count=2):
    """Lists of leaves for a component-wise Function of ``count`` inputs."""
    vtypes = itertools.cycle
    for kinds, domains in (
        ((FLOAT,), ((SIZE, BATCH),)),
        ((VEC3, FLOAT), ((SIZE, 1), ((1, 1), BATCH))),
        ((FLOAT, VEC2), (((5, 1), 1), ((1, 4), BATCH))),
        ((MAT3, FLOAT), (((2, 1), 1), ((1, 1), 1))),
    ):
        pairs = list(zip(vtypes(kinds), vtypes(domains), range(count)))
        yield [of(k, size, batch, low, high, salt) for k, (size, batch), salt in pairs]


for cls, function, low, high in (
    (arithmetic.Add, F.add, -2, 2),
    (arithmetic.Sub, F.sub, -2, 2),
    (arithmetic.Mul, F.mul, -2, 2),
    (arithmetic.Div, F.div, 0.5, 3),
    (elementary.Pow, F.pow, 0.5, 3),
    (elementary.Atan2, F.atan2, -2, 2),
    (arithmetic.Min, F.minimum, -2, 2),
    (arithmetic.Max, F.maximum, -2, 2),
    (compare.Less, F.less, -2, 2),
    (compare.LessEqual, F.less_equal, -2, 2),
    (compare.Equal, F.equal, -2, 2),
    (compare.NotEqual, F.not_equal, -2, 2),
    (arithmetic.Step, F.step, -2, 2),
):
    add(cls, *(example(function, *makes) for makes in shapes(low, high)))
for makes in shapes(count=3):
    add(arithmetic.Mix, example(F.mix, *makes))
    add(arithmetic.Clamp, example(lambda x, a, b: F.clamp(x, a * 0.5 - 1.0, b * 0.5 + 1.0), *makes))
add(arithmetic.Mul, example(F.hadamard, of(MAT2), of(MAT2, (1, 1), BATCH)))
add(elementary.Pow, example(lambda x: F.pow(x, 2.5), of(FLOAT, low=0.5, high=2)))
add(
    arithmetic.Mul,
    example(lambda x: x**5 + F.pow(x, 0), of(FLOAT)),
    example(lambda x: x**3, of(MAT3, (1, 1))),
)
add(arithmetic.Mod, example(lambda x: F.mod(x, 1.75), lambda: apart(FLOAT, SIZE, BATCH, offset=0.3125)))
add(arithmetic.Mod, example(F.mod, lambda: apart(VEC3), of(FLOAT, (1, 1), 1, 5.1, 5.2)))
for cls, function in (
    (arithmetic.Add, F.add),
    (arithmetic.Sub, F.sub),
    (arithmetic.Mul, F.mul),
    (arithmetic.Min, F.min),
    (arithmetic.Max, F.max),
    (compare.Less, F.greater),
    (compare.LessEqual, F.greater_equal),
    (compare.Equal, F.equal),
    (compare.NotEqual, F.not_equal),
):
    add(cls, example(function, of(INT, SIZE, BATCH, -3, 4), of(INT, (1, 1), 1, -3, 4)))
    add(cls, example(function, of(IVEC3, SIZE, 1, -3, 4), of(INT, SIZE, BATCH, -3, 4)))
for cls, function in ((arithmetic.Div, F.div), (arithmetic.Mod, F.mod)):
    add(cls, example(function, of(INT, SIZE, BATCH, -20, 20), of(INT, SIZE, 1, 1, 5)))
    add(cls, example(function, of(IVEC2, SIZE, BATCH, -20, 20), of(INT, (1, 1), 1, 3, 5)))
add(arithmetic.Clamp, example(lambda x: F.clamp(x, -2, 2), of(IVEC3, SIZE, 1, -5, 5)))
for cls, function in ((compare.LogicalAnd, F.logical_and), (compare.LogicalOr, F.logical_or)):
    for vtype in (FLOAT, VEC3):
        add(
            cls,
            example(lambda a, b, f=function: f(F.floor(a), F.floor(b)), of(vtype), of(FLOAT, SIZE, BATCH)),
        )
add(compare.Select, example(F.select, of(FLOAT, SIZE), of(VEC3, SIZE, BATCH), of(VEC3, (1, 1))))
add(compare.Select, example(lambda a, b: F.select(F.less(a, b), a, b), of(VEC3), of(FLOAT, SIZE, BATCH)))
add(
    compare.Select,
    example(lambda c, a, b: F.select(c, a, b), of(INT, SIZE, 1, 0, 2), of(MAT3, (1, 1)), of(FLOAT)),
)
add(
    compare.Select,
    example(lambda c, a: F.select(c, a, -7), of(INT, SIZE, 1, 0, 2), of(IVEC3, SIZE, BATCH, 0, 9)),
)
add(compare.Select, example(lambda a: F.select(F.less(a, (0, 1)), a, (3, 4)), of(IVEC2, SIZE, 1, -3, 3)))
add(
    compare.Select,
    example(lambda a, b: F.select(F.less(a, b), a, 0.5), of(MAT3, (2, 1)), of(FLOAT, (1, 1), 2)),
)
# What is not taken is NaN or infinite.
add(compare.Select, example(lambda a: F.select(F.greater(a, 0.0), F.sqrt(a), a), of(FLOAT), only=0))
add(compare.Select, example(lambda a: F.select(F.greater(a, 0.0), F.log(a), -1.0), of(VEC2), only=0))

# ---- constants
add(constants.Constant, lambda: Example(F.constant(0.1)), lambda: Example(F.constant(-(2**31))))
add(
    constants.Constant,
    lambda: Example(F.constant((1e-7, -2.5e20, 3.0))),
    lambda: Example(F.constant((1, -2, 3, 4))),
)
add(constants.Constant, lambda: Example(F.constant(np.arange(9).reshape(3, 3) / 7)))
add(constants.Constant, example(lambda x: x + F.constant((1.0, 2.0)), of(VEC2)))
