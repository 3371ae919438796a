"""Small graphs of contractions: one for each form that an index, a body or a derivative has."""

import numpy as np
from example_tools import BATCH, SIZE, Build, add, example, of

from dressi import FLOAT, INT, VEC2, VEC3, F, Variable, gradient
from dressi.ad.contract.contraction import ContractFunction, ContractIndex
from dressi.ad.imaging.filters import GridSlice
from dressi.ad.imaging.order import Median
from dressi.ad.imaging.warps import Missed, Warped
from dressi.ad.loops.loop import After, Looped, Recomputed, Reversed
from dressi.ad.ops.image import reduce
from dressi.ad.ops.pixel import arithmetic


def contraction(expression: str, *names_and_inputs, **options) -> Build:
    """An example of an expression over operands a, b, ..."""
    names = "abcd"[: len(names_and_inputs)]
    return example(
        lambda *x: F.contract(expression, **options, **dict(zip(names, x, strict=True))), *names_and_inputs
    )


IMAGE, KERNEL = of(FLOAT, SIZE, BATCH), of(FLOAT, (3, 2))
CONTRACTIONS: dict[str, Build] = {
    "correlation": contraction("o[y, x] = a[y + dy, x + dx - 1] * b[dy, dx]", IMAGE, KERNEL, border="zero"),
    "valid": contraction("o[y, x] = a[y + dy, x + dx] * b[dy, dx]", of(VEC3, SIZE), KERNEL),
    "stride and dilation": contraction(
        "o[y, x] = a[2 * y + 2 * dy - 1, 3 * x + 2 * dx - 1] * b[dy, dx]", of(FLOAT, (7, 6)), KERNEL, border="zero"
    ),
    "matrix product": contraction("o[y, x] = a[y, k] * b[k, x]", of(FLOAT, (3, 4)), of(FLOAT, (5, 3))),
    "transposed": contraction("o[y, x] = a[x, y]", IMAGE),
    "diagonal": contraction("o[x] = a[x, x]", of(FLOAT, (4, 4))),
    "reversed": contraction("o[y, x] = a[3 - y, 2 - x]", of(FLOAT, (3, 4)), extents={"y": 4, "x": 3}),
    "repeated": contraction("o[y, x] = a[y // 2, (2 * x + 1) // 3] * b[(y + x) // 2]", of(FLOAT, (3, 2)), of(FLOAT, (5, 1)),
                            extents={"y": 4, "x": 4}),
    "depth to space": contraction("o[2 * y + p, 3 * x + q] = a[y, x] * b[p, q]", of(FLOAT, (2, 2)), of(FLOAT, (3, 2)),
                                  extents={"p": 2, "q": 3}),
    "bilateral": contraction("o[y, x] = exp(-(a[y, x + d - 1] - a[y, x]) ** 2) * a[y, x + d - 1]", IMAGE, border="zero",
                             extents={"d": 3}),
    "slice of a grid": contraction("o[y, x] = a[z, y // 2, x // 2] * max(1 - abs(z - 2.5 * b[y, x]), 0)",
                                   of(FLOAT, (2, 2), 3), of(FLOAT, (4, 3), 1, 0.05, 0.95)),
    "filled": contraction("o[c, y, x] = a[2 * y + z, x] * b[c, y] * z + a[2 * y + z, x]", of(FLOAT, (2, 6)), of(FLOAT, (3, 4)),
                          extents={"z": 2}),
    "cells": contraction("o[y, x] = a[(y + 1) // 2 + j - 1, x] * b[j, y]", of(FLOAT, (2, 3)), of(FLOAT, (6, 2)), border="clamp",
                         extents={"y": 6, "j": 2}),
    "lengths": contraction("o[y, x] = dot(a[y, x + d], a[y, x]) * length(a[y, x])", of(VEC3, SIZE), border="clamp",
                           extents={"d": 2}),
    "mirrored": contraction("o[y, x] = a[2 * y + dy - 3, x - dx] * b[dy, dx]", IMAGE, KERNEL, border="mirror"),
    "reflected": contraction("o[y, x] = a[2 * y + dy - 3, x - dx] * b[dy, dx]", IMAGE, KERNEL, border="reflect"),
    "volume": contraction("o[n, y, x] = a[n + 2 * k - 2, y + k, x - 1] * b[k, x]", of(FLOAT, (3, 2), 3), of(FLOAT, (3, 3)),
                          border="clamp"),
    "functions": contraction("o[y, x] = sin(a[y, x + d] * b[d, 0]) + tanh(a[y, x])", IMAGE, of(FLOAT, (1, 2)), border="reflect"),
    "around": contraction("o[y, x] = a[y, x + dx] * a[y, x - dx] * b[0, dx]", IMAGE, KERNEL, border="repeat"),
    "over tiles": contraction("o[y, x] = a[n, y, x] * b[n, k, k]", IMAGE, of(FLOAT, (2, 2), BATCH)),
    "integers": contraction("o[y, x] = a[y + d, x] - 2 * a[y, x]", of(INT, (3, 4), 1, -9, 9), extents={"y": 3, "d": 2}),
    "long": contraction("o[x] = a[k, x] * b[k]", of(FLOAT, (2, 70)), of(FLOAT, (70, 1))),
    "one texel": contraction("o[y, x] = a[y, x] * b if x > 0 else a[y, x]", IMAGE, of(FLOAT, (1, 1))),
}  # fmt: skip
for build in CONTRACTIONS.values():
    add(ContractFunction, build)
for combine in ("max", "min"):
    pool = contraction("o[y, x] = a[2 * y + dy - 1, x + dx]", of(FLOAT, (4, 5)), border="zero", combine=combine,
                       extents={"dy": 3, "dx": 2})  # fmt: skip
    add(ContractFunction, pool)

    def index(combine: str = combine, most: int = 0):
        def build(x):
            pooled = F.contract(
                "o[y, x] = a[y, x + d] - 0.1 * d", combine=combine, extents={"d": 3}, a=x
            ).creator
            assert isinstance(pooled, ContractFunction)
            fields = dict(zip(pooled.fields, pooled.attributes, strict=True))
            found = ContractIndex(*pooled.inputs, **fields)
            return found.shortened(most) if most else found.output

        return build

    add(ContractIndex, example(index(), of(FLOAT, (5, 2), BATCH), only=0))
    add(ContractFunction, example(index(most=2), of(FLOAT, (5, 2), BATCH), only=0))
for left, right in ((of(FLOAT, SIZE, BATCH), of(FLOAT, (3, 2))), (of(VEC3, SIZE), of(FLOAT, (2, 2)))):
    add(ContractFunction, example(F.correlate, left, right))
    add(ContractFunction, example(lambda x, w: F.convolve(x, w, stride=2, border=None), left, right))
add(ContractFunction, example(lambda x, w: F.correlate_transposed(x, w, Variable(FLOAT, (5, 4)), stride=(2, 3)),
                              of(FLOAT, (3, 2)), of(FLOAT, (3, 2))))  # fmt: skip
add(ContractFunction, example(F.matmul, of(FLOAT, (3, 2), BATCH), of(FLOAT, (4, 3))))
for build in (
    example(lambda x: F.window_max(x, 1, "x"), of(FLOAT, SIZE, BATCH)),
    example(lambda x: F.window_max(x, 9, "y"), of(FLOAT, SIZE, BATCH)),
    example(lambda x: F.window_min(x, 1, "y"), of(INT, SIZE, 1, -9, 9)),
    example(lambda x: F.component(F.window_min(x, 2, "x"), 1), of(VEC3, SIZE, BATCH)),
):
    add(ContractFunction, build)
add(ContractFunction, example(lambda x: F.average_pool(x, 2), of(VEC3, (4, 5))))


def channelled(vtype=FLOAT, size=SIZE, batch=1, channels=2, salt=0, low=-1.0, high=1.0):
    """A leaf with channels, made once."""

    def make():
        x = Variable(vtype, size, batch, channels=channels)
        random = np.random.default_rng([salt, batch, channels, *size])
        x.data = x.conform(random.uniform(low, high, x.shape).astype(np.float32))
        return x

    return make


IMAGES, KERNELS = channelled(batch=BATCH, channels=3), channelled(FLOAT, (3, 2), 4, 3, salt=1)
CHANNELLED: dict[str, Build] = {
    "layer": example(F.correlate, IMAGES, KERNELS),
    "layer with strides": example(lambda x, w: F.convolve(x, w, stride=2, dilation=(1, 2)), channelled(channels=3), KERNELS),
    "groups": example(lambda x, w: F.correlate(x, w, groups=2), channelled(channels=4), channelled(FLOAT, (2, 2), 6, 2)),
    "depthwise": example(lambda x, w: F.correlate(x, w, groups=3), IMAGES, channelled(FLOAT, (2, 2), 3, 1)),
    "one kernel": example(F.correlate, IMAGES, of(FLOAT, (3, 2))),
    "clamped": example(lambda x, w: F.correlate(x, w, border="clamp"), channelled(channels=3), KERNELS),
    "pixel by pixel": contraction("o[k, y, x] = a[c, y, x] * b[k, c, 0, 0]", IMAGES, channelled(FLOAT, (1, 1), 2, 3)),
    "one channel of each": example(lambda x: F.concatenate_channels(F.channel(x, 2), F.channels(x, 0, 2)), IMAGES),
    "components": example(lambda x: F.from_channels(F.to_channels(x) * 2.0), of(VEC3, SIZE, BATCH)),
    "pool": example(lambda x: F.max_pool(x, (2, 1)), IMAGES),
}  # fmt: skip
for build in CHANNELLED.values():
    add(ContractFunction, build)
add(
    GridSlice,
    example(lambda g, u: F.slice_grid(g, u, 3), channelled(channels=6), of(FLOAT, (4, 3), 1, 0.02, 0.97)),
)
BIAS = channelled(FLOAT, (1, 1), 1, 3, salt=2)
for function in (
    lambda x, b: x * b,
    lambda x, b: F.exp(b) * F.shift(x, 1, 0),
    lambda x, b: F.sum(x * b, "c") * x,
):
    add(arithmetic.Mul, example(function, IMAGES, BIAS))
for axes in ("c", "n", "xy", "cn", "xycn"):
    add(reduce.Sum, example(lambda x, axes=axes: F.sum(x * x, axes), IMAGES))
    add(
        reduce.Sum,
        example(
            lambda x, b, axes=axes: F.mean(x * b, axes),
            channelled(VEC3, batch=BATCH),
            channelled(FLOAT, (1, 1), BATCH, 1),
        ),
    )
    add(reduce.ReduceMax, example(lambda x, axes=axes: F.max(x, axes), IMAGES))
add(reduce.Expand, example(lambda x: F.expand(x, channels=3), channelled(channels=1)))
add(reduce.Expand, example(lambda x: F.expand(x, BATCH, (4, 3)), BIAS))

# ---- warps
add(
    Warped,
    example(lambda x, f: F.warp(x, f), of(VEC3, SIZE, BATCH), of(VEC2, SIZE, BATCH, -1.2, 1.3)),
    example(lambda x, f: F.warp(x, f, "zero"), of(FLOAT, (4, 6)), of(VEC2, SIZE, BATCH, -1.2, 1.3)),
)
add(
    Warped,
    example(lambda x, f: F.warp(x, f, "zero", "cubic"), of(FLOAT, SIZE), of(VEC2, SIZE, BATCH, -1.2, 1.3)),
)
add(Median, example(lambda x: F.median(x, 1), of(VEC3, SIZE, BATCH)))
add(Missed, example(lambda x, y: Missed(F.sin(x), y).output, of(VEC3, SIZE), of(FLOAT, SIZE), only=1))

# ---- loops
add(
    After,
    example(lambda x, y: After(F.sin(x), y, y * y).output, of(VEC3, SIZE, BATCH), of(FLOAT, (2, 3)), only=1),
)
add(
    Recomputed,
    example(lambda x: F.checkpoint(lambda v: F.shift(F.sin(v), 1, 0) * v, x), of(FLOAT, SIZE, BATCH)),
)
add(
    Looped,
    example(
        lambda x, b: F.loop(lambda v: F.shift(F.sin(v), 1, 0) * b, x, 2),
        of(FLOAT, SIZE, BATCH),
        of(FLOAT, (1, 1)),
    ),
)
add(
    Reversed,
    example(
        lambda x, b: gradient(F.sum(F.loop(lambda v: F.shift(F.sin(v), 1, 0) * b, x, 2)), [b])[0],
        of(FLOAT, SIZE, BATCH),
        of(FLOAT, (1, 1)),
    ),
)
