"""What random graphs are grown by: each operation makes a value from those of a pool, or refuses.

Not here: asin, acos, atan and tan, which Vulkan lets drivers approximate to a few digits (they do). Their own tests know
by how much.
"""

from __future__ import annotations

from collections.abc import Callable

from dressi import FLOAT, INT, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4, Variable

from .coverage import F
from .pool import MATRICES, VECTORS, Pool, Refused

Operation = Callable[[Pool], Variable]
OPERATIONS: list[Operation] = []


def often(weight: int):
    """Operations are drawn in proportion to their weights."""

    def register(operation: Operation) -> Operation:
        OPERATIONS.extend([operation] * weight)
        return operation

    return register


# ---- pixel by pixel
@often(5)
def unary(p: Pool) -> Variable:
    x = p.float(FLOAT, *VECTORS)
    return p.among(
        [
            lambda: F.sin(x * 1.3 + 0.2),
            lambda: F.cos(x),
            lambda: F.exp(-F.square(x)),
            lambda: F.exp2(F.sin(x)),
            lambda: F.sigmoid(x * 2.0),
            lambda: F.sqrt(F.square(x) + 0.1),
            lambda: F.log(F.square(x) + 0.5),
            lambda: F.inversesqrt(F.square(x) + 0.3),
            lambda: F.abs(x),
            lambda: -x,
            lambda: F.square(x) * 0.5,
            lambda: F.stop_gradient(x),
            lambda: F.fract(x * 1.7 + 0.3),
            lambda: F.floor(x * 2.3 + 0.1) * 0.4,
            lambda: F.ceil(x * 1.9) * 0.3,
            lambda: F.sign(x),
            lambda: F.tanh(x),
            lambda: F.erf(x),
            lambda: F.softplus(x),
            lambda: F.relu(x),
            lambda: F.leaky_relu(x, 0.2),
            lambda: F.silu(x),
            lambda: F.gelu(x),
            lambda: F.softmax(x, p.among(["x", "xy"])),
            lambda: F.log_softmax(x, p.among(["y", "xy"])),
        ]
    )()


@often(8)
def binary(p: Pool) -> Variable:
    a = p.float(FLOAT, *VECTORS)
    b = p.float(a.vtype, like=a) if p.chance(0.7) else p.float(FLOAT, like=a)
    return p.among(
        [
            lambda: (a + b) * 0.6,
            lambda: a - b * p.number(),
            lambda: a * b,
            lambda: a / (F.square(b) + 0.5),
            lambda: F.maximum(a, b),
            lambda: F.minimum(a, b + 0.1),
            lambda: F.mix(a, b, p.scalar(a)),
            lambda: F.clamp(a, -0.5, F.abs(b) + 0.3),
            lambda: F.pow(F.abs(a) + 0.3, F.sin(b) + 1.2),
            lambda: F.smoothstep(-0.8, 0.9, a) * b,
            lambda: F.step(0.13, a) + b,
            lambda: F.mod(a, 0.73) + b,
        ]
    )()


@often(4)
def chosen(p: Pool) -> Variable:
    x = p.float()
    a, b = p.scalar(x), p.scalar(x)
    mask = p.among([F.greater, F.less, F.greater_equal, F.less_equal])(a, b * 0.5 + 0.01)
    if p.chance(0.3):
        mask = p.among([F.logical_and, F.logical_or])(mask, F.greater(b, p.number()))
    y = p.float(x.vtype, like=x) if p.chance(0.7) else 0.25
    return F.select(mask, x, y) if p.chance(0.7) else F.select(mask, x * 0.5, 0.0)


@often(3)
def vector(p: Pool) -> Variable:
    x = p.float(*VECTORS)
    y = p.float(x.vtype, like=x)
    short = F.vec3(x[0], y[1], 0.5) if x.vtype is not VEC3 else x
    return p.among(
        [
            lambda: F.dot(x, y),
            lambda: F.length(x) + 0.1,
            lambda: F.distance(x, y + 0.5),
            lambda: F.normalize(x + y * 0.1) * 0.8,
            lambda: F.reflect(x, F.normalize(y + 0.2)),
            lambda: F.cross(short, p.float(VEC3, like=short)),
            lambda: F.swizzle(x, p.among(["xy", "yx", "yy", "xxy", "yxyx", "x"])),
            lambda: F.sum_components(x) * 0.4,
            lambda: F.max_component(x),
            lambda: F.vec4(x[0], y[1], p.scalar(x), 0.3),
            lambda: F.vec2(p.scalar(x), x[1]),
        ]
    )()


@often(4)
def matrix(p: Pool) -> Variable:
    m = p.float(*MATRICES)
    column = {MAT2: VEC2, MAT3: VEC3, MAT4: VEC4}[m.vtype]
    n = p.float(m.vtype, like=m)
    v = p.float(column, like=m)
    identity = m.vtype.shape[0]
    return p.among(
        [
            lambda: F.matmul(m, v) * 0.5,
            lambda: F.matmul(m, n) * 0.4,
            lambda: F.transpose(m),
            lambda: F.determinant(m) * 0.3,
            lambda: F.outer(v, p.float(column, like=v)) * 0.7,
            lambda: F.inverse(F.outer(v, v) + diagonal(identity)),
            lambda: F.column(m, 1),
            lambda: m + n * 0.5,
            lambda: F.hadamard(m, n),
            lambda: m * p.scalar(m),
            lambda: F.select(F.greater(p.scalar(m), 0.05), m, n),
        ]
    )()


def diagonal(n: int) -> Variable:
    build = {2: F.mat2, 3: F.mat3, 4: F.mat4}[n]
    return build(*(tuple(2.0 if j == k else 0.0 for k in range(n)) for j in range(n)))


# ---- moving texels
@often(4)
def moved(p: Pool) -> Variable:
    x = p.float()
    (w, h), n, _ = x.domain

    def by(extent: int) -> int:
        return int(p.rng.integers(-extent - 1, extent + 2))

    def resized() -> Variable:
        size = (int(p.rng.integers(1, 12)), int(p.rng.integers(1, 10)))
        small = size[0] <= w and size[1] <= h
        image = F.resize(x, size, p.among(["nearest", "bilinear", *(["area"] if small else [])]))
        return image if p.chance(0.5) else F.resize(image, p.size)

    def cut() -> Variable:
        x0, y0 = int(p.rng.integers(w)), int(p.rng.integers(h))
        return F.crop(x, x0, y0, (int(p.rng.integers(1, w - x0 + 1)), int(p.rng.integers(1, h - y0 + 1))))

    return p.among(
        [
            lambda: F.shift(x, by(w), by(h), p.among(["clamp", "zero", "repeat", "mirror"])),
            lambda: F.shift(x, 1, 0) - x,
            resized,
            cut,
            lambda: F.pad(
                x, *(int(k) for k in p.rng.integers(0, 3, 4)), p.among(["clamp", "zero", "repeat", "mirror"])
            ),
            lambda: F.flip(x, p.among(["x", "y", "xy"])),
            lambda: F.swap_axes(x),
            lambda: F.subsample(x, (int(p.rng.integers(1, 4)), int(p.rng.integers(1, 4)))),
            lambda: F.repeat(x, (int(p.rng.integers(1, 4)), int(p.rng.integers(1, 4)))),
            lambda: F.take(x, p.leaf(INT, (1, 1), p.batch, -1, n + 1)),
            lambda: p.among([F.window_max, F.window_min])(
                p.float(FLOAT, *VECTORS), int(p.rng.integers(1, 3)), p.among("xy")
            ),
            lambda: F.expand(x, p.batch, p.size) if n in (1, p.batch) and w in (1, p.size[0]) else x * 0.5,
        ]
    )()


@often(3)
def reduced(p: Pool) -> Variable:
    x = p.float()
    axes = p.among(["x", "y", "n", "xy", "yx", "xyn", "yn"])
    (w, h), _, _ = x.domain
    scale = 1.0 / ((w if "x" in axes else 1) * (h if "y" in axes else 1)) ** 0.5
    kinds = [lambda: F.mean(x, axes), lambda: F.sum(x, axes) * scale]
    if not x.vtype.is_matrix:
        kinds += [lambda: F.max(x, axes), lambda: F.min(x, axes=axes)]
    return p.among(kinds)()


# ---- tables
@often(5)
def looked_up(p: Pool) -> Variable:
    table = p.float()
    if table.batch not in (1, p.batch):
        raise Refused
    like = p.float() if table.batch == 1 else table
    (w, h), _, _ = table.domain
    index = p.index(w * h, like) if p.chance(0.7) else p.texel(table.size, like)
    if table.batch > 1 and index.batch not in (1, table.batch):
        raise Refused
    return F.lookup(table, index)


@often(5)
def scattered(p: Pool) -> Variable:
    value = p.float(FLOAT, *VECTORS) if p.chance(0.8) else p.float()
    size = p.among([p.size, (4, 3), (1, 1), (8, 8), (11, 1)])
    index = p.index(size[0] * size[1], value) if p.chance(0.7) else p.texel(size, value)
    batch = max(value.batch, index.batch) if p.chance(0.4) else 1
    bound = p.among([None, None, LARGEST_BOUND, F.max(F.max_component(F.abs(value)))
                     if not value.vtype.is_matrix else None])  # fmt: skip
    table = F.scatter_add(value * 0.2, index, size, batch, bound)
    if p.chance(0.3):
        more = p.float(value.vtype)
        if batch == 1:
            table = table + F.scatter_add(more * 0.1, p.index(size[0] * size[1], more), size)
    return table


LARGEST_BOUND = 64.0


@often(1)
def claimed(p: Pool) -> Variable:
    size = p.among([p.size, (4, 3)])
    key = p.index(50)
    winner = F.scatter_max(key, p.index(size[0] * size[1], key), size)
    return winner if p.chance(0.5) else F.to_float(winner) * 0.05


@often(3)
def sampled(p: Pool) -> Variable:
    texture = p.float(FLOAT, *VECTORS) if p.chance(0.8) else p.float()
    if texture.batch not in (1, p.batch):
        raise Refused
    uv = p.float(VEC2, like=texture if texture.batch > 1 and texture.size == p.size else None)
    if texture.batch > 1 and uv.batch != texture.batch:
        raise Refused
    return F.sample(texture, uv * 0.9 + 0.513, p.among(["bilinear", "nearest"]), p.among(["repeat", "clamp"]))


@often(1)
def sampled_by_inverse_uv(p: Pool) -> Variable:
    texture, uv = p.float(FLOAT, VEC3), p.float(VEC2)
    if texture.batch not in (1, uv.batch):
        raise Refused
    mask = F.greater(p.scalar(uv), -0.3)
    if mask.domain != uv.domain:
        mask = 1.0
    return F.sample_inverse_uv(texture, uv * 0.9 + 0.513, mask, (0.37, 0.61), count=p.chance(0.5))


# ---- places, chance and integers
@often(2)
def placed(p: Pool) -> Variable:
    size, batch = p.domain()
    return p.among(
        [
            lambda: F.to_float(F.linear_index(size, batch)) * (0.9 / (size[0] * size[1])),
            lambda: F.to_float(F.pixel_coordinates(size, batch)) * 0.07 - 0.31,
            lambda: F.to_float(F.tile_index(size, batch)) * 0.3,
            lambda: (
                F.random(int(p.rng.integers(9)), p.index(7, p.leaf(INT, (1, 1), 1, 0, 3)), (1, 1))
                if size == (1, 1)
                else F.random(int(p.rng.integers(9)), 3, size, batch)
            ),
            lambda: F.sobol2(F.linear_index(size, batch) + int(p.rng.integers(99))),
        ]
    )()


@often(3)
def integer(p: Pool) -> Variable:
    a = p.index(12)
    b = p.index(7, a)
    return p.among(
        [
            lambda: F.minimum(a, b),
            lambda: F.maximum(a, b),
            lambda: F.clamp(a, 1, 9),
            lambda: F.mod(a + 3 * b, 11),
            lambda: a - b,
            lambda: F.mod(a * 3, 8),
            lambda: F.select(F.less(a, b), a, 2),
            lambda: F.ivec2(F.mod(a, 5), F.mod(b, 3)),
            lambda: F.to_float(a) * 0.08,
            lambda: F.select(F.equal(a, b), 0.3, F.to_float(b) * 0.11),
            lambda: F.max(a),
            lambda: F.shift(a, 1, -1),
            lambda: F.lookup(a, F.linear_index(p.size)),
        ]
    )()
