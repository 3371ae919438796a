"""F: every operation on Variables. Each builds a graph; ``evaluate`` and ``DressiAD`` compute it.

The examples in the docstrings run after these two lines::

    import numpy as np
    from dressi import *

    image = Variable.of(np.random.rand(48, 64, 3))              # VEC3, 64x48
    evaluate(F.sum_components(F.mean(F.square(image - 0.5))))    # FLOAT, one texel

Arguments (``Like``) are Variables, numbers, tuples of 2 to 4 numbers, square matrices, or arrays as large as a Variable
beside them. *Types* are those of one texel: FLOAT, VECn, MATn and INT, IVECn with n from 2 to 4. A FLOAT (INT) broadcasts
over components; integers and floats do not mix, except that Python numbers become what they stand beside. *Domains* are
((W, H), batch); along each axis they are equal or 1, and 1 broadcasts. Operations that do not fit raise GraphError, which
names the operation and the line of your code. Outside of its domain an operation gives NaN or infinity, as in IEEE 754.
Where a docstring says nothing else, second derivatives exist too.

arithmetic, by components (and as operators)
    add, atan2, clamp, div, hadamard, max, maximum, min, minimum, mix, mod, mul, neg, pow, smoothstep, step, sub

functions of one value, by components
    abs, acos, asin, atan, ceil, cos, exp, exp2, floor, fract, inversesqrt, log, log2, round, sigmoid, sign, sin, sqrt,
    square, stop_gradient, tan, to_float, to_int

masks: 1.0 and 0.0
    equal, greater, greater_equal, less, less_equal, logical_and, logical_not, logical_or, not_equal, select, where

vectors
    component, cross, distance, dot, ivec2, ivec3, ivec4, length, max_component, normalize, reflect, refract,
    sum_components, swizzle, vec2, vec3, vec4

matrices
    column, determinant, fill, inverse, mat2, mat3, mat4, matmul, outer, transpose

constants, random numbers, operations of your own
    Like, apply, constant, constant_value, random, sobol2, zeros, zeros_like

reductions over x, y and the batch; broadcasting
    expand, fit, max, mean, min, sum

images: texels of one image at other places
    crop, linear_index, pad, pixel_coordinates, resize, shift, take, tile_index, window_max, window_min

tables, textures, triangles
    inverse_uv, lookup, rasterize, sample, sample_inverse_uv, scatter_add, scatter_max
"""

from .ops.custom import (
    apply,
)
from .ops.image.extremes import max, min
from .ops.image.image import (
    crop,
    linear_index,
    pad,
    pixel_coordinates,
    shift,
    take,
    tile_index,
)
from .ops.image.lookup import (
    lookup,
    scatter_add,
    scatter_max,
)
from .ops.image.raster import (
    rasterize,
)
from .ops.image.reduce import (
    expand,
    fit,
    mean,
    sum,
    zeros,
    zeros_like,
)
from .ops.image.resize import (
    resize,
)
from .ops.image.window import window_max, window_min
from .ops.pixel.arithmetic import (
    add,
    clamp,
    div,
    hadamard,
    maximum,
    minimum,
    mix,
    mod,
    mul,
    smoothstep,
    step,
    sub,
)
from .ops.pixel.compare import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    select,
    where,
)
from .ops.pixel.components import (
    component,
    max_component,
)
from .ops.pixel.constant import (
    Like,
    constant,
    constant_value,
)
from .ops.pixel.exponential import (
    exp,
    exp2,
    inversesqrt,
    log,
    log2,
    pow,
    sigmoid,
    sqrt,
)
from .ops.pixel.geometry import (
    cross,
    distance,
    dot,
    length,
    normalize,
    reflect,
    refract,
)
from .ops.pixel.math import (
    abs,
    ceil,
    floor,
    fract,
    neg,
    round,
    sign,
    square,
    stop_gradient,
    to_float,
    to_int,
)
from .ops.pixel.matrix import (
    column,
    determinant,
    inverse,
    mat2,
    mat3,
    mat4,
    matmul,
    outer,
    transpose,
)
from .ops.pixel.random import (
    random,
    sobol2,
)
from .ops.pixel.trigonometry import (
    acos,
    asin,
    atan,
    atan2,
    cos,
    sin,
    tan,
)
from .ops.pixel.vector import (
    fill,
    ivec2,
    ivec3,
    ivec4,
    sum_components,
    swizzle,
    vec2,
    vec3,
    vec4,
)
from .ops.texture.inverse_uv import (
    inverse_uv,
    sample_inverse_uv,
)
from .ops.texture.sample import (
    sample,
)

__all__ = [
    "Like",
    "abs",
    "acos",
    "add",
    "apply",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "clamp",
    "column",
    "component",
    "constant",
    "constant_value",
    "cos",
    "crop",
    "cross",
    "determinant",
    "distance",
    "div",
    "dot",
    "equal",
    "exp",
    "exp2",
    "expand",
    "fill",
    "fit",
    "floor",
    "fract",
    "greater",
    "greater_equal",
    "hadamard",
    "inverse",
    "inverse_uv",
    "inversesqrt",
    "ivec2",
    "ivec3",
    "ivec4",
    "length",
    "less",
    "less_equal",
    "linear_index",
    "log",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "lookup",
    "mat2",
    "mat3",
    "mat4",
    "matmul",
    "max",
    "max_component",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mix",
    "mod",
    "mul",
    "neg",
    "normalize",
    "not_equal",
    "outer",
    "pad",
    "pixel_coordinates",
    "pow",
    "random",
    "rasterize",
    "reflect",
    "refract",
    "resize",
    "round",
    "sample",
    "sample_inverse_uv",
    "scatter_add",
    "scatter_max",
    "select",
    "shift",
    "sigmoid",
    "sign",
    "sin",
    "smoothstep",
    "sobol2",
    "sqrt",
    "square",
    "step",
    "stop_gradient",
    "sub",
    "sum",
    "sum_components",
    "swizzle",
    "take",
    "tan",
    "tile_index",
    "to_float",
    "to_int",
    "transpose",
    "vec2",
    "vec3",
    "vec4",
    "where",
    "window_max",
    "window_min",
    "zeros",
    "zeros_like",
]
