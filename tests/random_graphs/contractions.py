"""Sums over axes of texels at affine places, convolutions, poolings, and hints of what to store."""

from __future__ import annotations

from dressi import FLOAT, VEC2, VEC3, Variable
from dressi.ad.contract.notation import FUNCTIONS
from dressi.ad.graph.index_map import BORDERS

from .coverage import F
from .operations import Operation
from .pool import Pool, Refused

CONTRACTIONS: list[Operation] = []
EDGES = (None, *BORDERS)


def contraction(operation: Operation) -> Operation:
    CONTRACTIONS.append(operation)
    return operation


@contraction
def convolved(p: Pool) -> Variable:
    x = p.float(FLOAT, VEC2, VEC3)
    size = (int(p.rng.integers(1, 4)), int(p.rng.integers(1, 4)))
    weight = p.leaf(FLOAT, size, 1, parameter=p.chance(0.5)) * 0.5
    more = {"border": p.among(EDGES), "stride": int(p.among([1, 1, 2])), "dilation": int(p.among([1, 1, 2]))}
    y = p.among([F.correlate, F.convolve])(x, weight, **more)
    if p.chance(0.3):
        y = F.correlate_transposed(F.correlate(x, weight, **more), weight, x, **more)
    return y


@contraction
def mixed(p: Pool) -> Variable:
    """A layer of a network: some channels from those there are."""
    x = p.float(FLOAT)
    kernel = p.among([(1, 1), (3, 3), (2, 1)])
    weight = p.leaf(FLOAT, kernel, int(p.rng.integers(1, 4)), channels=x.channels, parameter=p.chance(0.5))
    return F.correlate(x, weight * 0.4, border=p.among(EDGES), stride=int(p.among([1, 1, 2])))


@contraction
def channels(p: Pool) -> Variable:
    x = p.float(FLOAT, VEC2, VEC3)
    y = p.float(x.vtype, like=x)
    k = int(p.rng.integers(x.channels))
    kinds = [
        lambda: F.channel(x, k),
        lambda: F.channels(x, k, x.channels - k),
        lambda: F.concatenate_channels(x, y if (y.size, y.batch) == (x.size, x.batch) else x * 0.5),
        lambda: F.to_channels(x),
        lambda: F.from_channels(x if x.channels > 1 else F.concatenate_channels(x, x * 0.5)),
        lambda: F.max(x, "c") if p.chance(0.5) else F.sum(x, "c") * 0.5,
        lambda: F.expand(F.channel(x, k), channels=p.channels) * 0.8,
    ]
    return p.among(kinds)()


@contraction
def pooled(p: Pool) -> Variable:
    x = p.float(FLOAT)
    if min(x.size) < 2:
        raise Refused
    stride = p.among([None, 1, 2])
    kinds = [F.max_pool, F.min_pool, F.average_pool, lambda *a: F.to_float(F.max_pool_index(*a)) * 0.1]
    return p.among(kinds)(x, 2, stride)


@contraction
def contracted(p: Pool) -> Variable:
    x = p.float(FLOAT)
    y = p.float(FLOAT, like=x)
    if y.domain != x.domain:
        raise Refused
    return (
        p.among(
            [
                lambda: F.contract("out[y, x] = a[y, k] * b[x, k]", a=x, b=y),
                lambda: F.contract("out[y, x] = a[x, y] * b[y, x]", a=F.swap_axes(x), b=y),
                lambda: F.contract("out[x] = a[y, 2 * x] * b[y, x]", a=x, b=y),
                lambda: F.matmul(x, F.swap_axes(y)),
                lambda: F.contract(
                    "out[y, x] = a[y + j - 1, 2 * x - i] * b[y - j, x] + i",
                    a=x,
                    b=y,
                    border=p.among(EDGES[1:]),
                    combine=p.among(["add", "max", "min"]),
                    extents={"i": 3, "j": 2, "y": x.size[1], "x": x.size[0]},
                ),
            ]
        )()
        * 0.5
    )


SMOOTH = tuple(
    sorted({*FUNCTIONS} & {
        "sin", "cos", "tanh", "relu", "silu", "softplus", "gelu", "erf", "leaky_relu", "sigmoid", "exp", "square",
        "abs", "sqrt", "log", "inversesqrt",
    })
)  # fmt: skip
"""Without those that Vulkan lets drivers approximate to a few digits, as elsewhere."""
POSITIVE = ("sqrt", "log", "inversesqrt")
"""Functions of positive numbers."""


def line(p: Pool, value: str) -> str:
    """A function of a value, or of two."""
    name = p.among(SMOOTH)
    if name in POSITIVE:
        return f"{name}({value} * {value} + 0.5)"
    return f"{name}({value})" if name != "exp" else f"exp(-abs({value}))"


@contraction
def along_every_axis(p: Pool) -> Variable:
    """A kernel along the batch, the channels, the rows and the columns, with any border; functions in its line."""
    x = p.float(FLOAT)
    reach = [int(k) for k in p.rng.integers(1, 4, 4)]
    weight = p.leaf(FLOAT, (reach[3], reach[2]), reach[0], channels=reach[1], parameter=p.chance(0.5)) * 0.5
    places = []
    for axis, inner in zip("ncyx", "lkji", strict=True):
        step, by, off = (
            p.among(["", "", "", "2 * ", "-"]),
            p.among([" + ", " - "]),
            int(p.rng.integers(-3, 4)),
        )
        places.append(
            f"{step}{axis}{by}{inner} + {off}" if p.chance(0.8) else f"({axis}{by}{inner} + {off + 4}) // 2"
        )
    read = f"a[{', '.join(places)}]"
    value = p.among([read, line(p, read), f"{line(p, read)} * 0.5 + {line(p, 'a[n, c, y, x]')}"])
    text = f"out[n, c, y, x] = {value} * w[l, k, j, i]"
    extents = {"n": x.batch, "c": x.channels, "y": x.size[1], "x": x.size[0]}
    combine = p.among(["add", "add", "add", "max", "min"])
    return F.contract(text, a=x, w=weight, border=p.among(BORDERS), extents=extents, combine=combine) * 0.3


@contraction
def volume(p: Pool) -> Variable:
    """Neighbours in a volume of images, a border along each axis."""
    x = p.float(FLOAT, VEC2, VEC3)
    k, j, i = (int(v) for v in p.rng.integers(-2, 3, 3))
    text = f"out[n, y, x] = a[n + {k}, y + {j}, x + {i}] - a[n, y, x]"
    extents = {"n": x.batch, "y": x.size[1], "x": x.size[0]}
    return F.contract(text, a=x, border=p.among(BORDERS), extents=extents)


@contraction
def hinted(p: Pool) -> Variable:
    x = p.float()
    return p.among([F.store, F.recompute])(x * 0.9)
