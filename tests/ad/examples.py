"""Small graphs for every Function of `dressi.ad`, with deterministic data: shared by the tests of all executors.

`EXAMPLES` maps each class to callables that build an `Example`; the graph of its output contains the class. Data
are exact in float32, and lie away from kinks and ties, so that central differences are meaningful.
"""

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dressi.ad import (
    arithmetic,
    compare,
    geometry,
    image,
    lookup,
    math,
    matrix,
    reduce,
    resize,
    texture,
    vector,
)
from dressi.ad import constant as constants
from dressi.ad import functional as F
from dressi.ad import random as randoms
from dressi.ad.graph import Domain, Function, Variable
from dressi.ad.raster import Rasterize
from dressi.ad.types import (
    FLOAT,
    INT,
    IVEC2,
    IVEC3,
    IVEC4,
    MAT2,
    MAT3,
    MAT4,
    VEC2,
    VEC3,
    VEC4,
    VType,
)


@dataclass(frozen=True)
class Example:
    """A graph: its output, and the leaves by which the output is differentiable there (not all, maybe none)."""

    output: Variable
    wrt: tuple[Variable, ...] = ()


Build = Callable[[], Example]
EXAMPLES: dict[type[Function], list[Build]] = {}

SIZE, BATCH = (5, 4), 2


def leaf(vtype: VType = FLOAT, size=SIZE, batch=1, low=-1.0, high=1.0, *, salt=0, name=None) -> Variable:
    """A leaf with random data in [low, high), different for every type, domain and ``salt``."""
    seed = zlib.crc32(repr((vtype.name, size, batch, low, high, salt)).encode())
    rng = np.random.default_rng(seed)
    shape = (batch, size[1], size[0], *vtype.shape)
    if vtype.is_int:
        return Variable(vtype, size, batch, data=rng.integers(int(low), int(high), shape), name=name)
    values = rng.uniform(low, high, shape).astype(np.float32)
    return Variable(vtype, size, batch, data=values, name=name)


def apart(vtype: VType = FLOAT, size=SIZE, batch=1, *, offset=0.3, salt=0) -> Variable:
    """A leaf of distinct values k + offset, k whole numbers around 0: no ties, and no kink of floor or abs."""
    shape = (batch, size[1], size[0], *vtype.shape)
    count = int(np.prod(shape))
    order = np.random.default_rng(zlib.crc32(repr((shape, salt)).encode())).permutation(count)
    return Variable(vtype, size, batch, data=(order - count // 2 + offset).astype(np.float32).reshape(shape))


def add(cls: type[Function], *builds: Build) -> None:
    EXAMPLES.setdefault(cls, []).extend(builds)


def example(
    function: Callable[..., Variable], *make: Callable[[], Variable], only: int | None = None
) -> Build:
    """The function of fresh leaves; differentiable by the first ``only`` of those that hold floats."""

    def build() -> Example:
        inputs = [m() for m in make]
        wrt = [x for x in inputs[:only] if not x.vtype.is_int]
        return Example(function(*inputs), tuple(wrt))

    return build


def of(vtype=FLOAT, size=SIZE, batch=1, low=-1.0, high=1.0, salt=0) -> Callable[[], Variable]:
    return lambda: leaf(vtype, size, batch, low, high, salt=salt)


# ---- component-wise, one input
for cls, function, low, high in (
    (math.Neg, F.neg, -2, 2),
    (math.Square, F.square, -2, 2),
    (math.Exp, F.exp, -2, 2),
    (math.Exp2, F.exp2, -2, 2),
    (math.Log, F.log, 0.5, 3),
    (math.Log2, F.log2, 0.5, 3),
    (math.Sqrt, F.sqrt, 0.5, 3),
    (math.InverseSqrt, F.inversesqrt, 0.5, 3),
    (math.Sin, F.sin, -3, 3),
    (math.Cos, F.cos, -3, 3),
    (math.Tan, F.tan, -1.2, 1.2),
    (math.Asin, F.asin, -0.9, 0.9),
    (math.Acos, F.acos, -0.9, 0.9),
    (math.Atan, F.atan, -3, 3),
    (math.Sigmoid, F.sigmoid, -6, 6),
):
    add(
        cls,
        example(function, of(FLOAT, SIZE, BATCH, low, high)),
        example(function, of(VEC3, SIZE, 1, low, high)),
    )
    add(cls, example(function, of(MAT2, (2, 1), 1, low, high)))
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
add(math.LogicalNot, example(lambda x: F.logical_not(F.floor(x)), of(FLOAT)))
add(math.LogicalNot, example(lambda x: F.logical_not(F.floor(x)), of(VEC3, SIZE, BATCH)))


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
    (arithmetic.Pow, F.pow, 0.5, 3),
    (arithmetic.Atan2, F.atan2, -2, 2),
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
add(arithmetic.Pow, example(lambda x: F.pow(x, 2.5), of(FLOAT, low=0.5, high=2)))
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

# ---- vectors
add(vector.Construct, example(lambda a, b: F.vec4(a, b, 0.5), of(VEC2, (1, 1), BATCH), of(FLOAT)))
add(
    vector.Construct,
    example(F.vec3, of(FLOAT, SIZE, BATCH)),
    example(F.ivec3, of(IVEC2, low=0, high=9), lambda: F.constant(4)),
)
add(vector.Construct, example(lambda i, x: F.vec3(i, x), of(IVEC2, SIZE, 1, -5, 5), of(FLOAT)))
add(vector.Swizzle, example(lambda x: x.zyx, of(VEC3, SIZE, BATCH)), example(lambda x: x.yyx, of(VEC2)))
add(
    vector.Swizzle,
    example(lambda x: x.w * x[1:3].y, of(VEC4)),
    example(lambda x: x.zx, of(IVEC3, SIZE, 1, -9, 9)),
)
add(vector.Swizzle, example(lambda x: x[1, 0], of(MAT3, (2, 1))))
add(vector.Spread, example(lambda x: vector.Spread(x, (2, 0, 2), 4).output, of(VEC3)))
add(vector.Spread, example(lambda x: vector.Spread(x, (1,), 3).output, of(FLOAT, SIZE, BATCH)))
add(vector.SumComponents, *(example(F.sum_components, of(v, SIZE, BATCH)) for v in (VEC2, VEC4, MAT3)))
add(vector.SumComponents, example(F.sum_components, of(IVEC3, SIZE, 1, -9, 9)))
add(
    vector.Dot,
    example(F.dot, of(VEC3, SIZE, BATCH), of(VEC3, (1, 1))),
    example(F.dot, of(FLOAT), of(FLOAT, salt=1)),
)
add(geometry.Cross, example(F.cross, of(VEC3, SIZE, BATCH), of(VEC3, (1, 4))))
add(geometry.Length, example(F.length, of(VEC3, SIZE, BATCH)), example(F.length, lambda: apart(FLOAT)))
add(geometry.Length, example(F.distance, of(VEC2, SIZE, BATCH), of(VEC2, (1, 1), 1, 2, 3)))
add(geometry.Normalize, example(F.normalize, of(VEC3, SIZE, BATCH)), example(F.normalize, of(VEC2)))
add(geometry.Normalize, example(lambda x: F.normalize(x * 0.0), of(VEC3, (2, 1)), only=0))
add(geometry.Normalize, example(lambda x: F.normalize(x), lambda: apart(FLOAT)))
add(
    geometry.Normalize,
    example(lambda i, n: F.reflect(i, F.normalize(n)), of(VEC3, SIZE, BATCH), of(VEC3, salt=1)),
)
add(
    geometry.Normalize,
    example(
        lambda i, n: F.refract(F.normalize(i), F.normalize(n), 0.7), of(VEC3), of(VEC3, SIZE, BATCH, salt=2)
    ),
)

# ---- matrices
add(matrix.Columns, example(F.mat3, of(VEC3), of(VEC3, (1, 1), BATCH), of(VEC3, (5, 1), salt=1)))
add(matrix.Columns, example(F.mat2, of(VEC2), of(VEC2, salt=1)))
add(
    matrix.Column,
    example(lambda m: F.column(m, 1), of(MAT4, (2, 1), BATCH)),
    example(lambda m: m[-1], of(MAT2)),
)
add(matrix.Fill, example(lambda x: F.fill(x, MAT3), of(FLOAT, SIZE, BATCH)))
add(matrix.Transpose, example(F.transpose, of(MAT3, (2, 1), BATCH)), example(F.transpose, of(MAT2)))
for m, v in ((MAT2, VEC2), (MAT3, VEC3), (MAT4, VEC4)):
    add(
        matrix.MatMul,
        example(F.matmul, of(m, (1, 1), BATCH), of(v)),
        example(F.matmul, of(v), of(m, (1, 1), BATCH)),
    )
    add(matrix.MatMul, example(F.matmul, of(m, (2, 1)), of(m, (2, 1), BATCH, salt=1)))
    add(matrix.Outer, example(F.outer, of(v), of(v, (1, 1), BATCH)))
    eye = np.eye(m.shape[0])
    add(
        matrix.Inverse, example(lambda x, eye=eye: F.inverse(x * 0.3 + F.constant(eye)), of(m, (2, 2), BATCH))
    )
    add(matrix.Determinant, example(F.determinant, of(m, (2, 2), BATCH)))

# ---- reductions
for vtype in (FLOAT, VEC3, MAT3):
    add(
        reduce.Sum,
        *(example(lambda x, a=a: F.sum(x, a), of(vtype, SIZE, BATCH)) for a in ("x", "y", "n", "xyn")),
    )
add(reduce.Sum, example(F.sum, of(IVEC2, SIZE, BATCH, -9, 9)), example(F.mean, of(VEC2, SIZE, 3)))
add(
    reduce.ReduceMax,
    *(example(lambda x, a=a: F.max(x, a), of(VEC2, SIZE, BATCH), only=0) for a in ("x", "yn")),
)
add(
    reduce.ReduceMin,
    *(example(lambda x, a=a: F.min(x, a), of(FLOAT, SIZE, BATCH), only=0) for a in ("n", "xy")),
)
add(reduce.ReduceMax, example(F.max, of(IVEC3, SIZE, BATCH, -9, 9)))
add(
    reduce.Expand,
    example(lambda x: F.expand(x, BATCH), of(VEC3)),
    example(lambda x: F.expand(x, 1), of(FLOAT)),
)
add(
    reduce.Expand,
    example(lambda x: F.expand(x, 3, SIZE), of(FLOAT, (1, 4))),
    example(lambda x: F.expand(x, 2, SIZE), of(INT, (5, 1), 1, 0, 9)),
)

# ---- images
add(image.PixelCoordinates, lambda: Example(F.pixel_coordinates(SIZE, BATCH)))
add(image.LinearIndex, lambda: Example(F.linear_index(SIZE, BATCH)))
add(image.TileIndex, lambda: Example(F.tile_index(SIZE, BATCH)))
add(image.Window, example(lambda x: F.crop(x, 1, 2, (3, 2)), of(VEC3, SIZE, BATCH)))
add(image.Window, example(lambda x: F.pad(x, 1, 0, 2, 3), of(FLOAT, SIZE, BATCH)))
add(
    image.Window,
    example(lambda x: F.shift(x, 2, -1, "zero"), of(VEC2)),
    example(lambda x: F.pad(x, 1, 1, 1, 1), of(IVEC2, SIZE, 1, 1, 9)),
)
for d in ((1, 0), (-2, 1), (0, -3), (7, 5), (-6, -9), (0, 0)):
    add(image.Shift, example(lambda x, d=d: F.shift(x, *d), of(FLOAT, SIZE, BATCH)))
    add(image.Shift, example(lambda x, d=d: F.shift(x, *d, "repeat"), of(VEC3, SIZE)))
    add(
        image.ShiftTranspose, example(lambda x, d=d: image.ShiftTranspose(x, d).output, of(VEC2, SIZE, BATCH))
    )
add(image.Shift, example(lambda x: F.shift(x, 1, 1), of(FLOAT, (1, 4))))
TILES = [2, 0, 0, 5, -1]


def tiles() -> Variable:
    return Variable(INT, (1, 1), len(TILES), data=np.array(TILES).reshape(-1, 1, 1))


add(image.Take, example(F.take, of(VEC3, SIZE, 3), tiles), example(F.take, of(FLOAT), tiles))
add(image.TakeTranspose, example(lambda x, i: image.TakeTranspose(x, i, 3).output, of(VEC2, SIZE, 5), tiles))
add(
    image.TakeTranspose,
    example(lambda x, i: image.TakeTranspose(x, i, 1).output, of(FLOAT, (3, 2), 5), tiles),
)
for axis, radius in (("x", 1), ("y", 2), ("x", 9)):
    add(
        image.WindowExtreme,
        example(lambda x, r=radius, a=axis: F.window_max(x, r, a), of(FLOAT, SIZE, BATCH), only=0),
    )
add(image.WindowExtreme, example(lambda x: F.window_min(x, 1, "y"), of(IVEC2, SIZE, 1, -9, 9)))
for filter in ("nearest", "bilinear", "area"):
    for size in ((8, 3), (2, 2), (10, 8), (5, 7), (1, 1)):
        add(resize.Resize, example(lambda x, s=size, f=filter: F.resize(x, s, f), of(VEC2, SIZE, BATCH)))
        add(
            resize.Resize, example(lambda x, s=size, f=filter: resize.Resize(x, s, f, True).output, of(FLOAT))
        )
add(resize.Resize, example(lambda x: F.resize(x, (7, 3), "nearest"), of(INT, SIZE, BATCH, -9, 9)))

# ---- lookup and scatter: indices inside and outside, shared and own tables
for table_batch, index_batch in ((1, 1), (1, 2), (2, 1), (2, 2)):
    tables = of(VEC3, SIZE, table_batch)
    indices = of(INT, (6, 3), index_batch, -2, 24)
    texels = of(IVEC2, (6, 3), index_batch, -1, 6)
    add(lookup.Lookup, example(F.lookup, tables, indices), example(F.lookup, tables, texels))
add(lookup.Lookup, example(F.lookup, of(MAT3, SIZE), of(INT, (6, 3), BATCH, -2, 24)))
add(lookup.Lookup, example(F.lookup, of(IVEC3, SIZE, 1, -9, 9), of(INT, (6, 3), 1, -2, 24)))
for batch in (1, 2):
    for vtype in (FLOAT, VEC3, MAT2):
        add(
            lookup.ScatterAdd,
            example(
                lambda x, i, b=batch: F.scatter_add(x, i, (4, 3), b),
                of(vtype, SIZE, 2),
                of(INT, SIZE, 1, -2, 14),
            ),
        )
    add(
        lookup.ScatterAdd,
        example(
            lambda x, i, b=batch: F.scatter_add(x, i, (4, 3), b), of(VEC4, (1, 1)), of(IVEC2, SIZE, 2, -1, 5)
        ),
    )
add(
    lookup.ScatterAdd,
    example(lambda x, i: F.scatter_add(x, i, (4, 3)), of(VEC2, SIZE, BATCH), of(INT, (1, 1), 1, 3, 4)),
)
add(
    lookup.ScatterAdd,
    example(
        lambda x, i, y, j: lookup.ScatterAdd(Domain((4, 3), 1), F.constant(1.0), x, i, y, j).output,
        of(VEC2, SIZE, BATCH),
        of(INT, SIZE, 1, -2, 14),
        of(VEC2),
        of(IVEC2, SIZE, BATCH, -1, 5),
    ),
)
for batch in (1, 2):
    add(
        lookup.ScatterMax,
        example(
            lambda v, i, b=batch: F.scatter_max(v, i, (4, 3), b),
            of(INT, SIZE, 2, 0, 99),
            of(INT, SIZE, 2, -2, 14),
        ),
    )

# ---- textures
for wrap in ("repeat", "clamp"):
    uv = of(VEC2, (6, 3), BATCH, -1.4, 1.7)
    add(texture.WrapTexel, example(lambda t, c, w=wrap: F.sample(t, c, "bilinear", w), of(VEC3, SIZE), uv))
    add(
        texture.WrapTexel,
        example(lambda t, c, w=wrap: F.sample(t, c, "nearest", w), of(FLOAT, SIZE, BATCH), uv),
    )


def inverse_uv_scene():
    return leaf(VEC3, SIZE), leaf(VEC2, (6, 3), BATCH, -0.4, 1.4), leaf(FLOAT, (6, 3), 1)


def inverse_uv_sample() -> Example:
    image_, uv_, mask = inverse_uv_scene()
    return Example(F.sample_inverse_uv(image_, uv_, F.greater(mask, -0.5), (0.25, 0.75)), (uv_,))


def gathered() -> Example:
    _, uv_, mask = inverse_uv_scene()
    table = F.inverse_uv(uv_, F.greater(mask, -0.5), SIZE, (0.25, 0.75))
    return Example(texture.GatherNumbered(uv_, table).output)


add(texture.InverseUVSample, inverse_uv_sample)
add(texture.GatherNumbered, gathered)

# ---- random numbers
add(
    randoms.Random,
    lambda: Example(F.random(7, 3, SIZE, BATCH)),
    lambda: Example(F.random(-5, leaf(INT, (1, 1), 1, 0, 999), SIZE)),
)
add(randoms.Random, lambda: Example(F.random(leaf(INT, (1, 1), BATCH, -999, 999), 1, SIZE, BATCH)))
add(randoms.Sobol2, lambda: Example(F.sobol2(F.linear_index((32, 32)))), lambda: Example(F.sobol2(2**31 - 1)))


# ---- rasterization: two tiles
def triangles(count: int, batch: int) -> Variable:
    """Right-angled triangles whose edges stay 0.25 pixels of a 16x12 image away from pixel centres.

    Drivers snap corners to a grid as coarse as 1/16 pixel. Depths of different triangles do not overlap.
    """
    rng = np.random.default_rng(5)
    corners = np.zeros((batch, 1, 3 * count, 4))
    for tile, k in itertools.product(range(batch), range(count)):
        right, down, long = rng.choice([-1, 1]), rng.choice([-1, 1]), rng.integers(3, 11)
        x, y = rng.integers(2, 14) + 0.25, rng.integers(2, 10) + (0.25 if right == down else 0.75)
        places = np.array([(x, y), (x + right * long, y), (x, y + down * long)])
        w = rng.choice([0.5, 1.0, 2.0], 3)
        corners[tile, 0, 3 * k : 3 * k + 3, :2] = (places / (8, 6) - 1) * w[:, None]
        depth = ((7 * k + tile) % count + rng.uniform(0.1, 0.7, 3)) / count
        corners[tile, 0, 3 * k : 3 * k + 3, 2:] = np.stack((depth * w, w), -1)
    return Variable(VEC4, (3 * count, 1), batch, data=corners.astype(np.float32))


def rasterized() -> Example:
    return Example(F.rasterize(triangles(4, BATCH), size=(16, 12)))


def rasterized_faces() -> Example:
    faces = Variable(IVEC3, (3, 1), data=np.array([[[[0, 1, 2], [2, 3, 4], [5, 1, 0]]]]))
    depths = leaf(FLOAT, (3, 1), 1, 0.1, 0.9)

    def fragment(face: Variable):
        x = F.pixel_coordinates((16, 12), BATCH).x
        return F.lookup(depths, face), F.greater(F.mod(x, 5), 0)

    return Example(F.rasterize(triangles(2, BATCH), faces, size=(16, 12), fragment=fragment))


add(Rasterize, rasterized, rasterized_faces)
