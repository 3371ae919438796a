"""Small graphs for every Function of `dressi.ad`: shared by the tests of all executors.

`EXAMPLES` maps each class to callables that build an `Example`; the graph of its output contains the class.
"""

import examples_contractions
import examples_gathers
import examples_pointwise
import examples_rendering
import numpy as np
import pytest
from example_tools import BATCH, EXAMPLES, SIZE, Build, Example, add, apart, example, leaf, of

from dressi import FLOAT, INT, IVEC2, IVEC3, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4, F
from dressi.ad.contract import contraction
from dressi.ad.graph import Domain, Function, Variable
from dressi.ad.least_squares.linear import preconditioner
from dressi.ad.ops.image import image, lookup, reduce
from dressi.ad.ops.pixel import geometry, kinds, matrix, vector
from dressi.ad.ops.pixel import random as randoms
from dressi.ad.ops.texture import inverse_uv
from dressi.ad.optim.optimizer import BiasCorrection
from dressi.ad.transform.fused import Whole, fused

__all__ = ["EXAMPLES", "Build", "Example", "leaf"]
assert (
    examples_contractions and examples_gathers and examples_pointwise and examples_rendering
)  # their imports fill the registry


@fused
def softened(x: Variable, way: Variable, *, width: float) -> Variable:
    """A graph with constants, selections and components."""
    above = F.greater(x, 0.0)
    return F.select(above, way.zx * x, F.normalize(way.xy) / (F.abs(x) + width))


add(Whole, example(lambda x, way: softened(x, way, width=0.5), of(FLOAT, SIZE, BATCH), of(VEC3, (1, 1))))
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
    example(lambda x: x.w * F.component(x, slice(1, 3)).y, of(VEC4)),
    example(lambda x: x.zx, of(IVEC3, SIZE, 1, -9, 9)),
)
add(vector.Swizzle, example(lambda x: F.component(x, (1, 0)), of(MAT3, (2, 1))))
add(vector.Spread, example(lambda x: vector.Spread(x, (2, 0, 2), 4).output, of(VEC3)))
add(vector.Spread, example(lambda x: vector.Spread(x, (1,), 3).output, of(FLOAT, SIZE, BATCH)))
add(vector.SumComponents, *(example(F.sum_components, of(v, SIZE, BATCH)) for v in (VEC2, VEC4, MAT3)))
add(vector.SumComponents, example(F.sum_components, of(IVEC3, SIZE, 1, -9, 9)))
add(
    geometry.Dot,
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
    example(lambda m: F.component(m, -1), of(MAT2)),
)
add(vector.Fill, example(lambda x: F.fill(x, MAT3), of(FLOAT, SIZE, BATCH)))
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
add(reduce.ReduceMax, *(example(lambda x, a=a: F.max(x, a), of(VEC2, SIZE, BATCH)) for a in ("x", "yn")))
add(reduce.ReduceMin, *(example(lambda x, a=a: F.min(x, a), of(FLOAT, SIZE, BATCH)) for a in ("n", "xy")))
add(
    contraction.SumOfParts,
    *(
        example(lambda x, c=c: contraction.SumOfParts(x, 3, c).output, of(VEC2, SIZE, 6), only=0)
        for c in (1, 2)
    ),
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

# ---- shortcuts
add(
    kinds.Shortcut,
    example(lambda a, b: kinds.shortcut(F.stop_gradient(a * b), a * b), of(VEC3), of(FLOAT, SIZE, BATCH)),
    example(lambda a, b: kinds.shortcut(a * 2.0, a + a + b * 0.0), of(FLOAT), of(FLOAT, (1, 1), BATCH)),
)

# ---- optimizers
add(
    BiasCorrection,
    example(lambda t: BiasCorrection(t, 0.9).output, of(FLOAT, (5, 1), 1, 1.5, 20.0)),
    example(lambda t: BiasCorrection(t, 0.999).output, of(FLOAT, (5, 1), 1, 1.0, 90.0)),
)

# ---- images
for size in ((5, 4), (2, 7), (1, 1)):
    nodes = preconditioner.coarser(size)
    add(contraction.ContractFunction, example(preconditioner.restricted, of(VEC2, size, BATCH)))
    add(
        contraction.ContractFunction,
        example(lambda x, to=size: preconditioner.prolonged(x, to), of(VEC3, nodes, BATCH)),
    )
TILES = [2, 0, 0, 5, -1]


def tiles() -> Variable:
    return Variable(INT, (1, 1), len(TILES), data=np.array(TILES).reshape(-1, 1, 1))


add(lookup.Take, example(F.take, of(VEC3, SIZE, 3), tiles), example(F.take, of(FLOAT), tiles))
add(
    lookup.TakeTranspose, example(lambda x, i: lookup.TakeTranspose(x, i, 3).output, of(VEC2, SIZE, 5), tiles)
)
add(
    lookup.TakeTranspose,
    example(lambda x, i: lookup.TakeTranspose(x, i, 1).output, of(FLOAT, (3, 2), 5), tiles),
)


def index_of(kind, axis, x):
    return contraction.ContractIndex(x, **kind(x, axis).form)


for kind, axis, vtype, low in (
    (reduce.ReduceMax, "x", VEC2, -2),
    (reduce.ReduceMin, "y", FLOAT, -2),
    (reduce.ReduceMax, "n", IVEC3, 0),
):
    add(
        contraction.ContractIndex,
        example(lambda x, k=kind, a=axis: index_of(k, a, x).output, of(vtype, SIZE, 3, low, 2), only=0),
    )
add(
    contraction.ContractFunction,
    example(lambda x: index_of(reduce.ReduceMax, "y", x).shortened(2), of(VEC3, SIZE, 2), only=0),
)
for size in ((8, 3), (2, 2), (10, 8), (5, 7), (1, 1)):
    for filter in ("bilinear", "area", "cubic"):
        add(image.Resize, example(lambda x, s=size, f=filter: F.resize(x, s, f), of(VEC2, SIZE, BATCH)))
        add(image.Resize, example(lambda x, s=size, f=filter: image.Resize(x, s, f, True).output, of(FLOAT)))

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
def inverse_uv_scene():
    return leaf(VEC3, SIZE), leaf(VEC2, (6, 3), BATCH, -0.4, 1.4), leaf(FLOAT, (6, 3), 1)


def inverse_uv_sample() -> Example:
    image_, uv_, mask = inverse_uv_scene()
    return Example(F.sample_inverse_uv(image_, uv_, F.greater(mask, -0.5), (0.25, 0.75)), (uv_,))


def gathered() -> Example:
    _, uv_, mask = inverse_uv_scene()
    table = F.inverse_uv(uv_, F.greater(mask, -0.5), SIZE, (0.25, 0.75))
    return Example(inverse_uv.GatherNumbered(uv_, table).output)


add(inverse_uv.InverseUVSample, inverse_uv_sample)
add(inverse_uv.GatherNumbered, gathered)

# ---- random numbers
add(
    randoms.Random,
    lambda: Example(F.random(7, 3, SIZE, BATCH)),
    lambda: Example(F.random(-5, leaf(INT, (1, 1), 1, 0, 999), SIZE)),
)
add(randoms.Random, lambda: Example(F.random(leaf(INT, (1, 1), BATCH, -999, 999), 1, SIZE, BATCH)))
add(randoms.Sobol2, lambda: Example(F.sobol2(F.linear_index((32, 32)))), lambda: Example(F.sobol2(2**31 - 1)))

CASES = [
    pytest.param(cls, build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
]
DIFFERENTIABLE = [case for case in CASES if case.values[1]().wrt]


def concrete_functions(part: str) -> list[type[Function]]:
    """All classes of Functions in a part of dressi that nothing there derives from."""
    found, stack = set(), [Function]
    while stack:
        cls = stack.pop()
        below = [c for c in cls.__subclasses__() if c.__module__.startswith(part)]
        stack += below
        if not below and cls.__module__.startswith(part):
            found.add(cls)
    return sorted(found, key=lambda c: (c.__module__, c.__name__))
