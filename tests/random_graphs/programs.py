"""Random programs: of pixels and rasters, stencils (compositions of reads at affine places with every border, strides, flips
and reductions), and derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dressi import GraphError, Variable, gradient, jvp, optim
from dressi.ad.expressions.count import shortest
from dressi.ad.expressions.jacobian import Writer
from dressi.ad.expressions.reader import Reader
from dressi.ad.expressions.table import Table
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.index_map import BORDERS
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT, INT, IVEC3, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4
from dressi.ad.ops.pixel.compare import Less
from dressi.ad.transform.simplify import simplify
from random_graphs.operations import (
    CONTRACTIONS,
    MORE,
    OPERATIONS,
    SIZES,
    VECTORS,
    F,
    Operation,
    Pool,
    Refused,
    often,
)

EDGE = 0.14
"""Pixels between an edge and a centre; SwiftShader places vertices to 1/16 of a pixel."""


def _corners(p: Pool, size) -> np.ndarray:
    """Three corners in pixels, on corners of pixels; edges along (1, 0), (0, 1), (1, 2) and (2, 1) pass by centres."""
    width, height = size
    for _ in range(200):
        corners = p.rng.integers((-2, -2), (width + 3, height + 3), (3, 2))
        if _keeps_away(corners.astype(float), size):
            return corners.astype(float)
    raise Refused


def _keeps_away(corners: np.ndarray, size) -> bool:
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    a, b = corners, np.roll(corners, -1, 0)
    for start, end in zip(a, b, strict=True):
        along = end - start
        length = np.hypot(*along)
        if length == 0 or np.abs(along[0] * (y - start[1]) - along[1] * (x - start[0])).min() < EDGE * length:
            return False
    first, second = corners[1] - corners[0], corners[2] - corners[0]
    return abs(first[0] * second[1] - first[1] * second[0]) > 1


class Drawn(NamedTuple):
    """What is drawn. position, faces, live: as for ``F.rasterize``."""

    position: Variable
    faces: Variable | None
    live: Variable | None
    triangles: int

    @classmethod
    def of(cls, p: Pool) -> Drawn:
        """Some triangles, maybe by their corners' numbers, maybe moved by a shader, maybe some of them alone."""
        triangles = int(p.rng.integers(1, 6))
        batch = p.among([1, p.batch])
        corners = np.empty((batch, 1, 3 * triangles, 4), np.float32)
        for n in range(batch):
            for t in range(triangles):
                at = 3 * t + np.arange(3)
                corners[n, 0, at, :2] = _corners(p, p.size) / p.size * 2 - 1
                corners[n, 0, at, 2] = 0.1 + 0.8 * (t + 0.5 * p.rng.random()) / triangles  # depths differ
                corners[n, 0, at, 3] = 1.0
        corners *= p.among([1.0, 0.5, 2.0])
        flat = Variable(VEC4, (3 * triangles, 1), batch, data=corners, name=f"corners{len(p.leaves)}")
        p.leaves.append(flat)
        faces, position = None, flat
        if p.chance(0.3):
            order = np.arange(3 * triangles)[::-1].reshape(1, 1, triangles, 3).copy()
            faces = Variable(IVEC3, (triangles, 1), data=order, name=f"faces{len(p.leaves)}")
            p.leaves.append(faces)
        if p.chance(0.4):  # made by a shader: by a power of two, so that no coordinate is rounded
            position = flat * F.exp2(F.to_float(F.tile_index((1, 1), batch)))
        live = None
        if p.chance(0.4):
            kind = p.among([INT, FLOAT])
            live = p.leaf(INT, (triangles, 1), p.among([1, batch]), 0, 2)
            live = F.to_float(live) * 0.5 if kind is FLOAT else live
        return cls(position, faces, live, triangles)


@often(4)
def rasterized(p: Pool) -> Variable:
    """A number of a face at each pixel, as a mask, an index or both."""
    position, faces, live, triangles = Drawn.of(p)
    depths = p.leaf(FLOAT, (triangles, 1), 1, 0.05, 0.9)
    mask = p.leaf(INT, p.size, 1, 0, 3)

    def by_table(face):
        return F.lookup(depths, face), None

    def by_mask(face):
        return F.to_float(face) * 0.11 + 0.02, F.greater(F.add(mask, face), 0)

    def behind(face):
        front = F.lookup(depths, F.clamp(before, 0, triangles - 1))
        depth = F.lookup(depths, face)
        return depth, F.logical_or(F.less(before, 0), F.greater(depth, front + 0.001))

    before = F.rasterize(position, faces, size=p.size, live=live, fragment=by_table)
    face = before
    if p.chance(0.7):
        fragment = p.among([None, by_mask, behind])
        face = F.rasterize(position, faces, size=p.size, live=live, fragment=fragment)
    if p.chance(0.2):
        face = F.rasterize(position, faces, size=p.size, live=live, triangles_per_face=1)
    p.add(face)
    hit = F.greater_equal(face, 0)
    x = p.float(like=face)
    kind = p.rng.integers(5)
    if kind == 0:
        return F.select(hit, x, 0.0)
    if kind == 1:
        return F.lookup(p.leaf(x.vtype, (triangles, 1), 1, parameter=True), face)
    if kind == 2:
        value = F.select(hit, x * 0.2, 0.0)
        return F.scatter_add(value, face, (triangles, 1), p.among([1, max(value.batch, face.batch)]))
    if kind == 3:
        return F.select(
            F.logical_and(hit, F.greater(p.scalar(face), 0.1)), F.sin(x) if not x.vtype.is_matrix else x, 0.5
        )
    return F.to_float(face) * 0.15


def accumulated(p: Pool) -> Variable:
    """A sum over fragments, of values at their pixels and of entries of lists."""
    position, faces, live, triangles = Drawn.of(p)
    x = p.float(FLOAT, *VECTORS)
    table = p.leaf(x.vtype, (triangles, 1), p.among([1, p.batch]), parameter=p.chance(0.7))
    limit = p.among([None, 0.6, p.scalar()])
    mask = p.leaf(INT, p.size, 1, 0, 3)

    def of_lists(face, depth):
        return F.lookup(table, face) * x * 0.3

    def of_depths(face, depth):
        return F.sin(F.lookup(table, face)) * depth + x * F.square(depth), F.greater(F.add(mask, face), 0)

    def of_corners(face, depth):
        corner = F.lookup(position, F.mul(face, 3))
        return F.lookup(table, face) * (corner.x * 0.5 + depth)

    value = p.among([of_lists, of_depths, of_corners])
    more = {"fixed_point": True} if p.chance(0.2) else {}
    return F.accumulate(position, faces, size=p.size, live=live, value=value, limit=limit, **more)


SUMS = (accumulated,) * 4

TYPES = (FLOAT, FLOAT, VEC2, VEC3, VEC3, VEC4, MAT2, MAT3, MAT4)


EVERY = (*OPERATIONS, *MORE, *CONTRACTIONS, *SUMS)


def random_program(
    seed: int, count: int | None = None, operations: Sequence[Operation] = OPERATIONS
) -> tuple[Program, int]:
    """A program of about ``count`` operations, and how many steps to run. Equal arguments give equal programs."""
    rng = np.random.default_rng(seed)
    p = Pool(rng)
    for k in range(5):
        size, batch = p.domain()
        p.add(p.leaf(FLOAT if k == 0 else p.among(TYPES), size, batch, parameter=k < 3))
    p.add(p.leaf(p.among([FLOAT, VEC2, VEC3]), (6, 4), p.among([1, p.batch]), parameter=True))
    count = count or int(p.among([3, 5, 7, 10, 14, 22]))
    made = tried = 0
    while made < count and tried < 12 * count:
        tried += 1
        try:
            p.add(p.among(operations)(p))
            made += 1
        except (Refused, GraphError):  # GraphError: domains or types that do not go together
            continue
    last = p.values[-3:]
    loss = sum((small(v) for v in last), start=F.constant(0.0))
    outputs = {"loss": loss, "last": p.values[-1], "middle": p.values[len(p.values) // 2]}
    if p.ints:
        outputs["index"] = p.ints[-1]
    parameters = [x for x in p.parameters if p.chance(0.8)] or p.parameters[:1]
    gradients = gradient(loss, parameters)
    if p.chance(0.25):
        tangent = gradients[0] if p.chance(0.5) else F.zeros_like(parameters[0]) + p.number()
        outputs["tangent"] = _tangent(loss, parameters[0], tangent)
    if p.chance(0.1):
        outputs["curvature"] = _second(gradients[0], parameters[0])
    updates = _updates(p, parameters, gradients)
    outputs = {name: v for name, v in outputs.items() if v.creator is not None}
    return Program(outputs, updates), int(p.among([1, 2, 3]))


def small(v: Variable) -> Variable:
    """A FLOAT of one texel that depends smoothly on all of a value."""
    if v.vtype.is_matrix:
        v = F.hadamard(v, v)
        v = F.column(v, 0) + F.column(v, 1) * 0.5
    return F.mean(F.dot(v, v) if v.vtype in VECTORS else F.sin(v))


def _tangent(loss: Variable, x: Variable, tangent: Variable) -> Variable:
    """The derivative along a tangent; the tangent itself where a Function has no forward derivative."""
    try:
        return jvp([loss], [x], [tangent])[0]
    except GraphError:
        return tangent


def _second(g: Variable, x: Variable) -> Variable:
    """The gradient of a gradient; the gradient itself where a Function has no second derivative."""
    try:
        return gradient(small(g), [x])[0]
    except GraphError:
        return g


def _updates(p: Pool, parameters: list[Variable], gradients: list[Variable]):
    rate = p.among([0.05, 0.01, optim.exponential(0.05, 0.5, 2), optim.cosine(0.05, 0.01, 3)])
    kinds = [
        optim.sgd(rate),
        optim.sgd(rate, momentum=0.9),
        optim.sgd(rate, momentum=0.8, nesterov=True),
        optim.adam(rate, eps=1e-2),
        optim.adamw(rate, eps=1e-2),
        optim.adam_uniform(rate, eps=1e-2),
        optim.amsgrad(rate, eps=1e-2),
        optim.chain(optim.clip_by_value(0.5), optim.sgd(rate)),
    ]
    optimizer = p.among(kinds)
    if len(parameters) > 1 and p.chance(0.2):
        optimizer = optim.per_parameter({parameters[0]: p.among(kinds)}, default=p.among(kinds))
    if p.chance(0.15):
        return tuple((x, x - 0.1 * g) for x, g in zip(parameters, gradients, strict=True))
    built = optimizer.build(parameters, gradients)
    updates = [*zip(parameters, built.parameters, strict=True), *built.updates]
    if p.chance(0.15):  # a leaf that remembers another
        x = parameters[0]
        data = np.zeros(x.shape, np.float32)
        updates.append((Variable(x.vtype, x.size, x.batch, channels=x.channels, data=data, name="before"), x))
    return tuple(updates)


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
    seed: int,
    count: int | None = None,
    operations: list[Operation] = STENCILS,
    sizes: Sequence[tuple[int, int]] = SIZES,
) -> tuple[Program, int]:
    """A program of about ``count`` reads with its gradients, and how many steps to run. Equal arguments give equal programs."""
    rng = np.random.default_rng(seed)
    p = Pool(rng, int(rng.choice((1, 1, 2, 3, 5))), sizes)
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


KINDS = (
    lambda x, y: x + y,
    lambda x, y: x - 0.5 * y,
    lambda x, y: 0.7 * x * y,
    lambda x, y: F.sin(x),
    lambda x, y: x / (1.5 + F.square(y)),
    lambda x, y: F.maximum(x, y),
    lambda x, y: -F.cos(y) * x,
)


def random_outputs(seed: int, count: int = 40) -> tuple[list[Variable], dict[Variable, np.ndarray]]:
    """Sums, products and Functions of what came before, densely shared, and values of the leaves."""
    random = np.random.default_rng(seed)
    leaves = [Variable(FLOAT, (4, 2), name=f"x{k}") for k in range(3)]
    values = list(leaves)
    for _ in range(count):
        x, y = (values[-1 - int(k)] for k in random.integers(0, min(8, len(values)), 2))
        values.append(KINDS[int(random.integers(len(KINDS)))](x, y))
    return values[-4:], {v: random.uniform(-1.0, 1.0, v.shape) for v in leaves}


@lru_cache(maxsize=1)
def _derivatives(seed: int, count: int | None) -> list[tuple[str, Variable, Variable]]:
    """(name, derivative by expressions, the same by the graph). The leaves have values of single precision."""
    outputs, values = random_outputs(seed, count or int(np.random.default_rng(seed).integers(5, 17)))
    for v, data in values.items():
        v.data = data.astype(np.float32)
    leaves, one, found = list(values), F.constant(1.0), list[tuple[str, Variable, Variable]]()
    for k, (y, row) in enumerate(zip(outputs, F.jacobian(outputs, leaves, limit=None), strict=True)):
        for j, pair in enumerate(zip(row, gradient(y, leaves, one), strict=True)):
            found.append((f"jacobian {k} {j}", *pair))
    y, x = outputs[-1], leaves[0]
    first = gradient(y, leaves, one)
    for k, (g, row) in enumerate(zip(first, F.hessian(y, leaves, limit=None), strict=True)):
        for j, pair in enumerate(zip(row, gradient(g, leaves, one), strict=True)):
            found.append((f"hessian {k} {j}", *pair))
    third = first[0]
    for _ in range(2):
        (third,) = gradient(third, [x], one)
    found.append(("third", F.derivative(y, x, order=3, limit=None), third))
    return found


def random_derivatives(seed: int, count: int | None = None) -> tuple[Program, int]:
    """A program of all derivatives, one step. Equal arguments give equal programs."""
    outputs = {name: v for name, v, _ in _derivatives(seed, count) if not v.is_leaf}
    return Program(outputs, ()), 1


def disagreements(seed: int, count: int | None = None) -> list[str]:
    """Sentences, where derivatives by expressions are not those by the graph in float64."""
    names, found, expected = zip(*_derivatives(seed, count), strict=True)
    values = evaluate([*found, *expected])
    failures = []
    for name, a, b in zip(names, values[: len(names)], values[len(names) :], strict=True):
        off, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
        if not off <= 1e-10 * max(scale, 1.0):
            failures.append(f"{name} is off the gradient of the graph by {off:.3g} of {scale:.3g}")
    return failures


LOGIC = (
    lambda x, y, m, n: (F.select(m, x, y), n),
    lambda x, y, m, n: (x, F.logical_and(m, n)),
    lambda x, y, m, n: (y, F.logical_or(m, n)),
    lambda x, y, m, n: (x, F.logical_not(m)),
    lambda x, y, m, n: (F.maximum(x, y), x > y),
    lambda x, y, m, n: (F.minimum(x, y), n),
    lambda x, y, m, n: (2.0 * x - 0.5 * y, m),
    lambda x, y, m, n: (x * 1.5 - x, m),
    lambda x, y, m, n: (m * x + n * y, m),
    lambda x, y, m, n: (F.sqrt(F.square(x)), F.square(m)),
    lambda x, y, m, n: (F.maximum(F.minimum(x, 0.4), -0.3), m * n),
    lambda x, y, m, n: (
        F.select(m, F.select(F.logical_or(m, n), x, y), F.select(F.logical_and(m, n), y, -x)),
        n,
    ),
)
"""Of two values and two masks, a value and a mask."""


def random_logic(seed: int, count: int | None = None) -> tuple[Program, int]:
    """A program of masks, extremes, selects, like terms and powers, and its gradients; one step."""
    random = np.random.default_rng(seed)
    leaves = [Variable(FLOAT, (5, 3), name=f"x{k}") for k in range(3)]
    for x in leaves:
        x.data = (random.integers(-12, 13, x.shape) / 8 + random.integers(1, 3) / 16).astype(np.float32)
    values, masks = list(leaves), [leaves[0] > 0.3, leaves[1] > leaves[2]]
    for _ in range(count or int(random.integers(6, 30))):
        x, y = (values[-1 - int(k)] for k in random.integers(0, min(5, len(values)), 2))
        m, n = (masks[-1 - int(k)] for k in random.integers(0, min(4, len(masks)), 2))
        value, mask = LOGIC[int(random.integers(len(LOGIC)))](x, y, m, n)
        values.append(value if random.random() < 0.8 else F.sin(value))
        masks.append(mask)
    y = values[-1] + values[-2] * masks[-1]
    slopes = gradient(y, leaves, F.constant(1.0))
    outputs = {"value": y, "mask": masks[-1], **{f"slope {k}": g for k, g in enumerate(slopes)}}
    return Program({name: v for name, v in outputs.items() if v.creator is not None}, ()), 1


def changed(seed: int, count: int | None = None) -> list[str]:
    """Sentences, where a simplified program, or its expressions, have other values in float64. Texels at which
    rounding decides, because values that are compared are equal but for it, are left out."""
    outputs = random_logic(seed, count)[0].outputs
    simple = simplify(Program(outputs, ())).outputs
    reader = Reader(Table())
    steps = shortest(reader.table, [x for values in reader.read(outputs.values()) for x in values])
    expected = evaluate([*outputs.values()])
    compared = [f.inputs for f in topological_order([*outputs.values()]) if isinstance(f, Less)]
    jumps = np.zeros((1, 3, 5), bool)
    for x, y in compared:
        a, b = evaluate([x, y])
        jumps |= (np.abs(a - b) < 1e-9) & (x is not y)
    failures = []
    for how, made in (("simplified", simple.values()), ("written from expressions", Writer(steps).roots())):
        for name, a, b in zip(outputs, evaluate([*made]), expected, strict=True):
            off = float(np.abs(np.where(jumps, 0.0, a - b)).max())
            if not off <= 1e-12 * max(float(np.abs(b).max()), 1.0):
                failures.append(f"{name} {how} is off by {off:.3g}")
    return failures
