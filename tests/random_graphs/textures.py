"""Operations on textures with levels, stacks, cube maps and footprints, and operators that the first list lacks."""

from __future__ import annotations

import numpy as np

from dressi import FLOAT, INT, VEC2, VEC3, VEC4, PixelFunction, Variable

from .coverage import F
from .operations import Operation
from .pool import MATRICES, VECTORS, Pool

MORE: list[Operation] = []


def often(weight: int):
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


@often(3)
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


@often(1)
def refracted(p: Pool) -> Variable:
    x = p.float(*VECTORS)
    y = p.float(x.vtype, like=x)
    return F.refract(F.normalize(x + 0.3), F.normalize(y - 0.2), p.among([0.6, 0.8]))


@often(3)
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


@often(3)
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


@often(2)
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


@often(2)
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


@often(1)
def inverted(p: Pool) -> Variable:
    uv = p.float(VEC2)
    mask = F.greater(p.scalar(uv), -0.3)
    if mask.domain != uv.domain:
        mask = 1.0
    found = F.inverse_uv(uv * 0.9 + 0.513, mask, (5, 4), (0.37, 0.61), 1)
    return found if found.vtype.is_int else found * 0.05
