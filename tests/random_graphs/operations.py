"""Operations that random graphs draw from, the values they have to choose from, and what is covered.

Not here: asin, acos, atan and tan, which Vulkan lets drivers approximate to a few digits (they do). Their own tests know
by how much.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from dressi import PixelFunction, Variable
from dressi.ad import functional
from dressi.ad.graph.evaluation import coordinates, values_at, with_tiles
from dressi.ad.graph.index_map import BORDERS
from dressi.ad.graph.types import FLOAT, INT, IVEC2, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4, Access, VType
from dressi.ad.imaging.contract import FUNCTIONS

LEFT_OUT = {
    **dict.fromkeys(
        ("asin", "acos", "atan", "atan2", "tan", "sphere_uv", "sample_sphere"),
        "Vulkan lets drivers approximate arcs and tangents to a few digits; their own tests know by how much",
    ),
    **dict.fromkeys(
        (
            "box_blur", "gaussian_blur", "guided_filter", "histogram", "bilateral_filter", "slice_grid", "splat_grid",
            "bayer_filter", "bayer_mosaic", "demosaic", "depth_to_space", "space_to_depth", "collapse_pyramid",
            "gaussian_pyramid", "laplacian_pyramid", "local_laplacian", "median", "recurrence", "recursive_blur", "sort",
            "sort_index", "transform_points", "warp", "warp_homography",
        ),
        "are composed of operators that are drawn",
    ),
    **dict.fromkeys(("checkpoint", "loop"), "take functions; their own tests compare them with unrolled graphs"),
    **dict.fromkeys(("derivative", "hessian", "jacobian", "sparse_jacobian"), "return rows; their own tests draw random graphs"),
    "source": "returns text",
    "constant_value": "returns an array",
    "Like": "is a type",
}  # fmt: skip
"""The names of F that no random graph uses, and why."""


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(functional, name))


class Recorder:
    """Stands for F: counts the calls of every operator, and of each of its options that is a word or a switch."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        operator = getattr(functional, name)

        def recorded(*arguments: Any, **more: Any) -> Variable:
            found = operator(*arguments, **more)
            self.used[name] += 1
            for key, value in _signature(name).bind(*arguments, **more).arguments.items():
                if isinstance(value, str | bool):
                    self.used[f"{name} {key}={value}"] += 1
            return found

        return recorded


F = Recorder()


def missing(used: Counter[str] | set[str]) -> list[str]:
    """Operators that are not among those used, and not left out on purpose."""
    return [name for name in functional.__all__ if name not in used and name not in LEFT_OUT]


VECTORS = (VEC2, VEC3, VEC4)
MATRICES = (MAT2, MAT3, MAT4)
FLOATS = (FLOAT, *VECTORS, *MATRICES)
LARGEST = 50.0  # magnitude of the values in the pool

SIZES = ((7, 5), (5, 3), (9, 1), (1, 6), (16, 12), (33, 18))
"""Of images."""

PERTURBED = 1e-5
"""Relative change of the leaves that tells whether a value is well conditioned."""


class Refused(Exception):
    """This operation does not fit the values at hand; another one is tried."""


class Pool:
    """``values`` of floats and ``ints`` of indices, over domains that mostly broadcast to (size, batch)."""

    def __init__(self, rng: np.random.Generator, channels: int = 1, sizes: Sequence[tuple[int, int]] = SIZES):
        self.rng, self.channels = rng, channels
        self.size = tuple(int(n) for n in self.among(sizes))
        self.batch = int(self.among([1, 1, 2, 3]))
        self.values: list[Variable] = []
        self.ints: list[Variable] = []
        self.leaves: list[Variable] = []
        self.parameters: list[Variable] = []
        self._known: dict[Variable, tuple[np.ndarray, ...]] = {}

    # ---- chance
    def among(self, choices: Sequence):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: float = -1.0, high: float = 1.0) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def domain(self):
        """A domain that broadcasts to that of the pool."""
        (w, h), n = self.size, self.batch
        full = ((w, h), n)
        return self.among([full, full, ((w, h), 1), ((1, 1), 1), ((1, 1), n), ((w, 1), 1), ((1, h), n)])

    # ---- leaves
    def leaf(
        self, vtype: VType, size, batch: int, low=-1.0, high=1.0, parameter=False, channels=1
    ) -> Variable:
        shape = Variable(vtype, size, batch, channels=channels).shape
        if vtype.is_int:
            data = self.rng.integers(int(low), int(high), shape)
        else:
            data = self.rng.uniform(low, high, shape).astype(np.float32)
        kind = "parameter" if parameter else "leaf"
        v = Variable(vtype, size, batch, channels=channels, data=data, name=f"{kind}{len(self.leaves)}")
        self.leaves.append(v)
        if parameter:
            self.parameters.append(v)
        return v

    # ---- values
    def float(self, *vtypes: VType, like: Variable | None = None) -> Variable:
        """A value of one of the types (default: any), of a domain that broadcasts with that of ``like``."""
        found = [
            v
            for v in self.values
            if (not vtypes or v.vtype in vtypes) and (like is None or broadcasts(v, like))
        ]
        if found:
            return self.among(found[-12:] if self.chance(0.7) else found)
        if like is not None and like.size != self.size and self.chance(0.5):
            raise Refused
        return self._made(self.among(vtypes or FLOATS), like)

    def _made(self, vtype: VType, like: Variable | None) -> Variable:
        """A value of a type that the pool lacks."""
        if vtype is FLOAT:
            raise Refused
        if vtype.is_matrix:
            column = {2: VEC2, 3: VEC3, 4: VEC4}[vtype.shape[0]]
            build = {MAT2: F.mat2, MAT3: F.mat3, MAT4: F.mat4}[vtype]
            first = self.float(column, like=like)
            return build(first, *(self.float(column, like=first) * 0.7 for _ in range(vtype.shape[0] - 1)))
        build = {VEC2: F.vec2, VEC3: F.vec3, VEC4: F.vec4}[vtype]
        first = self.float(FLOAT, like=like)
        return build(first, *(self.float(FLOAT, like=first) for _ in range(vtype.components - 1)))

    def scalar(self, like: Variable | None = None) -> Variable:
        v = self.float(FLOAT, like=like) if self.chance(0.5) else self.float(FLOAT, *VECTORS, like=like)
        return v if v.vtype is FLOAT else self.among([F.max_component, F.sum_components, lambda x: x[0]])(v)

    def index(self, cells: int, like: Variable | None = None) -> Variable:
        """An INT of a domain that broadcasts with ``like``, most of it inside of a table."""
        found = [v for v in self.ints if v.vtype is INT and (like is None or broadcasts(v, like))]
        if not found or self.chance(0.3):
            size, batch = (like.size, like.batch) if like is not None else self.domain()
            kind = self.rng.integers(4)
            if kind == 0:
                return F.linear_index(size, batch)
            if kind == 1:
                return self.leaf(INT, size, batch, -1, cells + 2)
            if kind == 2 and batch > 1:
                return F.tile_index(size, batch)
            x = self.scalar(like)
            return F.to_int(F.floor(x * (cells * 0.37) + (cells * 0.5 + 0.137)))
        v = self.among(found)
        return F.mod(v, cells) if self.chance(0.5) else v

    def texel(self, size, like: Variable | None = None) -> Variable:
        """An IVEC2 that counts texels of a table."""
        found = [v for v in self.ints if v.vtype is IVEC2 and (like is None or broadcasts(v, like))]
        if found and self.chance(0.6):
            return self.among(found)
        return F.ivec2(self.index(size[0], like), self.index(size[1], like))

    def steady(self, v: Variable) -> bool:
        """Whether a value is of moderate size, and moves little when leaves are rounded or perturbed."""
        exact, perturbed, single = self._meaning(v)
        if not np.isfinite(exact).all() or np.abs(exact).max(initial=0.0) > LARGEST:
            return False
        room = 0.0 if v.vtype.is_int else 2e-3
        return all(np.abs(exact - x).max(initial=0.0) <= room for x in (perturbed, single))

    def _meaning(self, v: Variable) -> tuple[np.ndarray, ...]:
        """In float64, in float64 from perturbed leaves, and in float32."""
        stack = [v]
        while stack:
            x = stack[-1]
            f = x.creator
            if x in self._known:
                stack.pop()
            elif f is None:
                assert x.data is not None
                data = np.asarray(x.data, np.int64 if x.vtype.is_int else np.float64).reshape(x.tiled)
                moved = (
                    data if x.vtype.is_int else data * (1 + PERTURBED * self.rng.uniform(-1, 1, data.shape))
                )
                self._known[x] = data, moved, data if x.vtype.is_int else data.astype(np.float32)
            elif missing := [y for y in f.inputs if y not in self._known]:
                stack.extend(missing)
            else:
                at, own = coordinates(f.working_domain), f.working_domain
                found = []
                with np.errstate(all="ignore"):
                    for k, dtype in enumerate((np.float64, np.float64, np.float32)):
                        inputs = [
                            with_tiles(self._known[y][k], y, own)
                            if a is Access.SAME_PIXEL
                            else self._known[y][k]
                            for y, a in zip(f.inputs, f.access, strict=True)
                        ]
                        found.append(np.broadcast_to(values_at(f, at, inputs, dtype), x.tiled))
                self._known[x] = tuple(found)
        return self._known[v]

    def add(self, v: Variable) -> None:
        """Takes a value in. Raises Refused when it is not steady or too large an image."""
        (width, height), tiles, _ = v.domain
        if width * height * tiles * v.vtype.components > 40_000 or not self.steady(v):
            raise Refused
        (self.ints if v.vtype.is_int else self.values).append(v)


def broadcasts(a: Variable, b: Variable) -> bool:
    pairs = zip((*a.size, a.batch, a.channels), (*b.size, b.batch, b.channels), strict=True)
    return all(n == m or 1 in (n, m) for n, m in pairs)


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


MORE: list[Operation] = []


def texture_often(weight: int):
    def register(operation: Operation) -> Operation:
        MORE.extend([operation] * weight)
        return operation

    return register


class Wave(PixelFunction):
    """An operation of a user, with names of its own that a shader may have as well."""

    fields = ("factor",)

    @property
    def glsl(self):
        return f"$type x0 = $0 * {self.factor!r}; $type pixel0 = x0 * x0; $y = pixel0 + x0;"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return np.square(x * self.factor) + x * self.factor

    def partials(self, x):
        return (2.0 * self.factor**2 * x + self.factor,)


@texture_often(3)
def others(p: Pool) -> Variable:
    a = p.float(FLOAT, *VECTORS)
    b = p.float(a.vtype, like=a)
    return p.among(
        [
            lambda: F.div(a, F.square(b) + 0.7),
            lambda: F.mul(a, b),
            lambda: F.sub(a, b),
            lambda: F.neg(a),
            lambda: F.round(a * 2.1 + 0.07) * 0.3,
            lambda: F.log2(F.square(a) + 0.6),
            lambda: F.where(F.logical_not(F.greater(p.scalar(a), 0.02)), a, b),
            lambda: F.where(F.not_equal(p.index(5, a), p.index(4, a)), a, 0.4),
            lambda: F.fill(p.scalar(a), p.among([VEC2, VEC3, VEC4])),
            lambda: F.component(p.float(*VECTORS), 1),
            lambda: F.component(p.float(*MATRICES), (1, 0)),
            lambda: a + F.zeros(a.vtype, a.domain),
            lambda: F.to_float(F.component(F.ivec3(p.index(5, a), 2, p.index(7, a)), 2)) * 0.1,
            lambda: F.to_float(F.component(F.ivec4(1, p.index(5, a), 2, 3), 1)) * 0.1,
            lambda: F.fit(a, p.float(a.vtype, like=a)),
            lambda: F.apply(Wave, a, factor=0.6),
        ]
    )()


@texture_often(1)
def refracted(p: Pool) -> Variable:
    x = p.float(*VECTORS)
    y = p.float(x.vtype, like=x)
    return F.refract(F.normalize(x + 0.3), F.normalize(y - 0.2), p.among([0.6, 0.8]))


@texture_often(3)
def textured(p: Pool) -> Variable:
    layers = p.among([1, 1, 2, 3, 5])
    size = p.among([(4, 4), (5, 3), (8, 2), (1, 4)])
    vtype = p.among([FLOAT, VEC3, VEC4])
    uv = p.float(VEC2)
    own = uv.batch > 1 and p.chance(0.3)
    texture = p.leaf(vtype, (size[0], size[1] * layers), uv.batch if own else 1, parameter=p.chance(0.7))
    if p.chance(0.3):
        texture = texture * p.number()
    more = {"layers": layers, "layer": p.index(layers, uv)} if layers > 1 else {}
    across, down = F.vec2(0.31, 0.05) + uv * 0.01, F.vec2(0.02, 0.17) - uv * 0.02
    wrap, at = p.among(["repeat", "clamp"]), uv * 0.9 + 0.513
    kind = p.rng.integers(4)
    if kind == 0:
        level = p.among([lambda: F.mip_level(across, down, size), lambda: F.sin(p.scalar(uv)) + 1.03])()
        return F.sample(texture, at, "trilinear", wrap, level=level, **more)
    if kind == 1:
        return F.sample(
            texture, at, "anisotropic", wrap, across=across, down=down, taps=p.among([2, 4]), **more
        )
    return F.sample(texture, at, p.among(["nearest", "bilinear"]), wrap, **more)


@texture_often(3)
def cubed(p: Pool) -> Variable:
    direction = p.float(VEC3) + F.vec3(0.31, -0.17, 0.73)
    n = p.among([1, 3, 4])
    batch = direction.batch if direction.batch > 1 and p.chance(0.4) else 1
    cube = p.leaf(p.among([FLOAT, VEC3]), (n, 6 * n), batch, parameter=p.chance(0.7))
    kind = p.rng.integers(5)
    if kind == 0:
        face = F.cube_face(direction)
        return F.cube_uv(direction, face if p.chance(0.5) else None)
    if kind == 1:
        across, down = direction * 0.11 + 0.05, F.vec3(0.02, 0.13, -0.04) * 1.0
        level = F.direction_level(direction, across, down, float(n))
        return F.sample_cube(cube, direction, "trilinear", level=level)
    return F.sample_cube(cube, direction, p.among(["nearest", "bilinear"]))


@texture_often(2)
def stack_read_by_lookups(p: Pool) -> Variable:
    """Images with a batch that are read without one: by a table that all views share."""
    batch = p.among([2, 5])
    n = p.among([2, 3])
    stack = p.leaf(p.among([FLOAT, VEC3]), (n, 6 * n), batch, parameter=True)
    one = F.take(stack, int(p.rng.integers(batch))) if p.chance(0.5) else F.mean(stack, "n")
    index = p.leaf(INT, p.among([(7, 1), (3, 4)]), 1, -1, 6 * n * n + 1)
    found = F.lookup(one, index)
    if p.chance(0.5):
        found = F.sample_cube(one, F.vec3(0.4, -0.3, 0.9) + F.to_float(index) * 0.03)
    return found


@texture_often(2)
def gathered(p: Pool) -> Variable:
    """Sums by several lists of one table, which the planner may invert."""
    count, texels = p.among([20, 60]), p.among([6, 17])
    values = p.leaf(p.among([FLOAT, VEC3]), (count, 1), 1)

    def one() -> Variable:
        index = p.leaf(INT, (count, 1), 1, 0, texels)
        value = F.sin(values * p.number()) if p.chance(0.6) else values
        return F.scatter_add(value * 0.2, index, (texels, 1))

    total = one()
    for _ in range(p.among([0, 1, 3])):
        total = total + one()
    return total


@texture_often(1)
def inverted(p: Pool) -> Variable:
    uv = p.float(VEC2)
    mask = F.greater(p.scalar(uv), -0.3)
    if mask.domain != uv.domain:
        mask = 1.0
    found = F.inverse_uv(uv * 0.9 + 0.513, mask, (5, 4), (0.37, 0.61), 1)
    return found if found.vtype.is_int else found * 0.05


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
