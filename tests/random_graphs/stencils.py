"""Random stencils: compositions of reads at affine places with every border, strides, flips and reductions, and their
gradients."""

from __future__ import annotations

import numpy as np

from dressi import FLOAT, INT, VEC2, VEC3, GraphError, Variable, gradient, jvp
from dressi.ad.graph.index_map import BORDERS
from dressi.ad.program import Program

from .contractions import CONTRACTIONS
from .coverage import F
from .operations import Operation
from .pool import Pool, Refused
from .programs import small

LOOKUPS: list[Operation] = []
STENCILS: list[Operation] = [*CONTRACTIONS]


def stencil(operation: Operation) -> Operation:
    STENCILS.append(operation)
    return operation


def bordered_lookup(operation: Operation) -> Operation:
    LOOKUPS.append(operation)
    return stencil(operation)


def around(p: Pool, extent: int) -> int:
    """An offset, mostly of a few texels, sometimes beyond the image."""
    return int(p.rng.integers(-3, 4)) if p.chance(0.8) else int(p.rng.integers(-2 * extent, 2 * extent + 1))


@stencil
def shifted(p: Pool) -> Variable:
    x = p.float()
    return F.shift(x, around(p, x.size[0]), around(p, x.size[1]), p.among(BORDERS))


@stencil
def weighted(p: Pool) -> Variable:
    """A stencil of a few texels, with one border or several."""
    x = p.float()
    border = p.among(BORDERS)
    total = x * p.number()
    for _ in range(int(p.rng.integers(1, 4))):
        border = border if p.chance(0.7) else p.among(BORDERS)
        total = total + F.shift(x, around(p, x.size[0]), around(p, x.size[1]), border) * p.number()
    return total


@stencil
def squared_difference(p: Pool) -> Variable:
    x = p.float(FLOAT, VEC2, VEC3)
    return F.square(F.shift(x, 1, 0) - F.shift(x, 0, 1, p.among(BORDERS))) * 0.5


@stencil
def padded(p: Pool) -> Variable:
    x = p.float()
    return F.pad(x, *(int(k) for k in p.rng.integers(0, 5, 4)), p.among(BORDERS))


@stencil
def cut(p: Pool) -> Variable:
    x = p.float()
    w, h = x.size
    x0, y0 = int(p.rng.integers(w)), int(p.rng.integers(h))
    return F.crop(x, x0, y0, (int(p.rng.integers(1, w - x0 + 1)), int(p.rng.integers(1, h - y0 + 1))))


@stencil
def turned(p: Pool) -> Variable:
    x = p.float()
    return p.among([lambda: F.flip(x, p.among(["x", "y", "xy"])), lambda: F.swap_axes(x)])()


@stencil
def strided(p: Pool) -> Variable:
    x = p.float()
    w, h = x.size
    step = (int(p.rng.integers(1, 4)), int(p.rng.integers(1, 4)))
    first = (int(p.rng.integers(min(w, 3))), int(p.rng.integers(min(h, 3))))
    size = (int(p.rng.integers(1, 2 * w)), int(p.rng.integers(1, 2 * h)))
    return p.among(
        [lambda: F.subsample(x, step, first), lambda: F.repeat(x, step), lambda: F.resize(x, size, "nearest")]
    )()


@stencil
def pointwise(p: Pool) -> Variable:
    x = p.float()
    y = p.float(x.vtype, like=x)
    return p.among([lambda: F.hadamard(x, y), lambda: x - y * 0.5, lambda: x * 0.7 + p.number()])()


@stencil
def reduced(p: Pool) -> Variable:
    x = p.float()
    axes = p.among(["x", "y", "n", "xy", "c"])
    return p.among([F.mean, F.sum])(x, axes) * 0.5


@stencil
def largest(p: Pool) -> Variable:
    x = p.float(FLOAT, VEC2, VEC3)
    return p.among(
        [lambda: F.max(x, "x"), lambda: F.window_max(x, 1, "y"), lambda: F.window_min(x, 2, "x")]
    )()


@stencil
def looked_up(p: Pool) -> Variable:
    """At an affine index of whatever kind: rounded quotients, exchanged axes, shears, the diagonal, rows."""
    x = p.float()
    w, h = x.size
    size = (int(p.rng.integers(1, 2 * w + 1)), int(p.rng.integers(1, 2 * h + 1)))
    at = F.pixel_coordinates(size, x.batch if p.chance(0.3) else 1)
    i, j = p.among(
        [(at.x, at.y), (at.x, at.y), (at.y, at.x), (at.x, at.x), (at.y, at.y), (at.x + at.y, at.y)]
    )

    def one(axis: Variable, extent: int) -> Variable:
        k, c, d = (int(p.among(v)) for v in ([1, 1, 1, 2, 3, -1, -2], range(-2, extent + 1), [1, 1, 1, 2, 3]))
        return (axis * k + c if k > 0 else extent * 2 + axis * k) / d

    index = F.ivec2(one(i, w), one(j, h))
    index = p.among(
        [
            lambda: index,
            lambda: index,
            lambda: F.clamp(index, 0, (w - 1, h - 1)),
            lambda: F.linear_index(size) * int(p.among([1, 1, 2, 3])) + int(p.rng.integers(-w, w + 1)),
        ]
    )()
    return F.lookup(x, index)


def within(p: Pool, axis: Variable, extent: int) -> Variable:
    """An index along an axis of so many texels, as users write borders: by integers or floats, on one side or on both."""
    c, last = int(p.rng.integers(-extent, extent + 1)), extent - 1
    d = int(p.among([1, 1, 2, 3, 4]))
    at, x = axis + c, F.to_float(axis) + float(c)
    kinds = [
        lambda: F.clamp(at, 0, last),
        lambda: F.maximum(at, 0),
        lambda: F.minimum(F.maximum(last - at, 0), last),
        lambda: F.minimum(at, last),
        lambda: F.abs(at),
        lambda: last - F.abs(last - F.abs(at)),
        lambda: F.maximum(at, -1 - at),
        lambda: F.minimum(F.maximum(at, -1 - at), 2 * last + 1 - F.maximum(at, -1 - at)),
        lambda: (at + 3 * extent) % extent,
        lambda: F.select(at > 0, at, 0),
        lambda: F.to_int(F.floor(x / float(d))),
        lambda: F.clamp(F.to_int(F.floor(x * (1.0 / d if d in (1, 2, 4) else 0.5))), 0, last),
        lambda: F.to_int(F.clamp(x / float(d), 0.0, float(last))),
        lambda: F.clamp(at / d, 0, last),
        lambda: F.clamp(at, min(1, last), max(last - 1, 0)),
        lambda: (axis * axis + abs(c)) % extent,
        lambda: at,
    ]
    return p.among(kinds)()


@bordered_lookup
def looked_up_within(p: Pool) -> Variable:
    """At indices with a border along each axis, maybe exchanged, shared, or counted row by row."""
    x = p.float()
    (w, h), k = x.size, int(p.rng.integers(1, 3))
    at = F.pixel_coordinates((k * w, k * h), x.batch if p.chance(0.3) else 1)
    i, j = p.among(
        [(at.x, at.y), (at.x, at.y), (at.x, at.y), (at.y, at.x), (at.x, at.x), (at.x + at.y, at.y)]
    )
    column, row = within(p, i, w), within(p, j, h)
    return F.lookup(x, F.ivec2(column, row) if p.chance(0.8) else F.clamp(row, 0, h - 1) * w + column)


@bordered_lookup
def neighbours_within(p: Pool) -> Variable:
    """A stencil by lookups clamped at the border, the commonest there is."""
    x = p.float()
    w, h = x.size
    at = F.pixel_coordinates(x.size)
    total = x * p.number()
    for _ in range(int(p.rng.integers(1, 4))):
        index = at + (int(p.rng.integers(-2, 3)), int(p.rng.integers(-2, 3)))
        total = total + F.lookup(x, F.clamp(index, 0, (w - 1, h - 1))) * p.number()
    return total


@stencil
def partly(p: Pool) -> Variable:
    """out(x) = in(x / s, z(x)), where z are data."""
    x = p.float()
    w, h = x.size
    size = (2 * w, h)
    z = p.leaf(INT, size, 1, -1, h + 1)
    at = F.pixel_coordinates(size)
    return F.lookup(x, F.ivec2(at.x / int(p.among([2, 3])), z))


@stencil
def picked(p: Pool) -> Variable:
    x = p.float()
    index = F.tile_index((1, 1), int(p.rng.integers(1, 4))) * int(p.among([1, -1, 2])) + int(
        p.rng.integers(-1, 3)
    )
    return F.take(x, index)


def random_stencils(
    seed: int, count: int | None = None, operations: list[Operation] = STENCILS
) -> tuple[Program, int]:
    """A program of about ``count`` reads with its gradients, and how many steps to run. Equal arguments give equal programs."""
    rng = np.random.default_rng(seed)
    p = Pool(rng, channels=int(rng.choice((1, 1, 2, 3, 5))))
    for k in range(2):
        vtype, channels = FLOAT if k == 0 else p.among([FLOAT, VEC2, VEC3]), p.among([1, p.channels])
        p.add(p.leaf(vtype, p.size, p.batch, parameter=True, channels=channels))
    count, made, tried = count or int(rng.integers(2, 7)), 0, 0
    while made < count and tried < 12 * count:
        tried += 1
        try:
            p.add(p.among(operations)(p))
            made += 1
        except (Refused, GraphError):  # GraphError: domains or types that do not go together
            continue
    loss = sum((small(v) for v in p.values[-2:]), start=F.constant(0.0))
    gradients = gradient(loss, p.parameters)
    outputs = {"loss": loss, "last": p.values[-1]}
    if p.chance(0.2):
        outputs["tangent"] = jvp([loss], p.parameters[:1], [F.zeros_like(p.parameters[0]) + 0.7])[0]
    if p.chance(0.1):
        outputs["curvature"] = gradient(small(gradients[0]), p.parameters[:1])[0]
    updates = tuple((x, x - 0.1 * g) for x, g in zip(p.parameters, gradients, strict=True))
    return Program({name: v for name, v in outputs.items() if v.creator is not None}, updates), 1
